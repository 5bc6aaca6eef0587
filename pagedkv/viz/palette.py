"""The colours of the block grid, for print. front/colours.js has the same for the screen.

Owners take the hues of Okabe and Ito, which colour-blind people can tell apart, in the order in which they appear; after
six they repeat. The seventh, vermilion, is kept for "look here": the current event, and faults. What a colour cannot
say is said by a mark: a cut corner for a shared block, hatching for a cached one, a split cell for a fault.
"""

HUES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#f0e442"]
ATTENTION = "#d55e00"
FOLLOWED = "#2563eb"
FREE = "#eeeff3"
PAPER = "#ffffff"
INK = "#1f2328"
FAINT_INK = "#656d76"


def hue(owner: int) -> str:
    return HUES[owner % len(HUES)]


def ink_on(colour: str) -> str:
    """Black or white, whichever can be read on this colour."""
    red, green, blue = (int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5))
    return INK if 0.3 * red + 0.59 * green + 0.11 * blue > 0.55 else PAPER


def mixed(colour: str, with_colour: str, share: float) -> str:
    """`share` of the first colour, the rest of the second."""
    parts = [round(share * int(colour[i:i + 2], 16) + (1 - share) * int(with_colour[i:i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{part:02x}" for part in parts)
