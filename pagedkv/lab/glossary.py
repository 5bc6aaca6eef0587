"""`glossary`: one idea, and what it is called in English, in Chinese, in Netty and in the JVM.

    glossary()           all terms
    glossary("block")    those in which a word begins so

The terms are in `glossary.json`, sorted. Each notebook adds those that it uses first.
"""

import difflib
import json
import re
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from textwrap import fill

_HEAD = ("term", "Chinese", "in Netty", "in the JVM", "meaning")


@dataclass(frozen=True)
class Term:
    """term and meaning in English, the field's Chinese term; Netty's and the JVM's word for it, empty where there is
    none."""

    term: str
    chinese: str
    netty: str
    jvm: str
    meaning: str

    @property
    def columns(self) -> tuple[str, ...]:
        return self.term, self.chinese, self.netty, self.jvm, self.meaning

    def __str__(self) -> str:
        names = [f"Netty: {self.netty}"] * bool(self.netty) + [f"JVM: {self.jvm}"] * bool(self.jvm)
        lines = [f"{self.term}  {self.chinese}", *names, *fill(self.meaning, 100).splitlines()]
        return "\n    ".join(lines)


@dataclass(frozen=True)
class Glossary:
    """Some terms, to be shown as a cell's last value; `remark` says why there are none."""

    terms: tuple[Term, ...]
    remark: str = ""

    def __repr__(self) -> str:
        return "\n".join(map(str, self.terms)) or self.remark

    def _repr_html_(self) -> str:
        if not self.terms:
            return f"<p>{escape(self.remark)}</p>"
        head = "".join(f'<th style="text-align: left">{title}</th>' for title in _HEAD)
        rows = "".join(f"<tr>{''.join(map(_cell, term.columns))}</tr>" for term in self.terms)
        return ('<div style="max-height: 32em; overflow: auto">'
                f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>")


def glossary(word: str = "") -> Glossary:
    """The terms in which a word of any column begins with `word`, in whatever case; without a word all of them."""
    wanted = _plain(str(word))
    found = tuple(term for term in all_terms() if any(wanted in _plain(text) for text in term.columns))
    return Glossary(found, "" if found else _remark(str(word)))


def _plain(text: str) -> str:
    """For comparing: lower case, a space before every word. Chinese has no spaces, and is found anywhere."""
    words = re.sub(r"[^\w\u4e00-\u9fff]+", " ", text.casefold()).strip()
    return re.sub(r"([\u4e00-\u9fff])", r" \1", f" {words}" if words else "")


@cache
def all_terms() -> tuple[Term, ...]:
    text = Path(__file__).with_name("glossary.json").read_text(encoding="utf-8")
    return tuple(Term(**entry) for entry in json.loads(text))


def _remark(word: str) -> str:
    near = difflib.get_close_matches(word.strip().casefold(), [term.term.casefold() for term in all_terms()], n=3)
    advice = f"Did you mean {' or '.join(near)}?" if near else f"glossary() shows all {len(all_terms())} terms."
    return f"Nothing here about {word!r}. {advice}"


def _cell(text: str) -> str:
    return f'<td style="text-align: left; vertical-align: top">{escape(text)}</td>'
