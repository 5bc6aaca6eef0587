// The text of each sequence at the tape's frame, in stretches: one for each block of its table. texts.py does the same for
// print, and says what is there already, missing, finished.

import { ADDED, REMOVED, Tape } from "./tape.js";

const MOST_KEPT = 20000;  // contents of blocks, so that they are not put together again for every picture

/** When each owner began and ended, and with which text. */
class Lives {
    constructor(tape) {
        this.tape = tape;
        this.all = [];  // {owner, begin, there, end, stretches, missing, last}, in the order in which they began
        this.newest = new Map();  // owner → the one that has not ended
    }

    /** An event is about to be carried out for the first time. */
    before(event) {
        const { tape } = this, begin = tape.ends.values[event], end = tape.ends.values[event + 1];
        const who = tape.who.values[event], changes = tape.changes.values, givenUp = new Map(), taken = [];
        for (let i = begin; i < end; i++) {
            const what = changes[2 * i + 1], owner = what >>> 8;
            if (what & REMOVED) givenUp.set(owner, (givenUp.get(owner) ?? 0) + 1);
            else if (what & ADDED) taken.push(changes[2 * i]);
        }
        for (const [owner, count] of givenUp) {
            const life = this.newest.get(owner);
            if (!life || count !== tape.numHeld.values[owner]) continue;
            const stretches = stretchesOf(tape, tape.table(owner));
            Object.assign(life, { end: event, stretches, missing: missingIn(tape, owner, stretches) });
            life.last = textOfLife(tape, life, true);
            this.newest.delete(owner);
        }
        if (!taken.length || tape.numHeld.values[who] || tape.owners[who] === tape.noName) return;
        if (tape.tokens.values[event] < 0 && !tape.toldBy(event).length) return;
        let there = 0;
        if (tape.operations[tape.ops.values[event]] === "retain") {
            const told = tape.tokens.values[event];
            there = told >= 0 ? told : taken.reduce((sum, block) => sum + tape.contents(block).length, 0);
        }
        const life = { owner: who, begin: event, there, end: Infinity, stretches: null, missing: 0, last: null };
        this.all.push(life);
        this.newest.set(who, life);
    }
}

/** A tape that keeps what has become of sequences, if their texts are to be shown. */
export class TextTape extends Tape {
    append(message) {
        if (message.texts) this.lives ??= new Lives(this);
        const fits = super.append(message);
        if (fits && this.lives) seeTheEnd(this);
        return fits;
    }
}

/** `last` of a life: its text at its end, or at the tape's. Room for it can be there before it grows. */
function seeTheEnd(tape) {
    const { frame } = tape;
    tape.seek(tape.numEvents);
    for (const life of tape.lives.newest.values()) life.last = textOfLife(tape, life, false);
    tape.seek(frame);
}

/**
 * The texts, in the order in which the sequences began: {owner, begin, there, finished, stretches: [{block, tokens, telling,
 * shared}], missing, numTokens}. At most so many: the wanted owners', then those that go on, then the newest; `more` is how
 * many are left out.
 */
export function textsAt(tape, most = Infinity, wanted = []) {
    const { frame } = tape, shown = new Map();
    for (const life of tape.lives?.all ?? []) {
        if (life.begin >= frame) break;
        shown.set(life.owner, life);
    }
    const finished = life => life.end < frame;
    let lives = [...shown.values()];
    const more = Math.max(0, lives.length - most);
    if (more)
        lives = lives.sort((one, other) => wanted.includes(other.owner) - wanted.includes(one.owner)
            || finished(one) - finished(other) || other.begin - one.begin).slice(0, most);
    lives.sort((one, other) => one.begin - other.begin);
    return { more, texts: lives.map(life => textOfLife(tape, life, finished(life))) };
}

function textOfLife(tape, { owner, begin, there, stretches, missing }, finished) {
    if (!finished) {
        const table = tape.table(owner), copy = tape.copyUnderWay;
        // The copy stands beside its source until that is given up.
        if (copy && copy.target === table.at(-1) && copy.source === table.at(-2)) table.pop();
        stretches = stretchesOf(tape, table);
        for (const stretch of stretches) stretch.shared = tape.refcounts[stretch.block] > 1;
        missing = missingIn(tape, owner, stretches);
    }
    return { owner, begin, there, finished, stretches, missing, numTokens: missing + known(stretches) };
}

function stretchesOf(tape, table) {
    return table.map(block => ({ block, tokens: contentsOf(tape, block), telling: tape.lastTold[block], shared: false }));
}

/** A telling has the same contents whenever it is the last one. */
function contentsOf(tape, block) {
    const telling = tape.lastTold[block], kept = tape.keptContents ??= new Map();
    if (telling < 0) return [];
    let tokens = kept.get(telling);
    if (!tokens) {
        if (kept.size >= MOST_KEPT) kept.clear();
        kept.set(telling, tokens = tape.contents(block));
    }
    return tokens;
}

function known(stretches) { return stretches.reduce((sum, { tokens }) => sum + tokens.length, 0); }

function missingIn(tape, owner, stretches) { return Math.max(0, tape.tokensOf.values[owner] - known(stretches)); }

/** How many pieces to show at the beginning and at the end, so that they and a word on what is left out take about `room`
 *  letters; all of them at the beginning, if they fit. The end gets two thirds: there it goes on. */
export function cutInTheMiddle(pieces, room) {
    const widths = pieces.map(letters);
    if (widths.reduce((sum, width) => sum + width, 0) <= room) return [pieces.length, 0];
    room = Math.max(0, room - 18);  // "… 1,980 tokens …"
    let head = 0, tail = 0, used = 0;
    while (head < pieces.length && used + widths[head] <= Math.floor(room / 3)) used += widths[head++];
    while (tail < pieces.length - head && used + widths.at(-1 - tail) <= room) used += widths.at(-1 - tail++);
    return [head, Math.max(tail, Math.min(1, pieces.length - head))];
}

/** How many lines of so many letters a text takes that is broken at blanks, where it has some. */
export function linesOf(text, columns) {
    let lines = 1, used = 0;
    for (const word of text.split(/(?<= )/)) {
        let width = letters(word.trimEnd());  // blanks at the end of a line take no room
        if (used && used + width > columns) { lines++; used = 0; }
        const most = Math.max(1, columns - 1);  // half a letter that is twice as wide does not fit
        for (; width > columns; width -= most) lines++;
        used += width + word.length - word.trimEnd().length;
    }
    return lines;
}

/** How many lines each text gets that wants so many: `least`, and of those to spare as many as it wants, in turn. */
export function shareLines(wanted, least, spare) {
    const lines = wanted.map(() => least);
    for (let given = true; given;) {
        given = false;
        for (let i = 0; i < lines.length && spare > 0; i++)
            if (lines[i] < wanted[i]) { lines[i]++; spare--; given = true; }
    }
    return lines;
}

/** How wide a text is, in letters of a typewriter: those of East Asia, and pictures, are twice as wide. */
function letters(text) {
    let width = 0;
    for (const letter of text) width += letter >= "\u1100" ? 2 : 1;
    return width;
}
