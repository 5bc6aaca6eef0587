"""The picture of figure 2 of the PagedAttention paper (arXiv 2309.06180), from our own measurements."""

from collections.abc import Sequence

from pagedkv.rivals.kv_schemes import ARTICLE_FILLED
from pagedkv.rivals.kv_simulation import KVResult
from pagedkv.viz import palette
from pagedkv.viz.picture import Picture, default_style

# field of Waste, what people call it, colour, hatching
_PARTS = (("filled_bytes", "holds tokens", palette.HUES[2], ""),
          ("reserved_bytes", "reserved: will be filled", palette.HUES[1], ""),
          ("internal_bytes", "internal: never filled", palette.HUES[3], "//"),
          ("external_bytes", "free: given to nobody", palette.FREE, ".."))
_LEAST_LABELLED = 0.04  # a number in a narrower part cannot be read


def plot_waste(results: Sequence[KVResult]) -> Picture:
    """A bar for each scheme, in the four parts of `Waste`; a diamond where the paper measured the share that holds
    tokens, with its own models and requests. Below them the article's two figures, which say nothing about the other
    parts."""
    from matplotlib.figure import Figure
    article = [(f"the article, {name}", share) for name, share in ARTICLE_FILLED.items()]
    with default_style():
        figure = Figure(figsize=(8.6, 0.36 * (len(results) + len(article)) + 1.35), layout="constrained")
        axes = figure.subplots()
        for place, result in enumerate(results):
            _draw_bar(axes, place, result)
        for place, (_, share) in enumerate(article, start=len(results)):
            axes.barh(place, share, 0.5, color=palette.PAPER, edgecolor=palette.FAINT_INK)
            axes.text(0.01, place, f"{share:.0%}", ha="left", va="center", fontsize=8, color=palette.FAINT_INK)
        names = [*(result.title for result in results), *(name for name, _ in article)]
        axes.set_yticks(range(len(names)), names, fontsize=9)
        axes.invert_yaxis()
        axes.set_xlim(0, 1)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"], fontsize=8)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        axes.tick_params(axis="y", length=0)
        _draw_legend(figure, axes)
    in_words = [*map(_in_words, results), *(f"{name}: {share:.0%} holds tokens" for name, share in article)]
    return Picture(figure, "; ".join(in_words))


def _draw_bar(axes, place: int, result: KVResult) -> None:
    start = 0.0
    for field, _, colour, hatch in _PARTS:
        share = getattr(result.waste, field)
        axes.barh(place, share, 0.7, left=start, color=colour, edgecolor=palette.PAPER, hatch=hatch, linewidth=0.5)
        if share >= _LEAST_LABELLED:
            # at the left of the first part, where no diamond is
            where, side = (0.01, "left") if field == "filled_bytes" else (start + share / 2, "center")
            axes.text(where, place, f"{share:.0%}", ha=side, va="center", fontsize=8,
                      color=palette.INK if hatch else palette.ink_on(colour),
                      bbox={"facecolor": colour, "edgecolor": "none", "pad": 1} if hatch else None)
        start += share
    if result.paper_filled is not None:
        axes.plot(result.paper_filled, place, marker="D", markersize=6, color=palette.INK,
                  markeredgecolor=palette.PAPER)


def _draw_legend(figure, axes) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    handles = [Patch(facecolor=colour, hatch=hatch, edgecolor=palette.FAINT_INK, label=name)
               for _, name, colour, hatch in _PARTS]
    handles.append(Line2D([], [], marker="D", linestyle="", color=palette.INK, label="holds tokens, by the paper"))
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=8, frameon=False)


def _in_words(result: KVResult) -> str:
    parts = ", ".join(f"{getattr(result.waste, field):.1%} {name.partition(':')[0]}" for field, name, _, _ in _PARTS)
    paper = f" (the paper: {result.paper_filled:.1%})" if result.paper_filled is not None else ""
    return f"{result.title}: {parts}{paper}"
