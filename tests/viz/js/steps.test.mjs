// The steps view: which tile stands for which block, calls in lanes, what a tape tells.

import assert from "node:assert/strict";
import { test } from "node:test";
import { layOutPlaces, numShown, slotIn, tilesFor } from "../../../pagedkv/viz/front/steps_layout.js";
import { callsIn, StepsTape } from "../../../pagedkv/viz/front/steps_tape.js";

const BOXES = layOutPlaces(["stack", "set", "set"], ["stack", "A holds", "B holds"], [3, 3, 3], 900, 0);
const keysOf = tiles => Object.fromEntries(tiles.map(tile => [`${tile.block}@${tile.place}`, tile.key]));
const after = tiles => new Map(tiles.map(tile => [tile.key, tile.place]));

test("a block that moves takes its tile along", () => {
    const first = tilesFor(BOXES, [[2, 1, 0], [], []]);
    assert.deepEqual(keysOf(first), { "2@0": "2/0", "1@0": "1/0", "0@0": "0/0" });
    const second = tilesFor(BOXES, [[1, 0], [2], []], after(first));
    assert.deepEqual(keysOf(second), { "1@0": "1/0", "0@0": "0/0", "2@1": "2/0" });
});

test("a block in two places has two tiles, and the one that was there stays", () => {
    const held = tilesFor(BOXES, [[1, 0], [], [2]], after(tilesFor(BOXES, [[2, 1, 0], [], []])));
    const twice = tilesFor(BOXES, [[1, 0], [2], [2]], after(held));
    assert.deepEqual(keysOf(twice), { "1@0": "1/0", "0@0": "0/0", "2@1": "2/1", "2@2": "2/0" });
    const back = tilesFor(BOXES, [[1, 0], [2], []], after(twice));
    assert.equal(keysOf(back)["2@1"], "2/1", "the other one goes");
    assert.equal(new Set(twice.map(tile => tile.key)).size, twice.length);
});

test("block 1 is not block 11", () => {
    const tiles = tilesFor(BOXES, [[11], [], []], new Map([["1/0", 0], ["11/0", 1]]));
    assert.deepEqual(keysOf(tiles), { "11@0": "11/0" });
});

test("what lies below the top of a stack stays where it is", () => {
    const [box] = BOXES;
    assert.deepEqual(slotIn(box, 1, 3), slotIn(box, 0, 2));
    assert.deepEqual(slotIn(box, 2, 3), slotIn(box, 0, 1));
});

test("a stack that is too deep says how many are below", () => {
    const [box] = layOutPlaces(["stack"], ["stack"], [20], 900);
    assert.equal(numShown(box, 8), 8);
    assert.equal(numShown(box, 20), 7);
    assert.ok(slotIn(box, 7, 20).y > slotIn(box, 6, 20).y);
    assert.equal(tilesFor([box], [Array.from({ length: 20 }, (_, i) => i)]).length, 7);
});

test("calls last from their first step to the one that ends them", () => {
    const steps = [[-1, ""], [0, "pop()"], [1, "pop()"], [0, ""], [0, "push(2)"], [1, ""], [0, "push(3)"], [1, ""]]
        .map(([actor, call]) => ({ actor, call }));
    assert.deepEqual(callsIn(steps, 0), [{ call: "pop()", from: 1, to: 3 }, { call: "push(2)", from: 4, to: 4 },
                                         { call: "push(3)", from: 6, to: 6 }]);
    assert.deepEqual(callsIn(steps, 1), [{ call: "pop()", from: 2, to: 5 }, { call: "", from: 7, to: 7 }]);
    assert.deepEqual(callsIn(steps, 2), []);
});

test("a tape stays between its start and its end, and tells its result late", () => {
    const step = (text, blocks, mark = "") => ({ actor: -1, call: "", text, blocks, notes: [], head: null, mark });
    const tape = new StepsTape({ title: "", source: "", result: "lost", actors: [], hasHead: false, tellingFrame: 1,
        places: [{ name: "stack", kind: "stack", actor: -1 }], steps: [step("start", [[1, 0]]), step("falls", [[0]], "here"), step("ends", [[0]])] });
    assert.equal(tape.numEvents, 2);
    assert.equal(tape.resultNow, "");
    tape.moveTo(9);
    assert.deepEqual([tape.frame, tape.sentence(), tape.resultNow], [2, "ends", "lost"]);
    tape.moveTo(1);
    assert.deepEqual([tape.sentence(), [...tape.moved()], tape.where()], ["falls – here", [1], "stack: 0"]);
    tape.seek(-3);
    assert.deepEqual([tape.frame, tape.seen], [0, 2], "what was seen stays told");
});
