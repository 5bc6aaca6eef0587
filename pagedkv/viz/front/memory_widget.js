// The memory view: a heading with the controls, and a panel for each allocator. All of them move in step.
//
// How another widget builds on it (the module that anywidget loads is memory_entry.js; yours is another):
//
//     import { memoryWidget } from "./memory_widget.js";
//     export default memoryWidget(extras);
//
// `extras(model, session)` is called once for each place that shows the widget, and returns
//
//     above, below       an Element between the heading and the panels, and one under the panels; or null
//     show(what)         optional: "tapes" (they were replaced, and are shown now), "frame", "selected", "playing", "speed"
//     close()            optional: the place is gone; take your listeners off the model
//
// Both elements stand within .pk-root: its variables (--pk-paper, --pk-ink, --pk-faint, --pk-line, --pk-accent, …) and classes
// (pk-button, pk-badge) are at hand, and .pk-dark is on the root in a dark theme. Keys that are pressed in an input, select,
// textarea or [data-own-keys] of theirs do not move the recording. `session` has frame, playing, tapes, go(frame), play(),
// pause(), select(owner); `model` is anywidget's, for traits and messages of your own.
//
// In Python: subclass `MemoryView`, set `_esm = joined("lab_widget.js")` and `_css = stylesheet("grid.css", "memory.css",
// "lab.css")` (see modules.py), and call `self.show_recordings([...], titles=[...])` to replace what is shown: the tapes are sent
// again, the frame stays where it is as long as it exists, an owner who is gone is no longer followed, and the panels are
// made anew if their number has changed.

import { element } from "./elements.js";
import { Guess } from "./memory_guess.js";
import { memoryBadges, MemoryPanel } from "./memory_panel.js";
import { MemoryTape } from "./memory_tape.js";
import { widgetOf } from "./view.js";

const TRAITS = ["guess", "guesses_right", "guesses_made"];

/** What anywidget asks for; `extras` adds to it, see above. */
export function memoryWidget(extras = null) { return widgetOf(memoryKind(extras)); }

export function memoryKind(extras = null) {
    return {
        TapeKind: MemoryTape, testId: "memory-view", name: "Memory view", widthBeside: 380, badges: memoryBadges,
        traits: TRAITS, extras,
        makePanel: (tape, view) => new MemoryPanel(tape, view),
        controls(view) {
            view.guess = new Guess(view);
            view.score = element("span", { class: "pk-score", "data-testid": "score", "aria-live": "polite" });
            view.guessButton = element("button", { class: "pk-button pk-guess", type: "button", "data-testid": "guess",
                                                   title: "guess where each allocation goes before it is shown (g)" }, "guess");
            view.guessButton.addEventListener("click", () => view.guess.toggle());
            showGuessing(view);
            return [view.score, view.guessButton];
        },
        key(event, view) {
            if (event.key === "g" || event.key === "G") view.guess.toggle();
            else if (!/^[1-9]$/.test(event.key) || !view.guess.choose(+event.key)) return false;
            return true;
        },
        step: (view, by) => by === 1 && view.guess.step(),
        moved: view => view.guess.moved(),
        told(what, view) {
            if (what === "tapes" || (what === "guess" && !view.guess.on)) view.guess.drop();
            if (!TRAITS.includes(what)) return;
            showGuessing(view);
        },
    };
}

function showGuessing(view) {
    const { model } = view, made = model.get("guesses_made"), on = model.get("guess");
    view.guessButton.setAttribute("aria-pressed", on);
    view.score.textContent = made ? `${model.get("guesses_right")} of ${made} right` : on ? "step on to be asked" : "";
}
