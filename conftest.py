"""For all tests: a learner's progress is neither read nor changed; and nbval compares what it otherwise leaves out."""

import os
import tempfile

import pytest

os.environ["PAGEDKV_PROGRESS"] = os.path.join(tempfile.mkdtemp(prefix="pagedkv-"), "progress.json")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """nbval passes over pictures, metadata, stream names and the order of outputs. Building a notebook again has to give
    the same file, so after nbval has found a cell's outputs right, they are compared once more, byte for byte."""
    result = yield
    if type(item).__name__ == "IPyNbCell" and item.options["check"]:
        from tests.notebooks.outputs import outputs_as_stored
        assert outputs_as_stored(item.test_outputs) == outputs_as_stored(item.cell.outputs), \
            f"cell {item.cell_num} of {item.path.name} does not give what is stored:\n{item.cell.source}"
    return result
