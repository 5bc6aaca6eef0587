"""A cell's outputs as a notebook's file has them, from wherever they come."""

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

from pagedkv.lab.build import normalise


def outputs_as_stored(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Without what building a notebook leaves out, and without the count, which nbval does not let the kernel keep."""
    cell = new_code_cell(outputs=[NotebookNode(output) for output in outputs])
    [cell] = normalise(new_notebook(cells=[cell])).cells
    return [{name: value for name, value in output.items() if name != "execution_count"} for output in cell.outputs]
