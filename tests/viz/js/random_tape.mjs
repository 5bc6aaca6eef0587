// Random tapes, and the pools they describe, worked out in the most direct way: a list of references for each block.

import { ADDED, CACHED, FAULT, REMOVED, UNCACHED } from "../../../pagedkv/viz/front/tape.js";

/** A generator of numbers in [0, 1) that gives the same ones for the same seed. */
export function chance(seed) {
    return () => {
        seed = (seed + 0x6d2b79f5) | 0;
        let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
        t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
        return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
}

export function bytesOf(Type, values) {
    const typed = new Type(values);
    return new DataView(typed.buffer);
}

/** {message, states}: a tape, and what it must show at every frame. */
export function randomTape(seed, { numBlocks = 6, numEvents = 60, numOwners = 4, held = 2 } = {}) {
    const random = chance(seed), pick = n => Math.floor(random() * n);
    const changes = [], ends = [], ops = [], who = [], tokens = [], states = [];
    const blocks = Array.from({ length: numBlocks }, () => ({ references: [], cached: false, faults: 0, last: -1 }));
    const tables = Array.from({ length: numOwners }, () => []);
    const tokensOf = new Array(numOwners).fill(-1);
    let taken = 0;
    const keep = () => {
        ends.push(changes.length / 2);
        states.push(structuredClone({ blocks, tables, tokensOf }));
    };
    const change = (block, owner, what) => {
        const cell = blocks[block];
        if (what & ADDED) {
            cell.references.push({ owner, taken });
            tables[owner].push({ block, taken: taken++ });
            if (what & FAULT && cell.references.length > 1) cell.faults++;
        } else if (what & REMOVED) {
            const at = cell.references.findLastIndex(each => each.owner === owner);
            const [gone] = cell.references.splice(at, 1);
            tables[owner] = tables[owner].filter(each => each.taken !== gone.taken);
            if (cell.references.length <= 1) cell.faults = 0;
            if (!cell.references.length) cell.last = owner;
        }
        if (what & CACHED) cell.cached = true;
        if (what & UNCACHED) cell.cached = false;
        changes.push(block, (owner << 8 | what) >>> 0);
    };
    for (let i = 0; i < held; i++) change(pick(numBlocks), 0, ADDED);
    keep();
    for (let event = 0; event < numEvents; event++) {
        const owner = pick(numOwners), kind = pick(5);
        for (let i = pick(4); i > 0; i--) {
            const block = pick(numBlocks), cell = blocks[block];
            if (kind <= 1) change(block, owner, ADDED | (cell.references.length && kind ? FAULT : 0) | (cell.cached && !kind ? UNCACHED : 0));
            else if (kind === 2 || kind === 3) {
                if (!cell.references.length) change(block, owner, FAULT);
                else change(block, cell.references[pick(cell.references.length)].owner, REMOVED);
            } else change(block, owner, cell.cached ? UNCACHED : CACHED);
        }
        ops.push([0, 1, 2, 2, 3][kind]);
        who.push(owner);
        tokens.push(pick(3) ? -1 : pick(100));
        if (tokens.at(-1) >= 0) tokensOf[owner] = tokens.at(-1);
        keep();
    }
    return { states, message: {
        since: -1, num_blocks: numBlocks, source: "test", title: "t", block_size_tokens: 16, no_name: "(no name)",
        operations: ["allocate", "retain", "release", "cache", "evict"],
        owners: Array.from({ length: numOwners }, (_, i) => `owner ${i}`), notes: [{}],
        changes: bytesOf(Uint32Array, changes), ends: bytesOf(Uint32Array, ends), ops: bytesOf(Uint8Array, ops),
        who: bytesOf(Uint32Array, who), notes_of: bytesOf(Uint32Array, who.map(() => 0)), tokens: bytesOf(Int32Array, tokens),
    } };
}

/** The part of a tape between two numbers of events, as it is sent while a pool is followed. */
export function partOf(message, from, to) {
    const of = (Type, name) => new Type(message[name].buffer, message[name].byteOffset, message[name].byteLength / Type.BYTES_PER_ELEMENT);
    const ends = of(Uint32Array, "ends"), begins = from < 0, first = Math.max(0, from);
    return { ...message, since: from, owners: begins ? message.owners : [], notes: begins ? message.notes : [],
        changes: bytesOf(Uint32Array, of(Uint32Array, "changes").slice(begins ? 0 : 2 * ends[first], 2 * ends[to])),
        ends: bytesOf(Uint32Array, ends.slice(begins ? 0 : first + 1, to + 1)),
        ops: bytesOf(Uint8Array, of(Uint8Array, "ops").slice(first, to)),
        who: bytesOf(Uint32Array, of(Uint32Array, "who").slice(first, to)),
        notes_of: bytesOf(Uint32Array, of(Uint32Array, "notes_of").slice(first, to)),
        tokens: bytesOf(Int32Array, of(Int32Array, "tokens").slice(first, to)) };
}
