// Reads a tape and frames as JSON, writes what the front end makes of them: for the comparison with Replay in Python.

import { readFileSync } from "node:fs";
import { captionOf } from "../../../pagedkv/viz/front/caption.js";
import { ownerLabel } from "../../../pagedkv/viz/front/colours.js";
import { Tape } from "../../../pagedkv/viz/front/tape.js";

const { pieces, frames } = JSON.parse(readFileSync(0, "utf8"));
const unpacked = message => {
    for (const name of message.packed) {
        const bytes = Buffer.from(message[name], "base64");
        message[name] = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    }
    return message;
};
const tape = new Tape(unpacked(pieces[0]));
for (const piece of pieces.slice(1)) if (!tape.append(unpacked(piece))) throw new Error("a piece does not fit");
process.stdout.write(JSON.stringify(frames.map(frame => {
    tape.seek(frame);
    return {
        references: Array.from({ length: tape.numBlocks }, (_, block) =>
            tape.references(block).map(each => [tape.owners[tape.ownerOf(each)], tape.stepOf(each)])),
        cached: Array.from(tape.isCached), counts: [tape.used, tape.shared, tape.cached],
        atFault: Array.from(tape.faults, Boolean), shown: Array.from(tape.refcounts, (_, block) => tape.shownOwner(block)),
        caption: captionOf(tape).text, labels: tape.owners.map(ownerLabel), timeline: [tape.usedAt, tape.sharedAt, tape.cachedAt]
            .map(column => column.values[frame]),
    };
})));
