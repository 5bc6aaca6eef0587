"""The recordings that come with the package, and the same made on a GPU."""

import gzip
import json
import sys
from types import SimpleNamespace

import pytest

from pagedkv.snapshot.analysis import analyse
from pagedkv.snapshot.demo import FILES, GROWING, LAST_BYTES, NUM_TENSORS, ORIGIN, PREALLOCATED, run_workload, simulated
from pagedkv.snapshot.history import history_of
from pagedkv.snapshot.read import read_snapshot
from pagedkv.storage.cuda_recording import record_live

MIB = 1 << 20


@pytest.mark.parametrize("workload", FILES)
def test_the_committed_files_are_what_the_command_makes(workload):
    packed = FILES[workload].read_bytes()
    assert json.loads(gzip.decompress(packed)) == json.loads(json.dumps(simulated(workload)))
    assert len(packed) < 60_000


def test_the_growing_cache_needs_twice_the_memory():
    found = {}
    for workload, path in FILES.items():
        snapshot = read_snapshot(path)
        history = history_of(snapshot)
        assert not history.problems and snapshot.origin == ORIGIN and "simulated" in history.recording.source
        assert history.end.used_bytes == NUM_TENSORS * LAST_BYTES == 256 * MIB
        found[workload] = analyse(snapshot, history)
    kinds = {finding.kind for finding in found[GROWING].findings}
    assert {"growing cache", "wholly free", "inactive split misleads"} <= kinds
    assert found[PREALLOCATED].findings == ()
    assert found[GROWING].figures.peak_reserved_bytes > 1.7 * found[PREALLOCATED].figures.peak_reserved_bytes
    assert found[GROWING].owners[0].name == "cache.py:21 append"


def test_without_a_gpu_the_committed_one_is_returned(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch", None)
    recorded = record_live(tmp_path / "x.pickle", PREALLOCATED)
    assert recorded == (FILES[PREALLOCATED], "simulated by pagedkv") and not (tmp_path / "x.pickle").exists()
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False)))
    assert record_live(tmp_path / "x.pickle").path == FILES[GROWING]
    with pytest.raises(ValueError, match="a workload is one of"):
        record_live(tmp_path / "x.pickle", "other")
    with pytest.raises(ValueError, match="a workload is one of"):
        run_workload("other", None, None)


class PretendedTorch:
    """As much of torch as a recording needs, on a machine without CUDA; the order of the calls is kept."""

    uint8 = "uint8"

    def __init__(self, history_enabled=False):
        self.calls, self.live = [], 0
        self._C = SimpleNamespace(_cuda_isHistoryEnabled=lambda: history_enabled)
        self.cuda = SimpleNamespace(
            is_available=lambda: True, synchronize=lambda: self.calls.append("synchronize"),
            empty_cache=lambda: self.calls.append("empty_cache"), get_device_name=lambda: "a card",
            memory=SimpleNamespace(_record_memory_history=lambda **settings: self.calls.append(("record", settings)),
                                   _dump_snapshot=lambda path: self.calls.append(("dump", path, self.live))))

    def empty(self, size, dtype, device):
        assert (dtype, device) == ("uint8", "cuda")
        owner = self

        class Tensor:
            def __init__(self):
                owner.live += size

            def __del__(self):
                owner.live -= size

        return Tensor()


def test_with_a_gpu_it_is_recorded_there(monkeypatch, tmp_path):
    for workload in FILES:
        torch = PretendedTorch()
        monkeypatch.setitem(sys.modules, "torch", torch)
        recorded = record_live(tmp_path / "live.pickle", workload)
        assert recorded == (tmp_path / "live.pickle", "recorded on a card")
        what = [call if isinstance(call, str) else call[0] for call in torch.calls]
        assert what == ["synchronize", "empty_cache", "record", "synchronize", "dump", "record"]
        assert torch.calls[-2] == ("dump", str(tmp_path / "live.pickle"),
                                   256 * MIB), "old tensors are gone, the last ones live"
        assert torch.calls[-1] == ("record", {"enabled": None}) and torch.live == 0


def test_a_recording_that_goes_on_is_not_disturbed(monkeypatch, tmp_path):
    torch = PretendedTorch(history_enabled=True)
    monkeypatch.setitem(sys.modules, "torch", torch)
    with pytest.raises(RuntimeError, match="recorded already"):
        record_live(tmp_path / "live.pickle")
    assert torch.calls == []
