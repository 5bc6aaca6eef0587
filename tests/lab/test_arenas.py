"""The helpers of notebook 02: the picture of a buddy tree, and the workloads for the rebuilt tiers (claims N3, N4)."""

import jpype
import pytest

from pagedkv.core.memory import TAKE
from pagedkv.java import jclass, start
from pagedkv.java.memory import JavaAllocator, run_java
from pagedkv.lab.arenas_netty import (
    LIST_CALLS,
    PINNED,
    PINNED_BYTES,
    PINNED_ORDER,
    TREE_CALLS,
    netty_arena,
    netty_settings,
)
from pagedkv.lab.arenas_tree import is_below_taken, is_taken, leftmost_path, plot_tree
from pagedkv.rivals.buddy import BuddyChunk, BuddyChunkAllocator
from pagedkv.rivals.workload import Workload, run

KIB = 1 << 10


@pytest.fixture(autouse=True, scope="module")
def jvm():
    start()


def tree(max_order, *taken):
    chunk = BuddyChunk(0, 1, max_order)
    for node in taken:
        chunk.take(node)
    return chunk.memory_map


def test_the_search_goes_to_the_right_where_the_left_half_has_no_room():
    assert leftmost_path(tree(3, 8, 3), 2) == ([1, 2, 4, 5], 5)
    assert leftmost_path(tree(3, 1), 3) == ([1], None)


def test_taken_nodes_are_told_from_those_whose_halves_are_taken():
    values = tree(3, 3, 8, 9)
    assert [node for node in range(1, 16) if is_taken(values, node)] == [3, 8, 9]
    assert [node for node in range(1, 16) if is_below_taken(values, node)] == [6, 7, 12, 13, 14, 15]


def test_the_picture_says_in_words_what_it_shows():
    picture = plot_tree(tree(3, 8, 3), [1, 2, 4, 5], {4: "yours"}, title="Two pages")
    assert picture.alt == ("Two pages. A tree over 8 pages; taken: node 3, node 8; value of the root: 2; "
                           "looked at: node 1 (2), node 2 (2), node 4 (3), node 5 (2); yours: node 4")
    assert picture.png() == plot_tree(tree(3, 8, 3), [1, 2, 4, 5], {4: "yours"}, title="Two pages").png()
    written = {text.get_text() for text in picture.figure.axes[0].texts}
    assert {"yours", "4", "depth 0\n8 pages", "depth 3\n1 page"} <= written
    assert plot_tree([0, 0]).alt == "A tree over 1 page; taken: nothing; value of the root: 0"


@pytest.mark.parametrize("values", [[], [0], [0, 0, 1], [0] * 6, [0] * 128])
def test_what_is_no_tree_or_too_large_for_a_picture_is_refused(values):
    with pytest.raises(ValueError, match="a tree over 1, 2, 4"):
        plot_tree(values)


def test_both_languages_answer_the_tree_calls_alike():
    in_java = run_java(TREE_CALLS, JavaAllocator.of("pagedkv.netty.tiers.BuddyChunkAllocator", 64 * KIB, 8192, 3))
    in_python = run(TREE_CALLS, BuddyChunkAllocator(64 * KIB, 8192, 3))
    assert [event.changes for event in in_java.events] == [event.changes for event in in_python.events]


def test_two_free_pages_side_by_side_are_refused_where_they_are_no_buddies():
    chunk = BuddyChunkAllocator(64 * KIB, 8192, 3)
    recording = run(Workload("up to F", TREE_CALLS.requests[:8]), chunk)
    assert "error" in recording.events[-1].detail and recording.events[-1].size_bytes == 16 * KIB
    used = {piece.address // 8192 + page for piece in chunk.layout().pieces for page in range(piece.size_bytes // 8192)}
    assert set(range(8)) - used == {1, 2}
    last = run(TREE_CALLS, BuddyChunkAllocator(64 * KIB, 8192, 3)).events[-1]
    assert last.size_bytes == 16 * KIB and [change.kind for change in last.changes] == [TAKE]


def test_the_fuller_chunk_serves_the_next_page():
    arena = netty_arena(256 * KIB, max_order=4)
    last = run_java(LIST_CALLS, arena).events[-1]
    [taken] = [change for change in last.changes if change.kind == TAKE]
    assert taken.address >= 128 * KIB
    assert "q050, chunk 1" in last.detail["decision"].looks[0].what


def test_the_lists_of_netty_overlap():
    netty = jclass("io.netty.buffer.PooledByteBufAllocator")(True)
    lists = netty.metric().directArenas().get(0).chunkLists()
    assert [(int(each.minUsage()), int(each.maxUsage())) for each in lists] == [
        (1, 25), (1, 50), (25, 75), (50, 100), (75, 100), (100, 100)]


def test_a_thread_gets_again_what_it_gave_back():
    arena = netty_arena(64 * KIB, max_order=3, cached=True)
    first = arena.allocate("A", 3000)
    address = arena.layout().pieces[0].address
    arena.free(first)
    arena.allocate("B", 3000)
    assert [piece.address for piece in arena.layout().pieces if piece.owner == "B"] == [address]
    [cache] = [cache for cache in arena.java.caches().values()]
    assert int(cache.metrics().hits()) == 1


def test_five_buffers_keep_four_chunks():
    arena = netty_arena(PINNED_BYTES, PINNED_ORDER)
    run_java(PINNED, arena)
    assert len(arena.layout().segments) == 4
    assert {piece.owner for piece in arena.layout().pieces} == {"session", "log", "metrics", "upload", "ping"}


def test_settings_are_netty_s_where_nothing_else_is_said():
    assert int(netty_settings().chunkBytes()) == 16 << 20
    assert netty_settings().cache() is None and netty_settings(cached=True).cache() is not None


def test_what_the_arenas_served_is_counted():
    traffic, thread = jclass("pagedkv.exercise.TakeAndGiveBack"), jclass("java.lang.Thread")
    for for_all, expected in ((True, 1), (False, 100)):
        netty = jclass("io.netty.buffer.PooledByteBufAllocator")(
            True, 1, 1, 8192, 9, 256, 64, jpype.JBoolean(for_all))
        work = traffic(netty, 100)
        worker = thread(work)
        worker.start()
        worker.join()
        assert (int(traffic.servedByArenas(netty)), int(work.done())) == (expected, 100)
        assert work.thread().equals(worker)


def test_threads_with_caches_hardly_meet_at_their_arena():
    """Claim N12: the shared arena is asked once by each thread with a stock of its own, and for every call without."""
    traffic, pooled = jclass("pagedkv.exercise.TakeAndGiveBack"), jclass("io.netty.buffer.PooledByteBufAllocator")
    for small, normal, expected in ((256, 64, 4), (0, 0, 4 * 5_000)):
        netty = pooled(True, 1, 1, 8192, 9, small, normal, jpype.JBoolean(False))
        waits = int(traffic.waitsTogether(netty, 4, 5_000))
        assert int(traffic.servedByArenas(netty)) == expected
        assert waits <= 2 * expected  # at most where the arena is asked: when it is taken from, and when given back to
