"""The bytes of a pool, read at the offsets of the specification, written here once more as numbers."""

import struct
from pathlib import Path

import pytest

from pagedkv.shared import SharedPool
from pagedkv.shared.layout import Layout
from tests.shared.state import State


def file_of(name):
    return (Path("/dev/shm") / f"pagedkv.{name}").read_bytes()


def test_a_new_pool(create, name):
    with create(num_blocks=70, block_bytes=100):
        file = file_of(name)
    assert file[:8] == b"PAGEDKV\0"
    assert struct.unpack_from("<II", file, 8) == (2, 48)
    # 70 blocks: 2 numbers of hints → 64 bytes a bitmap; 560 bytes of words → 576; rows of 280 bytes → 320
    slots, empty, content, words, counts, index = 4096, 7168, 7232, 7296, 7872, 7872 + 48 * 320
    data = 24576  # the next multiple of 4096 from 23232
    assert struct.unpack_from("<QQQQ", file, 16) == (len(file), 100, 70, 128)
    assert struct.unpack_from("<IIQ", file, 48) == (0, 0, 0)
    assert struct.unpack_from("<7Q", file, 64) == (slots, empty, content, words, counts, index, data)
    pool_id, state = struct.unpack_from("<QQ", file, 120)
    assert pool_id != 0 and state == 1
    assert len(file) == 36864 and len(file) % 4096 == 0 and data + 70 * 128 <= len(file)
    assert file[136:4096] == bytes(4096 - 136)
    # the creator is in slot 0, Python, joined once, in use; nobody else ever was
    pid, language, joined, in_use = struct.unpack_from("<QQQQ", file, slots)
    assert (language, joined, in_use) == (1, 1, 1) and Path(f"/proc/{pid}").exists()
    assert file[slots + 32:empty] == bytes(empty - slots - 32)
    assert struct.unpack_from("<QQ", file, empty) == (2 ** 64 - 1, 2 ** 6 - 1)
    assert file[empty + 16:data] == bytes(data - empty - 16)
    assert (Path("/dev/shm") / f"pagedkv-lock.{name}.{pool_id:016x}").stat().st_size == 0
    assert (Path("/dev/shm") / f"pagedkv.{name}").stat().st_mode & 0o777 == 0o600


def test_a_new_pool_with_an_index(create, name):
    with create(num_blocks=70, block_bytes=100, tokens_per_block=5):
        file = file_of(name)
    index = 7872 + 48 * 320
    # 512 buckets are the power of two from 280 on; a record has 68 bytes → 128
    assert struct.unpack_from("<II", file, 48) == (5, 512)
    assert struct.unpack_from("<QQ", file, 104) == (index, 36864)  # the next multiple of 4096 from 36288
    assert index + 512 * 8 + 70 * 128 == 36288
    assert file[index:36864] == bytes(36864 - index) and len(file) == 49152
    assert struct.unpack_from("<Q", file, 256) == (0,)


def test_words_counts_hints_and_data(create, name):
    pool, other = create(num_blocks=70, block_bytes=100, cache_blocks=1), create.join()
    a, b, c = pool.allocate(3)
    pool.retain([a])
    other.retain([a, b])
    pool.buffer(b)[:] = bytes(range(100))
    pool.release([b, c])
    file = file_of(name)
    words = struct.unpack_from("<70Q", file, 7296)
    assert words[a] == 1 << 50 | 0b11 and words[b] == 1 << 50 | 0b10
    assert words[c] == 1 << 50 | 1 << 48 | 0b01  # in the local cache of slot 0
    counts = [struct.unpack_from("<I", file, 7872 + 320 * slot + 4 * block)[0]
              for slot in (0, 1) for block in (a, b, c)]
    assert counts == [2, 0, 0, 1, 1, 0]
    empty = int.from_bytes(file[7168:7184], "little")
    assert not empty & (1 << a | 1 << b | 1 << c) and empty.bit_count() == 67
    assert file[24576 + 128 * b:24576 + 128 * b + 100] == bytes(range(100))
    other.release([b])
    assert int.from_bytes(file_of(name)[7168:7184], "little") >> b & 1
    assert pool.allocate(1) == [c]
    assert struct.unpack_from("<70Q", file_of(name), 7296)[c] == 2 << 50 | 0b01


def test_guards(create, name):
    with create(num_blocks=3, block_bytes=100, guard=True) as pool:
        block, = pool.allocate(1)
        pool.buffer(block)[:] = b"\xff" * 100
        file = file_of(name)
        assert struct.unpack_from("<QQ", file, 40) == (256, 0) and struct.unpack_from("<Q", file, 56) == (1,)
        data, = struct.unpack_from("<Q", file, 112)
        for number in range(3):
            stride = file[data + 256 * number:data + 256 * number + 256]
            owner = (0, 1) if number == block else (2 ** 64 - 1, 0)
            assert stride[:8] == b"KVBLOCK\0" and struct.unpack_from("<QQQ", stride, 8) == (number, *owner)
            assert stride[32:64] == bytes(0xA5 ^ i for i in range(32, 64))
            assert stride[64:164] == (b"\xff" if number == block else b"\0") * 100
            assert stride[164:] == bytes(0xA5 ^ i for i in range(92))


@pytest.mark.parametrize("num_blocks", [1, 63, 64, 65, 512, 513, 100_000])
@pytest.mark.parametrize("block_bytes", [1, 64, 65, 4096])
@pytest.mark.parametrize("guard", [False, True])
@pytest.mark.parametrize("tokens", [0, 1, 4, 16, 17, 65_536])
def test_no_region_reaches_into_another(num_blocks, block_bytes, guard, tokens):
    layout = Layout(num_blocks, block_bytes, guard, tokens)
    slots, empty, content, words, counts, index, data = layout.offsets
    assert slots >= 4096 and empty >= slots + 48 * 64
    hints = 8 * -(-num_blocks // 64)
    assert content >= empty + hints and words >= content + hints and counts >= words + 8 * num_blocks
    assert index >= counts + 48 * layout.row_bytes and layout.row_bytes >= 4 * num_blocks and data >= index
    assert all(number % 64 == 0 for number in (*layout.offsets, layout.row_bytes, layout.stride_bytes))
    assert data % 4096 == 0
    entries = layout.index_entries
    if tokens:
        assert entries.bit_count() == 1 and (entries == 64 or 4 * num_blocks <= entries < 8 * num_blocks)
        assert layout.buckets_at == index and layout.records_at == index + 8 * entries
        assert layout.record_bytes >= 48 + 4 * tokens and layout.record_bytes % 64 == layout.records_at % 64 == 0
    else:
        assert entries == layout.record_bytes == 0
    assert data >= index + 8 * entries + num_blocks * layout.record_bytes
    last = layout.block_at(num_blocks - 1)
    assert last + block_bytes <= layout.capacity_bytes and layout.capacity_bytes % 4096 == 0
    assert layout.stride_bytes >= block_bytes + (128 if guard else 0)


def test_generations_come_round(create, name):
    """14 bits: after 16,384 hand-outs the number is the same again, and the pool goes on as before."""
    with create(num_blocks=1) as pool:
        for i in range(16_383):
            pool.release(pool.allocate(1))
        assert pool.generation(0) == 16_383
        assert pool.allocate(1) == [0] and pool.generation(0) == 0
        assert State(name).words == (1,)
        pool.retain([0], generations=[0])
        pool.release([0, 0])
        assert pool.num_free_blocks == 1


def test_what_the_file_is_made_of_is_reserved(create, name):
    """Otherwise a write could find no memory, and end in a SIGBUS."""
    with create(num_blocks=16, block_bytes=65_536):
        status = (Path("/dev/shm") / f"pagedkv.{name}").stat()
        assert status.st_blocks * 512 >= status.st_size > 16 * 65_536


def test_the_id_is_new_each_time(create, name):
    ids = set()
    for _ in range(3):
        with create(replace=True):
            ids.add(struct.unpack_from("<Q", file_of(name), 120)[0])
    assert len(ids) == 3 and SharedPool.remove(name) and not SharedPool.remove(name)
