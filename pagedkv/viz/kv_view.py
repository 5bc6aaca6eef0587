"""`KVCacheView`: the blocks of a KV cache, the tables that lead to them, and the prefix tree that finds them again.

    manager = KVCacheManager(num_blocks=64, block_size=4)
    with record(manager) as recording:
        ...
    KVCacheView(recording)          # as the last value of a cell

It is the block grid with a second picture below it, of the same frame. What is pointed at in one is marked in the
other, and a click on a node follows its owner, as a click on a block does. With `KVCacheView.live(manager)` it shows a
manager at work.
"""

from pagedkv.core.events import Recording
from pagedkv.core.prefix_tree import PrefixTreeReplay
from pagedkv.viz.grid import BlockGrid
from pagedkv.viz.modules import joined, stylesheet
from pagedkv.viz.plot import still
from pagedkv.viz.tokens import TokenText
from pagedkv.viz.tree_plot import TreePicture


class KVCacheView(BlockGrid):
    """The recording of a manager in motion.

    block_size_tokens   how many tokens a block holds; found in the recording otherwise, once a block was cached
    title               stands above it
    token_text          how tokens read: a dict from a token to its text, or a function; their numbers otherwise
    columns             of the grid: cells in a row; chosen by the width otherwise
    frame               how many events are carried out at first. Otherwise it opens at its first fault if there is one,
                        else where sharing saves most blocks

    Traits: those of `BlockGrid`. Raises TypeError for what is no recording, TraitError for a frame that is not there.
    """

    _esm = joined("kv_entry.js")
    _css = stylesheet("grid.css", "prefix_tree.css")

    def __init__(self, recording: Recording, block_size_tokens: int | None = None, title: str = "KV cache",
                 token_text: TokenText = None, columns: int | None = None, frame: int | None = None):
        super().__init__(recording, title, block_size_tokens, columns, token_text)
        self._tree = PrefixTreeReplay(recording)
        if frame is None:
            frame = self.tapes[0].sharing_frame()
        self.frame = self.opening = frame

    def still(self):
        """The current frame as a matplotlib picture, with its description in words."""
        tape = self.tapes[0]
        return still(self.tapes, self.frame, self.title, self.selected, self.columns or None,
                     under=TreePicture(tape, self.frame, self._tree.at(self.frame), self.selected))
