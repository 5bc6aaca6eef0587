"""What the tests of the paged model share: a tiny model, and every backend that runs on the CPU."""

import pytest

from pagedkv.attention.backends import choose_backend
from pagedkv.storage.kv_storage import KVStorage
from tests.attention.tiny_model import tiny_model


@pytest.fixture(scope="module")
def model():
    return tiny_model()


@pytest.fixture(params=["gather", "blockwise", "compiled"])
def any_backend(request, model):
    if request.param == "compiled":
        try:
            choose_backend("compiled", KVStorage.for_model(model, 1))
        except Exception as error:
            pytest.skip(f"the compiled backend does not run here: {error}")
    return request.param
