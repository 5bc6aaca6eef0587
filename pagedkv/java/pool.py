"""A Java pool behind the Python contract.

Each call crosses the bridge once, whatever the number of blocks. Arguments are read by the rules of
`pagedkv.core.arguments` before they cross; a refusal comes back as the contract's own error type; events come back as
`Event`s, from the Java pool itself.
"""

from array import array
from collections.abc import Callable, Hashable, Iterable

import jpype

from pagedkv.core import errors
from pagedkv.core.arguments import as_block_ids, as_count, as_ints
from pagedkv.core.events import Event
from pagedkv.java.exceptions import headline
from pagedkv.java.interrupts import abort_handle
from pagedkv.java.jvm import jclass

_JAVA_INT = range(-2**31, 2**31)


class JavaPool:
    """The contract of `pagedkv.core.contract`, carried out by a Java object that implements `pagedkv.pool.Pool`.

    java    the Java object
    source  what the recording's badge says, such as "Java BlockPool"
    """

    def __init__(self, java, source: str | None = None):
        if not isinstance(java, jclass("pagedkv.pool.Pool")):
            kind = java.getClass().getName() if isinstance(java, jpype.JObject) else type(java).__name__
            raise TypeError(f"{kind} is not a pool: its Java class must implement pagedkv.pool.Pool")
        self.java = java
        self.source = source or f"Java {java.getClass().getSimpleName()}"
        self.num_blocks = int(java.numBlocks())
        self._observer: Callable[[Event], None] | None = None

    @classmethod
    def of(cls, java_class, num_blocks: int, *arguments, source: str | None = None) -> "JavaPool":
        """A new pool of a Java class (or its name), whose constructor takes the number of blocks and `arguments`."""
        if isinstance(java_class, str):
            java_class = jclass(java_class)
        return cls(java_class(_as_java_count(num_blocks, "num_blocks"), *arguments), source)

    def __repr__(self) -> str:
        return f"JavaPool({self.source}, num_blocks={self.num_blocks}, num_free_blocks={self.num_free_blocks})"

    @property
    def num_free_blocks(self) -> int:
        return int(self.java.numFreeBlocks())

    def refcount(self, block: int) -> int:
        return int(self._call(self.java.refcount, [block], lambda ids: ids[0]))

    def refcounts(self) -> list[int]:
        """The refcount of every block, in one call."""
        return _to_list(self.java.refcounts())

    def allocate(self, n: int, owner: Hashable = None) -> list[int]:
        return _to_list(carried_over(self.java.allocate, _as_java_count(n), _label(owner)))

    def retain(self, blocks: Iterable[int], owner: Hashable = None) -> None:
        self._call(self.java.retain, blocks, _to_java, _label(owner))

    def release(self, blocks: Iterable[int], owner: Hashable = None) -> None:
        self._call(self.java.release, blocks, _to_java, _label(owner))

    @property
    def observer(self) -> Callable[[Event], None] | None:
        return self._observer

    @observer.setter
    def observer(self, observer: Callable[[Event], None] | None) -> None:
        self.java.setObserver(None if observer is None else jpype.JProxy(
            "pagedkv.pool.PoolObserver", dict={"onEvent": lambda event: observer(_to_event(event))}))
        self._observer = observer

    def _call(self, method: Callable, blocks: Iterable[int], convert: Callable, *arguments):
        ids = as_ints(blocks)
        try:
            # The Java pool itself looks at the range. An id that no Java int can hold becomes the nearest one that
            # can, which is outside every pool too; the message then names the id that was meant.
            return carried_over(method, convert([_nearest_java_int(block) for block in ids]), *arguments)
        except errors.NotABlock:
            as_block_ids(ids, self.num_blocks)
            raise


def pool_maker(java_class, *arguments, source: str | None = None) -> Callable[[int], JavaPool]:
    """A function that makes pools of a Java class, for the conformance suite; a call that hangs in Java can be
    stopped (on JDK 17)."""
    def make(num_blocks: int) -> JavaPool:
        return JavaPool.of(java_class, num_blocks, *arguments, source=source)

    make.abort_handle = abort_handle
    return make


def carried_over(call: Callable, *arguments):
    """The call's result; a PoolException or an illegal argument as what it is called in Python."""
    try:
        return call(*arguments)
    except jclass("pagedkv.pool.PoolException") as refusal:
        error = getattr(errors, str(refusal.kind()))(str(refusal.getMessage()))
        if refusal.getCause() is not None:
            error.add_note(f"caused by {headline(refusal.getCause())}")
    except jclass("java.lang.IllegalArgumentException") as refusal:
        error = ValueError(headline(refusal) if refusal.getMessage() is None else str(refusal.getMessage()))
    raise error


def _to_event(event) -> Event:
    detail = event.detail()
    return Event(int(event.step()), str(event.op()), None if event.owner() is None else str(event.owner()),
                 tuple(_to_list(event.blocks())),
                 {} if detail.isEmpty() else {str(key): _plain(value) for key, value in detail.items()})


def _to_list(ints) -> list[int]:
    # The buffer of a Java int[] has a format that memoryview does not read as it stands; list(ints) would call
    # Java once for each element.
    return memoryview(ints).cast("B").cast("i").tolist()


def _as_java_count(n: int, what: str = "a number of blocks") -> int:
    return _nearest_java_int(as_count(n, what))


def _nearest_java_int(number: int) -> int:
    return max(_JAVA_INT[0], min(number, _JAVA_INT[-1]))


def _to_java(ids: list[int]):
    return jpype.JArray(jpype.JInt)(array("i", ids))


def _label(owner: Hashable) -> str | None:
    return None if owner is None else str(owner)


def _plain(value):
    return int(value) if isinstance(value, jclass("java.lang.Number")) else str(value)
