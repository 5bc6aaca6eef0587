"""What all pictures for print have in common.

Pictures are the same bytes on every run: fixed size, the default style, no pyplot (it keeps global state, and is not
safe on the thread that runs a widget's observers), no time stamp.
"""

import base64
import io
from contextlib import contextmanager
from functools import cache

from pagedkv.viz import palette

_DPI = 110
_MOST_SHADES = 20_000  # more is a photograph
_KEPT_SETTINGS = {"backend", "backend_fallback", "interactive", "toolbar", "timezone", "datapath"}


class Picture:
    """A figure with its description in words. As the last value of a cell it shows as PNG.

    figure, alt   may be used, saved and changed like any matplotlib figure
    """

    def __init__(self, figure, alt: str):
        self.figure, self.alt = figure, alt

    def __repr__(self) -> str:
        return self.alt

    def png(self) -> bytes:
        data = io.BytesIO()
        with default_style():
            # Without "Software" no version of matplotlib stands in the file.
            self.figure.savefig(data, format="png", dpi=_DPI, metadata={"Software": None})
        return _with_few_colours(data.getvalue())

    def _repr_mimebundle_(self, **kwargs) -> tuple[dict, dict]:
        return ({"text/plain": self.alt, "image/png": base64.b64encode(self.png()).decode()},
                {"image/png": {"alt": self.alt}})


@contextmanager
def default_style():
    """Whatever the notebook has set up for its own figures does not change these."""
    import matplotlib
    with matplotlib.rc_context():
        matplotlib.rcParams.update({key: value for key, value in matplotlib.rcParamsDefault.items()
                                    if key not in _KEPT_SETTINGS})
        matplotlib.rcParams["hatch.linewidth"] = 0.8
        matplotlib.rcParams["text.parse_math"] = False  # an owner may be called $x$
        yield


def shortened(text: str, most: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[:most - 1] + "…"


def drawable(text: str) -> str:
    """The text with "□" for what the font of these pictures cannot draw; matplotlib would warn on every run."""
    if text.isascii():
        return text
    letters = _letters()
    return "".join(letter if ord(letter) in letters else "□" for letter in text)


@cache
def _letters() -> frozenset[int]:
    from matplotlib.font_manager import FontProperties, findfont, get_font
    with default_style():
        fonts = [set(get_font(findfont(FontProperties(family=[family]))).get_charmap())
                 for family in ("monospace", "sans-serif")]
    return frozenset(fonts[0] & fonts[1])


def _with_few_colours(png: bytes) -> bytes:
    """The picture with a palette of the 256 commonest colours. The others are shades at the edges of shapes; without
    them the file, which goes into a notebook and its history, is a third as large."""
    import numpy
    from PIL import Image
    pixels = numpy.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(numpy.int32)
    numbers = pixels[..., 0] << 16 | pixels[..., 1] << 8 | pixels[..., 2]
    colours, where, counts = numpy.unique(numbers, return_inverse=True, return_counts=True)
    if len(colours) > _MOST_SHADES:
        return png
    kept = colours[numpy.argsort(-counts, kind="stable")[:256]]
    parts = [numpy.stack([each >> 16, each >> 8 & 255, each & 255], axis=-1) for each in (colours, kept)]
    nearest = ((parts[0][:, None] - parts[1][None]) ** 2).sum(axis=-1).argmin(axis=1).astype(numpy.uint8)
    picture = Image.fromarray(nearest[where.reshape(numbers.shape)], "P")
    picture.putpalette(parts[1].astype(numpy.uint8).tobytes())
    data = io.BytesIO()
    picture.save(data, "PNG", optimize=True)
    return data.getvalue()


def label_events(ax, num_events: int, end: str) -> None:
    """A timeline's axis, of which every frame has a slot: 0 at the left, `end` at the right, and nothing else."""
    ax.set_yticks([])
    ax.set_xticks([0, num_events + 1] if num_events else [0])
    ax.set_xticklabels(["0", end] if num_events else ["0"])
    ax.tick_params(labelsize=7, colors=palette.FAINT_INK, length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)
    first, last = ax.get_xticklabels()[0], ax.get_xticklabels()[-1]
    first.set_horizontalalignment("left")
    if num_events:
        last.set_horizontalalignment("right")
