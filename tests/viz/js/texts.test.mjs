// Texts of sequences, by hand; that they are those of texts.py is tested from there.

import assert from "node:assert/strict";
import { test } from "node:test";
import { ADDED, REMOVED } from "../../../pagedkv/viz/front/tape.js";
import { cutInTheMiddle, linesOf, shareLines, textsAt, TextTape } from "../../../pagedkv/viz/front/texts.js";
import { readTokens, tokensInWords, TokenTexts } from "../../../pagedkv/viz/front/tokens.js";
import { bytesOf } from "./random_tape.mjs";

/** A takes block 2 for tokens 5, 6; B forks from A, copies it to 3, writes 7; A ends, and block 2 is taken by others. */
function tape(rest = {}) {
    return new TextTape({
        since: -1, num_blocks: 8, source: "test", title: "t", block_size_tokens: 4, no_name: "(no name)", owners: ["A", "B", "others"],
        operations: ["allocate", "retain", "release", "cache", "evict", "write"], texts: true,
        notes: [{}, { forked_from: "A" }, { copied_from: 2 }, { replaced_by: 3 }],
        changes: bytesOf(Uint32Array, [2, ADDED, 2, 1 << 8 | ADDED, 3, 1 << 8 | ADDED, 2, 1 << 8 | REMOVED, 3, 1 << 8, 2, REMOVED, 2, 2 << 8 | ADDED]),
        ends: bytesOf(Uint32Array, [0, 1, 2, 3, 4, 5, 6, 7]), ops: bytesOf(Uint8Array, [0, 1, 0, 2, 5, 2, 0]),
        who: bytesOf(Uint32Array, [0, 1, 1, 1, 1, 0, 2]), notes_of: bytesOf(Uint32Array, [0, 1, 2, 3, 0, 0, 0]),
        tokens: bytesOf(Int32Array, [2, 2, 2, -1, 3, -1, -1]), told: bytesOf(Uint32Array, [0, 2, 4, 6]),
        told_what: bytesOf(Int32Array, [-2, -2, -3, -2]), told_ends: bytesOf(Uint32Array, [2, 4, 5, 5]),
        said: bytesOf(Int32Array, [5, 6, 5, 6, 7]), ...rest,
    });
}

function shown(at, frame) {
    at.seek(frame);
    return textsAt(at).texts.map(({ owner, there, finished, stretches }) =>
        [at.owners[owner], there, finished, stretches.flatMap(({ tokens }) => tokens), stretches.some(({ shared }) => shared)]);
}

test("a fork, a copy and an end, forwards and backwards", () => {
    const at = tape();
    const expected = [
        [], [["A", 0, false, [5, 6], false]],
        [["A", 0, false, [5, 6], true], ["B", 2, false, [5, 6], true]],
        [["A", 0, false, [5, 6], true], ["B", 2, false, [5, 6], true]],  // the copy stands beside its source
        [["A", 0, false, [5, 6], false], ["B", 2, false, [5, 6], false]],
        [["A", 0, false, [5, 6], false], ["B", 2, false, [5, 6, 7], false]],
        [["A", 0, true, [5, 6], false], ["B", 2, false, [5, 6, 7], false]],
        [["A", 0, true, [5, 6], false], ["B", 2, false, [5, 6, 7], false]],  // another one's block now
    ];
    for (const frame of [0, 1, 2, 3, 4, 5, 6, 7, 6, 5, 4, 3, 2, 1, 0, 7, 2]) assert.deepEqual(shown(at, frame), expected[frame], `frame ${frame}`);
});

test("without texts nothing is kept", () => {
    const at = tape({ texts: undefined });
    at.seek(5);
    assert.equal(at.lives, undefined);
    assert.deepEqual(textsAt(at).texts, []);
});

test("those that go on come before those that have ended, and the wanted before all", () => {
    const at = tape();
    at.seek(7);
    const owners = wanted => { const { texts, more } = textsAt(at, 1, wanted); return [texts.map(text => text.owner), more]; };
    assert.deepEqual(owners([]), [[1], 1]);
    assert.deepEqual(owners([0]), [[0], 1]);
});

test("a character of several tokens", () => {
    const texts = new TokenTexts();
    texts.add({ token_text: { 1: "�", 2: "�", 3: " a", 4: "�" }, token_bytes: { 1: [0xe4], 2: [0xbd, 0xa0], 4: [0xff] }, token_joins: true });
    assert.deepEqual(readTokens([3, 1, 2, 3], texts), [" a", "", "你", " a"]);
    assert.deepEqual(readTokens([1, 3], texts), ["", "� a"]);
    assert.deepEqual(readTokens([3, 1], texts), [" a", "�"]);
    assert.deepEqual(readTokens([4, 3], texts), ["�", " a"]);
    assert.equal(tokensInWords([3, 1, 2], texts), "a你");
    assert.deepEqual(readTokens([8, 9], new TokenTexts()), ["8", " 9"]);
});

test("a long text loses its middle", () => {
    assert.deepEqual(cutInTheMiddle(["ab", "cd"], 4), [2, 0]);
    const [head, tail] = cutInTheMiddle(Array(100).fill("12345"), 118);
    assert.deepEqual([head, tail], [6, 14]);
    assert.deepEqual(cutInTheMiddle(["x".repeat(99)], 5), [0, 1]);
});

test("what the device has is as it was until it is told anew", () => {
    const at = tape({ device_allocated: bytesOf(Float64Array, [-1, 5, 5, 6, 6, 6, 6, 6]), device_reserved: bytesOf(Float64Array, [-1, 9, 9, 9, 9, 9, 9, 9]) });
    assert.equal(at.tellsDevice, true);
    assert.deepEqual(Array.from(at.allocatedAt.values.subarray(0, 8)), [-1, 5, 5, 6, 6, 6, 6, 6]);
    const more = { since: 7, owners: [], notes: [], changes: bytesOf(Uint32Array, []), ends: bytesOf(Uint32Array, [7]), ops: bytesOf(Uint8Array, [0]),
                   who: bytesOf(Uint32Array, [0]), notes_of: bytesOf(Uint32Array, [0]) };
    assert.equal(at.append(more), true);
    assert.deepEqual([at.allocatedAt.values[8], at.reservedAt.values[8]], [6, 9]);
    assert.equal(tape().tellsDevice, false);
});

test("how many lines a text takes that is broken at blanks", () => {
    assert.equal(linesOf("", 10), 1);
    assert.equal(linesOf("abcde fghi", 10), 1);
    assert.equal(linesOf("abcde fghij", 10), 2);
    assert.equal(linesOf("abcde     fghi     ", 10), 2, "blanks at the end of a line take no room");
    assert.equal(linesOf("abcdef abcdef abcdef", 10), 3);
    assert.equal(linesOf("x".repeat(25), 10), 3, "a word that is longer than a line");
    assert.equal(linesOf("你好你好", 10), 1);
    assert.equal(linesOf("你好你好你好", 10), 2);
});

test("lines to spare go in turn to those who want more", () => {
    assert.deepEqual(shareLines([1, 2, 3], 2, 6), [2, 2, 3]);
    assert.deepEqual(shareLines([9, 3, 9], 2, 4), [4, 3, 3]);
    assert.deepEqual(shareLines([9, 9], 2, 0), [2, 2]);
    assert.deepEqual(shareLines([], 2, 5), []);
});

test("each text as it will be in the end is known at every frame", () => {
    const at = tape();
    const last = () => at.lives.all.map(({ last: { numTokens, finished } }) => [numTokens, finished]);
    for (const frame of [0, 3, 7]) {
        at.seek(frame);
        assert.deepEqual(last(), [[2, true], [3, false]]);
    }
    const more = { since: 7, owners: [], notes: [], changes: bytesOf(Uint32Array, [3, 1 << 8 | REMOVED]), ends: bytesOf(Uint32Array, [8]),
                   ops: bytesOf(Uint8Array, [2]), who: bytesOf(Uint32Array, [1]), notes_of: bytesOf(Uint32Array, [0]) };
    at.seek(1);
    assert.equal(at.append(more), true);
    assert.deepEqual(last(), [[2, true], [3, true]]);
    assert.equal(at.frame, 1);
});
