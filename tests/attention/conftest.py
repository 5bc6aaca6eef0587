"""What the tests of the paged model share: a tiny model, and every backend that runs on the CPU, with block sizes.

What a backend computes for each block size is tested beside it. Here it is asked whether model, manager and storage go
with it, and there the sizes that matter are one token, the size of the other tests, and more than most prompts have.
`blockwise` makes a step for each block, so that blocks of one token would take longer than all other pairs together.
"""

import pytest

from pagedkv.attention.backends import choose_backend
from pagedkv.storage.kv_storage import KVStorage
from tests.attention.tiny_model import tiny_model


@pytest.fixture(scope="module")
def model():
    return tiny_model()


PAIRS = (("gather", 1), ("gather", 4), ("gather", 16), ("blockwise", 4), ("compiled", 1), ("compiled", 16))


@pytest.fixture(params=PAIRS, ids=lambda pair: f"{pair[0]}-{pair[1]}")
def backend_and_block_size(request, model):
    if request.param[0] == "compiled":
        try:
            choose_backend("compiled", KVStorage.for_model(model, 1))
        except Exception as error:
            pytest.skip(f"the compiled backend does not run here: {error}")
    return request.param


@pytest.fixture
def any_backend(backend_and_block_size):
    return backend_and_block_size[0]


@pytest.fixture
def block_size(backend_and_block_size):
    """In tokens."""
    return backend_and_block_size[1]
