"""Answers that are Java classes."""

from typing import Any

from pagedkv.java import JvmError, jclass
from pagedkv.lab.grading import Wrong


def static_method(java_class: Any, name: str) -> Any:
    """The public static method of this name. Raises Wrong for an answer that is no Java class, or has none."""
    if not is_java_class(java_class) or not hasattr(java_class, name):
        raise Wrong(f"check gets your Java class with a public static method {name}(); got {java_class!r}")
    return getattr(java_class, name)


def is_java_class(answer: object) -> bool:
    """False, too, while no JVM runs: then nothing can be one."""
    try:
        return isinstance(answer, type(jclass("java.lang.Object")))
    except JvmError:
        return False
