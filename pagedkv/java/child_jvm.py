"""One JVM of its own for one experiment: other flags, another collector, a heap of a few MiB.

The JVM inside the notebook's process cannot change its collector, and its heap holds whatever the notebook has done.
A *child* is a fresh `java` process with the project's classes. It writes its garbage collection log to a temporary
file, which is read and removed when the child has ended.
"""

import os
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pagedkv.core.events import Recording
from pagedkv.core.replay import Replay
from pagedkv.java import gc_log
from pagedkv.java.build import ensure_built, utf8_locale
from pagedkv.java.gc_log import GenerationChange, Pause
from pagedkv.java.jdk import Jdk, find_jdk

COLLECTOR_FLAGS = {
    "Serial": ("-XX:+UseSerialGC",),
    "Parallel": ("-XX:+UseParallelGC",),
    "G1": ("-XX:+UseG1GC",),
    "ZGC": ("-XX:+UseZGC",),
    "Epsilon": ("-XX:+UnlockExperimentalVMOptions", "-XX:+UseEpsilonGC"),  # never collects: the control
}

_MIB = 1 << 20
# How `java` itself complains; a program's own exception begins with "Exception in thread".
_NOT_STARTED = re.compile(r"^Error(:| occurred during initialization of VM)", re.MULTILINE)
# By G1's rule: see region_size_by_rule.
_TARGET_REGIONS = 2048
_SMALLEST_REGION, _LARGEST_REGION = 1 * _MIB, 32 * _MIB
# Variables through which a JVM would take more flags than the ones of the experiment.
_FLAG_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")


class ChildJvmFailed(Exception):
    """The child did not start, or did not end in time; the message has what it said."""


@dataclass(frozen=True)
class ChildRun:
    """What one child did.

    exit_status   0 unless the program failed; what it printed is in `output` and `errors`
    collector     as the log names it, None if the child wrote no log
    pauses        every pause, in order
    generations   the sizes of the generations around each collection (Serial, Parallel)
    recording     the heap's regions as a pool in motion (G1), else None
    """

    main_class: str
    flags: tuple[str, ...]
    exit_status: int
    output: str
    errors: str
    collector: str | None
    pauses: tuple[Pause, ...]
    generations: tuple[GenerationChange, ...]
    recording: Recording | None

    @property
    def values(self) -> dict[str, str]:
        """What the program printed as lines `name=value`."""
        return dict(line.split("=", 1) for line in self.output.splitlines() if "=" in line)

    @property
    def regions(self) -> dict[str, int]:
        """How many regions of each kind there were at the end. Empty unless the collector is G1."""
        if self.recording is None:
            return {}
        state = Replay(self.recording).end()
        return dict(Counter(state.owners(region)[0] for region in sorted(state.references)))

    def __str__(self) -> str:
        lines = [f"{self.main_class} under {self.collector or 'a JVM without a log'} ({' '.join(self.flags)}): "
                 f"{len(self.pauses)} pauses, {sum(pause.milliseconds for pause in self.pauses):.1f} ms"]
        lines += map(str, self.pauses)
        if self.generations:
            lines += ["sizes of the generations around each collection", *map(str, self.generations)]
        if self.regions:
            lines.append("regions at the end: " + ", ".join(f"{n} {kind}" for kind, n in self.regions.items()))
        return "\n".join(lines)


def run_child_jvm(main_class: str, *args: object, flags: Sequence[str] = ("-XX:+UseG1GC", "-Xmx64m"),
                  time_limit_seconds: float = 30, jdk: Jdk | None = None) -> ChildRun:
    """Run `main_class` of the project's class path in a JVM of its own and read its garbage collection log.

    A program that ends with an error is a result like any other: see `exit_status`. Raises ChildJvmFailed if the JVM
    refuses its flags, finds no such class, or has not ended after `time_limit_seconds` (it is killed then);
    JdkNotFound or JavaBuildFailed if there is nothing to run.
    """
    class_path = ensure_built()
    with tempfile.TemporaryDirectory(prefix="pagedkv-child-") as folder:
        log = Path(folder) / "gc.log"
        run = _java(jdk or find_jdk(), class_path,
                    [*flags, f"-Xlog:gc*,gc+region=trace:file=\"{log}\":uptime,level,tags:filecount=0",
                     "-cp", os.pathsep.join(map(str, class_path)), main_class, *map(str, args)],
                    time_limit_seconds, folder)
        text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    if run.returncode and _NOT_STARTED.search(run.stdout + run.stderr):
        raise ChildJvmFailed(f"the child JVM with {' '.join(flags)} did not run {main_class}:\n"
                             f"{(run.stdout + run.stderr).strip()}")
    return ChildRun(main_class, tuple(flags), run.returncode, run.stdout, run.stderr, gc_log.read_collector(text),
                    tuple(gc_log.read_pauses(text)), tuple(gc_log.read_generations(text)),
                    gc_log.read_regions(text) if "G1HR " in text else None)


@dataclass(frozen=True)
class CollectorRow:
    """One collector's answer to the allocation pattern.

    placed       whether the large array found room
    used_bytes   of the heap at the end, with the large array; None if the program did not get that far
    run          everything else
    """

    collector: str
    placed: bool
    used_bytes: int | None
    run: ChildRun


@dataclass(frozen=True)
class CollectorTable:
    rows: tuple[CollectorRow, ...]
    max_heap: str

    def __str__(self) -> str:
        lines = [f"the same allocations in a heap of {self.max_heap}",
                 "collector   large array   in use    pauses  (full)      total     longest   regions at the end"]
        for row in self.rows:
            millis = [pause.milliseconds for pause in row.run.pauses] or [0.0]
            used = "–" if row.used_bytes is None else f"{row.used_bytes / _MIB:.0f} MiB"
            regions = ", ".join(f"{n} {kind}" for kind, n in row.run.regions.items()) or "–"
            lines.append(f"{row.collector:<10}  {'placed' if row.placed else 'NOT placed':<11}  {used:>7}  "
                         f"{len(row.run.pauses):>8}  {sum(pause.is_full for pause in row.run.pauses):>6}  "
                         f"{sum(millis):>6.2f} ms  {max(millis):>6.2f} ms   {regions}")
        return "\n".join(lines)


def compare_collectors(collectors: Sequence[str] = ("Serial", "Parallel", "G1", "ZGC"), max_heap: str = "64m",
                       out: Callable[[str], None] = print) -> CollectorTable:
    """One pattern of allocations (`pagedkv.jvm.AllocationPattern`) under each collector, each in a child of its own.

    Long-lived arrays lie between short-lived ones; the short-lived ones die; then a large array is asked for, larger
    than any hole. In the default heap there is no room for all of it at once. `out` receives a line before each child,
    which takes a fraction of a second. Raises ValueError for a collector without an entry in COLLECTOR_FLAGS. CMS,
    which did not compact, is gone since JDK 14.
    """
    unknown = [name for name in collectors if name not in COLLECTOR_FLAGS]
    if unknown:
        raise ValueError(f"no such collector: {', '.join(unknown)}; there are {', '.join(COLLECTOR_FLAGS)}")
    rows = []
    for number, name in enumerate(collectors, 1):
        out(f"{number} of {len(collectors)}: {name} …")
        run = run_child_jvm("pagedkv.jvm.AllocationPattern", flags=(*COLLECTOR_FLAGS[name], f"-Xmx{max_heap}"))
        used = run.values.get("usedBytes")
        if used is None and "OutOfMemoryError" not in run.output + run.errors:
            raise ChildJvmFailed(f"the pattern failed under {name}:\n{(run.output + run.errors).strip()}")
        rows.append(CollectorRow(name, run.values.get("placed") == "true", used and int(used), run))
    return CollectorTable(tuple(rows), max_heap)


def region_size_by_rule(max_heap_bytes: int) -> int:
    """The region size that G1 takes by itself for a heap of this maximum size.

    JDK 17 and newer: a 2048th of the maximum, but 1 MiB at least and 32 MiB at most, rounded up to a power of two
    (HeapRegion::setup_heap_region_size). So a heap above 2 GiB has between 1024 and 2048 regions, a smaller one has
    fewer, and one above 64 GiB more. Older JDKs took the mean of the initial and the maximum size, and rounded down.
    With -XX:G1HeapRegionSize one asks for another: up to 32 MiB in JDK 17, 512 MiB in newer ones.
    """
    wanted = min(max(max_heap_bytes // _TARGET_REGIONS, _SMALLEST_REGION), _LARGEST_REGION)
    return 1 << (wanted - 1).bit_length()


class RegionSizeRow(NamedTuple):
    max_heap: str
    by_rule_bytes: int
    real_bytes: int
    num_regions: int


@dataclass(frozen=True)
class RegionSizeTable:
    rows: tuple[RegionSizeRow, ...]

    def __str__(self) -> str:
        lines = ["largest heap   by the rule   a real JVM   regions"]
        lines += [f"{'-Xmx' + row.max_heap:<12}  {row.by_rule_bytes // _MIB:>8} MiB  {row.real_bytes // _MIB:>7} MiB  "
                  f"{row.num_regions:>8,}" for row in self.rows]
        return "\n".join(lines)


def check_region_sizes(max_heaps: Sequence[str] = ("64m", "1g", "2g", "3g", "8g", "16g"),
                       jdk: Jdk | None = None) -> RegionSizeTable:
    """The region size by the rule beside the one that a real JVM takes, for several values of -Xmx.

    Each is a child that only says its version: address space is reserved for the heap, memory is not used.
    Raises ChildJvmFailed where the machine does not even reserve that much.
    """
    rows = []
    for max_heap in max_heaps:
        flags = ["-XX:+UseG1GC", "-Xms8m", f"-Xmx{max_heap}", "-Xlog:gc+init:stdout", "-version"]
        run = _java(jdk or find_jdk(), [], flags, time_limit_seconds=30)
        real = gc_log.read_region_size_bytes(run.stdout)
        if real is None:
            raise ChildJvmFailed(f"no JVM starts with -Xmx{max_heap}:\n{(run.stdout + run.stderr).strip()}")
        heap_bytes = _size(max_heap)
        rows.append(RegionSizeRow(max_heap, region_size_by_rule(heap_bytes), real, -(-heap_bytes // real)))
    return RegionSizeTable(tuple(rows))


def _java(jdk: Jdk, class_path: list[Path], arguments: list[str], time_limit_seconds: float,
          folder: str | None = None) -> subprocess.CompletedProcess:
    environ = {name: value for name, value in os.environ.items() if name not in _FLAG_VARIABLES}
    if class_path:
        environ.update(utf8_locale(class_path[0]))
    try:
        return subprocess.run([str(jdk.home / "bin" / "java"), "-Dfile.encoding=UTF-8", *arguments], env=environ,
                              cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, encoding="utf-8",
                              errors="replace", timeout=time_limit_seconds)
    except subprocess.TimeoutExpired:
        raise ChildJvmFailed(f"the child JVM had not ended after {time_limit_seconds:g} s and was killed: "
                             f"java {' '.join(arguments)}") from None


def _size(text: str) -> int:
    """Bytes of a size as -Xmx takes it, such as "64m"."""
    return int(text[:-1]) << {"k": 10, "m": 20, "g": 30}[text[-1].lower()]
