// Geometry, words, colours, time.

import assert from "node:assert/strict";
import { test } from "node:test";
import { captionOf, describeBlock, describeOwner } from "../../../pagedkv/viz/front/caption.js";
import { inkOn, makeColours, mixColours, ownerLabel, parseColour, pixel } from "../../../pagedkv/viz/front/colours.js";
import { blockAt, chooseLayout, placeOf, tableWindow } from "../../../pagedkv/viz/front/layout.js";
import { keyAction, Player } from "../../../pagedkv/viz/front/player.js";
import { ADDED, CACHED, FAULT, REMOVED, Tape } from "../../../pagedkv/viz/front/tape.js";
import { counted } from "../../../pagedkv/viz/front/words.js";
import { bytesOf } from "./random_tape.mjs";

/** A tape from a list of {op, owner (index), changes: [[block, owner, what]], note, tokens}. */
function tapeOf(events, { numBlocks = 8, owners = ["A", "B"], size = 0 } = {}) {
    const notes = [{}], changes = [], ends = [0];
    for (const event of events) {
        for (const [block, owner, what] of event.changes ?? []) changes.push(block, owner << 8 | what);
        ends.push(changes.length / 2);
    }
    const operations = ["allocate", "retain", "release", "cache", "evict"];
    const tape = new Tape({
        since: -1, num_blocks: numBlocks, source: "test", title: "t", block_size_tokens: size, no_name: "(no name)", operations,
        owners, notes: notes.concat(events.map(event => event.note ?? {})), changes: bytesOf(Uint32Array, changes),
        ends: bytesOf(Uint32Array, ends), ops: bytesOf(Uint8Array, events.map(event => operations.indexOf(event.op))),
        who: bytesOf(Uint32Array, events.map(event => event.owner ?? 0)),
        notes_of: bytesOf(Uint32Array, events.map((_, i) => i + 1)),
        tokens: bytesOf(Int32Array, events.map(event => event.tokens ?? -1)),
    });
    tape.seek(events.length);
    return tape;
}

const take = (blocks, owner = 0, rest = {}) => ({ op: "allocate", owner, changes: blocks.map(block => [block, owner, ADDED]), ...rest });

test("captions", () => {
    const words = (...events) => captionOf(tapeOf(events)).text;
    assert.equal(words(), "before the first event: every block is free");
    assert.equal(words(take([7, 6])), "allocate(2) by A → blocks 7, 6");
    assert.equal(words(take([])), "allocate(0) by A → no block");
    assert.equal(words(take([3], 1, { note: { copied_from: 2 } })), "allocate(1) by B → block 3, a copy of block 2");
    assert.equal(words(take([7, 6]), { op: "retain", owner: 1, changes: [[7, 1, ADDED]] }),
                 "retain([7]) by B – refcount(7) 1 → 2");
    assert.equal(words(take([7, 7]), { op: "release", owner: 0, changes: [[7, 0, REMOVED], [7, 0, REMOVED]] }),
                 "release([7, 7]) by A – block 7 is free");
    assert.equal(words(take([1]), { op: "cache", owner: 0, changes: [[1, 0, CACHED]] }, { op: "release", owner: 0, changes: [[1, 0, REMOVED]] }),
                 "release([1]) by A – block 1 is free, and still cached");
    assert.equal(words({ op: "release", owner: 0, note: { error: "DoubleFree", message: "block 7 is free", asked: "[7]" } }),
                 "release([7]) by A – refused: DoubleFree · block 7 is free");
    assert.equal(words({ op: "allocate", owner: 1, note: { error: "OutOfBlocks", asked: "9" } }), "allocate(9) by B – refused: OutOfBlocks");
    const fault = captionOf(tapeOf([take([7]), { op: "allocate", owner: 1, changes: [[7, 1, ADDED | FAULT]],
                                                 note: { faults: ["block 7 was given to B while A holds it"] } }]));
    assert.equal(fault.text, "allocate(1) by B → block 7 – fault: block 7 was given to B while A holds it");
    assert.equal(fault.kind, "fault");
    assert.match(words(take([...Array(8).keys()]), { op: "retain", owner: 1, changes: [...Array(8).keys()].map(b => [b, 1, ADDED]) }),
                 /8 blocks now shared$/);
});

test("a caller without a name is not named", () => {
    const tape = tapeOf([take([1])], { owners: ["(no name)"] });
    assert.equal(captionOf(tape).text, "allocate(1) → block 1");
});

test("what the pointer tells about a block", () => {
    const tape = tapeOf([take([4, 5], 0, { tokens: 22 }), { op: "retain", owner: 1, changes: [[5, 1, ADDED]] }], { size: 16 });
    assert.deepEqual(describeBlock(tape, 5), ["block 5 · refcount 2", "A, logical 1 · 6 of 16 tokens · since step 0", "B, logical 0 · since step 1"]);
    assert.deepEqual(describeBlock(tape, 0), ["block 0 · refcount 0", "free"]);
    assert.equal(describeOwner(tape, 0, tape.table(0)), "22 tokens · 2 blocks, 1 shared");
    assert.equal(describeOwner(tape, 1, tape.table(1)), "1 block, 1 shared · room for 16 tokens");
    assert.equal(counted(1, "block"), "1 block");
    assert.equal(counted(65536, "block"), "65,536 blocks");
});

test("every block has its place, and its place has the block", () => {
    for (const numBlocks of [1, 2, 8, 9, 40, 512, 1000, 16384, 65536])
        for (const width of [120, 380, 575, 900])
            for (const ratio of [1, 1.5, 2]) {
                const layout = chooseLayout(numBlocks, width, 400, ratio);
                assert.ok(layout.width <= width + 1e-6, `${numBlocks} blocks in ${width}: ${layout.width}`);
                assert.ok(Number.isInteger(Math.round(layout.cell * ratio * 1e6) / 1e6), "whole device pixels");
                assert.ok(layout.columns * layout.rows >= numBlocks);
                for (const block of [0, numBlocks >> 1, numBlocks - 1]) {
                    const { x, y } = placeOf(layout, block), half = layout.cell / 2;
                    assert.equal(blockAt(layout, x + half, y + half), block);
                }
                assert.equal(blockAt(layout, -1, 5), -1);
                assert.equal(blockAt(layout, layout.width + 1, 0), -1);
                assert.equal(blockAt(layout, 1, layout.height + 1), -1);
            }
});

test("a last row that is not full has no blocks after its last", () => {
    const layout = chooseLayout(9, 400, 400, 1, 4);
    assert.deepEqual([layout.columns, layout.rows], [4, 3]);
    assert.equal(blockAt(layout, layout.cell * 1.5, layout.cell * 2.5), -1);
});

test("large pools are pixels, small ones have marks", () => {
    assert.equal(chooseLayout(65536, 575).style, "pixels");
    assert.equal(chooseLayout(512, 575).style, "cells");
    assert.equal(chooseLayout(4096, 575).style, "squares");
    assert.equal(chooseLayout(8, 575).columns, 8);
    assert.equal(chooseLayout(512, 576).columns, 32);
    assert.ok(chooseLayout(0, 500).rows >= 1);
});

test("the shown part of a long table", () => {
    assert.deepEqual(tableWindow(5, 10), { start: 0, end: 5 });
    assert.deepEqual(tableWindow(100, 10), { start: 90, end: 100 });
    assert.deepEqual(tableWindow(100, 10, 3), { start: 0, end: 10 });
    const { start, end } = tableWindow(100, 10, 50);
    assert.ok(start <= 50 && 50 < end && end - start === 10);
});

test("colours", () => {
    assert.deepEqual(parseColour("#fff"), [255, 255, 255]);
    assert.deepEqual(parseColour("rgb(1, 2, 3)"), [1, 2, 3]);
    assert.deepEqual(parseColour("what"), [128, 128, 128]);
    assert.deepEqual(mixColours([0, 0, 0], [100, 100, 100], 0.25), [75, 75, 75]);
    assert.equal(pixel([1, 2, 3]), 0xff030201);
    assert.equal(inkOn([255, 255, 0]), "#1f2328");
    const themed = dark => makeColours(name => ({ "--pk-paper": dark ? "#111" : "#fff", "--pk-ink": dark ? "#eee" : "#111", "--pk-accent": "#00f" })[name]);
    assert.notDeepEqual(themed(true).free, themed(false).free);
    assert.equal(themed(true).dark, true);
    assert.deepEqual(themed(false).variant(0), themed(false).variant(6), "hues repeat");
});

test("labels fit into a cell", () => {
    assert.deepEqual(["A", "seq", "request 17", "request 4711", "alpha", "Ωmega"].map(ownerLabel), ["A", "seq", "17", "711", "al", "Ωm"]);
});

test("time passes", () => {
    const player = new Player(10, 0, 4);
    assert.equal(player.advance(1000), false, "not while it rests");
    player.play();
    assert.equal(player.advance(100), false);
    assert.equal(player.advance(200), true);
    assert.equal(player.frame, 1);
    player.advance(1000);
    assert.equal(player.frame, 5);
    player.advance(60000);
    assert.deepEqual([player.frame, player.playing], [10, false]);
    player.play();
    assert.deepEqual([player.frame, player.playing], [0, true], "from the start again");
    player.go(99);
    assert.equal(player.frame, 10);
    const empty = new Player(0);
    empty.play();
    assert.equal(empty.playing, false);
});

test("keys", () => {
    const player = new Player(100, 50);
    assert.equal(keyAction("ArrowRight", false, player), 51);
    assert.equal(keyAction("ArrowLeft", true, player), 40);
    assert.equal(keyAction("Home", false, player), 0);
    assert.equal(keyAction("End", false, player), 100);
    assert.equal(keyAction(" ", false, player), "toggle");
    assert.equal(keyAction("Escape", false, player), "clear");
    assert.equal(keyAction("a", false, player), null);
});

/** A tape whose events tell contents: A takes block 2 for tokens 5, 6; it is cached; B copies it to 3 and goes on with 7. */
function tellingTape(text = {}) {
    const operations = ["allocate", "retain", "release", "cache", "evict", "write"];
    const tape = new Tape({
        since: -1, num_blocks: 8, source: "test", title: "t", block_size_tokens: 2, no_name: "(no name)", operations, owners: ["A", "B"],
        notes: [{}, { copied_from: 2 }, { replaced_by: 3 }],
        changes: bytesOf(Uint32Array, [2, ADDED, 2, CACHED, 2, 1 << 8 | ADDED, 3, 1 << 8 | ADDED, 2, 1 << 8 | REMOVED, 3, 1 << 8]),
        ends: bytesOf(Uint32Array, [0, 1, 2, 3, 4, 5, 6]), ops: bytesOf(Uint8Array, [0, 3, 1, 0, 2, 5]),
        who: bytesOf(Uint32Array, [0, 0, 1, 1, 1, 1]), notes_of: bytesOf(Uint32Array, [0, 0, 0, 1, 2, 0]),
        tokens: bytesOf(Int32Array, [2, -1, 1, 1, -1, 2]), told: bytesOf(Uint32Array, [0, 1, 3, 5]),
        told_what: bytesOf(Int32Array, [-2, -1, -2, -3]), told_ends: bytesOf(Uint32Array, [2, 2, 3, 4]),
        said: bytesOf(Int32Array, [5, 6, 5, 7]), token_text: text,
    });
    return frame => { tape.seek(frame); return tape; };
}

test("a copy before a write, step by step", () => {
    const at = tellingTape();
    assert.deepEqual([0, 3, 4, 5, 6].map(frame => at(frame).copyUnderWay),
                     [null, null, { source: 2, target: 3 }, { source: 2, target: 3 }, null]);
    assert.equal(captionOf(at(4)).text, "B copies block 2 to block 3 before it writes");
    assert.equal(captionOf(at(5)).text, "B gives up block 2: block 3 stands in its table instead – refcount(2) 2 → 1");
    assert.equal(captionOf(at(6)).text, "B writes token 7 into block 3");
    assert.deepEqual(describeBlock(at(4), 3), ["block 3 · refcount 1", "B, logical 0 · 1 of 2 tokens · since step 3", "copied from 2", "1 token: 5"],
                     "it takes the place of its source in the table");
    assert.deepEqual([3, 4, 6, 4].map(frame => at(frame).contents(3)), [[], [5], [5, 7], [5]], "forwards and backwards");
});

test("tokens read as their texts", () => {
    const at = tellingTape({ 5: "un", 6: "like", 7: " that" });
    assert.equal(captionOf(at(6)).text, "B writes “that” into block 3");
    assert.equal(describeBlock(at(6), 3).at(-1), "2 tokens: un that");
    assert.equal(describeBlock(at(2), 2).at(-1), "2 tokens: un like");
});

test("a block that is not held and not cached tells nothing", () => {
    const tape = tellingTape()(0);
    assert.deepEqual(tape.contents(2), []);
    assert.equal(tape.parentOf(2), -2);
    tape.seek(2);
    assert.equal(tape.parentOf(2), -1);
});
