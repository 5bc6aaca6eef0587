import assert from "node:assert/strict";
import { test } from "node:test";
import { numbers } from "../../../pagedkv/viz/front/bytes.js";
import { Tape } from "../../../pagedkv/viz/front/tape.js";
import { chance, partOf, randomTape } from "./random_tape.mjs";

/** Everything a tape says about its frame, in the form of random_tape's states. */
function shown(tape) {
    return {
        blocks: Array.from({ length: tape.numBlocks }, (_, block) => ({
            owners: tape.references(block).map(each => tape.ownerOf(each)), cached: !!tape.isCached[block],
            faults: tape.faults[block], shownOwner: tape.shownOwner(block), count: tape.refcounts[block] })),
        tables: tape.owners.map((_, owner) => tape.table(owner)),
        held: tape.owners.map((_, owner) => tape.numHeld.values[owner]),
        tokens: tape.owners.map((_, owner) => tape.tokensOf.values[owner]),
        counts: [tape.used, tape.shared, tape.cached],
    };
}

function expected({ blocks, tables, tokensOf }) {
    return {
        blocks: blocks.map(({ references, cached, faults, last }) => ({
            owners: references.map(each => each.owner), cached, faults, count: references.length,
            shownOwner: references.length ? references[0].owner : last })),
        tables: tables.map(table => table.map(each => each.block)),
        held: tables.map(table => table.length),
        tokens: tokensOf,
        counts: [blocks.filter(each => each.references.length).length, blocks.filter(each => each.references.length > 1).length,
                 blocks.filter(each => each.cached && !each.references.length).length],
    };
}

test("every frame, forwards and then backwards", () => {
    for (let seed = 1; seed <= 20; seed++) {
        const { message, states } = randomTape(seed), tape = new Tape(message);
        const order = [...states.keys(), ...[...states.keys()].reverse()];
        for (const frame of order) {
            tape.seek(frame);
            assert.deepEqual(shown(tape), expected(states[frame]), `seed ${seed}, frame ${frame}`);
        }
    }
});

test("jumps to and fro", () => {
    for (let seed = 1; seed <= 20; seed++) {
        const { message, states } = randomTape(seed, { numBlocks: 9, numEvents: 120 }), tape = new Tape(message), random = chance(seed);
        for (let jump = 0; jump < 60; jump++) {
            const frame = Math.floor(random() * states.length);
            tape.seek(frame);
            assert.deepEqual(shown(tape), expected(states[frame]), `seed ${seed}, jump ${jump} to ${frame}`);
        }
    }
});

test("the timeline has what each frame has", () => {
    const { message, states } = randomTape(3), tape = new Tape(message);
    assert.equal(tape.usedAt.length, states.length);
    states.forEach((state, frame) => assert.deepEqual(
        [tape.usedAt, tape.sharedAt, tape.cachedAt].map(column => column.values[frame]), expected(state).counts));
});

test("a seek names every block that looks different", () => {
    const { message, states } = randomTape(5), tape = new Tape(message);
    for (const [from, to] of [[0, 30], [30, 10], [10, 60]]) {
        tape.seek(from);
        const before = shown(tape).blocks, touched = new Set();
        tape.seek(to, block => touched.add(block));
        shown(tape).blocks.forEach((now, block) => {
            if (!touched.has(block)) assert.deepEqual(now, before[block]);
        });
        assert.ok(touched.size <= tape.changesBetween(from, to));
    }
});

test("a tape that comes in pieces is the whole tape", () => {
    const { message, states } = randomTape(7), whole = new Tape(message);
    for (const [where, cuts] of [["at the end", [0, 1, 20, 60]], ["elsewhere", [10, 10, 33, 60]]]) {
        const tape = new Tape(partOf(message, -1, cuts[0]));
        for (let i = 1; i < cuts.length; i++) {
            const frame = where === "at the end" ? tape.numEvents : Math.min(3, tape.numEvents);
            tape.seek(frame);
            assert.equal(tape.append(partOf(message, cuts[i - 1], cuts[i])), true);
            assert.equal(tape.frame, frame, "it stays where it is");
        }
        for (const frame of [60, 31, 0, 44]) {
            tape.seek(frame);
            whole.seek(frame);
            assert.deepEqual(shown(tape), expected(states[frame]));
            assert.deepEqual(shown(tape), shown(whole));
        }
    }
});

test("a piece that does not come next is left alone", () => {
    const { message } = randomTape(7), tape = new Tape(partOf(message, -1, 20));
    assert.equal(tape.append(partOf(message, 10, 30)), false);
    assert.equal(tape.append(message), false);
    assert.equal(tape.numEvents, 20);
});

test("no events, and a frame that is not there", () => {
    const { message, states } = randomTape(1, { numEvents: 0 }), tape = new Tape(message);
    assert.equal(tape.numEvents, 0);
    assert.equal(tape.event, null);
    tape.seek(99);
    tape.seek(-3);
    assert.deepEqual(shown(tape), expected(states[0]));
});

test("numbers from bytes that begin anywhere", () => {
    const bytes = new Uint8Array([9, 1, 0, 0, 0, 2, 0, 0, 0]);
    assert.deepEqual([...numbers(Uint32Array, new DataView(bytes.buffer, 1, 8))], [1, 2]);
    assert.deepEqual([...numbers(Uint32Array, undefined)], []);
});

test("who took a reference, when, and where it stands in the table", () => {
    const { message } = randomTape(11), tape = new Tape(message);
    tape.seek(tape.numEvents);
    for (let block = 0; block < tape.numBlocks; block++)
        for (const reference of tape.references(block)) {
            const owner = tape.ownerOf(reference), event = tape.eventOf(reference);
            assert.equal(tape.table(owner)[tape.logicalIndex(reference)], block);
            assert.equal(tape.holds(owner, block), true);
            if (event >= 0) assert.ok(tape.changesOf(event).some(change => change.block === block && change.owner === owner));
            assert.equal(tape.stepOf(reference), event);
        }
});
