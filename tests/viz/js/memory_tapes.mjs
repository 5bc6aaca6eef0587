// Memory tapes for the tests, from lists of events: {op, owner, size, changes: [[kind, address, size, amount]], note, looks}.

import { MemoryTape } from "../../../pagedkv/viz/front/memory_tape.js";
import { chance, bytesOf } from "./random_tape.mjs";

export const KINDS = { reserve: 0, unreserve: 1, take: 2, fill: 3, give: 4, hold: 5 };

export function memoryMessage(events, { owners = ["A", "B", "C"], labels = ["arena"], capacity = null, source = "test", title = "t" } = {}) {
    const message = {
        capacity_bytes: capacity, source, title, no_name: "(no name)", operations: ["allocate", "grow", "free"], owners, labels,
        notes: [{}], pinned_free_share: 0.75, most_pieces: 0,
    };
    const pieces = [], segments = [], changes = [], amounts = [], ends = [0], notesOf = [], live = new Map();
    let used = 0, texts = [];
    const decisions = { of_event: [], asked: [], rounded: [], num_looks: [], look_ends: [0], note_ends: [0], look_addresses: [], look_sizes: [],
                        look_whats: [], look_verdicts: [], decision_notes: [] };
    const text = words => (texts.includes(words) || texts.push(words), texts.indexOf(words));
    for (const event of events) {
        for (const [kind, address, size, amount = size, label = 0] of event.changes ?? []) {
            let row;
            if (kind === "reserve" || kind === "take") {
                const table = kind === "take" ? pieces : segments;
                row = table.push({ address, size, owner: event.owner ?? 0, label }) - 1;
                live.set(`${kind}${address}`, row);
            } else row = live.get(`${kind === "unreserve" ? "reserve" : "take"}${address}`);
            changes.push(row << 3 | KINDS[kind]);
            amounts.push(kind === "take" || kind === "fill" ? amount : 0);
            used += kind === "take" ? 1 : kind === "give" ? -1 : 0;
            message.most_pieces = Math.max(message.most_pieces, used);
        }
        ends.push(changes.length);
        notesOf.push(event.note ? message.notes.push(event.note) - 1 : 0);
        if (event.looks) {
            for (const [what, address, size, verdict] of event.looks) {
                decisions.look_whats.push(text(what));
                decisions.look_addresses.push(address);
                decisions.look_sizes.push(size);
                decisions.look_verdicts.push(text(verdict));
            }
            decisions.asked.push(event.size ?? 0);
            decisions.rounded.push(event.size ?? 0);
            decisions.num_looks.push(event.looks.length);
            decisions.look_ends.push(decisions.look_whats.length);
            decisions.note_ends.push(0);
            decisions.of_event.push(decisions.asked.length);
        } else decisions.of_event.push(0);
    }
    const doubles = values => bytesOf(Float64Array, values), words = values => bytesOf(Uint32Array, values);
    Object.assign(message, {
        piece_addresses: doubles(pieces.map(each => each.address)), piece_sizes: doubles(pieces.map(each => each.size)),
        piece_owners: words(pieces.map(each => each.owner)), segment_addresses: doubles(segments.map(each => each.address)),
        segment_sizes: doubles(segments.map(each => each.size)), segment_labels: bytesOf(Uint16Array, segments.map(each => each.label)),
        changes: words(changes), amounts: doubles(amounts), ends: words(ends),
        ops: bytesOf(Uint16Array, events.map(event => message.operations.indexOf(event.op ?? "allocate"))),
        who: words(events.map(event => event.owner ?? 0)), sizes: doubles(events.map(event => event.size ?? 0)), notes_of: words(notesOf),
        largest_free: doubles(new Array(events.length + 1).fill(0)),
    });
    if (decisions.asked.length) {
        message.decision_texts = texts;
        message.decisions_left_out = 0;
        for (const [name, values] of Object.entries(decisions))
            message[name] = /addresses|sizes|asked|rounded/.test(name) ? doubles(values) : words(values);
    }
    // What Python counts: the largest run at every frame.
    const tape = new MemoryTape(message);
    message.largest_free = doubles(Array.from({ length: events.length + 1 }, (_, frame) => {
        tape.seek(frame);
        return Math.max(0, ...tape.freeRuns().map(run => run.size));
    }));
    return message;
}

export function memoryTapeOf(events, settings) { return new MemoryTape(memoryMessage(events, settings)); }

/** Segments of all sizes, far and near, all there from the first event on. */
export function scatteredSegments(seed, count) {
    const random = chance(seed), changes = [];
    let at = 2 ** 44;
    for (let i = 0; i < count; i++) {
        const size = 512 * (1 + Math.floor(random() ** 4 * 100_000));
        changes.push(["reserve", at, size]);
        at += size + (random() < 0.3 ? 0 : 512 * Math.floor(random() * 2 ** 20));
    }
    return [{ changes }];
}
