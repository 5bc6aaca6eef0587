"""The mapping table Netty ↔ KV cache, as something to press: each row runs both of its sides.

    mapping_table()             the table, with a button for each pair
    print(run_row("duplicate")) one pair, without a widget

The pairs are in `pagedkv.lab.mapping_rows`. Where no widget can run, the table is shown without its buttons.
"""

from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from textwrap import fill

import anywidget
import traitlets
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import JavaLexer, PythonLexer

from pagedkv.lab.mapping_rows import ROWS, Row
from pagedkv.lab.snippets import Ran, run_java, run_python

_HERE = Path(__file__).parent
_HEAD = ("In Netty", "In a KV cache", "Does the pair hold?", "Why")
_LEFT = 'style="text-align: left; vertical-align: top"'


@dataclass(frozen=True)
class RowRun:
    """What came of running both sides of a pair."""

    row: Row
    java: Ran
    python: Ran

    def __str__(self) -> str:
        return "\n\n".join([_heading(self.row), _side("Netty, in Java", self.java), _side("Our pool, in Python", self.python)])

    __repr__ = __str__


def run_row(key: str) -> RowRun:
    """Run both sides of the pair called `key`, or of which one side is called so. An error of a side is part of the
    result. Raises ValueError, which names all keys, if there is no such pair."""
    row = _row(key)
    return RowRun(row, run_java(row.java), run_python(row.python))


def mapping_table() -> "MappingTable":
    """The table with its buttons: to show it, let it be the last line of a cell."""
    return MappingTable()


class MappingTable(anywidget.AnyWidget):
    """The widget. `run(key)` does what the button of a row does.

    runs  key → what the two sides printed, for the rows that have been run
    """

    _esm = _HERE / "mapping.js"
    _css = _HERE / "mapping.css"
    rows = traitlets.List().tag(sync=True)
    runs = traitlets.Dict().tag(sync=True)

    def __init__(self):
        super().__init__(rows=[_without_code(row) for row in ROWS])
        self.on_msg(self._pressed)

    def run(self, key: str) -> RowRun:
        """Run a row and show what both sides printed."""
        run = run_row(key)
        times = self.runs.get(key, {}).get("times", 0) + 1
        self.runs = {**self.runs, key: {"java": _shown(run.java, JavaLexer()), "python": _shown(run.python, PythonLexer()),
                                        "times": times}}
        return run

    def _pressed(self, widget, content, buffers) -> None:
        if isinstance(content, dict) and content.get("run") in _KEYS:
            self.run(content["run"])

    def __repr__(self) -> str:
        return "\n\n".join(map(_heading, ROWS))

    def _repr_mimebundle_(self, **kwargs):
        data, metadata = super()._repr_mimebundle_(**kwargs)
        return {**data, "text/plain": repr(self), "text/html": _html()}, metadata


_KEYS = {row.key: row for row in ROWS}


def _row(key: str) -> Row:
    wanted = str(key).strip().casefold()
    for row in ROWS:
        if wanted in (row.key, row.netty.casefold(), row.kv.casefold()):
            return row
    raise ValueError(f"there is no pair {key!r}; there are {', '.join(_KEYS)}")


def _heading(row: Row) -> str:
    return f"{row.netty}  ↔  {row.kv}:  {row.verdict}\n{fill(row.why, 100, initial_indent='    ', subsequent_indent='    ')}"


def _side(title: str, ran: Ran) -> str:
    code = "\n".join(f"    {line}".rstrip() for line in ran.code.strip().splitlines())
    printed = "\n".join(f"  > {line}" for line in str(ran).splitlines())
    return f"{title}\n{code}\n{printed}"


def _without_code(row: Row) -> dict:
    return {name: value for name, value in asdict(row).items() if name not in ("java", "python")}


def _shown(ran: Ran, lexer) -> dict:
    """For the browser: the code as HTML, with the classes of Pygments; output and error as text."""
    return {"code": highlight(ran.code.strip(), lexer, HtmlFormatter(nowrap=True)), "output": ran.output,
            "error": ran.error}


def _html() -> str:
    head = "".join(f"<th {_LEFT}>{title}</th>" for title in _HEAD)
    rows = "".join(
        "<tr>" + "".join(f"<td {_LEFT}>{cell}</td>" for cell in (
            f"<code>{escape(row.netty)}</code>", escape(row.kv), f"<b>{row.verdict}</b>", escape(row.why))) + "</tr>"
        for row in ROWS)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
