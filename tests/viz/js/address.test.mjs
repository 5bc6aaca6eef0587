// Address translation: the sums, what a wrong guess would be, where things go in the picture.

import assert from "node:assert/strict";
import { test } from "node:test";
import { javaPlaceIn, placeIn, positionAt, powerOfTwo } from "../../../pagedkv/viz/front/address_arithmetic.js";
import { BAR, cellIn, layOutAddress, rowFor, rowsOf, slotAt } from "../../../pagedkv/viz/front/address_layout.js";
import { slipWords } from "../../../pagedkv/viz/front/address_slips.js";
import { answerOf, questionFor, sumOf, unrefusedWords } from "../../../pagedkv/viz/front/address_steps.js";
import { wholeNumber } from "../../../pagedkv/viz/front/address_widget.js";

const SETTING = { block_table: [9, 4, 7], block_size: 16, num_blocks: 12, num_tokens: 48, tokens: [] };
const HERE = placeIn(SETTING, 37);
const LARGE = { block_table: Array.from({ length: 134 }, (_, i) => 500 - 3 * i), block_size: 64, num_blocks: 504, num_tokens: 8576, tokens: [] };

test("a position, step by step", () => {
    assert.deepEqual(HERE, { position: 37, logical: 2, offset: 5, row: 2, physical: 7, slot: 117 });
    assert.deepEqual([0, 1, 2, 3, 4].map(step => answerOf(HERE, step)), [37, 2, 5, 7, 117]);
    assert.deepEqual([1, 2, 3, 4].map(step => sumOf(SETTING, HERE, step)),
                     ["37 // 16 = 2", "37 % 16 = 5", "block_table[2] = 7", "7 * 16 + 5 = 117"]);
    assert.equal(positionAt(SETTING, 117), 37);
    assert.equal(positionAt(SETTING, 0), -1, "block 0 is another's");
    for (let position = 0; position < 48; position++) assert.equal(positionAt(SETTING, placeIn(SETTING, position).slot), position);
});

test("a position below 0, as Python and Java have it", () => {
    assert.deepEqual(placeIn(SETTING, -1), { position: -1, logical: -1, offset: 15, row: 2, physical: 7, slot: 127 });
    assert.deepEqual(javaPlaceIn(SETTING, -1), { position: -1, logical: 0, offset: -1, physical: 9, slot: 143, error: "" });
    assert.match(javaPlaceIn(SETTING, -17).error, /block_table\[-1\] is an ArrayIndexOutOfBoundsException/);
    assert.match(javaPlaceIn({ ...SETTING, block_table: [0] }, -1).error, /slot -1 is/);
    assert.equal(Object.is(javaPlaceIn(SETTING, -16).offset, 0), true, "no -0");
    const words = position => unrefusedWords(SETTING, placeIn(SETTING, position), 4);
    assert.deepEqual(words(-1), [
        "Python reads slot 127 without a word: the token at position 47.",
        "In Java -1 / 16 is 0 and -1 % 16 is -1: slot 9 * 16 - 1 = 143, in block 8, which is not this sequence's. "
        + "-1 >> 4 is -1: no index of an array in Java."]);
    assert.match(words(-17)[1], /-17 \/ 16 is -1 .* ArrayIndexOutOfBoundsException\.$/);
    assert.deepEqual(unrefusedWords(SETTING, placeIn(SETTING, -1), 3), [], "nothing of it before it is asked");
    assert.match(unrefusedWords({ ...SETTING, num_tokens: 40 }, placeIn(SETTING, -1), 4)[0], /in block 7, where no token has been written/);
    assert.match(unrefusedWords({ ...SETTING, block_table: [5, 4] }, placeIn({ ...SETTING, block_table: [5, 4] }, -1), 4)[1], /another block of this sequence/);
    assert.equal(questionFor(SETTING, placeIn(SETTING, -1), 1), "What is -1 // 16 in Python?");
    assert.deepEqual([16, 1, 12, 3].map(powerOfTwo), [4, 0, -1, -1]);
});

test("what a wrong guess would be", () => {
    const words = (step, guess, position = 37) => slipWords(SETTING, placeIn(SETTING, position), step, guess);
    const expected = [
        [1, 5, "5 is the offset in the block, not the block."],
        [1, 37, "37 is the position itself: it counts tokens, not blocks."],
        [1, 7, "7 is the physical block. The logical one counts the blocks of the sequence."],
        [1, 3, "3 is one too many: the first block is 0, and block 3 would begin at position 48."],
        [1, 1, "1 is one too few: block 1 ends with position 31."],
        [1, 0, "0 would hold the positions from 0 to 15."],
        [1, 40, "40 is beyond the table, which has 3 rows, from 0 on."],
        [2, 2, "2 is the logical block, not the offset in it."],
        [2, 6, "6 is one too many: the first token of a block has offset 0."],
        [2, 11, "11 is how many slots are left in the block from there on."],
        [2, 16, "16 is no offset: they go from 0 to 15."],
        [2, 9, "9 would be position 41."],
        [3, 2, "2 is the logical block. The table says in which physical block it lies."],
        [3, 4, "4 is the entry of logical block 1, one row off."],
        [3, 9, "9 is the entry of logical block 0."],
        [3, 6, "6 is in the pool, but not in this sequence's table."],
        [3, 12, "12 is not in the pool: its blocks go from 0 to 11."],
        [4, 37, "37 is the position itself: its slot only if logical block 2 lay in physical block 2."],
        [4, 112, "112 is the first slot of block 7: the offset is missing."],
        [4, 12, "12 is 7 + 5: each of the blocks before it has 16 slots."],
        [4, 116, "116 is one too few: that is the slot before it."],
        [4, 64, "64 is in block 4 and would be position 16."],
        [4, 3, "3 is in block 0, which is not this sequence's."],
        [4, 192, "192 is not in the pool: its slots go from 0 to 191."],
    ];
    for (const [step, guess, sentence] of expected) assert.equal(words(step, guess), sentence);
    assert.match(words(1, 0, -1), /Java's -1 \/ 16 gives: Java rounds towards 0/);
    assert.match(words(2, -1, -1), /Java's -1 % 16 gives/);
    assert.match(words(3, 9, -1), /block_table\[0\], where Java's/);
    assert.match(words(4, 143, -1), /where Java's \/ and % lead: 9 \* 16 - 1/);
});

test("every wrong guess is answered, and no answer gives the right number away", () => {
    for (let step = 1; step <= 4; step++) {
        const right = answerOf(HERE, step);
        for (let guess = -3; guess < 250; guess++) {
            if (guess === right) continue;
            const words = slipWords(SETTING, HERE, step, guess);
            assert.match(words, /^-?\d+ (is|would) .*\.$/);
            assert.doesNotMatch(words, new RegExp(`(?<![\\d-])${right}(?!\\d)`), `${step}: ${words}`);
            assert.doesNotMatch(words, /undefined|NaN/);
        }
    }
    for (const setting of [SETTING, LARGE, { ...SETTING, block_size: 1 }, { ...SETTING, block_size: 5 }]) {
        for (const position of [0, 1, 2, -1, -2, -3]) {
            for (let step = 1; step <= 4; step++) for (let guess = -20; guess < 60; guess++)
                assert.doesNotMatch(slipWords(setting, placeIn(setting, position), step, guess), /undefined|NaN|null/);
        }
    }
});

test("as many rows as there is room for, the needed ones and both ends among them", () => {
    assert.deepEqual(rowsOf(3, [1], 10), [{ number: 0 }, { number: 1 }, { number: 2 }]);
    assert.deepEqual(rowsOf(100, [50], 7), [{ number: 0 }, { number: 1 }, { number: 2 }, { gap: 47 }, { number: 50 }, { gap: 48 }, { number: 99 }]);
    for (const total of [11, 12, 13, 100, 70000]) for (const needed of [[], [5], [total - 3, 4, 9], Array.from({ length: 11 }, (_, i) => i)]) {
        const rows = rowsOf(total, needed, 10);
        assert.ok(rows.length <= 10);
        assert.equal(rows.reduce((sum, row) => sum + (row.gap ?? 1), 0), total, "nothing is lost");
        const shown = rows.map(row => row.number);
        for (const number of [0, total - 1, ...needed.slice(0, 1)]) assert.ok(shown.includes(number));
        assert.ok(!rows.some(row => row.gap === 1));
    }
});

test("the picture stays within its width, whatever it shows", () => {
    for (const setting of [SETTING, LARGE, { ...SETTING, block_size: 1 }, { ...SETTING, block_table: [0], num_blocks: 1 }]) {
        for (const width of [280, 400, 639, 640, 900, 1180]) for (const position of [0, -1]) for (let step = 0; step <= 4; step++) {
            const layout = layOutAddress(width, setting, placeIn(setting, position), step);
            for (const row of [...layout.sequence.rows, ...layout.table.rows, ...layout.pool.rows]) {
                assert.ok(row.x >= 0 && row.x + row.width <= width + 0.01, `${row.x} + ${row.width} of ${width}`);
                assert.ok(row.width > 0 && row.y + BAR < layout.height);
            }
            if (step >= 1) assert.ok(rowFor(layout.sequence, placeIn(setting, position).row));
            if (step >= 3) assert.ok(rowFor(layout.pool, placeIn(setting, position).physical));
        }
    }
});

test("what is not told yet has no influence on the picture", () => {
    const at = (position, step) => layOutAddress(900, LARGE, placeIn(LARGE, position), step);
    assert.deepEqual(at(5000, 0), at(8000, 0));
    assert.deepEqual(at(5001, 2).pool, at(5040, 2).pool);
    assert.notDeepEqual(at(5000, 1).sequence, at(8000, 1).sequence);
});

test("every slot of the pool can be pointed at", () => {
    const layout = layOutAddress(900, SETTING, HERE, 0);
    for (const slot of [0, 15, 16, 117, 191]) {
        const row = rowFor(layout.pool, Math.floor(slot / 16)), [x, width] = cellIn(row, slot % 16, 16);
        assert.equal(slotAt(layout, x + width / 2, row.y + BAR / 2), slot);
        assert.equal(slotAt(layout, x + width / 2, row.y + BAR + 3), -1);
    }
    assert.equal(slotAt(layout, 30, layout.sequence.rows[0].y + 3), -1, "the sequence is not the pool");
});

test("numbers as people type them", () => {
    assert.deepEqual(["5", " 1,024 ", "-1", "−1", "0", "-0", "2.3", "", "x", "0x10", "1e3"].map(wholeNumber),
                     [5, 1024, -1, -1, 0, 0, null, null, null, null, null]);
});
