"""`KVCacheView`: the blocks of a KV cache, the tables that lead to them, and the prefix tree that finds them again.

    manager = KVCacheManager(num_blocks=64, block_size=4)
    with record(manager) as recording:
        ...
    KVCacheView(recording)          # as the last value of a cell

It is the block grid with other pictures below it, of the same frame. What is pointed at in one is marked in the
others, and a click on a node follows its owner, as a click on a block does. `KVCacheView.live(manager)` shows a manager
at work, or a model that reports the events of its manager:

    with KVCacheView.live(paged, token_text=tokenizer, texts=True):
        paged.generate(prompts, max_new_tokens=40)

With `texts` there is a line for each sequence with its text so far: what was there already when it began, what lies in
shared blocks, its newest token. A sequence that has ended keeps its text.
"""

from pagedkv.core.events import Recording
from pagedkv.core.prefix_tree import PrefixTreeReplay
from pagedkv.viz.grid import BlockGrid
from pagedkv.viz.modules import joined, stylesheet
from pagedkv.viz.plot import still
from pagedkv.viz.texts_plot import TextsPicture
from pagedkv.viz.tokens import TokenText
from pagedkv.viz.tree_plot import TreePicture


class KVCacheView(BlockGrid):
    """The recording of a manager in motion.

    block_size_tokens   how many tokens a block holds; found in the recording otherwise, once a block was cached
    title               stands above it
    token_text          how tokens read: a tokenizer (anything with decode(tokens)), a dict from a token to its text, or
                        a function; their numbers otherwise
    texts               whether to show the text of each sequence; the events have to tell tokens, as a manager's do
    columns             of the grid: cells in a row; chosen by the width otherwise
    frame               how many events are carried out at first. Otherwise it opens at its first fault if there is one,
                        else where sharing saves most blocks

    Traits: those of `BlockGrid`. Raises TypeError for what is no recording, TraitError for a frame that is not there.
    """

    _esm = joined("kv_entry.js")
    _css = stylesheet("grid.css", "prefix_tree.css", "texts.css")

    def __init__(self, recording: Recording, block_size_tokens: int | None = None, title: str = "KV cache",
                 token_text: TokenText = None, columns: int | None = None, frame: int | None = None,
                 texts: bool = False):
        super().__init__(recording, title, block_size_tokens, columns, token_text, texts=texts)
        self._tree = PrefixTreeReplay(recording)
        if frame is None:
            frame = self.tapes[0].sharing_frame()
        self.frame = self.opening = frame

    def still(self):
        """The current frame as a matplotlib picture, with its description in words."""
        tape = self.tapes[0]
        under = [TreePicture(tape, self.frame, self._tree.at(self.frame), self.selected)]
        if tape.texts and tape.tells_contents:
            under.insert(0, TextsPicture(tape, self.frame, self.selected))
        return still(self.tapes, self.frame, self.title, self.selected, self.columns or None, under)
