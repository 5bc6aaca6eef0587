"""Java answers for tests: compiled as a `%%java` cell compiles them."""

from pagedkv.java import jclass, start
from pagedkv.lab.java_cell import new_compiler


def compile_java(source: str):
    """The class that `source` declares."""
    start()
    compiled = new_compiler().compile(source, 2)
    assert compiled.ok(), "\n".join(map(str, compiled.problems()))
    return jclass(compiled.types()[compiled.declared()[0]])
