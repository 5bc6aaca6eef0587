"""Exercise 08.4, an evictor in Java: what is right is accepted, whatever its form; what is wrong is told why.

ACCEPTED: right evictors. REJECTED: (answer, a piece of the message it must get). UNFINISHED: the same, for those in
which a placeholder is left.
"""

import pytest

from pagedkv.java import jclass, start
from pagedkv.lab.grading import CORRECT, NOT_YET, WRONG, Exercise, grade
from pagedkv.lab.workers_evictor import try_evictor
from tests.lab.exercises.java_answers import compile_java

EXERCISE = Exercise("08.4", "Evict without waiting", 8, (), try_evictor)
IMPORTS = "".join(f"import {package}.*;\n" for package in (
    "pagedkv.concurrent", "java.util.concurrent", "java.util.concurrent.atomic", "java.util.concurrent.locks"))


def evictor(when_short, between_steps, members=""):
    return lambda: compile_java(f"""{IMPORTS}
public class MyEvictor implements Evictor {{
    {members}
    @Override public void whenShort(ActiveRequest victim) throws InterruptedException {{ {when_short} }}
    @Override public void betweenSteps(ActiveRequest request) throws InterruptedException {{ {between_steps} }}
}}""")


def class_of(source):
    return lambda: compile_java(IMPORTS + source)


MARK = "victim.mark();"
EVICT_MARKED = "if (request.isMarked()) request.evict();"
BOTH = f"public void whenShort(ActiveRequest victim) {{ {MARK} }} " \
       f"public void betweenSteps(ActiveRequest request) throws InterruptedException {{ {EVICT_MARKED} }}"
VICTIMS = "private final Set<ActiveRequest> victims = {};".format
EVICT_ALONE = "try { victim.evict(); } catch (InterruptedException end) { }"
OWN_THREAD = "private final ExecutorService thread = Executors.newSingleThreadExecutor(work -> " \
             "{ var made = new Thread(work); made.setDaemon(true); return made; });"

ACCEPTED = {
    "mark, then evict": evictor(MARK, EVICT_MARKED),
    "a set of names": evictor("names.add(victim.name());", "if (names.remove(request.name())) request.evict();",
                              "private final Set<String> names = ConcurrentHashMap.newKeySet();"),
    "a set of victims": evictor("victims.add(victim);", "if (victims.remove(request)) request.evict();",
                                VICTIMS("ConcurrentHashMap.newKeySet()")),
    "a set with a lock, evicts without it": evictor(
        "synchronized (victims) { victims.add(victim); }",
        "boolean chosen; synchronized (victims) { chosen = victims.remove(request); } if (chosen) request.evict();",
        VICTIMS("new HashSet<>()")),
    "whoever comes next evicts all": evictor(
        "queue.add(victim);", "for (var next = queue.poll(); next != null; next = queue.poll()) next.evict();",
        "private final Queue<ActiveRequest> queue = new ConcurrentLinkedQueue<>();"),
    "marks under a lock": evictor(f"synchronized (this) {{ {MARK} }}", EVICT_MARKED),
    "a thread of its own": evictor(f"{MARK} thread.execute(() -> {{ {EVICT_ALONE} }});", "", OWN_THREAD),
    "a thread each": evictor(f"{MARK} new Thread(() -> {{ {EVICT_ALONE} }}).start();", ""),
    "an object": lambda: evictor(MARK, EVICT_MARKED)()(),
}

THEY_WAIT = "they wait for each other. The JVM says:\n"
NO_RETURN = "whenShort() had not returned after"
REJECTED = {
    "under the lock": (lambda: jclass("pagedkv.concurrent.EvictUnderLock"),
                       "two threads wait for each other: the one that releases under the pool's lock"),
    "marks, and evicts under the lock": (evictor(f"{MARK} victim.evict();", EVICT_MARKED),
                                         '   "B ends" waits for a ReentrantLock that "A grows" holds'),
    "swallows the interrupt": (evictor("while (true) try { victim.evict(); return; } catch (Exception end) { }", ""),
                               '   "A grows" waits for a ReentrantLock that "B ends" holds'),
    "nothing": (evictor("", ""), "now there is request 2 with 2 blocks\n   expected:  it has given up all its blocks"),
    "only marks": (evictor(MARK, ""), "now there is request 2 with 2 blocks, marked"),
    "never marks": (evictor("", EVICT_MARKED), "whenShort(request 2), and then betweenSteps(request 2)"),
    "only the first victim": (evictor(f"if (first) {MARK} first = false;", EVICT_MARKED, "boolean first = true;"),
                              "whenShort(request 1), and then betweenSteps(request 1)"),
    "a field for one victim": (evictor("last = victim;", "if (last == request) { last = null; request.evict(); }",
                                       "private volatile ActiveRequest last;"),
                               "whenShort(request 2), then whenShort(request 1), and only then betweenSteps() of both\n"
                               "   yours:     now there is request 2 with 2 blocks\n"),
    "whoever comes next evicts the last one": (evictor(
        "last.set(victim);", "var victim = last.getAndSet(null); if (victim != null) victim.evict();",
        "private final AtomicReference<ActiveRequest> last = new AtomicReference<>();"),
        "now there is request 2 with 2 blocks\n   expected:  both have given up all their blocks"),
    "everybody": (evictor(MARK, "request.evict();"),
                  "before any request was chosen\n   yours:     now there is the oldest request with 0 blocks"),
    "those that are not marked": (evictor(MARK, EVICT_MARKED.replace("(r", "(!r")), "before any request was chosen"),
    "the other way round": (evictor("victim.evict();", "request.mark();"), "the oldest request with 2 blocks, marked"),
    "whoever comes next": (evictor("isShort = true;", "if (isShort) { isShort = false; request.evict(); }",
                                   "private volatile boolean isShort;"), "It is never chosen"),
    "waits for a thread": (evictor(f"var t = new Thread(() -> {{ {EVICT_ALONE} }}); t.start(); t.join();", ""),
                           NO_RETURN),
    "spins until it is done": (evictor(f"{MARK} while (victim.isMarked()) Thread.onSpinWait();", EVICT_MARKED),
                               NO_RETURN),
    "waits for a victim": (evictor("queue.put(victim);", "queue.take().evict();",
                                   "private final BlockingQueue<ActiveRequest> queue = new LinkedBlockingQueue<>();"),
                           "betweenSteps() had not returned after"),
    "evicts under its own monitor": (evictor(*(f"synchronized (this) {{ {code} }}" for code in (MARK, EVICT_MARKED))),
                                     THEY_WAIT + '   "gives up" waits for a ReentrantLock that "wants a block" holds'),
    "evicts under its own lock": (evictor(
        *(f"lock.lock(); try {{ {code} }} finally {{ lock.unlock(); }}" for code in (MARK, EVICT_MARKED)),
        "private final ReentrantLock lock = new ReentrantLock();"), THEY_WAIT),
    "evicts with its only permit": (evictor(
        *(f"one.acquire(); try {{ {code} }} finally {{ one.release(); }}" for code in (MARK, EVICT_MARKED)),
        "private final Semaphore one = new Semaphore(1);"), NO_RETURN),
    "throws when short": (evictor('throw new IllegalStateException("the pool is short");', ""),
                          "whenShort() threw IllegalStateException: the pool is short at line "),
    "throws between steps": (evictor(MARK, "if (request.isMarked()) throw new Error();"), "betweenSteps() threw Error"),
    "throws under load": (evictor(MARK, f'if (request.name().contains(".")) throw new Error(); {EVICT_MARKED}'),
                          '" failed: java.lang.Error'),
    "endless": (evictor(MARK, "while (request.isMarked()) { }"), "betweenSteps() had not returned after"),
    "no evictor": (class_of("public class Other { }"), "Other does not implement it"),
    "an interface": (lambda: jclass("pagedkv.concurrent.Evictor"), "new pagedkv.concurrent.Evictor() is not possible"),
    "half of it": (class_of("public abstract class Half implements Evictor { }"), "new Half() is not possible"),
    "not public": (class_of(f"class Quiet implements Evictor {{ {BOTH} }}"), "the class has to be public"),
    "asks for something": (class_of(f"public class Asks implements Evictor {{ public Asks(int n) {{ }} {BOTH} }}"),
                           "constructor too, without arguments"),
    "cannot be made": (class_of(f"public class Fails implements Evictor {{ int n = Integer.parseInt(\"x\"); {BOTH} }}"),
                       "new Fails() threw NumberFormatException"),
    "no Java at all": (lambda: 7, "check gets your Java class that implements Evictor"),
}
UNFINISHED = {
    "both": (evictor("throw new NotYet();", "throw new NotYet();"), "betweenSteps() still has its placeholder"),
    "whenShort": (evictor("throw new NotYet();", ""), "whenShort() still has its placeholder"),
    "a branch": (evictor(MARK, "if (request.isMarked()) throw new NotYet();"), "betweenSteps() still has"),
    "a branch that runs under load": (evictor(
        MARK, f'if (request.name().contains(".")) throw new NotYet(); {EVICT_MARKED}'), "a part of your evictor"),
    "the constructor": (class_of("public class Made implements Evictor { { if (true) throw new NotYet(); } %s}" % BOTH),
                        "still has its placeholder"),
}


@pytest.fixture(autouse=True)
def jvm():
    start()


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_right_answer_is_accepted(name):
    verdict = grade(EXERCISE, ACCEPTED[name]())
    assert verdict.outcome == CORRECT, verdict
    assert verdict.message.endswith("6 threads did all their 1,800 requests, though there were never enough blocks, "
                                    "and none was lost")


@pytest.mark.parametrize("name", REJECTED)
def test_a_wrong_answer_gets_the_message_it_deserves(name, monkeypatch):
    monkeypatch.setattr("pagedkv.lab.workers_evictor.PATIENCE_SECONDS", 1.0)
    answer, message = REJECTED[name]
    verdict = grade(EXERCISE, answer())
    assert verdict.outcome == WRONG, verdict
    assert message in str(verdict), verdict


@pytest.mark.parametrize("name", UNFINISHED)
def test_a_placeholder_is_seen_in_whichever_thread_it_runs(name):
    answer, message = UNFINISHED[name]
    verdict = grade(EXERCISE, answer())
    assert verdict.outcome == NOT_YET, verdict
    assert message in str(verdict), verdict


def test_the_jvms_report_is_the_same_on_every_run():
    texts = {str(grade(EXERCISE, jclass("pagedkv.concurrent.EvictUnderLock"))) for _ in range(3)}
    assert len(texts) == 1
    assert "Proxy" not in str(grade(EXERCISE, REJECTED["evicts under its own lock"][0]()))


def test_threads_that_swallow_an_interrupt_are_ended_too(monkeypatch):
    monkeypatch.setattr("pagedkv.lab.workers_evictor.PATIENCE_SECONDS", 1.0)
    forever = "while (true) try { Thread.sleep(1); } catch (InterruptedException e) { }"
    for name, message in (("request 2", "betweenSteps() had not returned"),  # in the first trial
                          ("request 1.1", "and its threads cannot be interrupted")):  # in the last one
        verdict = grade(EXERCISE, evictor(
            MARK, f'if (request.name().equals("{name}")) {{ {forever} }} {EVICT_MARKED}')())
        assert verdict.outcome == WRONG and message in str(verdict), verdict
        names = {str(thread.getName()) for thread in jclass("java.lang.Thread").getAllStackTraces().keySet()}
        assert names.isdisjoint({"gives up", "wants a block", "one step", "request thread 1"})
