"""The front end's modules as the one module that anywidget wants.

The front end is written as ES modules, which Node's tests and any plain page import as they are. anywidget, however,
hands the browser one piece of text, loaded from a blob, where a relative import leads nowhere, and addresses of a server
or a CDN are nothing to rely on (JupyterLab behind a proxy, a class without a network). So the modules are put one after
the other, each after those it imports, without their import lines and the word `export`. That takes a few lines and no
bundler; it asks that no two modules use the same name at the top level, which a test holds.
"""

import re
from functools import cache
from pathlib import Path

FRONT = Path(__file__).with_name("front")
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./(\w+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?!default\b)", re.MULTILINE)


@cache
def joined(entry: str = "widget.js") -> str:
    """The text of `entry` and of all it imports, as one module that exports what `entry` exports by default."""
    texts: dict[str, str] = {}

    def add(name: str) -> None:
        if name in texts:
            return
        text = (FRONT / name).read_text(encoding="utf-8")
        for imported in _IMPORT.findall(text):
            add(imported)
        texts[name] = f"// ── {name}\n" + _EXPORT.sub("", _IMPORT.sub("", text))

    add(entry)
    return "\n".join(texts.values())


@cache
def stylesheet(*names: str) -> str:
    """These stylesheets as one; the block grid's without a name."""
    return "\n".join((FRONT / name).read_text(encoding="utf-8") for name in names or ("grid.css",))
