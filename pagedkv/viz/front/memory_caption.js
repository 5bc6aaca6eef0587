// What one event did to the memory, in words. memory_words.py says the same in Python.

import { FILL, GIVE, HOLD, TAKE } from "./memory_tape.js";
import { bytesAsText, hexOf } from "./memory_words.js";
import { grouped } from "./words.js";

/** {text, kind, step}: kind is "start", "done", "refused" or "fault". */
export function memoryCaption(tape) {
    const event = tape.event;
    if (!event) {
        const what = tape.used ? bytesAsText(tape.used) : "nothing is";
        return { kind: "start", step: null, text: `before the first event: ${what} in use` };
    }
    const { note, step } = event, call = callOf(event);
    if (note.error) {
        const text = `${call} – refused: ${note.error}`;
        return { kind: "refused", step, text: (note.message ? `${text} · ${note.message}` : text) + devicePart(note) };
    }
    if (note.skipped) return { kind: "done", step, text: `${call} – skipped: what it is about was refused before` };
    const text = call + effectOfEvent(tape, event) + devicePart(note);
    if (note.faults) return { kind: "fault", step, text: `${text} – fault: ${note.faults.join("; ")}` };
    return { kind: "done", step, text };
}

/** As "allocate(A, 64 MiB)". */
export function callOf({ op, owner, size }) {
    const told = owner === null ? [] : [owner];
    if (op !== "free" && size) told.push(bytesAsText(size));
    return `${op}(${told.join(", ")})`;
}

function effectOfEvent(tape, { changes, moved }) {
    const of = kind => changes.filter(change => change.kind === kind);
    const sum = list => list.reduce((all, change) => all + change.size, 0);
    const taken = of(TAKE), given = of(GIVE), filled = of(FILL), held = of(HOLD);
    let text = "";
    if (taken.length) {
        const stays = given.some(change => change.address === taken[0].address);
        text = stays ? ` – stays at ${hexOf(taken[0].address)}` : ` → ${hexOf(taken[0].address)}`;
        if (taken.length > 1) text += ` and ${grouped(taken.length - 1)} more`;
        const asked = taken.reduce((all, change) => all + change.amount, 0);
        if (sum(taken) !== asked) text += `, ${bytesAsText(sum(taken))} set aside`;
        if (moved) text += `, ${bytesAsText(moved)} moved`;
    } else if (filled.length) text = ` – stays at ${hexOf(filled[0].address)}`;
    else if (given.length) text = ` – ${bytesAsText(sum(given))} free again`;
    if (held.length) text += ` – ${bytesAsText(sum(held))} let go of, not free yet`;
    return text;
}

function devicePart(note) {
    if (!note.device_calls) return "";
    return ` · device: ${Object.entries(note.device_calls).map(([kind, count]) => `${grouped(count)} ${kind}`).join(", ")}`;
}

/** The lines of the box beside a place under the pointer, [heading, ...lines]; null where there is no memory. */
export function describePlace(tape, address) {
    const segment = tape.segmentAt(address), piece = tape.pieceAt(address);
    if (segment < 0) return ["not taken from the device", hexOf(address)];
    const size = tape.segmentSize[segment], label = tape.labels[tape.segmentLabel[segment]];
    const within = `in the ${label ? `${label} ` : ""}segment at ${hexOf(tape.segmentAddress[segment])}, ${bytesAsText(size)}`;
    if (piece < 0) {
        const run = tape.runAt(address);
        return [`free · ${bytesAsText(run.size)}`, `${hexOf(run.address)} … ${hexOf(run.address + run.size)}`, within];
    }
    const begin = tape.pieceAddress[piece], length = tape.pieceSize[piece], filled = tape.filled[piece];
    const lines = [`${tape.owners[tape.pieceOwner[piece]]} · ${bytesAsText(length)}`, `${hexOf(begin)} … ${hexOf(begin + length)}`];
    lines.push(filled < length ? `asked for ${bytesAsText(filled)}, ${bytesAsText(length - filled)} set aside`
        : "all of it asked for");
    if (tape.pieceState[piece] === 2) lines.push("let go of, and not free before work in the queue is done");
    const event = tape.eventOf(piece);
    lines.push(event < 0 ? "there from the beginning" : `since event ${grouped(event + 1)}`, within);
    return lines;
}
