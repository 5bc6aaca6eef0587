// A tape and the pool it describes, at any frame, forwards and backwards. The format is that of tape.py.
//
// Every change that ADDED a reference *is* that reference: its number names it. The references to a block stand in a
// doubly linked list, oldest first, and those of an owner in another, which is the owner's block table. A reference
// that is taken out keeps its own two links, so that undoing changes in reverse order puts it back exactly where it
// was (Knuth's dancing links). One step costs the same in both directions, whatever the size of the pool.

import { numbers } from "./bytes.js";
import { TokenTexts } from "./tokens.js";

export const ADDED = 1, REMOVED = 2, CACHED = 4, UNCACHED = 8, FAULT = 16;
export const BEGINS = -2, GOES_ON = -3, CACHED_ALONE = -4;  // what a telling is, see tape.py; others: a parent
const NONE = -1;
export const GONE = -2;  // in parentOf: the parent is not cached, or nobody told which it is

/** A list of numbers that can grow. `values` may be longer than `length`. */
class Column {
    constructor(Type) {
        this.Type = Type;
        this.values = new Type(0);
        this.length = 0;
    }

    append(values) {
        this.reserve(this.length + values.length);
        this.values.set(values, this.length);
        this.length += values.length;
    }

    /** Make room up to `length`; new places hold `filling`. */
    extend(length, filling = 0) {
        this.reserve(length);
        if (filling) this.values.fill(filling, this.length, length);
        this.length = length;
    }

    reserve(length) {
        if (length <= this.values.length) return;
        const larger = new this.Type(this.values.length ? Math.max(length, 2 * this.values.length) : length);
        larger.set(this.values.subarray(0, this.length));
        this.values = larger;
    }
}

export class Tape {
    /** From what tape.py's `message()` returns. Begins at frame 0. */
    constructor(message) {
        const n = message.num_blocks;
        this.numBlocks = n;
        this.source = message.source;
        this.title = message.title;
        this.blockSizeTokens = message.block_size_tokens;
        this.ownersAre = message.owners_are;
        this.operations = message.operations;
        this.noName = message.no_name;
        this.owners = [];
        this.notes = [];

        // the tape, in columns: by change, by event, by frame
        this.changes = new Column(Uint32Array);
        this.ops = new Column(Uint8Array);
        this.who = new Column(Uint32Array);
        this.notesOf = new Column(Uint32Array);
        this.steps = new Column(Int32Array);
        this.tokens = new Column(Int32Array);
        this.ends = new Column(Uint32Array);
        this.usedAt = new Column(Uint32Array);
        this.sharedAt = new Column(Uint32Array);
        this.cachedAt = new Column(Uint32Array);
        this.allocatedAt = new Column(Float64Array);  // what the device's allocator had, in bytes; -1: not told yet
        this.reservedAt = new Column(Float64Array);
        this.troubles = [];  // frames whose event was refused or at fault

        // links, by change. For one that REMOVED a reference they hold what undoing it needs:
        // before: the reference; after: the block's lastHolder until then; ownBefore: its faults until then
        this.before = new Column(Int32Array);
        this.after = new Column(Int32Array);
        this.ownBefore = new Column(Int32Array);
        this.ownAfter = new Column(Int32Array);
        this.tokensBefore = new Column(Int32Array);  // by event

        // what events told about the contents of blocks: by change, by telling, and the tokens one after the other
        this.tellingOf = new Column(Int32Array);
        this.told = new Column(Uint32Array);
        this.toldWhat = new Column(Int32Array);
        this.toldEnds = new Column(Uint32Array);
        this.toldBefore = new Column(Int32Array);  // the block's telling until then
        this.nodeBefore = new Column(Int32Array);  // and its node
        this.parentNode = new Column(Int32Array);  // of a cached block: the telling that is its parent, NONE or GONE
        this.said = new Column(Int32Array);
        this.textOf = new TokenTexts();
        this.initialSalts = new Map();  // change before the first event → the salt it was cached under

        // the pool at `frame`, by block
        this.frame = 0;
        this.refcounts = new Uint32Array(n);
        this.isCached = new Uint8Array(n);
        this.faults = new Uint32Array(n);  // how often it was given out while somebody held it
        this.oldest = new Int32Array(n).fill(NONE);
        this.newest = new Int32Array(n).fill(NONE);
        this.lastHolder = new Int32Array(n).fill(NONE);  // the change that made it free
        this.used = this.shared = this.cached = 0;
        this.lastTold = new Int32Array(n).fill(NONE);  // the last telling about it
        this.nodeOf = new Int32Array(n).fill(NONE);  // the telling that made it a node of the prefix tree

        // and by owner
        this.first = new Column(Int32Array);
        this.last = new Column(Int32Array);
        this.numHeld = new Column(Int32Array);
        this.tokensOf = new Column(Int32Array);

        this.everShared = this.everCached = this.everAtFault = this.everCopied = this.hasTokens = this.tellsDevice = false;
        this.append(message);
    }

    get numEvents() { return this.ops.length; }
    get unit() { return "event"; }  // what its frames count

    /** Add what a pool did meanwhile. False if it is not what comes next. */
    append(message) {
        const begins = this.ends.length === 0;
        if (message.since !== (begins ? -1 : this.numEvents)) return false;
        const frame = this.frame, known = this.numEvents;
        this.seek(known);
        this.owners = this.owners.concat(message.owners);
        this.notes = this.notes.concat(message.notes);
        this.changes.append(numbers(Uint32Array, message.changes));
        this.ops.append(numbers(Uint8Array, message.ops));
        this.who.append(numbers(Uint32Array, message.who));
        this.notesOf.append(numbers(Uint32Array, message.notes_of));
        this.ends.append(numbers(Uint32Array, message.ends));
        if (message.steps) this.steps.append(numbers(Int32Array, message.steps));
        else {
            this.steps.extend(this.numEvents);
            for (let i = known; i < this.numEvents; i++) this.steps.values[i] = i;
        }
        if (message.tokens) {
            this.tokens.append(numbers(Int32Array, message.tokens));
            this.hasTokens = true;
        } else this.tokens.extend(this.numEvents, NONE);
        const numChanges = this.changes.length / 2;
        if (message.block_size_tokens) this.blockSizeTokens = message.block_size_tokens;
        this.#appendTold(message, numChanges);
        for (const links of [this.before, this.after, this.ownBefore, this.ownAfter]) links.extend(numChanges);
        this.tokensBefore.extend(this.numEvents, NONE);
        this.#appendDevice(message);
        for (const ends of [this.first, this.last, this.tokensOf]) ends.extend(this.owners.length, NONE);
        this.numHeld.extend(this.owners.length);

        // Once through what is new: to find which reference each release gave up, and to count for the timeline.
        if (begins) {
            for (let i = 0; i < this.ends.values[0]; i++) { this.#link(i); this.#redo(i); }
            this.#count();
        }
        for (let event = known; event < this.numEvents; event++) {
            this.lives?.before(event);  // of a kind of tape that keeps them
            for (let i = this.ends.values[event]; i < this.ends.values[event + 1]; i++) { this.#link(i); this.#redo(i); }
            this.#redoTokens(event);
            this.#count();
            const note = this.note(event);
            if (note.error || note.faults) this.troubles.push(event + 1);
            else if (note.copied_from !== undefined) this.everCopied = true;
        }
        this.frame = this.numEvents;
        this.seek(frame);
        return true;
    }

    #appendTold(message, numChanges) {
        const known = this.told.length;
        if (message.initial_salts) this.initialSalts = new Map(message.initial_salts);
        this.told.append(numbers(Uint32Array, message.told));
        if (!this.tellsContents) return;
        this.toldWhat.append(numbers(Int32Array, message.told_what));
        this.toldEnds.append(numbers(Uint32Array, message.told_ends));
        this.said.append(numbers(Int32Array, message.said));
        for (const links of [this.toldBefore, this.nodeBefore, this.parentNode]) links.extend(this.told.length, NONE);
        this.tellingOf.extend(numChanges, NONE);
        for (let telling = known; telling < this.told.length; telling++)
            this.tellingOf.values[this.told.values[telling]] = telling;
        this.textOf.add(message);
    }

    /** What is not told is as it was. */
    #appendDevice(message) {
        for (const [column, told] of [[this.allocatedAt, message.device_allocated], [this.reservedAt, message.device_reserved]])
            if (told) column.append(numbers(Float64Array, told));
            else column.extend(this.numEvents + 1, column.length ? column.values[column.length - 1] : NONE);
        if (message.device_reserved) this.tellsDevice = true;
    }

    /** Whether events tell what blocks contain, and how they depend on each other: then they are put in plain words. */
    get tellsContents() { return this.told.length > 0; }

    /** Go to a frame; `touch(block)` is called for every block that may look different. */
    seek(frame, touch = null) {
        const target = Math.max(0, Math.min(this.numEvents, frame)), ends = this.ends.values;
        while (this.frame < target) {
            const event = this.frame++;
            for (let i = ends[event]; i < ends[event + 1]; i++) {
                this.#redo(i);
                if (touch) touch(this.changes.values[2 * i]);
            }
            this.#redoTokens(event);
        }
        while (this.frame > target) {
            const event = --this.frame;
            this.#undoTokens(event);
            for (let i = ends[event + 1] - 1; i >= ends[event]; i--) {
                this.#undo(i);
                if (touch) touch(this.changes.values[2 * i]);
            }
        }
    }

    /** Go to a frame. The blocks that may look different, or null for all of them. */
    moveTo(frame) {
        if (this.changesBetween(this.frame, frame) > this.numBlocks) {
            this.seek(frame);
            return null;
        }
        const blocks = [];
        this.seek(frame, block => blocks.push(block));
        return blocks;
    }

    /** How many changes lie between two frames. */
    changesBetween(frame, other) {
        const endOf = each => this.ends.values[Math.max(0, Math.min(this.numEvents, each))];
        return Math.abs(endOf(frame) - endOf(other));
    }

    /** The last event carried out, or null at frame 0. */
    get event() { return this.frame ? this.eventAt(this.frame - 1) : null; }

    eventAt(number) {
        const owner = this.owners[this.who.values[number]];
        return {
            op: this.operations[this.ops.values[number]], owner: owner === this.noName ? null : owner,
            step: this.steps.values[number], note: this.note(number), changes: this.changesOf(number),
        };
    }

    note(number) { return this.notes[this.notesOf.values[number]]; }

    /** What an event did: [{block, owner, what}] in call order. */
    changesOf(number) {
        const list = [];
        for (let i = this.ends.values[number]; i < this.ends.values[number + 1]; i++)
            list.push({ block: this.changes.values[2 * i], owner: this.changes.values[2 * i + 1] >>> 8,
                        what: this.changes.values[2 * i + 1] & 255 });
        return list;
    }

    /** The references to a block, oldest first. */
    references(block) {
        const list = [];
        for (let at = this.oldest[block]; at !== NONE; at = this.after.values[at]) list.push(at);
        return list;
    }

    ownerOf(reference) { return this.changes.values[2 * reference + 1] >>> 8; }
    blockOf(reference) { return this.changes.values[2 * reference]; }

    /** The event that took a reference: its number, or -1 if it was held before the first. */
    eventOf(reference) {
        let low = 0, high = this.ends.length - 1;  // the first frame that has it
        while (low < high) {
            const middle = (low + high) >> 1;
            if (this.ends.values[middle] > reference) high = middle; else low = middle + 1;
        }
        return low - 1;
    }

    stepOf(reference) {
        const event = this.eventOf(reference);
        return event < 0 ? -1 : this.steps.values[event];
    }

    /** How many references the same owner took earlier and still has: the place in its block table. */
    logicalIndex(reference) {
        let index = 0;
        for (let at = this.ownBefore.values[reference]; at !== NONE; at = this.ownBefore.values[at]) index++;
        // A copy takes the place of its source, which is there as well until it is given up.
        const isCopy = this.copyUnderWay && reference === this.ends.values[this.frame] - 1;
        return isCopy && index ? index - 1 : index;
    }

    /** An owner's block table: the blocks it holds, in the order in which it took them. */
    table(owner) {
        const blocks = [];
        if (owner >= 0)
            for (let at = this.first.values[owner]; at !== NONE; at = this.ownAfter.values[at]) blocks.push(this.blockOf(at));
        return blocks;
    }

    /** The tokens in a block that is held or cached, as far as events told. */
    contents(block) {
        const pieces = [], ends = this.toldEnds.values;
        if (!this.refcounts[block] && !this.isCached[block]) return [];
        for (let at = this.lastTold[block]; at !== NONE; at = this.toldBefore.values[at]) {
            const begin = at ? ends[at - 1] : 0, what = this.toldWhat.values[at];
            pieces.unshift(this.said.values.subarray(begin, ends[at]));
            if (what === BEGINS || (what !== GOES_ON && ends[at] > begin)) break;
        }
        return pieces.flatMap(piece => Array.from(piece));
    }

    /** A cached block's parent in the prefix tree: a block, NONE for the first of a prompt, GONE. */
    parentOf(block) {
        const node = this.nodeOf[block], parent = node === NONE ? GONE : this.parentNode.values[node];
        if (parent < 0) return parent;
        const above = this.changes.values[2 * this.told.values[parent]];
        return this.isCached[above] && this.nodeOf[above] === parent ? above : GONE;
    }

    /** The salt under which a block was cached, or null. */
    saltOf(block) {
        const node = this.nodeOf[block];
        if (node === NONE) return null;
        const change = this.told.values[node], event = this.eventOf(change);
        return (event < 0 ? this.initialSalts.get(change) : this.note(event).salt) ?? null;
    }

    /** The tokens that an event told. */
    toldBy(number) {
        const told = this.told.values.subarray(0, this.told.length), ends = this.toldEnds.values;
        const first = firstNotBelow(told, this.ends.values[number]);
        const last = firstNotBelow(told, this.ends.values[number + 1]);
        return first === last ? [] : Array.from(this.said.values.subarray(first ? ends[first - 1] : 0, ends[last - 1]));
    }

    /** {source, target} while a block is copied before somebody writes, else null: from the allocation of the target
     *  until the source is given up. */
    get copyUnderWay() {
        const { copied_from: from, replaced_by: to } = this.frame ? this.note(this.frame - 1) : {};
        if (from === undefined && to === undefined) return null;  // so it is at nearly every frame
        const { event } = this, block = event.changes[0]?.block, inside = other => other >= 0 && other < this.numBlocks;
        if (block === undefined) return null;
        if (event.op === "allocate" && inside(from)) return { source: from, target: block };
        return event.op === "release" && inside(to) ? { source: block, target: to } : null;
    }

    /** Does this owner hold this block? */
    holds(owner, block) {
        for (let at = this.oldest[block]; at !== NONE; at = this.after.values[at])
            if (this.ownerOf(at) === owner) return true;
        return false;
    }

    /** Whose colour a block has: the oldest holder's, or for a free block the last one's; -1 if nobody ever held it. */
    shownOwner(block) {
        const reference = this.refcounts[block] ? this.oldest[block] : this.lastHolder[block];
        return reference === NONE ? NONE : this.ownerOf(reference);
    }

    #count() {
        this.usedAt.append([this.used]);
        this.sharedAt.append([this.shared]);
        if (this.shared) this.everShared = true;
        this.cachedAt.append([this.cached]);
    }

    /** Find the reference that a change REMOVED: the newest that this owner has to the block. */
    #link(i) {
        if (this.tellsContents) this.#linkNode(i);
        const { changes: { values: changes }, before: { values: before } } = this;
        const what = changes[2 * i + 1];
        if (what & CACHED) this.everCached = true;
        if (what & FAULT) this.everAtFault = true;
        if (!(what & REMOVED)) return;
        let at = this.newest[changes[2 * i]];
        while (changes[2 * at + 1] >>> 8 !== what >>> 8) at = before[at];
        before[i] = at;
    }

    /** Which node of the tree is the parent of the one that a change makes: that of its block, as it is now. */
    #linkNode(i) {
        const telling = this.tellingOf.values[i];
        if (telling === NONE) return;
        const parent = this.toldWhat.values[telling];
        this.parentNode.values[telling] = parent === NONE ? NONE
            : parent >= 0 && this.isCached[parent] && this.nodeOf[parent] !== NONE ? this.nodeOf[parent] : GONE;
    }

    #redoTelling(i) {
        const telling = this.tellingOf.values[i];
        if (telling === NONE) return;
        const block = this.changes.values[2 * i], what = this.toldWhat.values[telling];
        this.toldBefore.values[telling] = this.lastTold[block];
        this.lastTold[block] = telling;
        this.nodeBefore.values[telling] = this.nodeOf[block];
        if (what >= NONE || what === CACHED_ALONE) this.nodeOf[block] = telling;
    }

    #undoTelling(i) {
        const telling = this.tellingOf.values[i];
        if (telling === NONE) return;
        const block = this.changes.values[2 * i];
        this.lastTold[block] = this.toldBefore.values[telling];
        this.nodeOf[block] = this.nodeBefore.values[telling];
    }

    #tally(block, sign) {
        const count = this.refcounts[block];
        if (count) {
            this.used += sign;
            if (count > 1) this.shared += sign;
        } else if (this.isCached[block]) this.cached += sign;
    }

    #redo(i) {
        const block = this.changes.values[2 * i], what = this.changes.values[2 * i + 1], owner = what >>> 8;
        this.#tally(block, -1);
        if (what & ADDED) {
            const older = this.newest[block], earlier = this.last.values[owner];
            this.before.values[i] = older;
            this.after.values[i] = NONE;
            if (older === NONE) this.oldest[block] = i; else this.after.values[older] = i;
            this.newest[block] = i;
            this.ownBefore.values[i] = earlier;
            this.ownAfter.values[i] = NONE;
            if (earlier === NONE) this.first.values[owner] = i; else this.ownAfter.values[earlier] = i;
            this.last.values[owner] = i;
            this.numHeld.values[owner]++;
            if (++this.refcounts[block] > 1 && what & FAULT) this.faults[block]++;
        } else if (what & REMOVED) {
            const gone = this.before.values[i];
            const older = this.before.values[gone], newer = this.after.values[gone];
            if (older === NONE) this.oldest[block] = newer; else this.after.values[older] = newer;
            if (newer === NONE) this.newest[block] = older; else this.before.values[newer] = older;
            const earlier = this.ownBefore.values[gone], later = this.ownAfter.values[gone];
            if (earlier === NONE) this.first.values[owner] = later; else this.ownAfter.values[earlier] = later;
            if (later === NONE) this.last.values[owner] = earlier; else this.ownBefore.values[later] = earlier;
            this.numHeld.values[owner]--;
            this.ownBefore.values[i] = this.faults[block];
            this.after.values[i] = this.lastHolder[block];
            if (--this.refcounts[block] <= 1) this.faults[block] = 0;
            if (!this.refcounts[block]) this.lastHolder[block] = i;
        }
        if (what & CACHED) this.isCached[block] = 1;
        else if (what & UNCACHED) this.isCached[block] = 0;
        if (this.tellsContents) this.#redoTelling(i);
        this.#tally(block, +1);
    }

    #undo(i) {
        const block = this.changes.values[2 * i], what = this.changes.values[2 * i + 1], owner = what >>> 8;
        this.#tally(block, -1);
        if (this.tellsContents) this.#undoTelling(i);
        if (what & CACHED) this.isCached[block] = 0;
        else if (what & UNCACHED) this.isCached[block] = 1;
        if (what & ADDED) {
            if (this.refcounts[block]-- > 1 && what & FAULT) this.faults[block]--;
            const older = this.before.values[i], earlier = this.ownBefore.values[i];
            if (older === NONE) this.oldest[block] = NONE; else this.after.values[older] = NONE;
            this.newest[block] = older;
            if (earlier === NONE) this.first.values[owner] = NONE; else this.ownAfter.values[earlier] = NONE;
            this.last.values[owner] = earlier;
            this.numHeld.values[owner]--;
        } else if (what & REMOVED) {
            const back = this.before.values[i];
            const older = this.before.values[back], newer = this.after.values[back];
            if (older === NONE) this.oldest[block] = back; else this.after.values[older] = back;
            if (newer === NONE) this.newest[block] = back; else this.before.values[newer] = back;
            const earlier = this.ownBefore.values[back], later = this.ownAfter.values[back];
            if (earlier === NONE) this.first.values[owner] = back; else this.ownAfter.values[earlier] = back;
            if (later === NONE) this.last.values[owner] = back; else this.ownBefore.values[later] = back;
            this.numHeld.values[owner]++;
            this.faults[block] = this.ownBefore.values[i];
            this.lastHolder[block] = this.after.values[i];
            this.refcounts[block]++;
        }
        this.#tally(block, +1);
    }

    #redoTokens(event) {
        const tokens = this.tokens.values[event];
        if (tokens < 0) return;
        const owner = this.who.values[event];
        this.tokensBefore.values[event] = this.tokensOf.values[owner];
        this.tokensOf.values[owner] = tokens;
    }

    #undoTokens(event) {
        if (this.tokens.values[event] >= 0) this.tokensOf.values[this.who.values[event]] = this.tokensBefore.values[event];
    }
}

/** The place of the first of these rising numbers that is not below `least`. */
function firstNotBelow(rising, least) {
    let low = 0, high = rising.length;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (rising[middle] < least) low = middle + 1; else high = middle;
    }
    return low;
}
