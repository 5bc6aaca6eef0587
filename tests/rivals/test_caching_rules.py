"""Rounding, pools, segment sizes, settings and the text of an out-of-memory error."""

import pytest

from pagedkv.rivals.caching import CachingAllocator
from pagedkv.rivals.caching_rules import (KIB, MIB, CachingSettings, is_small, least_rest, oom_message, read_divisions,
                                          round_size, segment_size, torch_size)


@pytest.mark.parametrize("size, block, segment, small", [
    (1, 512, 2 * MIB, True),
    (511, 512, 2 * MIB, True),
    (512, 512, 2 * MIB, True),
    (513, 1024, 2 * MIB, True),
    (MIB, MIB, 2 * MIB, True),
    (MIB + 1, MIB + 512, 20 * MIB, False),
    (10 * MIB - 512, 10 * MIB - 512, 20 * MIB, False),
    (10 * MIB - 1, 10 * MIB, 10 * MIB, False),  # rounded first: that makes it a request of 10 MiB
    (10 * MIB, 10 * MIB, 10 * MIB, False),
    (10 * MIB + 1, 10 * MIB + 512, 12 * MIB, False),
    (763 * MIB, 763 * MIB, 764 * MIB, False),
])
def test_block_segment_and_pool_of_a_request(size, block, segment, small):
    assert (round_size(size), segment_size(round_size(size)), is_small(round_size(size))) == (block, segment, small)


def test_the_shared_segment_can_be_another():
    assert segment_size(5 * MIB, 12 * MIB) == 12 * MIB
    assert segment_size(11 * MIB, 64 * MIB) == 12 * MIB


@pytest.mark.parametrize("small, expandable, rest", [(True, False, 512), (True, True, 512), (False, True, 512),
                                                     (False, False, MIB + 512)])
def test_what_a_split_has_to_leave(small, expandable, rest):
    assert least_rest(small, expandable) == rest


@pytest.mark.parametrize("divisions, size, block", [
    (4, 1200 * KIB, 1280 * KIB),  # the steps are 1024, 1280, 1536, 1792
    (4, 1280 * KIB, 1280 * KIB),
    (4, 1281 * KIB, 1536 * KIB),
    (4, 1024 * KIB, 1024 * KIB),
    (4, 2047 * KIB, 2048 * KIB),
    (2, 33 * MIB, 48 * MIB),
    (4, 2048, 2048),  # 512 · 4 and below: multiples of 512 only
    (4, 2049, 2560),
    (4, 300, 512),
    (1, 1200 * KIB + 1, 1200 * KIB + 512),
])
def test_rounding_with_divisions(divisions, size, block):
    assert round_size(size, read_divisions(divisions)) == block


def test_divisions_by_size():
    numbers = read_divisions("[128:8, 256:16, 512:1, 2048:8, >:2]")
    assert {1 << power: numbers[power] for power in (0, 6, 7, 8, 9, 10, 11, 12, 15)} == {
        1: 8, 64: 8, 128: 8, 256: 16, 512: 1, 1024: 0, 2048: 8, 4096: 2, 32768: 2}
    assert round_size(300 * MIB, numbers) == 304 * MIB  # 256 MiB in 16 steps of 16
    assert round_size(513 * MIB + 1, numbers) == 513 * MIB + 512
    assert round_size(5 << 30, numbers) == 6 << 30
    assert round_size(900 << 30, numbers) == 1024 << 30  # sizes above the last interval are in it


def test_divisions_in_other_forms_mean_the_same():
    assert read_divisions({256: 1, 512: 2, ">": 4}) == read_divisions("[256:1,512:2,>:4]")
    assert read_divisions("4") == read_divisions(4) == (4,) * 16
    assert CachingSettings(roundup_power2_divisions=0).divisions is None
    assert CachingSettings(roundup_power2_divisions="[256:1]").divisions is None


@pytest.mark.parametrize("keywords, words", [
    ({"max_split_size_mb": 19}, "at least large_segment_mb, 20"),
    ({"max_split_size_mb": 20, "large_segment_mb": 25}, "at least large_segment_mb, 25"),
    ({"large_segment_mb": 10}, "more than 10"),
    ({"garbage_collection_threshold": 1.0}, "between 0 and 1"),
    ({"garbage_collection_threshold": -0.1}, "between 0 and 1"),
    ({"memory_fraction": 0.0}, "above 0"),
    ({"memory_fraction": 1.5}, "at most 1"),
    ({"roundup_power2_divisions": 3}, "powers of two"),
    ({"roundup_power2_divisions": "[3:1]"}, "powers of two of MiB"),
    ({"roundup_power2_divisions": "[0:1]"}, "powers of two of MiB"),
    ({"roundup_power2_divisions": "[64:5]"}, "powers of two"),
    ({"roundup_power2_divisions": "[64;5]"}, "a number or a list"),
])
def test_settings_that_pytorch_refuses_are_refused(keywords, words):
    with pytest.raises(ValueError, match=words):
        CachingAllocator(100 * MIB, **keywords)


def test_settings_of_the_wrong_kind():
    with pytest.raises(TypeError, match="True or False"):
        CachingAllocator(100 * MIB, expandable_segments=1)
    with pytest.raises(TypeError, match="integer"):
        CachingAllocator(100 * MIB, max_split_size_mb=20.5)


def test_the_least_settings_are_accepted():
    assert CachingSettings(max_split_size_mb=20).max_split_bytes == 20 * MIB
    assert CachingSettings(max_split_size_mb=20, large_segment_mb=15).large_segment_bytes == 15 * MIB
    assert CachingSettings(large_segment_mb=11).large_segment_bytes == 11 * MIB


def test_every_setting_can_be_chosen_from_its_form():
    defaults = {setting.keyword: setting.default for setting in CachingAllocator.SETTINGS}
    assert CachingAllocator(100 * MIB, **defaults).settings == CachingSettings()
    for setting in CachingAllocator.SETTINGS:
        assert setting.default in setting.choices
        for choice in setting.choices:
            values = {**defaults, setting.keyword: choice}
            if setting.keyword == "large_segment_mb":
                values["max_split_size_mb"] = None
            assert CachingAllocator(100 * MIB, **values)


def test_sizes_are_printed_as_pytorch_prints_them():
    assert [torch_size(size) for size in (512, 1536, 20 * MIB, 3 << 29)] == [
        "512 bytes", "1.50 KiB", "20.00 MiB", "1.50 GiB"]


def test_the_message_has_the_figures_in_pytorchs_order():
    text = oom_message(tried_bytes=20 * MIB, capacity_bytes=100 * MIB, device_free_bytes=4 * MIB,
                       allowed_bytes=96 * MIB, allocated_bytes=60 * MIB, reserved_bytes=90 * MIB)
    figures = ["Tried to allocate 20.00 MiB", "total capacity of 100.00 MiB", "4.00 MiB is free", "96.00 MiB allowed",
               "60.00 MiB is allocated", "30.00 MiB is reserved but unallocated"]
    assert text.startswith("CUDA out of memory. ")
    assert [text.find(figure) for figure in figures] == sorted(text.find(figure) for figure in figures)
    assert -1 not in [text.find(figure) for figure in figures]
