"""What one event did to the memory, in words. front/memory_caption.js says the same in the browser."""

from pagedkv.core.memory import FILL, GIVE, HOLD, TAKE, as_text
from pagedkv.viz.memory_tape import MemoryTape, TapedEvent


def memory_caption(tape: MemoryTape, frame: int) -> str:
    """The last event at this frame, in one line."""
    if frame == 0:
        used = int(tape.used[0])
        return f"before the first event: {as_text(used) if used else 'nothing is'} in use"
    event = tape.event(frame - 1)
    call, note = call_of(event), event.note
    if "error" in note:
        text = f"{call} – refused: {note['error']}"
        return (f"{text} · {note['message']}" if note.get("message") else text) + _device_part(note)
    if note.get("skipped"):
        return f"{call} – skipped: what it is about was refused before"
    text = call + _effect(tape, event) + _device_part(note)
    return f"{text} – fault: {'; '.join(note['faults'])}" if note.get("faults") else text


def call_of(event: TapedEvent) -> str:
    """As `allocate(A, 64 MiB)`."""
    told = [] if event.owner is None else [event.owner]
    if event.op != "free" and event.size_bytes:
        told.append(as_text(event.size_bytes))
    return f"{event.op}({', '.join(told)})"


def _effect(tape: MemoryTape, event: TapedEvent) -> str:
    def of(kind):
        return [(int(tape.piece_addresses[row]), int(tape.piece_sizes[row]), int(amount))
                for each, row, amount in event.changes if each == kind]

    taken, given, filled, held = of(TAKE), of(GIVE), of(FILL), of(HOLD)
    text = ""
    if taken:
        address, set_aside = taken[0][0], sum(size for _, size, _ in taken)
        stays = any(given_address == address for given_address, _, _ in given)
        text = f" – stays at {address:#x}" if stays else f" → {address:#x}"
        if len(taken) > 1:
            text += f" and {len(taken) - 1:,} more"
        if set_aside != sum(asked for _, _, asked in taken):
            text += f", {as_text(set_aside)} set aside"
        if event.moved_bytes:
            text += f", {as_text(event.moved_bytes)} moved"
    elif filled:
        text = f" – stays at {filled[0][0]:#x}"
    elif given:
        text = f" – {as_text(sum(size for _, size, _ in given))} free again"
    if held:
        text += f" – {as_text(sum(size for _, size, _ in held))} let go of, not free yet"
    return text


def _device_part(note: dict) -> str:
    calls = note.get("device_calls")
    return " · device: " + ", ".join(f"{number:,} {kind}" for kind, number in calls.items()) if calls else ""


def summary(tape: MemoryTape, frame: int) -> str:
    """The sums of a frame in one line."""
    columns = tape.used, tape.requested, tape.reserved, tape.held
    used, requested, reserved, held = (int(column[frame]) for column in columns)
    free, largest = tape.free_at(frame), int(tape.largest_free[frame])
    parts = [f"{as_text(used)} used" + (f" ({as_text(requested)} asked for)" if requested != used else "")]
    if held:
        parts.append(f"{as_text(held)} held")
    parts.append(f"{as_text(reserved)} reserved")
    if free:
        parts.append(f"largest free run {as_text(largest)} of {as_text(free)}")
        parts.append(f"external fragmentation {fragmentation(tape, frame)}")
    return ", ".join(parts)


def fragmentation(tape: MemoryTape, frame: int) -> str:
    """External fragmentation, 1 − largest request that fits / free, in percent."""
    free = tape.free_at(frame)
    return percent(free - tape.largest_fitting(frame), free)


def percent(part: float, whole: float) -> str:
    """As 37 %; what is not nothing does not read as 0 %, and what is not all of it not as 100 %."""
    value = 100 * part / whole if whole else 0
    if 0 < value < 0.5:
        return "<1 %"
    return ">99 %" if 99.5 <= value < 100 else f"{value:.0f} %"
