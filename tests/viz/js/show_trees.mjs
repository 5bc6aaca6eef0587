// Reads a tape and frames as JSON, writes the prefix trees that the front end makes of them, and where it draws what: for the
// comparison with core/prefix_tree.py and viz/tree_layout.py.

import { readFileSync } from "node:fs";
import { layTree, treeOf, treeWords } from "../../../pagedkv/viz/front/prefix_tree.js";
import { Tape } from "../../../pagedkv/viz/front/tape.js";
import { tokensInWords } from "../../../pagedkv/viz/front/tokens.js";

const { pieces, frames, columns, rows } = JSON.parse(readFileSync(0, "utf8"));
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
    const tree = treeOf(tape), copy = tape.copyUnderWay;
    return {
        heading: treeWords(tree, tape), salts: tree.salts, order: tree.order, children: [...tree.children],
        contents: tree.order.map(block => tape.contents(block)), words: tree.order.map(block => tokensInWords(tape.contents(block), tape.textOf, 2)),
        copy: copy && [copy.source, copy.target], tables: tape.owners.map((_, owner) => tape.table(owner)),
        laid: layTree(tree, columns, rows, block => tape.refcounts[block] ? 1 : 0),
    };
})));
