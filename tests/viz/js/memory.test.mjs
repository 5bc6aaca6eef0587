// Where addresses are drawn, what is said about them, guessing.

import assert from "node:assert/strict";
import { test } from "node:test";
import { describePlace, memoryCaption } from "../../../pagedkv/viz/front/memory_caption.js";
import { answerAt, Guess, NEW, NONE_AT_ALL, questionOf } from "../../../pagedkv/viz/front/memory_guess.js";
import { addressAt, layOut, rowsOf, wordOf, wordsInRow } from "../../../pagedkv/viz/front/memory_layout.js";
import { percentOf } from "../../../pagedkv/viz/front/memory_words.js";
import { memoryTapeOf, scatteredSegments } from "./memory_tapes.mjs";
import { chance } from "./random_tape.mjs";

const arena = ["reserve", 0, 64];
/** A at 0…16, B at 16…32, C at 40…48 of 64; B goes. */
const HOLES = [
    { op: "allocate", owner: 0, size: 16, changes: [arena, ["take", 0, 16]] }, { op: "allocate", owner: 1, size: 12, changes: [["take", 16, 16, 12]] },
    { op: "allocate", owner: 2, size: 8, changes: [["take", 40, 8]] }, { op: "free", owner: 1, changes: [["give", 16, 16]] },
];

test("every address has its place, and its place has the address", () => {
    for (const [seed, count] of [[1, 1], [2, 7], [3, 60], [4, 900]])
        for (const width of [120, 333.5, 575, 1100]) {
            const tape = memoryTapeOf(scatteredSegments(seed, count)), layout = layOut(tape, width, 400), random = chance(seed);
            tape.seek(1);
            const unit = layout.rowBytes / layout.width;
            for (let i = 0; i < 60; i++) {
                const segment = Math.floor(random() * count);
                const address = tape.segmentAddress[segment] + Math.floor(random() * tape.segmentSize[segment]);
                const [part] = rowsOf(layout, address, address + 1);
                const found = addressAt(layout, Math.min(part.x, layout.width - 1e-6), part.row * layout.pitch + 1);
                assert.ok(found !== null && Math.abs(found - address) <= unit + 1, `${address} is found as ${found}, ${unit} bytes to a pixel`);
                assert.ok(part.x >= 0 && part.end <= layout.width && part.row < layout.numRows);
            }
        }
});

test("a stretch covers as many pixels as it has bytes, whatever rows it runs through", () => {
    const tape = memoryTapeOf([{ changes: [["reserve", 4096, 100_000]] }]), layout = layOut(tape, 500, 400);
    const pixels = rowsOf(layout, 5000, 90_000).reduce((sum, part) => sum + part.end - part.x, 0);
    assert.ok(Math.abs(pixels - 85_000 / layout.rowBytes * layout.width) < 1e-6);
    assert.deepEqual(rowsOf(layout, 200_000, 200_100), [], "what was never reserved has no place");
});

test("words do not overlap, and one that fits into a row is not broken", () => {
    const tape = memoryTapeOf(scatteredSegments(5, 200)), layout = layOut(tape, 600, 400);
    const spans = layout.words.map(word => {
        const begin = word.row * layout.width + word.at, length = (word.end - word.address) / layout.rowBytes * layout.width;
        if (length < layout.width) assert.ok(word.at + length <= layout.width + 1e-6);
        return [begin, begin + length];
    });
    for (let i = 1; i < spans.length; i++) assert.ok(spans[i][0] >= spans[i - 1][1], "in order, and a gap between");
    assert.ok(layout.numRows * layout.pitch <= 400 + layout.pitch);
});

test("the parts of a row are exactly what is drawn there", () => {
    const tape = memoryTapeOf(scatteredSegments(6, 80)), layout = layOut(tape, 480, 300);
    for (let row = 0; row < layout.numRows; row++) {
        const parts = wordsInRow(layout, row, 0, layout.width);
        assert.ok(parts.length, "no row is empty");
        for (const { word, from } of parts) assert.equal(wordOf(layout, from), word);
    }
    const words = new Set();
    for (let row = 0; row < layout.numRows; row++) for (const { word } of wordsInRow(layout, row, 0, layout.width)) words.add(word);
    assert.equal(words.size, layout.words.length);
});

test("segments that lay in the same place at different times are one word; neighbours are two", () => {
    const events = [{ changes: [["reserve", 0, 100]] }, { op: "free", changes: [["unreserve", 0, 100]] },
                    { changes: [["reserve", 50, 100]] }, { changes: [["reserve", 150, 10]] }];
    const { words } = layOut(memoryTapeOf(events), 500, 300);
    assert.deepEqual(words.map(word => [word.address, word.end]), [[0, 150], [150, 160]]);
});

test("nothing was ever reserved", () => {
    const layout = layOut(memoryTapeOf([]), 500, 300);
    assert.equal(layout.words.length, 0);
    assert.equal(addressAt(layout, 5, 5), null);
    assert.deepEqual(wordsInRow(layout, 0, 0, 500), []);
});

test("a seek names every stretch that looks different", () => {
    const tape = memoryTapeOf(HOLES);
    tape.seek(2);
    assert.deepEqual(tape.moveTo(3), [40, 48]);
    assert.deepEqual(tape.moveTo(1), [40, 48, 16, 32]);
    assert.deepEqual(tape.moveTo(1), []);
});

test("what lies under the pointer", () => {
    const tape = memoryTapeOf(HOLES);
    tape.seek(3);
    assert.deepEqual(describePlace(tape, 20), ["B · 16 B", "0x10 … 0x20", "asked for 12 B, 4 B set aside", "since event 2",
                                               "in the arena segment at 0x0, 64 B"]);
    assert.deepEqual(describePlace(tape, 33), ["free · 8 B", "0x20 … 0x28", "in the arena segment at 0x0, 64 B"]);
    assert.deepEqual(describePlace(tape, 99), ["not taken from the device", "0x63"]);
    assert.equal(tape.pieceAt(47) >= 0, true);
    assert.equal(tape.pieceAt(48), -1);
    assert.deepEqual(tape.runAt(60), { address: 48, size: 16, segment: 0 });
    assert.equal(memoryCaption(tape).text, "allocate(C, 8 B) → 0x28");
});

test("percentages do not lie at the ends", () => {
    assert.deepEqual([[0, 8], [1, 1000], [1, 2], [999, 1000], [8, 8], [1, 0]].map(([part, whole]) => percentOf(part, whole)),
                     ["0 %", "<1 %", "50 %", ">99 %", "100 %", "0 %"]);
});

test("a question has the right answer among its choices", () => {
    const tape = memoryTapeOf([...HOLES, { op: "allocate", owner: 1, size: 10, changes: [["take", 16, 10]] }]);
    tape.seek(4);
    const question = questionOf(tape);
    assert.deepEqual([...question.answers], [16]);
    assert.deepEqual(question.choices.map(each => each.answer), [16, 48, NONE_AT_ALL]);
    assert.equal(question.call, "allocate(B, 10 B)");
    assert.equal(question.outcome, "it goes to 0x10, in the free run of 24 B");
    assert.equal(answerAt(tape, 39), 16, "anywhere in that run");
    assert.equal(answerAt(tape, 41), null, "in use");
    assert.equal(answerAt(tape, 400), NEW);
    tape.seek(3);
    assert.equal(questionOf(tape), null, "a free asks nothing");
    tape.seek(5);
    assert.equal(questionOf(tape), null, "nor does the end");
});

test("among many holes the right one is still offered", () => {
    const changes = [["reserve", 0, 4000]], frees = [];
    for (let i = 0; i < 100; i++) changes.push(["take", 40 * i, 40]);
    for (let i = 0; i < 100; i += 2) frees.push(["give", 40 * i, 40]);
    const tape = memoryTapeOf([{ size: 4000, changes }, { op: "free", changes: frees }, { size: 30, changes: [["take", 40 * 66, 30]] }]);
    tape.seek(2);
    const { choices } = questionOf(tape);
    assert.ok(choices.length <= 7 && choices.some(each => each.answer === 40 * 66));
});

test("refusals and new memory can be guessed too", () => {
    const tape = memoryTapeOf([...HOLES, { size: 40, note: { error: "OutOfMemory" } }, { size: 9, changes: [["reserve", 640, 64], ["take", 640, 9]] }]);
    tape.seek(4);
    assert.deepEqual([...questionOf(tape).answers], [NONE_AT_ALL]);
    tape.seek(5);
    const question = questionOf(tape);
    assert.deepEqual([...question.answers], [NEW]);
    assert.ok(question.choices.some(each => each.answer === NEW));
});

/** A view with two panels, as the guessing sees it. */
function guessing(tapes) {
    const traits = { guess: true, guesses_right: 0, guesses_made: 0 };
    globalThis.document ??= { activeElement: null };
    const view = {
        model: { get: name => traits[name] }, root: { contains: () => false },
        panels: tapes.map(tape => ({ tape, question: null, verdict: null, ask(question) { this.question = question; }, showQuestion() {},
                                     showVerdict(verdict) { this.verdict = verdict; } })),
        session: { playing: false, player: { last: 5 }, frame: 4, set(values) { Object.assign(traits, values); },
                   go(frame) { this.frame = frame; tapes.forEach(tape => tape.seek(frame)); } },
    };
    tapes.forEach(tape => tape.seek(4));
    return { view, traits, guess: new Guess(view) };
}

const goesTo = address => memoryTapeOf([...HOLES, { owner: 1, size: 10, changes: [["take", address, 10]] }]);

test("two memories are answered one by one, then both are shown", () => {
    const { view, traits, guess } = guessing([goesTo(16), goesTo(48)]);
    assert.equal(guess.step(), true);
    assert.equal(view.session.frame, 4, "the result is hidden");
    guess.answer(view.panels[0], 16);
    assert.equal(view.session.frame, 4);
    assert.equal(guess.choose(1), true, "the first choice of the second memory: its hole at 16");
    assert.equal(view.session.frame, 5);
    assert.deepEqual(view.panels.map(panel => panel.verdict.isRight), [true, false]);
    assert.match(view.panels[1].verdict.text, /^Not so: it goes to 0x30/);
    assert.deepEqual(traits, { guess: true, guesses_right: 1, guesses_made: 2 });
});

test("going on without an answer shows it and counts nothing; going elsewhere drops it", () => {
    const { view, traits, guess } = guessing([goesTo(16)]);
    guess.step();
    assert.equal(guess.step(), true);
    assert.deepEqual([view.session.frame, view.panels[0].verdict, traits.guesses_made], [5, null, 0]);
    view.session.go(4);
    guess.step();
    view.session.go(1);
    guess.moved();
    assert.deepEqual([guess.asks, view.panels[0].question], [false, null]);
});

test("while it is off nothing is asked", () => {
    const { guess, traits, view } = guessing([goesTo(16)]);
    traits.guess = false;
    assert.equal(guess.step(), false);
    assert.equal(guess.choose(1), false);
    guess.answer(view.panels[0], 16);
    assert.equal(traits.guesses_made, 0);
});
