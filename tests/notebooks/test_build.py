"""The stored notebooks are what their sources give, byte for byte."""

import json

import pytest
from nbclient.exceptions import CellExecutionError

from pagedkv.java.build import checkout
from pagedkv.lab.build import build, main, sources, target_of

SOURCES = sources(checkout())


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_building_again_changes_nothing(source, tmp_path):
    build(source, tmp_path / "again.ipynb")
    assert (tmp_path / "again.ipynb").read_text(encoding="utf-8") == target_of(source).read_text(encoding="utf-8")


def test_every_notebook_has_a_source():
    assert {target_of(source) for source in SOURCES} == set((checkout() / "notebooks").glob("*.ipynb"))


def test_a_notebook_that_fails_is_not_stored(tmp_path):
    (tmp_path / "bad.md").write_text("# Bad\n\n```{code-cell} ipython3\n1 / 0\n```\n")
    target = tmp_path / "bad.ipynb"
    target.write_text("as it was")
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        build(tmp_path / "bad.md", target)
    assert target.read_text() == "as it was"


def test_what_differs_between_runs_is_left_out(tmp_path):
    (tmp_path / "widget.md").write_text(
        "```{code-cell} ipython3\nimport ipywidgets\nipywidgets.IntSlider()\n```\n\nText.\n")
    for name in ("first", "second"):
        build(tmp_path / "widget.md", tmp_path / f"{name}.ipynb")
    text = (tmp_path / "first.ipynb").read_text()
    assert text == (tmp_path / "second.ipynb").read_text()
    notebook = json.loads(text)
    assert [cell["id"] for cell in notebook["cells"]] == ["cell-000", "cell-001"]
    assert "widget-view" in text and "language_info" not in text and "execution_count\": 1" in text


def test_an_unknown_number_is_an_error(capsys):
    assert main(["77"]) == 1
    assert "no notebook 77" in capsys.readouterr().err
