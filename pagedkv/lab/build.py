"""Build the notebooks from their sources: `python -m pagedkv.lab.build [NN …]`.

A notebook is written as `notebooks/source/NN_name.md`: prose as Markdown, code in {code-cell} fences (MyST). Building
runs it from top to bottom in a fresh kernel and stores the outputs in `notebooks/NN_name.ipynb`, which is what a
learner opens. What differs from one run to the next and means nothing (execution times, widget ids, the kernel's
version) is left out, so that building again without a change gives the same file, byte for byte.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

from pagedkv.java.build import checkout

_CELL_SECONDS = 300
_KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def build(source: Path, target: Path) -> None:
    """Run the notebook written in `source` and store it in `target`. Raises CellExecutionError, and leaves `target`
    as it was, if a cell fails that is not tagged `raises-exception`."""
    notebook = read_source(source)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=_CELL_SECONDS, record_timing=False, store_widget_state=False,
                       resources={"metadata": {"path": folder}}).execute()
    target.write_text(nbformat.writes(normalise(notebook)) + "\n", encoding="utf-8")


def read_source(source: Path) -> nbformat.NotebookNode:
    """The notebook without outputs; its cells are numbered, so that their ids stay the same."""
    notebook = jupytext.reads(source.read_text(encoding="utf-8"), fmt="md:myst")
    notebook.metadata = nbformat.from_dict({"kernelspec": _KERNEL})
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:03d}"
        cell.source = cell.source.strip("\n")
    return notebook


def normalise(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Take out what differs between two runs although nothing has changed."""
    notebook.metadata.pop("language_info", None)
    notebook.metadata.pop("widgets", None)
    models: dict[str, str] = {}
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", []):
            view = output.get("data", {}).get("application/vnd.jupyter.widget-view+json")
            if view:
                view["model_id"] = models.setdefault(view["model_id"], f"{len(models):032x}")
    nbformat.validate(notebook)
    return notebook


def sources(root: Path) -> list[Path]:
    return sorted((root / "notebooks" / "source").glob("*.md"))


def target_of(source: Path) -> Path:
    return source.parents[1] / f"{source.stem}.ipynb"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m pagedkv.lab.build", description=__doc__.split("\n")[0])
    parser.add_argument("numbers", nargs="*", metavar="NN", help="only these notebooks")
    numbers = parser.parse_args(argv).numbers
    chosen = [source for source in sources(checkout()) if not numbers or source.name[:2] in numbers]
    unknown = set(numbers) - {source.name[:2] for source in chosen}
    if unknown:
        print(f"there is no notebook {', '.join(sorted(unknown))} in notebooks/source", file=sys.stderr)
        return 1
    for source in chosen:
        print(f"{source.name} → {target_of(source).name}", flush=True)
        build(source, target_of(source))
    return 0


if __name__ == "__main__":
    sys.exit(main())
