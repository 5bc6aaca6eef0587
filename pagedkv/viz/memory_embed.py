"""The memory view as a fragment of HTML: for a report that is opened as a file, without Jupyter and without a network.

Everything is in the fragment: the front end's modules as one inline script, the stylesheets, and the tapes as JSON with
the columns in base64. Names that anybody may have chosen stand only in the JSON, where no `<` is left to end it.
"""

import base64
import json
from collections.abc import Sequence
from html import escape

from pagedkv.viz.memory_tape import MemoryTape
from pagedkv.viz.modules import joined, stylesheet
from pagedkv.viz.speeds import fitting_speed


def embedded(tapes: Sequence[MemoryTape], title: str, frame: int = 0) -> str:
    """The view of these tapes, in step, opened at `frame`. A page may hold several. Raises TypeError without a tape,
    IndexError for a frame that none of them has."""
    if not tapes:
        raise TypeError("there is nothing to show: give at least one tape")
    last = max(len(tape) for tape in tapes)
    if not 0 <= frame <= last:
        raise IndexError(f"there is no frame {frame}: they go from 0 to {last}")
    state = {"tapes": [_as_json(tape.message()) for tape in tapes], "title": title, "frame": frame,
             "speed": fitting_speed(last)}
    data = json.dumps(state, ensure_ascii=True).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return (f'<div class="pk-embedded" role="region" aria-label="{escape(title)}">\n'
            f'<script type="application/json">{data}</script>\n'
            f"<style>{stylesheet('grid.css', 'memory.css')}</style>\n"
            f"<noscript>This picture is drawn by a script in the page, and scripts are turned off.</noscript>\n</div>\n"
            f'<script type="module">\n{joined("memory_page.js")}\nshowEmbedded();\n</script>\n')


def _as_json(message: dict) -> dict:
    packed = [name for name, value in message.items() if isinstance(value, bytes)]
    return message | {name: base64.b64encode(message[name]).decode("ascii") for name in packed} | {"packed": packed}
