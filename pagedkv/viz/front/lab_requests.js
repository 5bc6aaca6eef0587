// The requests of a workload, as they come from the kernel: columns of numbers and the owners' names.

import { numbers } from "./bytes.js";

export const REQUEST_OPS = ["allocate", "grow", "free"];

export class LabRequests {
    constructor(message) {
        this.version = message.version;
        this.owners = message.owners;
        this.ops = numbers(Uint8Array, message.ops);
        this.who = numbers(Uint32Array, message.who);
        this.sizes = numbers(Float64Array, message.sizes);
        this.undos = message.undos;
        this.redos = message.redos;
        this.asGiven = message.as_given;
    }

    get length() { return this.ops.length; }

    at(number) { return { op: REQUEST_OPS[this.ops[number]], owner: this.owners[this.who[number]], bytes: this.sizes[number] }; }

    /** The text form, which `Workload.parse` and Java read. */
    text() {
        const names = this.owners.map(owner => owner.replaceAll(" ", "_")), lines = [];
        for (let i = 0; i < this.length; i++) {
            const op = REQUEST_OPS[this.ops[i]];
            lines.push(op === "free" ? `f ${names[this.who[i]]}\n` : `${op[0]} ${names[this.who[i]]} ${this.sizes[i]}\n`);
        }
        return lines.join("");
    }
}

/** Which rows of a long list have to be there: [first, end), with some above and below what is seen. */
export function visibleRows(scrolled, height, rowHeight, count, margin = 6) {
    const first = Math.max(0, Math.min(count, Math.floor(scrolled / rowHeight) - margin));
    return [first, Math.min(count, Math.ceil((scrolled + height) / rowHeight) + margin)];
}

/** How far to scroll so that a row is seen; as little as possible. */
export function scrolledTo(row, scrolled, height, rowHeight) {
    const top = row * rowHeight;
    if (top < scrolled) return top;
    return top + rowHeight > scrolled + height ? top + rowHeight - height : scrolled;
}

/** A name that no owner has yet: the next letter or number. */
export function newOwner(owners) {
    const taken = new Set(owners);
    for (let i = 0; i < 26; i++) {
        const letter = String.fromCharCode(65 + i);
        if (!taken.has(letter)) return letter;
    }
    for (let i = owners.length; ; i++) if (!taken.has(`${i}`)) return `${i}`;
}
