"""Java answers for tests: compiled as a `%%java` cell compiles them."""

from pagedkv.java import jclass, start


def compile_java(source: str):
    """The class that `source` declares."""
    start()
    compiler = jclass("pagedkv.notebook.CellCompiler")(
        jclass("java.lang.System").getProperty("java.class.path"), jclass("java.lang.ClassLoader").getSystemClassLoader())
    compiled = compiler.compile(source, 2)
    assert compiled.ok(), "\n".join(map(str, compiled.problems()))
    return jclass(compiled.types()[compiled.declared()[0]])
