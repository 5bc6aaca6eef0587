"""Every Triton kernel becomes machine code for an A100 and an H100, fits into a small card, and spills no registers."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CAPABILITIES = (80, 90)
SMALL_CARD_SHARED_BYTES = 99 << 10  # what one program may have on sm_86 and sm_89

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None,
                                reason="Triton is not installed: it has no build for macOS and Windows")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """An empty cache, so that the compiler does run."""
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("triton"))}
    environment.pop("TRITON_INTERPRET", None)
    child = subprocess.run([sys.executable, "-m", "tests.attention.triton_compiled"], cwd=ROOT, capture_output=True,
                           text=True, env=environment, timeout=600)
    assert child.returncode == 0, child.stderr
    return json.loads(child.stdout.splitlines()[-1])


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_every_kernel_becomes_machine_code(compiled, capability):
    facts = [fact for name, fact in compiled["results"].items() if name.startswith(f"sm_{capability}:")]
    assert all(fact["is_elf"] and fact["cubin_bytes"] > 1000 for fact in facts)
    assert {fact["kernel"] for fact in facts} == set(compiled["kernels"])


def test_shared_memory_fits_into_small_cards(compiled):
    assert {name: fact["shared_bytes"] for name, fact in compiled["results"].items()
            if fact["shared_bytes"] > SMALL_CARD_SHARED_BYTES} == {}


def test_no_registers_are_spilled(compiled):
    spilled = {name: fact.get("spilled_bytes") for name, fact in compiled["results"].items()}
    if None in spilled.values():
        pytest.skip("this Triton comes without cuobjdump, which tells the spilled registers")
    assert {name: size for name, size in spilled.items() if size} == {}
