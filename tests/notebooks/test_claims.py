"""Every claim that a finished notebook covers is shown by a cell, and its value held by a test."""

import re

import pytest

from pagedkv.java.build import checkout
from pagedkv.lab.build import sources

ROOT = checkout()
# By the course's table. A claim's id tags the cell that shows it (`claim-N5`) and stands in the test that holds it.
CLAIMS = {"00": ["N1", "N9"], "01": ["N5", "N7", "N12", "N13"],
          "02": ["N2", "N3", "N4", "N11", "N12"],
          "03": ["N10", "N15", "N18", "B3", "B8", "S3"],
          "04": ["N6", "N8", "N14", "S1", "S5", "S8", "B4", "B5", "B6", "B7", "B8", "X3", "X4"],
          "05": ["N16", "N17", "S11", "S14", "S15", "X5", "X9"],
          "06": ["B1", "B2", "B11", "B12", "B15", "S2", "S20", "X7", "X10"],
          "08": ["N4", "N12", "S6", "S10", "S11", "S12", "S16", "S18", "S19"]}
TESTS = [*(ROOT / "tests").rglob("test_*.py"), *(ROOT / "java" / "src" / "test").rglob("*.java")]
SOURCES = {source.name[:2]: source.read_text(encoding="utf-8") for source in sources(ROOT)}


@pytest.mark.parametrize("notebook, claim", [(notebook, claim) for notebook in SOURCES for claim in CLAIMS[notebook]])
def test_a_claim_is_shown_and_held(notebook, claim):
    assert re.search(rf"claim-{claim}\b", SOURCES[notebook]), f"no cell of notebook {notebook} is tagged claim-{claim}"
    held = [path.name for path in TESTS if path.name != "test_claims.py"
            and re.search(rf"\b{claim}\b", path.read_text(encoding="utf-8"))]
    assert held, f"no test names the claim {claim}"


def test_every_tag_names_a_claim_of_its_notebook():
    for notebook, text in SOURCES.items():
        assert set(re.findall(r"claim-(\w+)", text)) <= {*CLAIMS[notebook], "N9"}
