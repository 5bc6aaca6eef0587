"""What one event did, in words. front/caption.js says the same in the browser.

The events of a bare pool read as its calls. Where events tell what the blocks contain, they read as what happened to a
sequence. A member of a shared pool that has died, and what is taken back from it, read the same in both.
"""

from pagedkv.viz.tape import Tape
from pagedkv.viz.tokens import tokens_in_words

_DEAD = " (dead)"  # at the end of a dead member's name
_MOST_BLOCKS = 8
_MOST_TOKENS = 8


def caption(tape: Tape, frame: int) -> str:
    """The last event at this frame, in one line."""
    if frame == 0:
        held = tape.used[0]
        return f"before the first event: {count(held, 'block')} {'is' if held == 1 else 'are'} held" if held \
            else "before the first event: every block is free"
    op, owner, note, changes = tape.event(frame - 1)
    by = "" if owner is None else f" by {owner}"
    plain = tape.tells_contents
    if "error" in note:
        text = f"{owner or 'somebody'} asks for {_asked(note['asked'])} – refused: {note['error']}" \
            if plain and op == "allocate" else f"{op}({note['asked']}){by} – refused: {note['error']}"
        return f"{text} · {note['message']}" if note.get("message") else text
    blocks = [block for block, _ in changes]
    text = _of_a_death(op, owner, note, blocks) or (
        in_plain_words(tape, frame - 1) if plain else
        f"allocate({len(blocks)}){by} → {_blocks(blocks)}" if op == "allocate" else f"{op}([{_ids(blocks)}]){by}")
    if "copied_from" in note and not plain:
        text += f", a copy of block {note['copied_from']}"
    if note.get("faults"):
        return f"{text} – fault: {'; '.join(note['faults'])}"
    return text


def in_plain_words(tape: Tape, number: int) -> str:
    """What event `number` of a manager of sequences was about."""
    op, owner, note, changes = tape.event(number)
    who, blocks = owner or "somebody", [block for block, _ in changes]
    named, one = _blocks(blocks), len(blocks) == 1
    told = tape.told(number)
    if op == "write":
        said = tokens_in_words(told, tape.token_text, _MOST_TOKENS)
        what = "something" if not told else f"“{said}”" if tape.token_text else f"token{'s' * (len(told) != 1)} {said}"
        return f"{who} writes {what} into {named}"
    if op == "retain":
        if "forked_from" in note:
            return f"{who} forks from {note['forked_from']} and shares {named}"
        return f"found in the cache for {who}: {count(len(blocks), 'block')} ({_ids(blocks)})"
    if op == "allocate":
        if "copied_from" in note:
            return f"{who} copies block {note['copied_from']} to {named} before it writes"
        return f"{who} takes {named}" + (f" for {count(len(told), 'token')}" if told else "")
    if op == "release":
        if "replaced_by" in note:
            return f"{who} gives up {named}: block {note['replaced_by']} stands in its table instead"
        return f"{who} gives back {named}"
    if op == "cache":
        return f"{named} {'is' if one else 'are'} full and can be found from now on" + \
            (f", by the salt {note['salt']} only" if "salt" in note else "")
    return f"{named} {'is' if one else 'are'} evicted and can no longer be found"


def _of_a_death(op: str, owner: str | None, note: dict, blocks: list[int]) -> str:
    """What `pagedkv.shared.watch` tells of a member that has died; "" for any other event."""
    who = (owner or "somebody").removesuffix(_DEAD)
    named, one = _blocks(list(dict.fromkeys(blocks))), len(set(blocks)) == 1  # one of them for each reference
    if op == "retain" and note.get("died") is True:
        return f"{who} has died; what it held is still taken: {named}"
    if op == "release" and note.get("died") is True:
        return f"{who} has died; from now on {named} {'is' if one else 'are'} shown as held by {who}{_DEAD}"
    if op == "release" and note.get("reaped") is True:
        return f"taken back from {who}, which has died: {named}"
    return ""


def _asked(number: str) -> str:
    return f"{number} block" if number == "1" else f"{number} blocks"


def count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _blocks(blocks: list[int]) -> str:
    if not blocks:
        return "no block"
    return f"block {blocks[0]}" if len(blocks) == 1 else f"blocks {_ids(blocks)}"


def _ids(blocks: list[int]) -> str:
    text = ", ".join(map(str, blocks[:_MOST_BLOCKS]))
    return text if len(blocks) <= _MOST_BLOCKS else f"{text}, … ({len(blocks):,} blocks)"
