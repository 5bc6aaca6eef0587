"""How fast does the block grid play? Prints frames per second, and what loading a long recording costs.

    python benchmarks/block_grid.py [--rounds 3] [--seconds 4]

The widget's own modules run in a plain page, in headless Chromium without a GPU, with a model that stands in for
Jupyter's. A frame counts only if the pixels of the grid differ from those of the frame before; reading them back is part
of the time. Each line gives the best of the rounds, as other programs may take the processor meanwhile. The KV cache view
plays a manager's recording with and without the texts of its sequences, the rounds of the two in turn.
"""

import argparse
import base64
import functools
import http.server
import os
import random
import shutil
import threading
import time

from playwright.sync_api import sync_playwright

from pagedkv import BlockPool, record
from pagedkv.core.manager import KVCacheManager
from pagedkv.viz import BlockGrid, KVCacheView
from pagedkv.viz.modules import FRONT
from pagedkv.viz.tape import Tape

PAGE = """<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><link rel="stylesheet" href="grid.css">
<link rel="stylesheet" href="prefix_tree.css"><link rel="stylesheet" href="texts.css">
<body><div id="here"></div><script type="module">
const { default: makeWidget } = await import(location.search === "?kv" ? "./kv_entry.js" : "./widget.js");
const bytes = text => new DataView(Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer);
window.show = state => {
    for (const tape of state.tapes) for (const name of tape.packed) tape[name] = bytes(tape[name]);
    const handlers = {};
    const model = {
        get: name => state[name], save_changes() {}, send() {},
        set(name, value) { state[name] = value; (handlers[`change:${name}`] ?? []).forEach(each => each()); },
        on(name, act) { (handlers[name] ??= []).push(act); }, off() {},
    };
    const widget = makeWidget(), begin = performance.now();
    widget.initialize({ model });
    widget.render({ model, el: document.getElementById("here") });
    window.model = model;
    return performance.now() - begin;
};
window.play = async milliseconds => {
    const canvas = document.querySelector("[data-testid=grid]"), context = canvas.getContext("2d");
    const look = () => {
        const pixels = new Uint32Array(context.getImageData(0, 0, canvas.width, canvas.height).data.buffer);
        let sum = 2166136261;
        for (let i = 0; i < pixels.length; i++) sum = Math.imul(sum ^ pixels[i], 16777619);
        return sum;
    };
    model.set("playing", true);
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
    model.set("playing", false);
    return { changed: changed / seconds, all: all / seconds };
};
window.scrub = frames => {
    const times = frames.map(frame => { const begin = performance.now(); model.set("frame", frame); return performance.now() - begin; });
    return Math.max(...times);
};
window.ready = true;
</script>"""


class Site(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        if self.path.split("?")[0] != "/":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE.encode())

    def log_message(self, *arguments):
        pass


def busy_recording(num_blocks, events, blocks_per_event, seed=1):
    """Half to all of the pool in use; every event takes, shares or gives back about `blocks_per_event` blocks."""
    chance, pool, live = random.Random(seed), BlockPool(num_blocks), []
    with record(pool) as recording:
        while len(recording) < events:
            few = pool.num_free_blocks < 2 * blocks_per_event
            if not few and (chance.random() < 0.5 or pool.num_free_blocks > num_blocks // 2):
                owner = f"request {len(recording)}"
                live.append((owner, pool.allocate(chance.randint(1, 2 * blocks_per_event), owner)))
            elif live and not few and chance.random() < 0.2:
                blocks = chance.choice(live)[1]
                owner = f"fork {len(recording)}"
                pool.retain(blocks, owner)
                live.append((owner, list(blocks)))
            else:
                owner, blocks = live.pop(chance.randrange(len(live)))
                pool.release(blocks, owner)
    return recording


def busy_manager(num_blocks, events, prompt_tokens=1000, seed=1):
    """Sequences with one system prompt and questions of their own, which all get tokens in turn; the oldest ends and a new
    one comes."""
    chance, manager = random.Random(seed), KVCacheManager(num_blocks, 16)
    live, system = [], [chance.randrange(9000) for _ in range(prompt_tokens)]
    with record(manager) as recording:
        while len(recording) < events:
            if len(live) < num_blocks // 128 or chance.random() < 0.1:
                live.append(manager.add_sequence(system + [chance.randrange(9000) for _ in range(prompt_tokens // 2)]))
            if len(live) > num_blocks // 128:
                manager.free_sequence(live.pop(0))
            some = live[-16:]
            manager.append_tokens(some, [chance.randrange(9000) for _ in some])
    return recording


def state_of(grid, tape):
    message = tape.message()
    packed = [name for name, value in message.items() if isinstance(value, bytes)]
    message.update({name: base64.b64encode(message[name]).decode() for name in packed}, packed=packed)
    return {"tapes": [message], "title": grid.title, "columns": 0, "frame": grid.frame, "opening": -1, "playing": False,
            "selected": grid.selected, "speed": grid.speed, "following": False}


def open_page(browser, address):
    page = browser.new_page(viewport={"width": 1100, "height": 900})
    page.on("pageerror", lambda error: print("error in the page:", error))
    page.goto(address)
    page.wait_for_function("window.ready")
    return page


def compare_views(browser, address, arguments):
    """The KV cache view of 65,536 blocks with its texts and without."""
    recording = busy_manager(65_536, 12_000)
    views = [KVCacheView(recording, token_text=lambda token: f" word{token}", texts=texts) for texts in (False, True)]
    rounds = {False: [], True: []}
    for _ in range(arguments.rounds):
        for view in views:
            page = open_page(browser, f"{address}?kv")
            state = state_of(view, view.tapes[0]) | {"frame": 9000, "speed": 250}
            load = page.evaluate("state => show(state)", state)
            rounds[view.tapes[0].texts].append(page.evaluate("ms => play(ms)", arguments.seconds * 1000) | {"load": load})
            page.close()
    for texts, played in rounds.items():
        best = max(played, key=lambda each: each["all"])
        print(f" 65,536 blocks, KV cache view {'with' if texts else 'without'} texts of "
              f"{len(views[0].tapes[0].owners):,} sequences, 250 events/s: {best['changed']:.1f} frames/s changed "
              f"({best['all']:.1f} drawn), shown after {min(each['load'] for each in played):.0f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    arguments = parser.parse_args()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Site, directory=str(FRONT)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("PAGEDKV_CHROMIUM") or shutil.which("chromium"),
            args=["--no-sandbox", "--disable-gpu"])
        print(f"a plain page in headless Chromium {browser.version}, {os.cpu_count()} cores, best of {arguments.rounds}")
        for num_blocks in (512, 16_384, 65_536):
            per_event = max(2, num_blocks // 200)
            grid = BlockGrid(busy_recording(num_blocks, 4000, per_event))
            for selected in ("", grid.tapes[0].owners[0]):
                rounds = []
                for _ in range(arguments.rounds):
                    page = open_page(browser, address)
                    state = state_of(grid, grid.tapes[0]) | {"frame": 200, "speed": 250, "selected": selected}
                    page.evaluate("state => show(state)", state)
                    rounds.append(page.evaluate("ms => play(ms)", arguments.seconds * 1000))
                    page.close()
                best = max(rounds, key=lambda each: each["changed"])
                print(f"{num_blocks:>7,} blocks, about {per_event} in each event, 250 events/s, "
                      f"{'an owner followed' if selected else 'nobody followed  '}: {best['changed']:.1f} frames/s changed "
                      f"({best['all']:.1f} drawn)")
        compare_views(browser, address, arguments)
        recording = busy_recording(65_536, 200_000, 12)
        begin = time.perf_counter()
        tape = Tape(recording, "long")
        seconds = time.perf_counter() - begin
        size = sum(len(value) for value in tape.message().values() if isinstance(value, bytes))
        names = sum(map(len, tape.owners)) + 3 * len(tape.owners)
        print(f"65,536 blocks × 200,000 events: {tape.num_changes:,} changes of blocks, {len(tape.owners):,} owners; "
              f"tape made in {seconds:.1f} s, {size / 1e6:.1f} MB and {names / 1e6:.1f} MB of names")
        grid = BlockGrid(busy_recording(65_536, 10, 12))
        page = open_page(browser, address)
        load = page.evaluate("state => show(state)", state_of(grid, tape))
        there = page.evaluate("frames => scrub(frames)", [200_000, 0, 100_000, 150_000, 60_000])
        near = page.evaluate("frames => scrub(frames)", [60_000 - each for each in range(1, 200)])
        print(f"in the page: shown after {load:.0f} ms; the longest jump {there:.0f} ms, a step back at most {near:.1f} ms")
        browser.close()
    server.shutdown()


if __name__ == "__main__":
    main()
