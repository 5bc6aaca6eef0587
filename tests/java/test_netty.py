"""Real Netty, as notebook 01 shows it (claims N5 and N9)."""

import pytest

from pagedkv.java import jclass
from tests.lab.exercises.java_answers import compile_java


@pytest.fixture
def buffer():
    return jclass("io.netty.buffer.PooledByteBufAllocator").DEFAULT.directBuffer(64)


def refuses(call):
    with pytest.raises(jclass("io.netty.util.IllegalReferenceCountException")) as caught:
        call()
    return str(caught.value.getMessage())


def test_over_release_and_use_after_release_are_refused(buffer):
    """N5."""
    buffer.retain()
    assert [int(buffer.refCnt()), bool(buffer.release()), bool(buffer.release())] == [2, False, True]
    assert refuses(buffer.release) == "refCnt: 0, decrement: 1"
    assert "refCnt: 0" in refuses(buffer.retain)
    assert "refCnt: 0" in refuses(lambda: buffer.writeByte(1))


def test_a_duplicate_holds_a_reference_to_the_same_memory_and_is_no_copy_on_write(buffer):
    """N5, and the first correction to N9: a write through one is seen by the other."""
    buffer.writeByte(1)
    duplicate = buffer.retainedDuplicate()
    assert (int(buffer.refCnt()), int(duplicate.refCnt())) == (2, 1)  # a pooled duplicate has a count of its own
    duplicate.setByte(0, 99)
    assert int(buffer.getByte(0)) == 99
    buffer.release()
    assert int(duplicate.getByte(0)) == 99
    assert bool(duplicate.release()) and int(buffer.refCnt()) == 0  # and gives its reference back when it reaches 0


def test_the_leak_detector_names_the_lines_of_the_cell():
    """N5: what notebook 01 prints. A lambda of a cell, compiled as the notebook compiles it."""
    forgetful = compile_java("""public class Forgetful implements Runnable {
    public void run() {
        io.netty.buffer.ByteBuf lost = io.netty.buffer.PooledByteBufAllocator.DEFAULT.directBuffer(64);
        lost.writeInt(1);
    }
}""")
    report = jclass("pagedkv.netty.LeakReports").of(forgetful())
    assert str(report).splitlines() == [
        "LEAK: ByteBuf.release() was not called before it's garbage-collected.",
        "    accessed at line 5 of the cell", "    created at line 4 of the cell"]
