"""What is wrong with this memory: findings in words, each with its numbers, its evidence and what to try.

    reserved   what PyTorch took from the device: the segments; this is what nvidia-smi shows
    allocated  what tensors use of it
    inactive split  free memory in segments that are partly in use; it cannot go back to the device

What one should know about these numbers: `reserved − allocated` is made of four parts – segments that are wholly free,
inactive split memory, blocks that wait for another stream, and, with expandable segments, free memory that counts as
neither. No one of them alone says how bad things are.

A finding's *stake* is how many bytes it is about: what could be had back, at best. The findings come with the failed
request first, then by their stakes. The stakes overlap, so they do not add up.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from pagedkv.core.memory import Layout, Piece, Segment, as_text
from pagedkv.core.memory_replay import EXPANDABLE
from pagedkv.rivals.caching_rules import is_small, round_size, segment_size
from pagedkv.snapshot.contents import ALLOCATED, INACTIVE, NO_STACK, PENDING, SegmentRecord, Snapshot, Stack
from pagedkv.snapshot.growth import growing_chains
from pagedkv.snapshot.history import History, Refusal, Source, roundup_divisions

MIB = 1 << 20


class Thresholds(NamedTuple):
    """From when on something is worth a sentence. The shares keep small effects on large cards quiet, the sizes keep
    large shares of nothing quiet."""

    least_bytes: int = 32 * MIB  # less is not what a card runs out of; one and a half of PyTorch's usual segments
    unallocated_share: float = 0.10  # of reserved; below that the allocator does well, whatever the settings
    split_share: float = 0.05  # of reserved
    pinned_free_share: float = 0.75  # of a segment, free: little in use keeps much
    same_size_segments: int = 8  # fewer are no pattern
    same_size_share: float = 0.20  # of reserved
    same_size_free_share: float = 0.25  # of those segments; where nearly all of them are in use, nothing is wrong
    round_share: float = 0.02  # of allocated; rounding to 512 bytes alone is far below
    misleading_share: float = 0.50  # inactive split makes up less than this of what is unallocated
    pending_share: float = 0.02  # of reserved


THRESHOLDS = Thresholds()
MOST_NAMED = 5  # segments, owners or call sites that are listed one by one


class Finding(NamedTuple):
    """kind             a short word for programs
    stake_bytes      what it is about, see above
    title            one sentence; evidence, advice: more of them
    addresses        of the segments that it is about, for whoever draws them
    """

    kind: str
    stake_bytes: int
    title: str
    evidence: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    addresses: tuple[int, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.title}", *(f"    {line}" for line in self.evidence), *(f"  → {line}" for line in self.advice)]
        return "\n".join(lines)


class Figures(NamedTuple):
    """The end of the recording, in bytes.

    wholly_free_bytes    segments that nobody uses a byte of
    inactive_split_bytes free, in segments that are partly in use; expandable segments do not count, as in torch
    expandable_free_bytes free, in partly used expandable segments
    capacity_bytes       what PyTorch could have had, where a failed request tells, or None
    """

    reserved_bytes: int
    allocated_bytes: int
    requested_bytes: int
    pending_bytes: int
    wholly_free_bytes: int
    inactive_split_bytes: int
    expandable_free_bytes: int
    largest_free_bytes: int
    num_segments: int
    num_wholly_free: int
    peak_reserved_bytes: int
    peak_allocated_bytes: int
    capacity_bytes: int | None
    num_entries: int
    seconds: float | None

    @property
    def unallocated_bytes(self) -> int:
        return self.reserved_bytes - self.allocated_bytes


class Owner(NamedTuple):
    """What one call site (or, without frames, one size) has at the end."""

    name: str
    allocated_bytes: int
    num_blocks: int


@dataclass(frozen=True)
class Analysis:
    """remarks  about the file and how far the trace can be trusted; owners  the largest first"""

    device: int
    figures: Figures
    findings: tuple[Finding, ...]
    owners: tuple[Owner, ...]
    remarks: tuple[str, ...]

    def __str__(self) -> str:
        numbered = [f"{number}. {finding}" for number, finding in enumerate(self.findings, start=1)]
        return "\n\n".join(["\n".join(figure_lines(self.figures)), *numbered, *self.remarks])


def analyse(snapshot: Snapshot, history: History, capacity_bytes: int | None = None,
            thresholds: Thresholds = THRESHOLDS) -> Analysis:
    """capacity_bytes  the card's whole memory, if known (it is not in the file)."""
    look = _Look(snapshot, history, capacity_bytes, thresholds)
    sides = (look.refusal, look.outside, look.unallocated, look.split, look.pinned, look.wholly_free, look.same_size,
             look.growing, look.rounding, look.misleading, look.pending)
    findings = [finding for side in sides for finding in side()]
    findings.sort(key=lambda finding: (finding.kind != "out of memory", -finding.stake_bytes))
    return Analysis(history.device.number, look.figures, tuple(findings), look.owners(), look.remarks())


def figure_lines(figures: Figures) -> list[str]:
    """The figures in words, one a line."""
    share = figures.allocated_bytes / figures.reserved_bytes if figures.reserved_bytes else 1.0
    expandable = f", free in expandable segments {as_text(figures.expandable_free_bytes)}"
    lines = [f"reserved {as_text(figures.reserved_bytes)} in {_count(figures.num_segments, 'segment')}, allocated "
             f"{as_text(figures.allocated_bytes)} ({share:.1%})",
             f"unallocated {as_text(figures.unallocated_bytes)}: wholly free {as_text(figures.wholly_free_bytes)} in "
             f"{_count(figures.num_wholly_free, 'segment')}, inactive split {as_text(figures.inactive_split_bytes)}"
             + (expandable if figures.expandable_free_bytes else "")
             + (f", pending {as_text(figures.pending_bytes)}" if figures.pending_bytes else ""),
             f"peak reserved {as_text(figures.peak_reserved_bytes)}, peak allocated "
             f"{as_text(figures.peak_allocated_bytes)}; "
             f"longest free run at the end {as_text(figures.largest_free_bytes)}"]
    if figures.num_entries:
        lines.append(f"trace: {_count(figures.num_entries, 'entry', 'entries')}"
                     + (f" over {_duration(figures.seconds)}" if figures.seconds is not None else ""))
    return lines


class _Look:
    """One snapshot, looked at from each side. Every method yields findings, or none."""

    def __init__(self, snapshot: Snapshot, history: History, capacity_bytes: int | None, thresholds: Thresholds):
        self._snapshot, self._history, self._capacity = snapshot, history, capacity_bytes
        self._at = thresholds
        self._device = history.device
        self._divisions = roundup_divisions(snapshot.settings)
        self._layout = history.end.layout()
        self.figures = self._figures()

    def _figures(self) -> Figures:
        segments, end, history = self._device.segments, self._history.end, self._history
        partly = [segment for segment in segments if segment.active_bytes]
        whole = [segment for segment in segments if not segment.active_bytes]
        times = [entry.time_us for entry in self._device.trace if entry.time_us is not None]
        return Figures(end.reserved_bytes, end.used_bytes, end.requested_bytes, end.held_bytes,
                       sum(segment.size_bytes for segment in whole),
                       sum(segment.free_bytes for segment in partly if not segment.expandable),
                       sum(segment.free_bytes for segment in partly if segment.expandable),
                       end.largest_free_bytes, len(segments), len(whole), history.peak_reserved.size_bytes,
                       history.peak_used.size_bytes, history.recording.capacity_bytes, len(self._device.trace),
                       (max(times) - min(times)) / 1e6 if times else None)

    # the failed request

    def refusal(self) -> Iterable[Finding]:
        for refusal in self._history.refusals[-1:]:
            yield self._refusal(refusal)

    def _refusal(self, refusal: Refusal) -> Finding:
        entry, layout = refusal.entry, refusal.layout
        rounded = round_size(max(entry.size_bytes, 1), self._divisions)
        asked_of_device = segment_size(rounded)
        reserved = sum(segment.size_bytes for segment in layout.segments)
        allocated = sum(piece.size_bytes for piece in layout.pieces if not piece.held)
        held = sum(piece.size_bytes for piece in layout.pieces if piece.held)
        free = reserved - allocated - held
        runs = _runs_by_segment(layout)
        streams = {segment.address: segment.stream for segment in self._device.segments}
        pool = "small" if is_small(rounded) else "large"
        here = [size for segment, start, size in runs if segment.label in (pool, EXPANDABLE)
                and streams.get(segment.address, entry.stream) == entry.stream]
        anywhere, largest_here = max((size for _, _, size in runs), default=0), max(here, default=0)
        device_free = entry.device_free_bytes
        asked = (f"{as_text(entry.size_bytes)} asked for ({as_text(asked_of_device)} of the device, the figure in "
                 "PyTorch's message)"
                 if asked_of_device != entry.size_bytes else f"{as_text(entry.size_bytes)} asked for")
        evidence = [f"reserved {as_text(reserved)}, of it allocated {as_text(allocated)} and free {as_text(free)} in "
                    f"{_count(len(runs), 'run')}, the longest {as_text(anywhere)}; the device itself had "
                    + ("a free amount that the file does not tell" if device_free is None
                       else f"{as_text(device_free)} left")]
        if held:
            evidence.append(f"{as_text(held)} more were freed, but another stream might still use them")
        total = free + (device_free or 0)
        advice: list[str] = []
        if device_free is not None and device_free >= asked_of_device:
            why = "the device had enough: a limit of the program's own forbade it"
            advice.append("look for torch.cuda.set_per_process_memory_fraction, and for other processes that filled "
                          "the card at that very moment")
        elif anywhere >= rounded and largest_here < rounded:
            why = "a free run is long enough, but it belongs to another stream or pool, and PyTorch never shares those"
            advice.append("free the other stream's cache first (torch.cuda.empty_cache()), or do the work on one "
                          "stream")
        elif total >= rounded:
            why = f"{as_text(total)} were free in all, but in pieces: this is fragmentation"
            advice += [_EXPANDABLE_ADVICE, "or allocate the large, long-lived tensors first and at their full size"]
        elif total + held >= rounded:
            why = "enough would be free if the other streams were through with it"
            advice.append("see the tensors with record_stream(): wait for their stream before you free much")
        else:
            why = f"only {as_text(total)} were free in all: it is full, and no allocator could have served this"
            advice.append("use less: a smaller batch or cache, fewer tensors kept alive; the owners below have it")
        evidence.append(f"the request came from {_site(entry.stack)}" if entry.stack else "the trace has no frames "
                                                                                          "for it")
        evidence += [f"had then: {line}" for line in self._owner_lines(layout.pieces)]
        if self._history.num_refusals > 1:
            evidence.append(f"this is the last of {self._history.num_refusals:,} failed requests in the trace")
        return Finding("out of memory", entry.size_bytes, f"Out of memory at entry {refusal.index:,}: {asked}; {why}.",
                       tuple(evidence), tuple(advice), ())

    def outside(self) -> Iterable[Finding]:
        """Memory of the card that PyTorch's allocator does not have."""
        known = [(refusal.entry.device_free_bytes, sum(segment.size_bytes for segment in refusal.layout.segments))
                 for refusal in self._history.refusals if refusal.entry.device_free_bytes is not None]
        if not known:
            return
        could_have = [free + reserved for free, reserved in known]
        advice = ("nvidia-smi shows the processes on the card; NCCL, CUDA graphs, cuBLAS workspaces and the CUDA "
                  "context of each process take memory that is in no snapshot",)
        if self._capacity is not None and self._capacity - could_have[-1] >= self._at.least_bytes:
            outside = self._capacity - could_have[-1]
            yield Finding("outside PyTorch", outside, f"{as_text(outside)} of the card's {as_text(self._capacity)} "
                                                      "were held outside of PyTorch's allocator when memory ran out.",
                          (f"PyTorch had reserved {as_text(known[-1][1])}, and the device reported "
                           f"{as_text(known[-1][0])} free",),
                          advice)
        elif len(could_have) > 1 and could_have[0] - could_have[-1] >= self._at.least_bytes:
            lost = could_have[0] - could_have[-1]
            yield Finding("outside PyTorch", lost, f"Between the first failed request and the last, {as_text(lost)} "
                                                   "went to somebody outside of PyTorch's allocator.",
                          (f"reserved plus free was {as_text(could_have[0])} at first and {as_text(could_have[-1])} "
                           "in the end",),
                          advice)

    # what is reserved and not allocated

    def unallocated(self) -> Iterable[Finding]:
        figures = self.figures
        if not self._matters(figures.unallocated_bytes, figures.reserved_bytes, self._at.unallocated_share):
            return
        evidence = [f"wholly free segments {as_text(figures.wholly_free_bytes)}, inactive split "
                    f"{as_text(figures.inactive_split_bytes)}"
                    + (f", free in expandable segments {as_text(figures.expandable_free_bytes)}"
                       if figures.expandable_free_bytes else "")
                    + (f", pending {as_text(figures.pending_bytes)}" if figures.pending_bytes else "")]
        peak = figures.peak_allocated_bytes
        if figures.num_entries:
            evidence.append(f"at their peak in this trace tensors used {as_text(peak)}, "
                            f"{_percent(peak, figures.reserved_bytes)} of "
                            "what is reserved now" if peak <= figures.reserved_bytes else
                            f"at their peak in this trace tensors used {as_text(peak)}, more than is reserved now")
        yield Finding("unallocated", figures.unallocated_bytes,
                      f"PyTorch holds {as_text(figures.reserved_bytes)}, and tensors use "
                      f"{as_text(figures.allocated_bytes)} of it "
                      f"({_percent(figures.allocated_bytes, figures.reserved_bytes)}).", tuple(evidence),
                      ("this is no error by itself: PyTorch keeps freed memory for the next request. The findings "
                       "below say which part could be had back",))

    def split(self) -> Iterable[Finding]:
        figures = self.figures
        split = figures.inactive_split_bytes
        if not self._matters(split, figures.reserved_bytes, self._at.split_share):
            return
        partly = [segment for segment in self._device.segments
                  if segment.active_bytes and segment.free_bytes and not segment.expandable]
        runs = sorted((size for segment, _, size in _runs_by_segment(self._layout)
                       if segment.label != EXPANDABLE and size < segment.size_bytes), reverse=True)
        smallest = next((number for number in range(1, len(runs) + 1) if sum(runs[:number]) >= split / 2), len(runs))
        yield Finding("inactive split", split,
                      f"{as_text(split)} are free inside {_count(len(partly), 'segment')} that are partly in use "
                      f"({_percent(split, figures.reserved_bytes)} of reserved).",
                      (f"{_count(len(runs), 'free run')}, the longest {as_text(runs[0] if runs else 0)}; half of the "
                       f"memory lies in the {smallest:,} longest",
                       "PyTorch can hand out a run to a request that fits in it, but cannot give any of it back to "
                       "the device"),
                      (_EXPANDABLE_ADVICE, _split_advice(self._device.segments)),
                      tuple(segment.address for segment in partly))

    def pinned(self) -> Iterable[Finding]:
        pinned = sorted((segment for segment in self._device.segments if segment.active_bytes and not segment.expandable
                         and segment.kind == "large"
                         and segment.free_bytes >= self._at.pinned_free_share * segment.size_bytes),
                        key=lambda segment: -segment.free_bytes)
        free = sum(segment.free_bytes for segment in pinned)
        if free < self._at.least_bytes:
            return
        evidence = []
        for segment in pinned[:MOST_NAMED]:
            blocks = [block for block in segment.blocks if block.state != INACTIVE]
            evidence.append(f"{segment.address:#x}, {as_text(segment.size_bytes)}: kept by "
                            f"{as_text(segment.active_bytes)} in {_count(len(blocks), 'block')}")
            largest = sorted(blocks, key=lambda block: -block.size_bytes)[:2]
            evidence += [f"    {as_text(block.requested_bytes)} at {block.address:#x}, {self._since(block.address)}"
                         f"{', waits for another stream' if block.state == PENDING else ''}{self._from(block.address)}"
                         for block in largest]
        if len(pinned) > MOST_NAMED:
            evidence.append(f"and {len(pinned) - MOST_NAMED:,} more")
        used = sum(segment.active_bytes for segment in pinned)
        yield Finding("pinned segments", free, f"{_count(len(pinned), 'segment')} of {as_text(free + used)} are kept "
                                               "from going back "
                      f"by {as_text(used)} that are in use in them.", tuple(evidence),
                      ("allocate what lives long (weights, caches, optimizer state) before what comes and goes, or "
                       "copy it once "
                       "into fresh memory: x = x.clone() after torch.cuda.empty_cache()", _EXPANDABLE_ADVICE),
                      tuple(segment.address for segment in pinned))

    def wholly_free(self) -> Iterable[Finding]:
        figures = self.figures
        if figures.wholly_free_bytes < self._at.least_bytes:
            return
        free = [segment for segment in self._device.segments if not segment.active_bytes]
        sizes = Counter(segment.size_bytes for segment in free)
        listed = ", ".join(f"{number} × {as_text(size)}" for size, number in
                           sorted(sizes.items(), key=lambda item: -item[0] * item[1])[:MOST_NAMED])
        yield Finding("wholly free", figures.wholly_free_bytes,
                      f"{_count(len(free), 'segment')} of {as_text(figures.wholly_free_bytes)} are wholly free: "
                      "torch.cuda.empty_cache() would give them back to the device.",
                      (f"mostly {listed}" if len(sizes) > MOST_NAMED else listed,),
                      ("do that once where another process or library needs the memory. PyTorch does it itself before "
                       "it reports out of memory, so it is no cure for that; called in a loop it only costs time",),
                      tuple(segment.address for segment in free))

    def same_size(self) -> Iterable[Finding]:
        by_size: dict[int, list[SegmentRecord]] = {}
        for segment in self._device.segments:
            if not segment.expandable:
                by_size.setdefault(segment.size_bytes, []).append(segment)
        groups = []
        for size, group in sorted(by_size.items(), key=lambda item: -item[0] * len(item[1])):
            used = sum(segment.active_bytes for segment in group)
            total = size * len(group)
            if len(group) >= self._at.same_size_segments and total - used >= self._at.same_size_free_share * total and \
                    self._matters(total, self.figures.reserved_bytes, self._at.same_size_share):
                groups.append((size, len(group), total, used))
        if not groups:
            return
        stake = sum(total - used for _, _, total, used in groups)
        listed = ", ".join(f"{number:,} × {as_text(size)}" for size, number, _, _ in groups)
        evidence = [f"{number:,} × {as_text(size)}: {as_text(used)} in use; {_what_gets(size)}"
                    for size, number, _, used in groups]
        if groups[0][0] > 20 * MIB:
            advice = ("many tensors of one size that come and go together: a buffer that is allocated once and reused, "
                      "or a pool of blocks, needs the peak of one moment only")
        else:
            advice = "many small tensors, some of them kept: one larger tensor for all of them takes less"
        yield Finding("segments of one size", stake, f"Many segments have one and the same size: {listed}; "
                                                     f"{as_text(stake)} of them are free.", tuple(evidence), (advice,),
                      tuple(segment.address for size, *_ in groups for segment in by_size[size]))

    def growing(self) -> Iterable[Finding]:
        chains = growing_chains(self._device.trace)
        if not chains:
            return
        steps = Counter(chain.step_bytes for chain in chains)
        step, number = steps.most_common(1)[0]
        alike = [chain for chain in chains if chain.step_bytes == step]
        copied = sum(chain.copied_bytes for chain in alike)
        peak = self._history.peak_reserved.size_bytes
        final = sum(chain.last_bytes for chain in alike)
        sites = Counter(chain.site for chain in alike if chain.site)
        evidence = [f"{_count(number, 'tensor')} grew by {as_text(step)} at a time, up to "
                    f"{max(c.num_links for c in alike):,} times, "
                    f"from {as_text(min(c.first_bytes for c in alike))} to {as_text(max(c.last_bytes for c in alike))}",
                    f"their last sizes together are {as_text(final)}; {as_text(copied)} were copied on the way, and "
                    f"reserved reached {as_text(peak)}"]
        evidence += [f"at {site} ({_count(times, 'tensor')})" for site, times in sites.most_common(MOST_NAMED)]
        yield Finding("growing cache", max(0, peak - final),
                      "Tensors are replaced by slightly larger ones, over and over: a cache that grows by "
                      "torch.cat.", tuple(evidence),
                      ("allocate the cache once at its full length and write into it (transformers: a static cache), "
                       "or page it: blocks of one size and a table for each sequence", _EXPANDABLE_ADVICE))

    def rounding(self) -> Iterable[Finding]:
        figures = self.figures
        lost = figures.allocated_bytes - figures.requested_bytes
        if not self._matters(lost, figures.allocated_bytes, self._at.round_share):
            return
        blocks = [block for segment in self._device.segments for block in segment.blocks if block.state == ALLOCATED]
        by_size: Counter = Counter()
        for block in blocks:
            by_size[block.requested_bytes, block.size_bytes] += block.size_bytes - block.requested_bytes
        rounding = sum(min(round_size(max(block.requested_bytes, 1), self._divisions), block.size_bytes)
                       - block.requested_bytes for block in blocks)
        evidence = [f"{as_text(rounding)} by rounding sizes up, {as_text(lost - rounding)} because a rest of up to 1 "
                    "MiB stays with its block"]
        evidence += [f"{as_text(requested)} asked for, {as_text(size)} taken: {as_text(lost_here)} in all"
                     for (requested, size), lost_here in by_size.most_common(MOST_NAMED)]
        advice = "make sizes fit: 2 MiB steps above 10 MiB, and several small tensors in one"
        if self._divisions is not None:
            advice = "roundup_power2_divisions is set; more divisions, or none, round up less"
        yield Finding("rounding", lost, f"{as_text(lost)} of what is allocated were never asked for "
                      f"({_percent(lost, figures.allocated_bytes)}).", tuple(evidence), (advice,))

    def misleading(self) -> Iterable[Finding]:
        figures = self.figures
        if not self._matters(figures.unallocated_bytes, figures.reserved_bytes, self._at.unallocated_share) or \
                figures.inactive_split_bytes >= self._at.misleading_share * figures.unallocated_bytes:
            return
        hidden = figures.unallocated_bytes - figures.inactive_split_bytes
        yield Finding("inactive split misleads", hidden,
                      f"inactive_split is {as_text(figures.inactive_split_bytes)}, and "
                      f"{as_text(figures.unallocated_bytes)} are not allocated: read alone, it hides "
                      f"{_percent(hidden, figures.unallocated_bytes)} of that.",
                      ("it leaves out segments that are wholly free, and all of the expandable ones",),
                      ("watch memory_reserved() − memory_allocated() beside it",))

    def pending(self) -> Iterable[Finding]:
        figures = self.figures
        if not self._matters(figures.pending_bytes, figures.reserved_bytes, self._at.pending_share):
            return
        pieces = [piece for piece in self._layout.pieces if piece.held]
        yield Finding("pending", figures.pending_bytes, f"{as_text(figures.pending_bytes)} in "
                                                        f"{_count(len(pieces), 'block')} are freed "
                      "and wait for another stream.", tuple(self._owner_lines(pieces, held=True)),
                      ("record_stream() holds memory until the other stream has come that far; wait for it before you "
                       "free much",))

    # about the file

    def owners(self) -> tuple[Owner, ...]:
        return _owners(piece for piece in self._layout.pieces if not piece.held)

    def remarks(self) -> tuple[str, ...]:
        history, device = self._history, self._device
        remarks = list(self._snapshot.remarks)
        if not device.trace and not device.segments:
            remarks.append(f"Device {device.number} holds nothing: no segment, no trace.")
        elif not device.trace:
            remarks.append("The file has no trace, so only the last state can be shown: recording was not switched on. "
                           "Call torch.cuda.memory._record_memory_history() early, before the memory fills up.")
        if history.num_older_frees:
            text = (f"The trace begins in the middle: {history.num_older_frees:,} blocks that it frees were allocated "
                    "before it. Their place and size are known, who asked for them is not.")
            if len(device.trace) % 1000 == 0:
                text += (f" It has exactly {len(device.trace):,} entries, so max_entries may have cut it; record with "
                         "a larger one.")
            remarks.append(text)
        if history.problems:
            listed = "; ".join(f"{what}: {number:,}" for what, number in sorted(history.problems.items()))
            remarks.append(f"Not everything adds up – {listed}. That happens when recording was switched off before "
                           "the snapshot, or left kinds of entries out. What cannot be was left out of the picture; "
                           "its end is the file's.")
        if device.trace and not any(entry.stack for entry in device.trace):
            remarks.append("The trace has no stack frames, so pieces are named by their size. "
                           "_record_memory_history(context=\"all\"), the default, would record them.")
        return tuple(remarks)

    def _matters(self, size_bytes: int, of_bytes: int, share: float) -> bool:
        return size_bytes >= self._at.least_bytes and size_bytes >= share * of_bytes

    def _since(self, address: int) -> str:
        source = self._source(address)
        if source.entry >= 0:
            return f"since entry {source.entry:,} of {len(self._device.trace):,}"
        return "older than the trace" if self._device.trace else "age unknown"

    def _from(self, address: int) -> str:
        stack = self._source(address).stack
        return f", from {_site(stack)}" if stack else ""

    def _source(self, address: int) -> Source:
        return self._history.sources.get(address) or Source(NO_STACK, 0, -1)

    def _owner_lines(self, pieces: Iterable[Piece], held: bool = False) -> list[str]:
        owners = _owners(piece for piece in pieces if piece.held == held)
        lines = [f"{as_text(owner.allocated_bytes)} in {_count(owner.num_blocks, 'block')}: {owner.name}"
                 for owner in owners[:MOST_NAMED]]
        rest = owners[MOST_NAMED:]
        if rest:
            lines.append(f"{as_text(sum(owner.allocated_bytes for owner in rest))} of {len(rest):,} others")
        return lines


_EXPANDABLE_ADVICE = "try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True in the program's environment"


def _what_gets(segment_bytes: int) -> str:
    """Which requests lead to a segment of this size."""
    if segment_bytes == 2 * MIB:
        return "any request of up to 1 MiB gets a segment of 2 MiB"
    if segment_bytes == 20 * MIB:
        return "any request above 1 and below 10 MiB gets a segment of 20 MiB"
    return f"requests of {as_text(segment_bytes - 2 * MIB + 512)} to {as_text(segment_bytes)} get one of their own"


def _split_advice(segments: Iterable[SegmentRecord]) -> str:
    large = sorted(segment.size_bytes for segment in segments if segment.kind == "large" and not segment.expandable)
    typical = large[len(large) // 2] if large else 0
    most = next((size for size in (512, 256, 128, 64) if size * MIB <= max(typical, 64 * MIB)), 64)
    return f"or max_split_size_mb:{most}, so that larger blocks are kept whole for larger requests"


def _owners(pieces: Iterable[Piece]) -> tuple[Owner, ...]:
    total: Counter = Counter()
    number: Counter = Counter()
    for piece in pieces:
        total[str(piece.owner)] += piece.size_bytes
        number[str(piece.owner)] += 1
    largest_first = sorted(total.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Owner(name, size, number[name]) for name, size in largest_first)


def _runs_by_segment(layout: Layout) -> list[tuple[Segment, int, int]]:
    """(segment, start, size) of each free run."""
    runs, pieces, at = [], layout.pieces, 0
    for segment in layout.segments:
        start, end = segment.address, segment.address + segment.size_bytes
        while at < len(pieces) and pieces[at].address < end:
            if pieces[at].address > start:
                runs.append((segment, start, pieces[at].address - start))
            start = pieces[at].address + pieces[at].size_bytes
            at += 1
        if start < end:
            runs.append((segment, start, end - start))
    return runs


def _site(stack: Stack) -> str:
    """The call site, and who called it."""
    frames = [frame for frame in stack[:200]]
    own = [number for number, frame in enumerate(frames) if frame.short == stack.site]
    if not own:
        return str(frames[0]) if frames else "an unknown place"
    chain = [frame.short for frame in frames[own[0]:own[0] + 3]]
    return " ← ".join(chain)


def _duration(seconds: float) -> str:
    return f"{seconds:,.2f} s" if seconds >= 1 else f"{seconds * 1000:,.1f} ms"


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "0%"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
