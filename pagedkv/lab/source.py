"""One source for each notebook: `notebooks/source/NN_name.md`.

The source holds the solved notebook: prose as Markdown, code in {code-cell} fences (MyST). What a learner has to write
stands between two comment lines, in Python or in Java:

    # BEGIN SOLUTION                  // BEGIN SOLUTION
    return blocks[-1]                 count[block]--;
    # END SOLUTION                    // END SOLUTION

In the *learner's* notebook a placeholder stands there instead: `...`, in Java `throw new NotYet();`, or what the first
line names, as in `# BEGIN SOLUTION: answer = ...`. The *solved* notebook has the solution without the two lines. A cell
tagged `exercise-NN.k` belongs to exercise NN.k; its solution is what `solution("NN.k")` shows.
"""

import re
from pathlib import Path

import jupytext
import nbformat

_KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
_REGION = re.compile(r"^(?P<indent>[ \t]*)(?P<comment>#|//) BEGIN SOLUTION(?:: (?P<stub>[^\n]*))?\n"
                     r"(?P<solution>.*?)^[ \t]*(?P=comment) END SOLUTION[ \t]*$", re.DOTALL | re.MULTILINE)
_STUBS = {"#": "...", "//": "throw new NotYet();"}


class SourceError(Exception):
    """A notebook's source is not written as it has to be."""


def read_source(source: Path) -> nbformat.NotebookNode:
    """The notebook as written, without outputs; cells are numbered, so that their ids stay the same."""
    notebook = jupytext.reads(source.read_text(encoding="utf-8"), fmt="md:myst")
    notebook.metadata = nbformat.from_dict({"kernelspec": _KERNEL})
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:03d}"
        cell.source = cell.source.strip("\n")
    return notebook


def learners(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The same notebook with a placeholder for every solution."""
    return _with(notebook, _placeholder)


def solved(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The same notebook with every solution in its place."""
    return _with(notebook, lambda region: region["solution"].rstrip("\n"))


def solution_of(exercise: str, source: Path) -> str | None:
    """The code of the solved cells of an exercise, or None if the notebook has no such exercise."""
    cells = [cell.source for cell in solved(read_source(source)).cells
             if f"exercise-{exercise}" in cell.metadata.get("tags", [])]
    return "\n\n".join(cells) or None


def _with(notebook: nbformat.NotebookNode, replacement) -> nbformat.NotebookNode:
    notebook = nbformat.from_dict(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source = _REGION.sub(replacement, cell.source)
            if "SOLUTION" in cell.source:
                raise SourceError(f"a solution that does not end, or does not begin, in the cell:\n{cell.source}")
    return notebook


def _placeholder(region: re.Match) -> str:
    stub = region["stub"] or _STUBS[region["comment"]]
    return f"{region['indent']}{stub}  {region['comment']} your code here"
