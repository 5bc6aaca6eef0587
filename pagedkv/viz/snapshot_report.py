"""A CUDA memory snapshot as one HTML page: findings, the picture over time, other settings, and what the words mean.

The page needs no other file, no network and no Jupyter. Its text stands there without JavaScript; only the picture
needs it. Everything that comes from the snapshot, every file name and function name in a stack, is escaped: who gets a
snapshot by mail may open the report.
"""

from collections.abc import Sequence
from html import escape

from pagedkv.core.memory import as_text
from pagedkv.snapshot.analysis import Analysis, Figures, Finding, figure_lines
from pagedkv.snapshot.errors import HOW_TO_RECORD
from pagedkv.snapshot.history import History, last_events
from pagedkv.snapshot.what_if import Row, refused_text

MARK = '<meta name="generator" content="pagedkv.snapshot">'  # tells a report from any other page
MOST_DRAWN_EVENTS = 100_000
MOST_OWNERS = 15

_WORDS = (
    ("reserved", "what PyTorch has taken from the device with cudaMalloc, in segments; nvidia-smi shows this and the "
                 "CUDA context"),
    ("allocated", "what tensors use of it"),
    ("wholly free", "segments without a tensor; torch.cuda.empty_cache() gives them back"),
    ("inactive split", "free memory in segments that are partly in use; it can serve requests that fit, and cannot be "
                       "given back"),
    ("pending", "freed, but work on another stream may still use it"),
    ("expandable segment", "one range of addresses that grows and shrinks by pages, in place of many segments of fixed "
                           "size"),
    ("refused", "requests that failed: out of memory"),
)


def report(name: str, history: History, analysis: Analysis, rows: Sequence[Row] = ()) -> str:
    """The page. name: what to call the file."""
    title = f"{name} · device {analysis.device}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="origin">{escape(history.recording.source)}</p>',
        summary(analysis.figures),
        findings_section(analysis.findings),
        _picture(history, title),
        what_if_section(rows),
        _owners(analysis),
        remarks_section(analysis.remarks),
        _words(),
        f"<section><h2>How to record a snapshot</h2><pre>{escape(HOW_TO_RECORD)}</pre></section>",
    ]
    return (f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n{MARK}\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(title)}</title>\n<style>{_COMMON_STYLE}{_PAGE_STYLE}</style>\n</head>\n"
            '<body>\n<main class="pk-snapshot">\n'
            + "\n".join(part for part in parts if part) + "\n</main>\n</body>\n</html>\n")


def summary(figures: Figures) -> str:
    """The figures, and a bar of what the reserved memory is made of."""
    parts = [("allocated", "allocated", figures.allocated_bytes), ("pending", "pending", figures.pending_bytes),
             ("split", "inactive split", figures.inactive_split_bytes),
             ("expandable", "free, expandable", figures.expandable_free_bytes),
             ("free", "wholly free", figures.wholly_free_bytes)]
    total = max(1, figures.reserved_bytes)
    shown = [(kind, what, size) for kind, what, size in parts if size]
    bar = "".join(f'<span class="part {kind}" style="width:{100 * size / total:.3f}%"></span>'
                  for kind, _, size in shown)
    legend = "".join(f'<li><span class="swatch {kind}"></span>{what} {as_text(size)} ({size / total:.1%})</li>'
                     for kind, what, size in shown)
    described = escape(", ".join(f"{what} {as_text(size)}" for _, what, size in shown))
    lines = "".join(f"<li>{escape(line)}</li>" for line in figure_lines(figures))
    drawn = (f'<div class="bar" role="img" aria-label="Of the reserved memory: {described}">{bar}</div>'
             f'<ul class="legend">{legend}</ul>') if shown else ""
    return f'<section class="summary">{drawn}<ul class="figures">{lines}</ul></section>'


def findings_section(findings: Sequence[Finding]) -> str:
    if not findings:
        return ("<section><h2>Findings</h2><p>Nothing stands out: what is reserved is in use, or too little to "
                "matter.</p></section>")
    return _section("Findings", f'<ol class="findings">{"".join(map(_finding, findings))}</ol>')


def _finding(finding: Finding) -> str:
    evidence = "".join(f'<li class="{"deeper" if line.startswith(" ") else ""}">{escape(line.strip())}</li>'
                       for line in finding.evidence)
    advice = "".join(f"<li>{escape(line)}</li>" for line in finding.advice)
    return (f'<li class="{"alarm" if finding.kind == "out of memory" else ""}">'
            f'<p class="kind">{escape(finding.kind)} · {as_text(finding.stake_bytes)}</p>'
            f"<p><b>{escape(finding.title)}</b></p>"
            + (f"<ul>{evidence}</ul>" if evidence else "")
            + (f'<p class="try">What to try</p><ul>{advice}</ul>' if advice else "") + "</li>")


def what_if_section(rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    body = "".join(_row((row.title, as_text(row.start_bytes), as_text(row.peak_bytes), as_text(row.end_bytes),
                         f"{row.device_calls:,}", refused_text(row)), "base" if row.baseline else "") for row in rows)
    return _section("The same requests, other settings", _table(
        ("", "reserved at first", "peak", "at the end", "device calls", "refused"), body) + f"<p>{_ABOUT_ROWS}</p>")


_ABOUT_ROWS = (
    "Simulated. The first rows show how near the simulator is to the recording; those that begin afresh have not "
    "cached free segments before the trace. For a paged pool the figures are the blocks in use. “?”: the file does not "
    "tell how much the device had, so nothing can run out.")


def remarks_section(remarks: Sequence[str]) -> str:
    if not remarks:
        return ""
    return _section("About this file", f'<ul>{"".join(f"<li>{escape(remark)}</li>" for remark in remarks)}</ul>')


def opening_frame(history: History) -> int:
    """Where to look first: the failed request, or the moment when most was in use."""
    return history.refusals[-1].index + 1 if history.refusals else history.peak_used.frame


def _picture(history: History, title: str) -> str:
    from pagedkv.viz.memory_embed import embedded
    from pagedkv.viz.memory_tape import MemoryTape

    recording = last_events(history.recording, MOST_DRAWN_EVENTS)
    skipped = len(history.recording) - len(recording)
    note = f"<p>The picture begins {skipped:,} events after the trace does.</p>" if skipped else ""
    frame = max(0, opening_frame(history) - skipped)
    tape = MemoryTape(recording, history.recording.source)
    without = "<noscript><p>The picture needs JavaScript; the text does not.</p></noscript>"
    return _section("The memory over time", without + note + embedded([tape], title, frame))


def _owners(analysis: Analysis) -> str:
    if not analysis.owners:
        return ""
    rows = [(owner.name, owner.allocated_bytes, owner.num_blocks) for owner in analysis.owners[:MOST_OWNERS]]
    rest = analysis.owners[MOST_OWNERS:]
    if rest:
        rows.append((f"{len(rest):,} others", sum(owner.allocated_bytes for owner in rest),
                     sum(owner.num_blocks for owner in rest)))
    body = "".join(_row((name, as_text(size), f"{number:,}")) for name, size, number in rows)
    return _section("Who has the memory at the end", _table(("", "allocated", "blocks"), body))


def _words() -> str:
    words = "".join(f"<dt>{word}</dt><dd>{escape(meaning)}</dd>" for word, meaning in _WORDS)
    return _section("What the words mean", f"<dl>{words}</dl>")


def _section(heading: str, content: str) -> str:
    return f"<section><h2>{heading}</h2>{content}</section>"


def _table(heads: Sequence[str], body: str) -> str:
    head = "".join(f"<th>{each}</th>" for each in heads)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _row(cells: Sequence[str], kind: str = "") -> str:
    first, *others = cells
    return (f'<tr class="{kind}"><th scope="row">{escape(first)}</th>'
            + "".join(f"<td>{escape(each)}</td>" for each in others) + "</tr>")


# What the page and a notebook's cell have in common. Jupyter's theme sets the variables named --jp-…, from which the
# picture takes its colours as well; on the page they are set below.
_COMMON_STYLE = """
.pk-snapshot { --band: var(--jp-layout-color2, #f6f8fa); --ink: var(--jp-ui-font-color1, #1f2328);
  --faint: var(--jp-ui-font-color2, #59636e); --line: var(--jp-border-color2, #d8dee4);
  --accent: var(--jp-brand-color1, #2563eb);
  --alarm: #d55e00; --allocated: #0072b2; --pending: #e69f00; --split: #d55e00; --expandable: #cc79a7; --free: #9aa4b0;
  max-width: 1180px; color: var(--ink); font: 15px/1.5 var(--jp-ui-font-family, system-ui, sans-serif); }
.pk-snapshot h2 { font-size: 17px; margin: 30px 0 8px; }
.pk-snapshot .bar { display: flex; height: 26px; border-radius: 6px; overflow: hidden; background: var(--band); }
.pk-snapshot .part { display: block; height: 100%; }
.pk-snapshot .allocated { background: var(--allocated); } .pk-snapshot .pending { background: var(--pending); }
.pk-snapshot .split { background: var(--split); } .pk-snapshot .expandable { background: var(--expandable); }
.pk-snapshot .free { background: var(--free); }
.pk-snapshot .legend { display: flex; flex-wrap: wrap; gap: 2px 18px; list-style: none; padding: 0; margin: 8px 0;
  font-size: 13px; }
.pk-snapshot .swatch { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 6px; }
.pk-snapshot .figures { margin: 8px 0; padding-left: 20px; color: var(--faint); font-size: 14px; }
.pk-snapshot .findings { padding-left: 22px; }
.pk-snapshot .findings > li { margin: 0 0 14px; padding: 10px 14px; border: 1px solid var(--line);
  border-left: 4px solid var(--accent); border-radius: 6px; }
.pk-snapshot .findings > li.alarm { border-left-color: var(--alarm); }
.pk-snapshot .findings p { margin: 0 0 4px; } .pk-snapshot .findings ul { margin: 2px 0 6px; padding-left: 20px; }
.pk-snapshot .findings li, .pk-snapshot .findings b { overflow-wrap: anywhere; }
.pk-snapshot .findings .kind, .pk-snapshot .findings .try { color: var(--faint); font-size: 13px; }
.pk-snapshot .findings .try { margin-top: 6px; }
.pk-snapshot .deeper { margin-left: 18px; list-style: circle; color: var(--faint); }
.pk-snapshot .wide { overflow-x: auto; }
.pk-snapshot table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 14px; }
.pk-snapshot th, .pk-snapshot td { padding: 4px 12px; border-bottom: 1px solid var(--line); text-align: right;
  white-space: nowrap; }
.pk-snapshot th[scope=row] { text-align: left; font-weight: normal; white-space: normal; overflow-wrap: anywhere; }
.pk-snapshot thead th { color: var(--faint); font-weight: normal; }
.pk-snapshot tr.base { background: var(--band); }
"""
NOTEBOOK_STYLE = f"<style>{_COMMON_STYLE}</style>"

_PAGE_STYLE = """
:root { color-scheme: light dark; --jp-layout-color1: #ffffff; --jp-layout-color2: #f6f8fa;
  --jp-ui-font-color1: #1f2328; --jp-ui-font-color2: #59636e; --jp-border-color2: #d8dee4; --jp-brand-color1: #2563eb; }
@media (prefers-color-scheme: dark) {
  :root { --jp-layout-color1: #111418; --jp-layout-color2: #1b2027; --jp-ui-font-color1: #e6e9ed;
    --jp-ui-font-color2: #9aa4b0; --jp-border-color2: #30363d; --jp-brand-color1: #7aa7ff; }
  main.pk-snapshot { --alarm: #ff9c5a; --allocated: #56b4e9; --free: #5b6570; } }
body { margin: 0; background: var(--jp-layout-color1); }
main { margin: 0 auto; padding: 20px 16px 60px; }
h1 { font-size: 22px; margin: 0; overflow-wrap: anywhere; }
.origin { margin: 2px 0 14px; color: var(--faint); }
dt { font-weight: 600; margin-top: 6px; } dd { margin: 0 0 0 18px; color: var(--faint); }
pre { padding: 10px 14px; background: var(--band); border-radius: 6px; overflow-x: auto; font-size: 13px; }
code { font-size: 90%; }
"""
