"""B8: the size of a preallocated pool."""

import pytest

from pagedkv.rivals.pool_size import preallocated_pool_blocks, preallocated_pool_bytes

GIB, HALF_MIB = 1 << 30, 1 << 19


def test_the_articles_numbers():
    """B8: "≈ 21 MB" is 18.4 GiB, and one layer only."""
    assert preallocated_pool_blocks(256, 128) == 37_684  # 37 683.2
    assert preallocated_pool_bytes(256, 128, HALF_MIB, 1) / GIB == pytest.approx(18.4, abs=0.01)
    assert preallocated_pool_bytes(256, 128, HALF_MIB, 32) / GIB == pytest.approx(588.8, abs=0.02)


def test_a_device_that_is_too_small():
    with pytest.raises(ValueError, match="37,684 blocks of 32 × 512 KiB are 588.81 GiB, and the device has 80 GiB: "
                                         "enough for 34 sequences"):
        preallocated_pool_bytes(256, 128, HALF_MIB, 32, device_bytes=80 * GIB)
    size = preallocated_pool_bytes(34, 128, HALF_MIB, 32, device_bytes=80 * GIB)
    assert size <= 80 * GIB < preallocated_pool_bytes(35, 128, HALF_MIB, 32)


def test_slack():
    assert preallocated_pool_blocks(10, 10, 0) == 100
    assert preallocated_pool_blocks(3, 1, 1) == 4


def test_arguments():
    with pytest.raises(ValueError, match="num_layers is at least 1"):
        preallocated_pool_bytes(1, 1, 1, 0)
    with pytest.raises(TypeError):
        preallocated_pool_bytes(256, 128, 0.5, 32)
    with pytest.raises(ValueError):
        preallocated_pool_blocks(1, 1, -1)
