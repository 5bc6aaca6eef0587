"""How fast does the memory view play, and what does it cost to open a long recording?

    python benchmarks/memory_view.py [--rounds 3] [--seconds 4] [--long]

As benchmarks/block_grid.py: the widget's own modules in a plain page, in headless Chromium without a GPU; a frame
counts only if the pixels of the pictures differ from those of the frame before, and reading them back is part of the
time. --long opens a recording of a million events in place of a hundred thousand.
"""

import argparse
import os
import random
import shutil
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from pagedkv.core.memory import GIVE, HOLD, RESERVE, TAKE, Change, MemoryEvent, MemoryRecording
from pagedkv.core.memory_replay import MemoryState
from pagedkv.viz.memory_embed import embedded
from pagedkv.viz.memory_plot import still_memory
from pagedkv.viz.memory_tape import MemoryTape

PLAY = """async milliseconds => {
    const canvases = [...document.querySelectorAll("[data-testid=memory]")];
    const look = () => {
        let sum = 2166136261;
        for (const canvas of canvases) {
            const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            const pixels = new Uint32Array(data.buffer);
            for (let i = 0; i < pixels.length; i += 3) sum = Math.imul(sum ^ pixels[i], 16777619);
        }
        return sum;
    };
    const speed = document.querySelector("[data-testid=speed]");
    speed.value = "250";
    speed.dispatchEvent(new Event("change"));
    document.querySelector("[data-testid=play]").click();
    let last = look(), changed = 0, all = 0;
    const begin = performance.now();
    while (performance.now() - begin < milliseconds) {
        await new Promise(requestAnimationFrame);
        const now = look();
        all++;
        if (now !== last) changed++;
        last = now;
    }
    const seconds = (performance.now() - begin) / 1000;
    document.querySelector("[data-testid=play]").click();
    return { changed: changed / seconds, all: all / seconds };
}"""
KEYS = """keys => {
    const root = document.querySelector("[data-testid=memory-view]");
    const times = keys.map(key => {
        const begin = performance.now();
        root.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
        return performance.now() - begin;
    });
    return Math.max(...times);
}"""


def busy_recording(num_pieces, events, seed=1, segments=8):
    """About num_pieces pieces at once; each event takes or gives back one, somewhere in `segments` segments."""
    chance, unit = random.Random(seed), 512
    size = 2 * num_pieces // segments * 4 * unit
    starts = [(1 << 40) + i * 3 * size for i in range(segments)]
    places = [start + at * unit * 4 for start in starts for at in range(size // unit // 4)]
    chance.shuffle(places)
    recording, live = MemoryRecording(1 << 40, "bench"), []
    calls = [("allocate", "driver", 0, tuple(Change(RESERVE, start, size, 0, "large") for start in starts))]
    held = None
    while len(calls) < events:
        if held is not None:
            calls.append(("free", held[1], 0, (Change(GIVE, held[0], held[2]),)))
            places.append(held[0])
            held = None
        elif len(live) < num_pieces or (len(live) < 1.05 * num_pieces and chance.random() < 0.5):
            address, owner = places.pop(chance.randrange(len(places))), f"request {len(calls) // 40}"
            length = unit * chance.randint(1, 4)
            live.append((address, owner, length))
            calls.append(("allocate", owner, length, (Change(TAKE, address, length, length - chance.randint(0, 511)),)))
        else:
            held = live.pop(chance.randrange(len(live)))
            if chance.random() < 0.5:
                calls.append(("free", held[1], 0, (Change(HOLD, held[0], held[2]),)))
    recording.events = [MemoryEvent(step, *call, {}) for step, call in enumerate(calls)]
    return recording


def seconds_of(act):
    begin = time.perf_counter()
    value = act()
    return time.perf_counter() - begin, value


def open_page(browser, folder, html):
    path = Path(folder, "page.html")
    path.write_text(f"<!doctype html><meta charset=utf-8><body>{html}</body>", encoding="utf-8")
    page = browser.new_page(viewport={"width": 1200, "height": 1000})
    page.on("pageerror", lambda error: print("error in the page:", error))
    begin = time.perf_counter()
    page.goto(path.as_uri())
    page.get_by_test_id("memory").first.wait_for()
    return page, time.perf_counter() - begin


def opening(name, recording):
    """What happens between a recording and its picture in Python, in seconds."""
    replayed, _ = seconds_of(lambda: _replay(recording))
    taped, tape = seconds_of(lambda: MemoryTape(recording, name))
    sent, message = seconds_of(tape.message)
    size = sum(len(value) for value in message.values() if isinstance(value, bytes))
    print(f"{name}: {len(recording):,} events, at most {tape.most_pieces:,} pieces; replay alone {replayed:.2f} s, "
          f"tape {taped:.2f} s, message {sent:.2f} s and {size / 1e6:.1f} MB")
    return tape


def _replay(recording):
    state = MemoryState(recording.initial)
    for event in recording.events:
        state.apply(event)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--long", action="store_true")
    arguments = parser.parse_args()
    still_memory([MemoryTape(busy_recording(8, 20))], 3, "warm").png()  # matplotlib is loaded
    tape = opening("a training step", busy_recording(700, 22_331))
    drawn, _ = seconds_of(lambda: still_memory([tape], 9000, "still").png())
    print(f"its still picture: {drawn:.2f} s")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("PAGEDKV_CHROMIUM") or shutil.which("chromium"),
            args=["--no-sandbox", "--disable-gpu"])
        print(f"a plain page in headless Chromium {browser.version}, {os.cpu_count()} cores, "
              f"best of {arguments.rounds}")
        for pieces in (512, 4096):
            for count in (1, 2):
                tapes = [MemoryTape(busy_recording(pieces, pieces + 4000, seed)) for seed in range(1, count + 1)]
                html, rounds = embedded(tapes, "bench", pieces + 200), []
                for _ in range(arguments.rounds):
                    page, _ = open_page(browser, folder, html)
                    page.get_by_test_id("memory-view").press("ArrowRight")  # so that play goes on from here
                    rounds.append(page.evaluate(PLAY, arguments.seconds * 1000))
                    page.close()
                best = max(rounds, key=lambda each: each["changed"])
                print(f"{count} × {pieces:,} pieces, 250 events/s: {best['changed']:.1f} frames/s changed "
                      f"({best['all']:.1f} drawn)")
        long = opening("long", busy_recording(5000, 1_000_000 if arguments.long else 100_000))
        page, shown = open_page(browser, folder, embedded([long], "long", len(long) // 2))
        jump, step = (page.evaluate(KEYS, keys) for keys in (["Home", "End", "Home", "End"], ["ArrowLeft"] * 100))
        print(f"in the page: shown after {shown:.2f} s; the longest jump {jump:.0f} ms, a step at most {step:.1f} ms")
        browser.close()


if __name__ == "__main__":
    main()
