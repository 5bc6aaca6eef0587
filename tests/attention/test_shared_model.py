"""PagedModel over a pool in shared memory: another process finds what was computed, and only what was computed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from pagedkv.attention import PagedModel
from pagedkv.shared import segment
from pagedkv.storage.shared_storage import SharedKVStorage
from tests.attention.tiny_model import one_thread, random_prompts, tiny_model

try:
    segment.check_system()
except NotImplementedError as error:
    pytest.skip(str(error), allow_module_level=True)

PROMPT = random_prompts([22])[0]
WORKER = f"""
import os, signal, sys
from pagedkv.attention import PagedModel
from pagedkv.storage.shared_storage import SharedKVStorage
from tests.attention.tiny_model import tiny_model
model = tiny_model()
paged = PagedModel(model, storage=SharedKVStorage.join(sys.argv[1], model), backend="gather", max_query_tokens=8)
seq = paged.add({PROMPT})
run = paged._run
def killed_in_the_third_pass(spans, rows):
    if spans[0][1] >= 16 and sys.argv[2] == "in the middle":
        os.kill(os.getpid(), signal.SIGKILL)
    return run(spans, rows)
paged._run = killed_in_the_third_pass
paged.forward(seq)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def threads():
    with one_thread():
        yield


@pytest.fixture
def name():
    name = f"test-model-{os.getpid()}"
    yield name
    for path in Path("/dev/shm").glob(f"pagedkv*{name}*"):
        path.unlink()


def storage_of(name, **more):
    return SharedKVStorage.create_for(name, tiny_model(), num_blocks=40, block_size=4, **more)


@pytest.mark.parametrize("backend", ["gather", "blockwise", "compiled"])
def test_two_members_in_one_process(name, backend):
    model = tiny_model()
    here = PagedModel(model, storage=storage_of(name), backend=backend)
    there = PagedModel(model, storage=SharedKVStorage.join(name, model), backend=backend)
    plain = PagedModel(model, 40, 4, backend="gather")
    expected = plain.forward(plain.add(PROMPT))
    seq = here.add(PROMPT)
    assert there.add(PROMPT).num_cached_tokens == 0  # nothing is computed yet
    assert torch.allclose(here.forward(seq), expected, atol=1e-4)
    other = there.add(PROMPT)
    assert other.num_cached_tokens == 20
    assert torch.allclose(there.forward(other), expected, atol=1e-4)
    child = there.fork(other)
    for paged, each, token in ((there, other, 5), (there, child, 6), (here, seq, 5)):
        paged.append(each, token)
    for paged, each, token in ((there, other, 5), (there, child, 6), (here, seq, 5)):
        with torch.no_grad():
            alone = model(torch.tensor([[*PROMPT, token]])).logits[0, -1]
        assert torch.allclose(paged.forward(each)[0], alone, atol=1e-4)
    for paged in (here, there):
        paged.free(paged.manager.live_sequences)
        paged.storage.pool.close()


@pytest.mark.parametrize("when, num_found", [("in the middle", 16), ("at the end", 20)])
def test_a_process_that_was_killed_leaves_what_it_had_computed(name, when, num_found):
    model = tiny_model()
    storage = storage_of(name)
    child = subprocess.run([sys.executable, "-c", WORKER, name, when], env=dict(os.environ, OMP_NUM_THREADS="1"))
    assert child.returncode == -9
    [dead] = storage.pool.reap().dead
    assert dead.num_references == 6
    paged = PagedModel(model, storage=storage, backend="gather")
    seq = paged.add(PROMPT)
    assert seq.num_cached_tokens == num_found
    with torch.no_grad():
        alone = model(torch.tensor([PROMPT])).logits[0, -1]
    assert torch.allclose(paged.forward(seq)[0], alone, atol=1e-4)
    paged.free(seq)
    storage.pool.close()
    assert num_found > 0


def test_nothing_of_logits_of_all_is_found(name):
    model = tiny_model()
    here = PagedModel(model, storage=storage_of(name), backend="gather")
    here.logits_of_all(PROMPT)
    assert here.manager.num_cached_blocks == 0
    here.storage.pool.close()
