"""Names for pools that are gone after the test, whatever happens in it."""

import itertools
import os
from pathlib import Path

import pytest

from pagedkv.core.native import NoCompiler
from pagedkv.shared import NoAtomics, SharedPool, segment
from pagedkv.shared.operations import choose

try:
    segment.check_system()
except NotImplementedError as error:
    collect_ignore_glob = ["test_*.py"]
    print(f"tests/shared is left out: {error}")

_numbers = itertools.count()


def _can(kind):
    try:
        choose(kind)
        return True
    except (NoCompiler, NoAtomics):
        return False


@pytest.fixture(params=["compiled", "portable"])
def kind(request):
    if not _can(request.param):
        pytest.skip(f"{request.param} operations cannot be had here")
    return request.param


@pytest.fixture
def name():
    """One that no pool has; and nothing is left of what begins with it."""
    name = f"test-{os.getpid()}-{next(_numbers)}"
    yield name
    for path in Path("/dev/shm").glob(f"pagedkv*{name}*"):
        path.unlink()


@pytest.fixture
def create(name, kind):
    """Makes a pool of this name; it and its members are closed after the test."""
    members = []

    def create(num_blocks=8, block_bytes=64, **more):
        members.append(SharedPool.create(name, num_blocks, block_bytes, operations=kind, **more))
        return members[-1]

    def join(**more):
        members.append(SharedPool.join(name, operations=kind, **more))
        return members[-1]

    create.join = join
    yield create
    for member in members:
        member.close()
