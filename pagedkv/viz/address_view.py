"""`AddressView`: the way of a token from its position to its slot in the pool, step by step, each to be guessed first.

    AddressView([9, 4, 7], block_size=16, position=37)      # as the last value of a cell
    AddressView([9, 4, 7], position=37).revealed()          # the whole way as a picture

The words are those of `pagedkv.core.block_table`: position, logical block, offset, physical block, slot. A position
below 0 is refused there; here it is shown what Python and Java would read if nobody refused it. Where no widget can
run, a picture of the current step is shown instead.
"""

from collections.abc import Sequence

import traitlets

from pagedkv.core.arguments import as_block_ids, as_count, as_integer, as_ints
from pagedkv.core.block_table import as_block_size, num_blocks_for
from pagedkv.viz.address_plot import NUM_STEPS, Address, address_words, still_address
from pagedkv.viz.modules import joined, stylesheet
from pagedkv.viz.picture import Picture
from pagedkv.viz.pictured import Pictured
from pagedkv.viz.words import count

_POOL_MULTIPLE = 4  # a pool nobody gave the size of: up to the next multiple, so that it has other blocks too


class AddressView(Pictured):
    """One position's way to its slot.

    block_table  a sequence's physical blocks, by logical block
    block_size   tokens in a block
    position     the token's; settable, follows the browser. Another one starts again at step 0. From 0 to
                 num_tokens - 1, and down to -block_size * len(block_table), for a look at what is refused
    num_blocks   of the pool; by default a few more than the largest id of the table
    num_tokens   of the sequence; by default as many as `tokens`, or as the table's blocks hold
    tokens       their texts, or anything else that names them, one for each
    title        asks for the position by default
    step         how many of the steps are shown: 0 the position alone, 1 the logical block, 2 the offset, 3 the table's
                 entry, 4 the slot
    guesses      those at this position, in order: {"step": 1, "value": 5, "right": False}

    Raises IndexError for a position that is not in the sequence, NotABlock for an entry outside the pool, TypeError and
    ValueError for other arguments that cannot be.
    """

    _esm = joined("address_widget.js")
    _css = stylesheet("grid.css", "address.css")

    # What the page needs to work it out itself. It never comes back.
    setting = traitlets.Dict().tag(sync=True, from_json=lambda value, widget: widget.setting)
    title = traitlets.Unicode().tag(sync=True)
    position = traitlets.Int(0, help="of the token, or below 0").tag(sync=True)
    step = traitlets.Int(0, help="how many steps are shown: 0 to 4").tag(sync=True)
    guesses = traitlets.List(traitlets.Dict(), help="at this position: step, value, right").tag(sync=True)

    def __init__(self, block_table: Sequence[int], block_size: int = 16, position: int = 37,
                 num_blocks: int | None = None, num_tokens: int | None = None, tokens: Sequence[object] | None = None,
                 title: str | None = None, **traits):
        self.block_size = as_block_size(block_size)
        self.block_table, self.num_blocks = _checked_table(block_table, num_blocks)
        self.tokens = [] if tokens is None else [str(token) for token in tokens]
        self.num_tokens = self._checked_length(num_tokens, given=tokens is not None)
        position = self._checked_position(as_integer(position, "a position"))
        setting = {"block_table": self.block_table, "block_size": self.block_size, "num_blocks": self.num_blocks,
                   "num_tokens": self.num_tokens, "tokens": self.tokens}
        super().__init__(setting=setting, title=title or "", position=position, **traits)
        self.observe(self._start_again, "position")

    def __repr__(self) -> str:
        """One line, the same on every run."""
        return f"{self._named()} · {address_words(self._address(), self.step)}"

    def still(self, step: int | None = None) -> Picture:
        """The picture at a step; by default the current one, which asks for the next."""
        step = self.step if step is None else _checked_step(as_integer(step, "a step"))
        return still_address(self._address(), step, self._named())

    def revealed(self) -> Picture:
        """The picture with every step in it."""
        return self.still(NUM_STEPS)

    def _named(self) -> str:
        return self.title or f"Where does token {self.position:,} lie?"

    def _address(self) -> Address:
        return Address(self.block_table, self.block_size, self.num_blocks, self.num_tokens, self.tokens, self.position)

    def _start_again(self, change: dict) -> None:
        self.step, self.guesses = 0, []

    def _checked_length(self, num_tokens: int | None, given: bool) -> int:
        room = len(self.block_table) * self.block_size
        if num_tokens is None:
            num_tokens = len(self.tokens) if given else room
        num_tokens = as_count(num_tokens, "num_tokens")
        if given and num_tokens != len(self.tokens):
            raise ValueError(f"num_tokens is {num_tokens:,}, but tokens names {len(self.tokens):,}")
        if num_tokens > room:
            needed = count(num_blocks_for(num_tokens, self.block_size), "block")
            raise ValueError(f"{count(num_tokens, 'token')} need {needed} of {self.block_size:,}, the table has "
                             f"{len(self.block_table):,}")
        return num_tokens

    def _checked_position(self, position: int) -> int:
        lowest = -len(self.block_table) * self.block_size
        if position >= self.num_tokens:
            raise IndexError(f"there is no position {position:,}: the sequence has {count(self.num_tokens, 'token')}")
        if position < lowest:
            raise IndexError(f"position {position:,} needs no look: Python itself raises an IndexError below "
                             f"{lowest:,}, with {count(len(self.block_table), 'block')} of {self.block_size:,}")
        return position

    @traitlets.validate("position")
    def _position_exists(self, proposal: dict) -> int:
        try:
            return self._checked_position(proposal["value"])
        except IndexError as error:
            raise traitlets.TraitError(str(error)) from None

    @traitlets.validate("step")
    def _step_exists(self, proposal: dict) -> int:
        try:
            return _checked_step(proposal["value"])
        except ValueError as error:
            raise traitlets.TraitError(str(error)) from None


def _checked_table(block_table: Sequence[int], num_blocks: int | None) -> tuple[list[int], int]:
    """The table as a list, and the pool's size."""
    if num_blocks is None:
        block_table = as_ints(block_table)
        num_blocks = (max(block_table, default=0) // _POOL_MULTIPLE + 1) * _POOL_MULTIPLE
    num_blocks = as_count(num_blocks, "num_blocks")
    table = as_block_ids(block_table, num_blocks)
    if not table:
        raise ValueError("the block table is empty: no position lies anywhere")
    return table, num_blocks


def _checked_step(step: int) -> int:
    if not 0 <= step <= NUM_STEPS:
        raise ValueError(f"there is no step {step}: they go from 0 to {NUM_STEPS}")
    return step
