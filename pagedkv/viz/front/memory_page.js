// The memory view in a page of its own, without Jupyter: a model that only remembers what it is told.

import { memoryKind } from "./memory_widget.js";
import { MemoryTape } from "./memory_tape.js";
import { Session } from "./session.js";
import { View } from "./view.js";

class Remembered {
    constructor(state) {
        this.state = state;
        this.handlers = {};
    }

    get(name) { return this.state[name]; }

    set(name, value) {
        this.state[name] = value;
        for (const act of this.handlers[`change:${name}`] ?? []) act();
    }

    on(name, act) { (this.handlers[name] ??= []).push(act); }
    off(name, act) { this.handlers[name] = (this.handlers[name] ?? []).filter(each => each !== act); }
    save_changes() {}
    send() {}
}

/** Show every memory view that memory_embed.py has left in the page and nobody has shown yet. */
export function showEmbedded() {
    for (const place of document.querySelectorAll(".pk-embedded:not([data-shown])")) {
        place.dataset.shown = "";
        const { tapes, ...state } = JSON.parse(place.querySelector("script[type='application/json']").textContent);
        for (const tape of tapes)
            for (const name of tape.packed)
                tape[name] = new DataView(Uint8Array.from(atob(tape[name]), character => character.charCodeAt(0)).buffer);
        const model = new Remembered({ ...state, tapes, opening: state.frame, playing: false, selected: "", guess: false,
                                       guesses_right: 0, guesses_made: 0 });
        const session = new Session(model, MemoryTape);
        session.open();
        new View(session, place, memoryKind());
    }
}

export default showEmbedded;
