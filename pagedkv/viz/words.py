"""What one event did, in words. front/caption.js says the same in the browser."""

from pagedkv.viz.tape import Tape

_MOST_BLOCKS = 8


def caption(tape: Tape, frame: int) -> str:
    """The last event at this frame, in one line."""
    if frame == 0:
        held = tape.used[0]
        return f"before the first event: {count(held, 'block')} {'is' if held == 1 else 'are'} held" if held \
            else "before the first event: every block is free"
    op, owner, note, changes = tape.event(frame - 1)
    by = "" if owner is None else f" by {owner}"
    if "error" in note:
        text = f"{op}({note['asked']}){by} – refused: {note['error']}"
        return f"{text} · {note['message']}" if note.get("message") else text
    blocks = [block for block, _ in changes]
    text = f"allocate({len(blocks)}){by} → {_blocks(blocks)}" if op == "allocate" else f"{op}([{_ids(blocks)}]){by}"
    if "copied_from" in note:
        text += f", a copy of block {note['copied_from']}"
    if note.get("faults"):
        return f"{text} – fault: {'; '.join(note['faults'])}"
    return text


def count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _blocks(blocks: list[int]) -> str:
    if not blocks:
        return "no block"
    return f"block {blocks[0]}" if len(blocks) == 1 else f"blocks {_ids(blocks)}"


def _ids(blocks: list[int]) -> str:
    text = ", ".join(map(str, blocks[:_MOST_BLOCKS]))
    return text if len(blocks) <= _MOST_BLOCKS else f"{text}, … ({len(blocks):,} blocks)"
