// An allocator's recording, and the memory it describes at any frame, forwards and backwards. The format is that of
// memory_tape.py: every piece and every segment has a row, and a change names the row and what happened to it.
//
// What is there at a frame stands in two lists, in order of addresses: the rows of the segments, and those of the pieces.
// Pieces do not overlap, so whatever lies at an address is found by halving. A long jump builds the lists anew.

import { numbers } from "./bytes.js";

export const RESERVE = 0, UNRESERVE = 1, TAKE = 2, FILL = 3, GIVE = 4, HOLD = 5;
export const GONE = 0, IN_USE = 1, HELD = 2;

/** Rows in order of their addresses. */
class Ordered {
    constructor(addresses) {
        this.addresses = addresses;
        this.rows = new Int32Array(64);
        this.length = 0;
    }

    /** How many rows have an address below this one. */
    below(address) {
        let low = 0, high = this.length;
        while (low < high) {
            const middle = (low + high) >> 1;
            if (this.addresses[this.rows[middle]] < address) low = middle + 1; else high = middle;
        }
        return low;
    }

    add(row) {
        if (this.length === this.rows.length) {
            const larger = new Int32Array(2 * this.length);
            larger.set(this.rows);
            this.rows = larger;
        }
        const at = this.below(this.addresses[row]);
        this.rows.copyWithin(at + 1, at, this.length);
        this.rows[at] = row;
        this.length++;
    }

    remove(row) {
        const at = this.below(this.addresses[row]);
        this.rows.copyWithin(at, at + 1, this.length);
        this.length--;
    }

    /** Those of all rows, which are in order, that are there. */
    replace(inOrder, isThere) {
        let length = 0;
        if (this.rows.length < inOrder.length) this.rows = new Int32Array(inOrder.length);
        for (const row of inOrder) if (isThere[row]) this.rows[length++] = row;
        this.length = length;
    }
}

export class MemoryTape {
    /** From what memory_tape.py's `message()` returns. Begins at frame 0. */
    constructor(message) {
        this.source = message.source;
        this.title = message.title;
        this.capacity = message.capacity_bytes ?? null;
        this.inPieces = message.in_pieces;
        this.rowBytes = message.row_bytes;
        this.operations = message.operations;
        this.noName = message.no_name;
        this.owners = message.owners;
        this.labels = message.labels;
        this.notes = message.notes;
        this.pinnedFreeShare = message.pinned_free_share;
        this.mostPieces = message.most_pieces;

        this.pieceAddress = numbers(Float64Array, message.piece_addresses);
        this.pieceSize = numbers(Float64Array, message.piece_sizes);
        this.pieceOwner = numbers(Uint32Array, message.piece_owners);
        // of a GPU's recording: the owner of events that are nobody's, such as a segment's; -1 if somebody without a name has memory
        const unnamed = this.owners.indexOf(this.noName);
        this.nobody = unnamed < 0 || this.pieceOwner.includes(unnamed) ? -1 : unnamed;
        this.segmentAddress = numbers(Float64Array, message.segment_addresses);
        this.segmentSize = numbers(Float64Array, message.segment_sizes);
        this.segmentLabel = numbers(Uint16Array, message.segment_labels);
        this.changes = numbers(Uint32Array, message.changes);
        this.amounts = numbers(Float64Array, message.amounts);
        this.ends = numbers(Uint32Array, message.ends);
        this.ops = numbers(Uint16Array, message.ops);
        this.who = numbers(Uint32Array, message.who);
        this.sizes = numbers(Float64Array, message.sizes);
        this.notesOf = numbers(Uint32Array, message.notes_of);
        this.largestFreeAt = numbers(Float64Array, message.largest_free);
        this.steps = message.steps ? numbers(Float64Array, message.steps) : null;
        this.moved = message.moved ? numbers(Float64Array, message.moved) : null;
        this.decisions = message.of_event ? {
            texts: message.decision_texts, leftOut: message.decisions_left_out,
            ofEvent: numbers(Uint32Array, message.of_event), asked: numbers(Float64Array, message.asked),
            rounded: numbers(Float64Array, message.rounded), numLooks: numbers(Uint32Array, message.num_looks),
            lookEnds: numbers(Uint32Array, message.look_ends), noteEnds: numbers(Uint32Array, message.note_ends),
            addresses: numbers(Float64Array, message.look_addresses), sizes: numbers(Float64Array, message.look_sizes),
            whats: numbers(Uint32Array, message.look_whats), verdicts: numbers(Uint32Array, message.look_verdicts),
            notes: numbers(Uint32Array, message.decision_notes),
        } : null;

        // the memory at `frame`
        const numPieces = this.pieceAddress.length, numSegments = this.segmentAddress.length;
        this.frame = 0;
        this.pieceState = new Uint8Array(numPieces);  // GONE, IN_USE, HELD
        this.filled = new Float64Array(numPieces);  // how much of it the owner asked for
        this.segmentThere = new Uint8Array(numSegments);
        this.pieces = new Ordered(this.pieceAddress);
        this.segments = new Ordered(this.segmentAddress);
        this.ownerPieces = new Int32Array(this.owners.length);
        this.ownerBytes = new Float64Array(this.owners.length);
        this.used = this.requested = this.reserved = this.held = 0;

        this.takenBy = new Uint32Array(numPieces);  // the change that took it
        this.before = new Float64Array(this.changes.length);  // for undoing: the amount (fill) or the state (give) until then
        this.usedAt = new Float64Array(this.ends.length);
        this.requestedAt = new Float64Array(this.ends.length);
        this.reservedAt = new Float64Array(this.ends.length);
        this.heldAt = new Float64Array(this.ends.length);
        this.troubles = [];  // frames whose event was refused, or impossible
        this.deviceCalls = [];  // frames whose event called the device
        this.everHeld = this.everSetAside = false;
        this.inOrder = orderOf(this.pieceAddress);
        this.segmentsInOrder = orderOf(this.segmentAddress);
        this.#countAll();
        this.#jump(0);
    }

    get numEvents() { return this.ops.length; }
    get unit() { return "event"; }  // what its frames count
    get free() { return this.reserved - this.used - this.held; }
    get largestFree() { return this.largestFreeAt[this.frame]; }

    /** Go to a frame. The stretches that may look different, as [address, end, …], or null for all of it. */
    moveTo(frame) {
        const target = Math.max(0, Math.min(this.numEvents, frame));
        if (this.changesBetween(this.frame, target) > 64 + this.pieces.length / 2) {
            this.#jump(target);
            return null;
        }
        const touched = [], touch = change => {
            const row = this.changes[change] >>> 3;
            if ((this.changes[change] & 7) <= UNRESERVE)
                touched.push(this.segmentAddress[row], this.segmentAddress[row] + this.segmentSize[row]);
            else touched.push(this.pieceAddress[row], this.pieceAddress[row] + this.pieceSize[row]);
        };
        while (this.frame < target) {
            const event = this.frame++;
            for (let i = this.ends[event]; i < this.ends[event + 1]; i++) { this.#redo(i, true); touch(i); }
        }
        while (this.frame > target) {
            const event = --this.frame;
            for (let i = this.ends[event + 1] - 1; i >= this.ends[event]; i--) { this.#undo(i, true); touch(i); }
        }
        return touched;
    }

    seek(frame) { this.moveTo(frame); }

    /** How many changes lie between two frames. */
    changesBetween(frame, other) {
        const endOf = each => this.ends[Math.max(0, Math.min(this.numEvents, each))];
        return Math.abs(endOf(frame) - endOf(other));
    }

    /** The last event carried out, or null at frame 0. */
    get event() { return this.frame ? this.eventAt(this.frame - 1) : null; }

    eventAt(number) {
        const owner = this.owners[this.who[number]];
        return {
            number, op: this.operations[this.ops[number]], owner: owner === this.noName ? null : owner, size: this.sizes[number],
            step: this.steps ? this.steps[number] : number, note: this.notes[this.notesOf[number]],
            moved: this.moved ? this.moved[number] : 0, changes: this.changesOf(number),
        };
    }

    /** What an event did: [{kind, row, amount, address, size}], in order. */
    changesOf(number) {
        const list = [];
        for (let i = this.ends[number]; i < this.ends[number + 1]; i++) {
            const kind = this.changes[i] & 7, row = this.changes[i] >>> 3, ofSegment = kind <= UNRESERVE;
            list.push({ kind, row, amount: this.amounts[i], address: (ofSegment ? this.segmentAddress : this.pieceAddress)[row],
                        size: (ofSegment ? this.segmentSize : this.pieceSize)[row] });
        }
        return list;
    }

    /** How the allocator came to its answer: {asked, rounded, numLooks, looks, notes}, or null if the event did not tell. */
    decisionOf(number) {
        const { decisions } = this, at = decisions ? decisions.ofEvent[number] - 1 : -1;
        if (at < 0) return null;
        const looks = [], notes = [];
        for (let i = decisions.lookEnds[at]; i < decisions.lookEnds[at + 1]; i++)
            looks.push({ what: decisions.texts[decisions.whats[i]], address: decisions.addresses[i], size: decisions.sizes[i],
                         verdict: decisions.texts[decisions.verdicts[i]] });
        for (let i = decisions.noteEnds[at]; i < decisions.noteEnds[at + 1]; i++) notes.push(decisions.texts[decisions.notes[i]]);
        return { asked: decisions.asked[at], rounded: decisions.rounded[at], numLooks: decisions.numLooks[at], looks, notes };
    }

    /** The row of the piece at an address, or -1. */
    pieceAt(address) { return this.#at(this.pieces, this.pieceSize, address); }

    /** The row of the segment at an address, or -1. */
    segmentAt(address) { return this.#at(this.segments, this.segmentSize, address); }

    /** The free run at an address: {address, size, segment}, or null. */
    runAt(address) {
        const segment = this.segmentAt(address);
        if (segment < 0 || this.pieceAt(address) >= 0) return null;
        const { pieces } = this, next = pieces.below(address);
        let low = this.segmentAddress[segment], high = low + this.segmentSize[segment];
        if (next > 0) {
            const before = pieces.rows[next - 1];
            low = Math.max(low, this.pieceAddress[before] + this.pieceSize[before]);
        }
        if (next < pieces.length) high = Math.min(high, this.pieceAddress[pieces.rows[next]]);
        return { address: low, size: high - low, segment };
    }

    /** Every free run, in order of addresses. */
    freeRuns() {
        const runs = [], { pieces, segments } = this;
        let at = 0;
        for (let i = 0; i < segments.length; i++) {
            const segment = segments.rows[i], end = this.segmentAddress[segment] + this.segmentSize[segment];
            let begin = this.segmentAddress[segment];
            for (; at < pieces.length && this.pieceAddress[pieces.rows[at]] < end; at++) {
                const piece = pieces.rows[at], address = this.pieceAddress[piece];
                if (address > begin) runs.push({ address: begin, size: address - begin, segment });
                begin = address + this.pieceSize[piece];
            }
            if (begin < end) runs.push({ address: begin, size: end - begin, segment });
        }
        return runs;
    }

    /** Segments that little keeps from going back to the device, the freest first: {segment, free, pieces}. With one segment
     *  there is none: an arena never goes back. */
    pinned() {
        const { pieces, segments } = this, found = [];
        if (segments.length < 2) return found;
        let at = 0;
        for (let i = 0; i < segments.length; i++) {
            const segment = segments.rows[i], size = this.segmentSize[segment], end = this.segmentAddress[segment] + size;
            const first = at;
            let taken = 0;
            for (; at < pieces.length && this.pieceAddress[pieces.rows[at]] < end; at++) taken += this.pieceSize[pieces.rows[at]];
            if (at > first && size - taken >= this.pinnedFreeShare * size)
                found.push({ segment, free: size - taken, pieces: pieces.rows.slice(first, at) });
        }
        const address = each => this.segmentAddress[each.segment];
        return found.sort((one, other) => other.free - one.free || address(one) - address(other));
    }

    /** The event that took a piece: its number, or -1 if it was there before the first. */
    eventOf(piece) {
        const change = this.takenBy[piece];
        let low = 0, high = this.ends.length - 1;  // the first frame that has it
        while (low < high) {
            const middle = (low + high) >> 1;
            if (this.ends[middle] > change) high = middle; else low = middle + 1;
        }
        return low - 1;
    }

    #at(ordered, sizes, address) {
        const at = ordered.below(address + 1) - 1;
        if (at < 0) return -1;
        const row = ordered.rows[at];
        return address < ordered.addresses[row] + sizes[row] ? row : -1;
    }

    /** Once through all changes: what undoing them needs, and the sums at every frame. */
    #countAll() {
        const { ends } = this;
        let i = 0;
        for (let frame = 0; frame < ends.length; frame++) {
            for (; i < ends[frame]; i++) {
                const kind = this.changes[i] & 7, row = this.changes[i] >>> 3;
                if (kind === TAKE) this.takenBy[row] = i;
                else if (kind === FILL) this.before[i] = this.filled[row];
                else if (kind === GIVE) this.before[i] = this.pieceState[row];
                if (kind === HOLD) this.everHeld = true;
                if (kind === TAKE && this.amounts[i] < this.pieceSize[row]) this.everSetAside = true;
                this.#redo(i, false);
            }
            this.usedAt[frame] = this.used;
            this.requestedAt[frame] = this.requested;
            this.reservedAt[frame] = this.reserved;
            this.heldAt[frame] = this.held;
            if (!frame) continue;
            const note = this.notes[this.notesOf[frame - 1]];
            if (note.error || note.faults) this.troubles.push(frame);
            if (note.device_calls) this.deviceCalls.push(frame);
        }
        this.frame = this.numEvents;
    }

    /** Go to a frame without keeping the lists in order on the way. */
    #jump(target) {
        const end = this.ends[target];
        let i = this.ends[this.frame];
        for (; i < end; i++) this.#redo(i, false);
        for (; i > end; i--) this.#undo(i - 1, false);
        this.frame = target;
        this.pieces.replace(this.inOrder, this.pieceState);
        this.segments.replace(this.segmentsInOrder, this.segmentThere);
    }

    /** A piece comes (+1) or goes (-1), with what is filled of it. */
    #tally(row, sign, state) {
        const size = this.pieceSize[row], owner = this.pieceOwner[row];
        this.ownerPieces[owner] += sign;
        this.ownerBytes[owner] += sign * size;
        if (state === HELD) this.held += sign * size;
        else {
            this.used += sign * size;
            this.requested += sign * this.filled[row];
        }
    }

    #redo(i, ordered) {
        const kind = this.changes[i] & 7, row = this.changes[i] >>> 3;
        if (kind === TAKE) this.#come(row, IN_USE, this.amounts[i], ordered);
        else if (kind === GIVE) this.#go(row, ordered);
        else if (kind === FILL) this.#refill(row, this.amounts[i]);
        else if (kind === HOLD) this.#turn(row, HELD);
        else this.#segment(row, kind === RESERVE, ordered);
    }

    #undo(i, ordered) {
        const kind = this.changes[i] & 7, row = this.changes[i] >>> 3;
        if (kind === TAKE) this.#go(row, ordered);
        else if (kind === GIVE) this.#come(row, this.before[i], this.filled[row], ordered);
        else if (kind === FILL) this.#refill(row, this.before[i]);
        else if (kind === HOLD) this.#turn(row, IN_USE);
        else this.#segment(row, kind === UNRESERVE, ordered);
    }

    #come(row, state, filled, ordered) {
        this.pieceState[row] = state;
        this.filled[row] = filled;
        this.#tally(row, 1, state);
        if (ordered) this.pieces.add(row);
    }

    #go(row, ordered) {
        this.#tally(row, -1, this.pieceState[row]);
        this.pieceState[row] = GONE;
        if (ordered) this.pieces.remove(row);
    }

    #refill(row, filled) {
        this.requested += filled - this.filled[row];
        this.filled[row] = filled;
        if (filled < this.pieceSize[row]) this.everSetAside = true;
    }

    #turn(row, state) {
        this.#tally(row, -1, this.pieceState[row]);
        this.pieceState[row] = state;
        this.#tally(row, 1, state);
    }

    #segment(row, comes, ordered) {
        this.segmentThere[row] = comes ? 1 : 0;
        this.reserved += comes ? this.segmentSize[row] : -this.segmentSize[row];
        if (ordered) comes ? this.segments.add(row) : this.segments.remove(row);
    }
}

function orderOf(addresses) {
    return Int32Array.from(addresses.keys()).sort((one, other) => addresses[one] - addresses[other] || one - other);
}
