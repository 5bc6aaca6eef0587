"""The compiled backend: its numbers against attention over keys and values that lie in order, and how it is built.

The blocks of nobody, and the rest of each last block, hold NaN: what is read beyond a sequence's end shows. What needs
a process of its own, because the kernel is loaded once in each, runs in one.
"""

import ctypes
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from pagedkv.attention import compiled, gather
from pagedkv.attention.backends import choose_backend
from pagedkv.attention.batch import PagedBatch
from pagedkv.core import native
from pagedkv.storage.int8_storage import Int8KVStorage
from pagedkv.storage.kv_storage import KVStorage
from tests.attention.cases import LAYER, case, error

ROOT = Path(__file__).resolve().parents[2]
RAGGED = [1, 33, 32, 100, 4, 31]

if not native.compilers(native.CPP):
    pytest.skip("the compiled backend needs a C++ compiler", allow_module_level=True)


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """A cache folder of the tests' own, so that the first test compiles the kernel from the source as it is now."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "cache_folder", lambda: folder / "compiled")
        patch.setattr(compiled, "_decode", None)
        yield folder


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


# ── the numbers ──────────────────────────────────────────────────────────────────────────────────────────────────────

@pytest.mark.parametrize("block_size", [1, 8, 16, 32])
@pytest.mark.parametrize("group", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("head_dim", [16, 64, 80, 128])
def test_ragged_sequences(block_size, group, head_dim):
    assert error(compiled.attend, case(RAGGED, group=group, block_size=block_size, head_dim=head_dim)) < 2e-6


@pytest.mark.parametrize("head_dim", [1, 5, 20, 36, 96, 200, 256])
def test_head_dims_that_are_no_whole_vectors(head_dim):
    assert error(compiled.attend, case(RAGGED, head_dim=head_dim)) < 3e-6


@pytest.mark.parametrize("num_kv_heads, group", [(1, 1), (1, 32), (5, 7), (8, 1)])
def test_numbers_of_heads(num_kv_heads, group):
    assert error(compiled.attend, case([70, 3], num_kv_heads=num_kv_heads, group=group)) < 2e-6


@pytest.mark.parametrize("dtype, most", [(torch.float16, 2e-3), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("head_dim, block_size", [(64, 16), (80, 8), (5, 1)])
def test_narrow_types(dtype, most, head_dim, block_size):
    assert error(compiled.attend, case(RAGGED, dtype=dtype, head_dim=head_dim, block_size=block_size)) < most


@pytest.mark.parametrize("dtype, most", [(torch.float32, 2e-6), (torch.float16, 4e-3), (torch.bfloat16, 4e-2)])
@pytest.mark.parametrize("head_dim, block_size", [(64, 16), (80, 8), (20, 1)])
def test_int8_is_read_as_it_was_rounded(dtype, most, head_dim, block_size):
    made = case(RAGGED, kind=Int8KVStorage, dtype=dtype, head_dim=head_dim, block_size=block_size)
    assert error(compiled.attend, made) < most


@pytest.mark.parametrize("context", [511, 512, 513, 1024, 1500])
@pytest.mark.parametrize("kind", [KVStorage, Int8KVStorage])
def test_sequences_that_are_cut_into_chunks(context, kind):
    made = case([context, 5, 700], group=2, block_size=16, kind=kind)
    assert error(compiled.attend, made) < 2e-6


def test_prefill_goes_to_gather():
    made = case([5, 40, 12], [5, 1, 3])
    expected = gather.attend(made.query, made.storage, LAYER, made.batch, made.scale)
    assert torch.equal(compiled.attend(made.query, made.storage, LAYER, made.batch, made.scale), expected)


def test_a_query_that_is_not_contiguous():
    made = case([50, 9], head_dim=64)
    made.query = made.query.transpose(0, 1).contiguous().transpose(0, 1)
    assert not made.query.is_contiguous() and error(compiled.attend, made) < 2e-6


def test_another_scale():
    made = case([50, 9])
    result = compiled.attend(made.query, made.storage, LAYER, made.batch, 0.5)
    expected = gather.attend(made.query, made.storage, LAYER, made.batch, 0.5)
    assert (result - expected).abs().max() < 2e-6 < (result - made.expected).abs().max()


@pytest.mark.parametrize("context", [40, 600])
def test_scores_far_apart_and_growing(context):
    """Each key scores higher than all before it, so that what is summed so far is scaled down again and again; and no
    exponential may overflow."""
    storage = KVStorage(1, 1, 4, num_blocks=80, block_size=8, dtype=torch.float32, device="cpu")
    table = list(range(79, -1, -1))[:-(-context // 8)]
    batch = PagedBatch.build([table], [context], [1], storage)
    keys = torch.arange(float(context))[:, None, None].expand(context, 1, 4)
    values = torch.randn(context, 1, 4)
    storage.write(0, PagedBatch.build([table], [context], [context], storage).rows, keys, values)
    for slope in (0.01, 1.0, 1e4):
        query = torch.full((1, 1, 4), slope)
        result = compiled.attend(query, storage, 0, batch, 1.0)
        weights = torch.softmax(keys[:, 0, :].double().sum(1) * slope, 0)
        expected = (weights[:, None] * values[:, 0].double()).sum(0)
        assert (result[0, 0] - expected).abs().max() < 2e-5


def test_nan_and_infinity_come_through():
    made = case([40, 9])
    made.storage.keys(LAYER)[made.batch.block_tables[0, 2].item()] = torch.nan
    result = compiled.attend(made.query, made.storage, LAYER, made.batch, made.scale)
    assert result[0].isnan().all() and (result[1] - made.expected[1]).abs().max() < 2e-6

    made = case([40], dtype=torch.float16)
    made.storage.values(LAYER)[made.batch.block_tables[0, 2].item(), :, 1, 3] = -torch.inf
    result = compiled.attend(made.query, made.storage, LAYER, made.batch, made.scale)
    assert (result[..., 3] == -torch.inf).all() and result[..., 4].isfinite().all()


def test_every_number_of_fp16_and_bf16_is_read_as_pytorch_reads_it():
    """One token each, so that what comes out is its value: all 65,536 of a type, the subnormal ones too."""
    for dtype in (torch.float16, torch.bfloat16):
        storage = KVStorage(1, 1, 256, num_blocks=256, block_size=1, dtype=dtype, device="cpu")
        every = torch.arange(-2**15, 2**15, dtype=torch.int32).to(torch.int16).view(dtype).view(256, 256)
        storage.values(0)[:, 0, 0] = every
        batch = PagedBatch.build([[block] for block in range(256)], [1] * 256, [1] * 256, storage)
        result = compiled.attend(torch.ones(256, 1, 256, dtype=dtype), storage, 0, batch, 1.0)
        result, every = (numbers.nan_to_num(7, torch.inf, -torch.inf) for numbers in (result[:, 0], every))
        assert torch.equal(result, every)


def test_the_exponential_is_exact_to_the_last_bits():
    function = _library().pagedkv_exp2
    function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64], None

    def exp2(numbers):
        result = torch.empty_like(numbers)
        function(numbers.data_ptr(), result.data_ptr(), len(numbers))
        return result

    numbers = torch.cat([-torch.rand(100_000) * 125, -torch.rand(100_000), -torch.arange(126.0)])
    expected = torch.exp2(numbers.double())
    assert ((exp2(numbers).double() - expected).abs() / expected).max() < 3e-7
    assert exp2(torch.tensor([0.0, -1.0, -126.0, -1e9, -torch.inf])).tolist() == [1, 0.5, 0, 0, 0]
    assert exp2(torch.tensor([torch.nan])).isnan().all()


@pytest.mark.parametrize("kind", [KVStorage, Int8KVStorage])
def test_the_result_is_the_same_bit_for_bit_with_any_number_of_threads(kind, threads):
    made = case([2000, 1, 700, 1024], block_size=16, head_dim=64, kind=kind)
    results = []
    for number in (1, 2, 2, 3, 1, 2):
        threads(number)
        results.append(compiled.attend(made.query, made.storage, LAYER, made.batch, made.scale))
    assert all(torch.equal(result, results[0]) for result in results)
    assert (results[0] - made.expected).abs().max() < 2e-6


def test_threads_are_those_of_pytorchs_own_library(another_process):
    if "ATen parallel backend: OpenMP" not in torch.__config__.parallel_info():
        pytest.skip("this PyTorch does not use OpenMP")
    compiled.prepare()
    assert compiled._parallel is not None
    if sys.platform != "linux":
        pytest.skip("where the threads of a process can be counted")
    before, after = another_process["threads"]
    assert before == after


def test_without_openmp_it_runs_in_one_thread(monkeypatch, threads):
    threads(2)
    compiled.prepare()
    monkeypatch.setattr(compiled, "_parallel", None)
    assert error(compiled.attend, case([2000, 700], head_dim=64, block_size=16)) < 2e-6


# ── what it refuses ──────────────────────────────────────────────────────────────────────────────────────────────────

@pytest.mark.parametrize("change, message", [
    (lambda query: query[:1], r"\[2, a multiple of 2, 16\], got \[1, 6, 16\]"),
    (lambda query: query[:, :5], r"a multiple of 2, 16\], got \[2, 5, 16\]"),
    (lambda query: query[:, :0], r"got \[2, 0, 16\]"),
    (lambda query: query[..., :15], r"got \[2, 6, 15\]"),
    (lambda query: query[None], r"got \[1, 2, 6, 16\]"),
    (lambda query: query.double(), r"float64, the pool has torch\.float32: convert it with \.to\(torch\.float32\)"),
    (lambda query: query.to("meta"), "the query is on meta, the pool on cpu")])
def test_a_query_that_does_not_fit(change, message):
    made = case([50, 9])
    with pytest.raises(ValueError, match=message):
        compiled.attend(change(made.query), made.storage, LAYER, made.batch, made.scale)


@pytest.mark.parametrize("layer", [-1, 2])
def test_a_layer_that_is_not_there(layer):
    made = case([50, 9])
    with pytest.raises(IndexError, match=f"no layer {layer}: they go from 0 to 1"):
        compiled.attend(made.query, made.storage, layer, made.batch, made.scale)


@pytest.mark.parametrize("change", [
    lambda batch: setattr(batch, "block_tables", batch.block_tables.long()),
    lambda batch: setattr(batch, "block_tables", batch.block_tables.t().contiguous().t()),
    lambda batch: setattr(batch, "context_lens", batch.context_lens.long())])
def test_a_batch_that_is_not_as_build_makes_it(change):
    made = case([50, 9])
    change(made.batch)
    with pytest.raises(ValueError, match="contiguous int32 tensors on the CPU"):
        compiled.attend(made.query, made.storage, LAYER, made.batch, made.scale)


# ── how it is built ──────────────────────────────────────────────────────────────────────────────────────────────────

@pytest.fixture
def anew(monkeypatch, tmp_path):
    """As in a process that has not loaded it, with an empty cache folder, which it returns."""
    folder = tmp_path / "cache" / "compiled"
    monkeypatch.setattr(compiled, "cache_folder", lambda: folder)
    monkeypatch.setattr(compiled, "_decode", None)
    # quicker, and enough for what these tests look at
    monkeypatch.setattr(compiled, "FLAGS", tuple("-O0" if flag == "-O3" else flag for flag in compiled.FLAGS))
    return folder


def _library():
    compiled.prepare()
    return ctypes.CDLL(str(next(compiled.cache_folder().glob("decode-*.so"))))


@pytest.fixture(scope="module")
def another_process(tmp_path_factory):
    """What a new process, in which torch uses two threads, has to say about loading the kernel."""
    code = """
        import json
        import os
        import torch
        from pagedkv.attention import compiled
        from tests.attention.cases import case, error
        # how far the compiler optimises is not looked at here, and it takes a few seconds
        compiled.FLAGS = tuple("-O0" if flag == "-O3" else flag for flag in compiled.FLAGS)
        def threads():
            return len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 0
        result = {"before": [compiled.is_ready(), compiled.cache_folder().exists()]}
        torch.set_num_threads(2)
        numbers = torch.full((200_000,), 1e-40)
        before = threads(), numbers.mul(0.5).count_nonzero().item()
        compiled.prepare()
        result["error"] = error(compiled.attend, case([3000, 2000], head_dim=64, block_size=16))
        result["threads"] = before[0], threads()
        result["subnormals"] = numbers.mul(0.5).count_nonzero().item(), 1e-310 * 0.5 > 0
        print(json.dumps(result))
        """
    folder = tmp_path_factory.mktemp("home")
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], cwd=ROOT, capture_output=True, text=True,
                          timeout=300, env=_environ(folder))
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["error"] < 2e-6
    return result


def _environ(folder):
    """For a process whose cache folder is in this one, on any system."""
    return {**os.environ, "XDG_CACHE_HOME": str(folder), "HOME": str(folder), "LOCALAPPDATA": str(folder)}


def test_it_is_compiled_once_and_found_afterwards(anew, monkeypatch):
    assert not compiled.is_ready()
    compiled.prepare()
    assert compiled.is_ready()
    library, = anew.iterdir()  # and nothing is left of what was made on the way
    monkeypatch.setattr(compiled, "_decode", None)
    monkeypatch.setattr(native, "_compile", None)  # would fail if it were called
    compiled.prepare()
    assert error(compiled.attend, case([50, 9])) < 2e-6 and list(anew.iterdir()) == [library]


def test_it_is_compiled_again_when_the_source_changes(anew, monkeypatch, tmp_path):
    compiled.prepare()
    changed = tmp_path / "decode.cpp"
    changed.write_text(compiled.SOURCE.read_text(encoding="utf-8") + "\n// another line\n", encoding="utf-8")
    monkeypatch.setattr(compiled, "SOURCE", changed)
    monkeypatch.setattr(compiled, "_decode", None)
    compiled.prepare()
    assert len(list(anew.iterdir())) == 2


def test_a_damaged_library_is_made_again(anew, monkeypatch):
    anew.mkdir(parents=True)
    compiler, = native.compilers(native.CPP)[:1]
    piece = native.Piece("", compiled.SOURCE, native.CPP, compiled.FLAGS, compiled.TUNINGS)
    library = anew / f"decode-{native.key(piece, compiler, native.version(compiler))}.so"
    library.write_bytes(b"\x7fELF half a library")
    compiled.prepare()
    assert library.stat().st_size > 1000 and error(compiled.attend, case([50, 9])) < 2e-6


def test_processes_that_compile_at_the_same_time_do_no_harm(tmp_path):
    code = """
        from pagedkv.attention import compiled
        from tests.attention.cases import case, error
        compiled.FLAGS = tuple("-O0" if flag == "-O3" else flag for flag in compiled.FLAGS)
        compiled.prepare()
        print(error(compiled.attend, case([50, 9])) < 2e-6)
        """
    processes = [subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], cwd=ROOT, env=_environ(tmp_path),
                                  text=True, stdout=subprocess.PIPE) for _ in range(2)]
    assert [process.communicate(timeout=300)[0].strip() for process in processes] == ["True"] * 2
    assert len([path for path in tmp_path.rglob("*") if path.is_file() and "compiled" in path.parts]) == 1


def test_a_cache_folder_that_cannot_be_written(anew, monkeypatch, tmp_path):
    anew.parent.mkdir()
    anew.write_text("a file where the folder would be")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    compiled.prepare()
    assert error(compiled.attend, case([50, 9])) < 2e-6
    assert not list(tmp_path.glob("pagedkv-*"))  # made for this process only, and gone


@pytest.mark.parametrize("command", ["nonsense", "/no/such/compiler -O1"])
def test_a_compiler_that_is_not_there(command, anew, monkeypatch):
    monkeypatch.setenv("CXX", command)
    with pytest.raises(compiled.NoCompiler, match=f"apt install g.*CXX can name it.*Tried: {command} is not there"):
        compiled.prepare()
    assert not compiled.is_ready() and not anew.exists()


def test_no_compiler_at_all(anew, monkeypatch, tmp_path, caplog):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(compiled.NoCompiler, match=r"Tried: no c\+\+, g\+\+ or clang\+\+ on the PATH"):
        compiled.prepare()
    storage = KVStorage(1, 1, 4, num_blocks=1, dtype=torch.float32, device="cpu")
    assert choose_backend("auto", storage) == "gather" and "apt install g++" in caplog.text
    with pytest.raises(compiled.NoCompiler):
        choose_backend("compiled", storage)


def test_a_source_that_does_not_compile(anew, monkeypatch, tmp_path):
    broken = tmp_path / "broken.cpp"
    broken.write_text("int pagedkv_decode( { return nonsense; }\n" + "int again( {\n" * 100)
    monkeypatch.setattr(compiled, "SOURCE", broken)
    with pytest.raises(compiled.NoCompiler, match=r"failed:\n.*broken\.cpp.*error") as raised:
        compiled.prepare()
    assert len(str(raised.value).splitlines()) <= 2 + native.MOST_LINES
    assert not compiled.is_ready() and not list(anew.iterdir())


def test_flags_that_the_compiler_does_not_know_are_left_out(anew, monkeypatch):
    monkeypatch.setattr(compiled, "TUNINGS", (("-march=native-nonsense",), ()))
    compiled.prepare()
    assert error(compiled.attend, case(RAGGED, head_dim=80, dtype=torch.float16)) < 2e-3  # with the narrowest vectors


def test_it_does_not_switch_subnormal_numbers_off(another_process):
    assert another_process["subnormals"] == [200_000, True]
    # -ffp-contract=fast is no part of -ffast-math
    assert not {"-ffast-math", "-Ofast", "-funsafe-math-optimizations"} & set(compiled.FLAGS)


def test_importing_it_compiles_nothing(another_process):
    assert another_process["before"] == [False, False]
