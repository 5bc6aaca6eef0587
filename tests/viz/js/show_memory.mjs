// Reads a memory tape and frames as JSON, writes what the front end makes of them: for the comparison with Python.

import { readFileSync } from "node:fs";
import { memoryCaption } from "../../../pagedkv/viz/front/memory_caption.js";
import { layOut } from "../../../pagedkv/viz/front/memory_layout.js";
import { HELD, MemoryTape } from "../../../pagedkv/viz/front/memory_tape.js";
import { bytesAsText } from "../../../pagedkv/viz/front/memory_words.js";

const { message, frames, sizes, width } = JSON.parse(readFileSync(0, "utf8"));
for (const name of message.packed) {
    const bytes = Buffer.from(message[name], "base64");
    message[name] = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
const tape = new MemoryTape(message);
const shown = frames.map(frame => {
    tape.seek(frame);
    return {
        segments: Array.from(tape.segments.rows.slice(0, tape.segments.length), row =>
            [tape.segmentAddress[row], tape.segmentSize[row], tape.labels[tape.segmentLabel[row]]]),
        pieces: Array.from(tape.pieces.rows.slice(0, tape.pieces.length), row =>
            [tape.pieceAddress[row], tape.pieceSize[row], tape.pieceOwner[row], tape.filled[row], tape.pieceState[row] === HELD]),
        sums: [tape.used, tape.requested, tape.reserved, tape.held, tape.largestFree],
        columns: [tape.usedAt, tape.requestedAt, tape.reservedAt, tape.heldAt, tape.largestFreeAt].map(column => column[frame]),
        runs: tape.freeRuns().map(run => [run.address, run.size]),
        pinned: tape.pinned().map(({ segment, free, pieces }) => [tape.segmentAddress[segment], free, Array.from(pieces, row => tape.pieceAddress[row])]),
        owners: Array.from(tape.owners, (_, owner) => [tape.ownerPieces[owner], tape.ownerBytes[owner]]),
        decision: frame ? tape.decisionOf(frame - 1) : null,
        caption: memoryCaption(tape).text,
    };
});
const layout = layOut(tape, width, 400);
process.stdout.write(JSON.stringify({
    shown, texts: sizes.map(bytesAsText),
    layout: { rowBytes: layout.rowBytes, rows: layout.numRows, words: layout.words.map(word => [word.address, word.end, word.row, word.at]) },
}));
