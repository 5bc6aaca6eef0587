"""Build the notebooks from their sources: `python -m pagedkv.lab.build [NN …]`.

Each source (see `pagedkv.lab.source`) gives two notebooks: `notebooks/NN_name.ipynb`, which learners open, and
`notebooks/solved/NN_name.ipynb`. Building runs both from top to bottom in fresh kernels and stores the outputs. What
differs from one run to the next and means nothing (execution times, widget views, the kernel's version) is left out, so
that building again without a change gives the same files, byte for byte. A cell tagged `measured` keeps the output that
is stored, which names the machine it was measured on, until `--measure` asks for a new one.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from pagedkv.java.build import checkout
from pagedkv.lab.source import learners, read_source, solved

_CELL_SECONDS = 300


def build(source: Path, folder: Path, measure: bool = False) -> None:
    """Run both notebooks of `source` and store them in `folder` and `folder/solved`.

    measure: store the new outputs of cells tagged `measured` too. Raises CellExecutionError, and stores neither, if a cell fails that is not tagged `raises-exception`.
    """
    notebooks = {target: _run(variant(read_source(source))) for target, variant in targets(source, folder).items()}
    for target, notebook in notebooks.items():
        if not measure and target.exists():
            _keep_measurements(notebook, nbformat.read(target, as_version=4))
        target.parent.mkdir(exist_ok=True)
        target.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")


def targets(source: Path, folder: Path) -> dict[Path, Callable]:
    """Where the notebooks of `source` go, and what makes each from the source."""
    name = f"{source.stem}.ipynb"
    return {folder / name: learners, folder / "solved" / name: solved}


def sources(root: Path) -> list[Path]:
    return sorted((root / "notebooks" / "source").glob("*.md"))


def _run(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    with tempfile.TemporaryDirectory() as folder:
        # Whatever the one who builds has solved or configured must not show.
        environ = {**os.environ, "PAGEDKV_PROGRESS": str(Path(folder, "progress.json")), "IPYTHONDIR": folder}
        client = NotebookClient(notebook, timeout=_CELL_SECONDS, record_timing=False, store_widget_state=False,
                                coalesce_streams=True,  # how a text was cut on its way here is chance
                                resources={"metadata": {"path": folder}})
        client.execute(env=environ)
    return normalise(notebook)


def _keep_measurements(notebook: nbformat.NotebookNode, stored: nbformat.NotebookNode) -> None:
    """Give the `measured` cells the outputs that are stored for them, if their source is still the same."""
    outputs = {cell.source: cell.outputs for cell in stored.cells if _is_measured(cell)}
    for cell in notebook.cells:
        if _is_measured(cell) and cell.source in outputs:
            cell.outputs = outputs[cell.source]


def _is_measured(cell: nbformat.NotebookNode) -> bool:
    return cell.cell_type == "code" and "measured" in cell.metadata.get("tags", [])


def normalise(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Take out what differs between two runs although nothing has changed."""
    notebook.metadata.pop("language_info", None)
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", []):
            # A view without its kernel is an error message; without the view, the still picture beside it is shown.
            output.get("data", {}).pop("application/vnd.jupyter.widget-view+json", None)
    nbformat.validate(notebook)
    return notebook


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m pagedkv.lab.build", description=__doc__.split("\n")[0])
    parser.add_argument("numbers", nargs="*", metavar="NN", help="only these notebooks")
    parser.add_argument("--measure", action="store_true", help="renew the outputs of cells tagged `measured`")
    arguments = parser.parse_args(argv)
    numbers = arguments.numbers
    root = checkout()
    chosen = [source for source in sources(root) if not numbers or source.name[:2] in numbers]
    unknown = set(numbers) - {source.name[:2] for source in chosen}
    if unknown:
        print(f"there is no notebook {', '.join(sorted(unknown))} in notebooks/source", file=sys.stderr)
        return 1
    for source in chosen:
        print(f"building {source.name}", flush=True)
        build(source, root / "notebooks", arguments.measure)
    return 0


if __name__ == "__main__":
    sys.exit(main())
