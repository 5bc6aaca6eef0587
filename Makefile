# Thin: everything is in tools/bootstrap.py. -I keeps the caller's PYTHONPATH and the like out of it.
PYTHON ?= python3
BOOTSTRAP = $(PYTHON) -I tools/bootstrap.py
KILLS ?= 2000
SEED ?= 1

.PHONY: help lab test setup java bench-java bench-shared crash-test clean

help:
	@echo "make lab     set up what is missing and open JupyterLab on your copies of the notebooks"
	@echo "make test    set up what is missing and run all tests; PART=java (python, frontend, notebooks, browser) runs one part"
	@echo "make setup   set up what is missing, and no more"
	@echo "make java    build the Java part if it is missing or stale"
	@echo "make bench-java  measure the Java pools beside Netty, in JVMs of their own; BENCH=--quick takes two minutes"
	@echo "make bench-shared  measure the shared pool from Java, in JVMs of their own; takes minutes"
	@echo "make crash-test  kill processes that share a pool, in Python and Java; takes minutes, KILLS=200 less"
	@echo "make clean   remove what was built and the virtual environment; your copies in work/ stay"

lab:
	@$(BOOTSTRAP) lab

test:
	@$(BOOTSTRAP) test $(PART)

setup:
	@$(BOOTSTRAP) setup

java:
	@$(BOOTSTRAP) java

bench-java:
	mvn -q -B -f java/pom.xml -Pbench -Dmaven.test.skip=true package
	java -cp 'java/target/bench/pagedkv.jar:java/target/bench/lib/*' pagedkv.bench.BenchJava $(BENCH)

bench-shared:
	mvn -q -B -f java/pom.xml -Pbench -Dmaven.test.skip=true package
	java -cp 'java/target/bench/pagedkv.jar:java/target/bench/lib/*' org.openjdk.jmh.Main SharedPoolBenchmark $(BENCH)

crash-test: setup
	.venv/bin/python -m tests.shared.crash --java --kills $(KILLS) --seed $(SEED)

clean:
	rm -rf .venv java/target build pagedkv.egg-info .pytest_cache .hypothesis .import_linter_cache
