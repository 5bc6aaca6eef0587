"""What notebook 03 shows, held: its demonstrations, its contest, its snapshot, the picture of the waste."""

import pytest

from pagedkv.core.memory import Layout, Piece, Segment
from pagedkv.core.why import EXHAUSTED, FITS, FRAGMENTED
from pagedkv.lab.fragmentation_cases import (CONTEST, CONTEST_BYTES, CONTEST_LINES, DEMO_BYTES, GUESSES, KV_BYTES,
                                             LOADERS, LOADING, LOADING_BYTES, LONGEST_TOKENS, MIB, SIX_ALLOCATORS,
                                             TOKEN_BYTES, chat_requests, share_without_tokens, state_before,
                                             tell_last_request, tell_refusals, tell_reserved, tell_segments,
                                             why_the_last_request)
from pagedkv.lab.fragmentation_pictures import plot_waste
from pagedkv.lab.fragmentation_snapshot import SERVER_BYTES, pinned_by_owner, server_history, write_oom_snapshot
from pagedkv.rivals.caching import CachingAllocator
from pagedkv.rivals.demos import a_hole_of_64, the_article, the_article_filled, two_holes
from pagedkv.rivals.fits import FirstFit
from pagedkv.rivals.kv_schemes import paged, reserve_exact, reserve_max, reserve_pow2_output
from pagedkv.rivals.kv_simulation import compare
from pagedkv.rivals.kv_sins import long_tail, memory_without_tokens
from pagedkv.rivals.workload import Workload, run
from pagedkv.snapshot.analysis import analyse
from pagedkv.snapshot.demo import FILES, GROWING, PREALLOCATED
from pagedkv.snapshot.history import history_of
from pagedkv.snapshot.read import read_snapshot
from pagedkv.snapshot.what_if import what_if


@pytest.mark.parametrize("workload, capacity_mib, kind, first_fit, paging", [
    (the_article(), 100, FITS, "serves", "serves"), (the_article_filled(), 100, EXHAUSTED, "refuses", "refuses"),
    (two_holes(), 100, FRAGMENTED, "refuses", "serves"), (a_hole_of_64(), 184, EXHAUSTED, "refuses", "refuses"),
    (a_hole_of_64(), 256, FRAGMENTED, "refuses", "serves"), (a_hole_of_64(), 264, FITS, "serves", "serves")])
def test_which_demonstrations_show_fragmentation(workload, capacity_mib, kind, first_fit, paging):
    """N10, N15"""
    assert why_the_last_request(workload, capacity_mib * MIB).kind == kind
    assert tell_last_request(workload, capacity_mib * MIB).startswith(
        f"{workload.name}, {capacity_mib} MiB: first fit {first_fit}, paging {paging}\n")


def test_a_last_request_that_is_served_fits():
    told = tell_last_request(a_hole_of_64(), 264 * MIB)
    assert told.endswith("\n    It fits: 80 MiB wanted, and a free run has 80 MiB.")


def test_the_state_before_an_event_is_not_the_one_after_it():
    recording = run(Workload.parse("a A 10M\na B 20M"), FirstFit(DEMO_BYTES))
    assert [state_before(recording, step).used_bytes // MIB for step in (0, 1)] == [0, 10]


def test_in_the_contest_first_fit_and_best_fit_change_places_with_d():
    def refused(workload):
        lines = tell_refusals(workload, SIX_ALLOCATORS, CONTEST_BYTES).splitlines()
        return {line[:14].strip(): line[14:].strip() for line in lines}

    assert refused(CONTEST) == {
        "first fit": "serves all", "best fit": "refuses K 25 MiB", "next fit": "refuses K 25 MiB",
        "buddy chunks": "refuses H 20 MiB, J 9 MiB, K 25 MiB", "PyTorch": "refuses K 25 MiB", "paged": "serves all"}
    larger_d = refused(Workload.parse("\n".join(CONTEST_LINES).replace("a D 15M", "a D 30M")))
    assert larger_d["first fit"].startswith("refuses") and larger_d["best fit"] == larger_d["paged"] == "serves all"


@pytest.mark.parametrize("block_mib, told", [(5, "serves all"), (6, "refuses H 20 MiB, K 25 MiB")])
def test_large_blocks_lose_the_contest_too(block_mib, told):
    [line] = tell_refusals(CONTEST, [SIX_ALLOCATORS[-1].with_settings(block_bytes=block_mib * MIB)],
                           CONTEST_BYTES).splitlines()
    assert line == f"paged  {told}"


def test_where_first_fit_puts_what_is_guessed():
    taken = {event.owner: event.changes[0].address // MIB for event in run(GUESSES, FirstFit(DEMO_BYTES)).events
             if event.op == "allocate"}
    assert (taken["D"], taken["E"], taken["F"]) == (0, 15, 50)


def test_reservation_wastes_most_of_the_memory_and_paging_next_to_nothing():
    """N18, S3"""
    requests = chat_requests()
    assert 0.6 < memory_without_tokens(requests, KV_BYTES, TOKEN_BYTES, LONGEST_TOKENS) < 0.7
    tail = long_tail(requests, KV_BYTES // TOKEN_BYTES, rarest_share=0.1)
    assert tail.longest_tokens == LONGEST_TOKENS and tail.usual_tokens < 3_000 and tail.fits == 8
    schemes = [reserve_max(), reserve_pow2_output(), reserve_exact(), paged(16)]
    filled = [result.waste.filled_bytes for result in compare(requests, KV_BYTES, TOKEN_BYTES, schemes, LONGEST_TOKENS)]
    assert filled == sorted(filled) and filled[0] < 0.40 and filled[-1] > 0.95


def test_a_block_size_has_its_limits():
    assert share_without_tokens(LONGEST_TOKENS) > 0.5
    for wrong in (0, LONGEST_TOKENS + 1):
        with pytest.raises(ValueError, match="a block has 1 to 4096 tokens"):
            share_without_tokens(wrong)


def test_the_picture_of_the_waste_says_in_words_what_it_shows():
    results = compare(chat_requests(200), KV_BYTES, TOKEN_BYTES, [reserve_max(), paged(16)], LONGEST_TOKENS)
    picture = plot_waste(results)
    assert picture.png() == plot_waste(results).png()
    for result in results:
        assert f"{result.title}: {result.waste.filled_bytes:.1%} holds tokens" in picture.alt
    assert "% internal, " in picture.alt and picture.alt.count("% free") == 2
    assert "(the paper: 20.4%)" in picture.alt and "the article, before: 40% holds tokens" in picture.alt


def test_a_cache_that_grows_reserves_twice_what_it_has():
    """B3, B8: reserved and allocated part where a cache is made of plain tensors, and inactive split tells little of
    it."""
    figures = {}
    for name in (GROWING, PREALLOCATED):
        snapshot = read_snapshot(FILES[name])
        figures[name] = analyse(snapshot, history_of(snapshot)).figures
    growing, preallocated = figures[GROWING], figures[PREALLOCATED]
    assert growing.allocated_bytes == preallocated.allocated_bytes == 256 * MIB
    assert growing.reserved_bytes > 1.9 * growing.allocated_bytes and preallocated.reserved_bytes < 1.1 * 256 * MIB
    assert growing.inactive_split_bytes < 0.2 * growing.unallocated_bytes


def test_what_the_growing_cache_leaves_behind():
    """Seven segments of 12 and seven of 14 MiB, which nobody takes any more once the tensors have outgrown them."""
    history = history_of(read_snapshot(FILES[GROWING]))
    assert tell_segments(history.end.layout()) == (
        "segments in use:      7 of 16 MiB, 9 of 20 MiB\n"
        "segments wholly free: 1 of 2 MiB, 7 of 12 MiB, 7 of 14 MiB, 1 of 20 MiB")
    left = [segment for segment in history.end.layout().segments if segment.size_bytes in (12 * MIB, 14 * MIB)]
    outgrown = False
    for event in history.recording.events:
        outgrown = outgrown or event.op == "alloc" and event.size_bytes > 14 * MIB
        for change in event.changes:
            if outgrown and change.kind == "take" and change.size_bytes > 3 * MIB:
                assert not any(segment.address <= change.address < segment.address + segment.size_bytes
                               for segment in left)
    assert outgrown


def test_segments_that_are_told():
    layout = Layout((Segment(0, 2 * MIB), Segment(2 * MIB, 2 * MIB)), (Piece(2 * MIB, 512, "A", 512),))
    assert tell_segments(layout) == (
        "segments in use:      1 of 2 MiB\nsegments wholly free: 1 of 2 MiB")
    assert tell_segments(Layout()) == "segments in use:      none\nsegments wholly free: none"


@pytest.mark.parametrize("small, reserved_mib", [("", 760), ("a S 2M\n", 380)])
def test_a_segment_goes_back_if_nobody_has_a_byte_of_it(small, reserved_mib):
    allocator = CachingAllocator(1100 * MIB)
    recording = run(Workload.parse(f"a A 380M\na B 380M\nf A\nf B\n{small}a C 760M"), allocator)
    assert recording.events[-1].refused == bool(small) and allocator.reserved_bytes == reserved_mib * MIB


def test_what_is_reserved_is_told_line_by_line():
    assert [line.split() for line in tell_reserved("a A 30M", "f A", "a B 50M").splitlines()] == [
        "with segments expandable".split(), "a A 30M 30 MiB 40 MiB".split(), "f A 30 MiB 40 MiB".split(),
        "a B 50M 80 MiB 60 MiB".split()]


def test_loading_stops_at_the_sixth_layer_and_two_settings_help():
    lines = tell_refusals(LOADING, LOADERS, LOADING_BYTES).splitlines()
    assert "refuses step6 530 MiB" in lines[0]
    assert [line.split("  ")[-1].strip() for line in lines[1:]] == ["serves all"] * 3


def test_the_servers_snapshot_is_a_file_that_says_what_happened():
    path = write_oom_snapshot()
    assert path.name == "oom.pickle"
    snapshot = read_snapshot(path)
    history = history_of(snapshot)
    assert history.end.layout() == server_history().end.layout()
    first = analyse(snapshot, history).findings[0]
    assert first.kind == "out of memory"
    assert first.title.endswith("406 MiB were free in all, but in pieces: this is fragmentation.")
    refused = {row.title: row.num_refused for row in what_if(snapshot, history, SERVER_BYTES)}
    assert refused["as recorded"] == 1 and refused["expandable_segments:True"] == refused["paged, blocks of 2 MiB"] == 0
    assert [mb for mb in (64, 128, 256, 512) if not refused[f"max_split_size_mb:{mb}"]] == [64]


def test_pinned_is_what_one_owner_alone_keeps():
    layout = Layout((Segment(0, 100), Segment(100, 50), Segment(200, 80)),
                    (Piece(0, 10, "A", 10), Piece(50, 10, "A", 10), Piece(100, 10, "A", 10), Piece(120, 10, "B", 10),
                     Piece(200, 80, "C", 80)))
    assert pinned_by_owner(layout) == {"A": 80, "B": 0, "C": 0}
    assert pinned_by_owner(server_history().end.layout())["metrics.py:9 record"] == 222 * MIB
