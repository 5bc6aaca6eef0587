// Reads a tape and frames as JSON, writes the texts of sequences that the front end makes of them: for the comparison with
// texts.py.

import { readFileSync } from "node:fs";
import { TextTape, cutInTheMiddle, textsAt } from "../../../pagedkv/viz/front/texts.js";
import { readTokens, tokensInWords } from "../../../pagedkv/viz/front/tokens.js";

const { pieces, frames, most, wanted } = JSON.parse(readFileSync(0, "utf8"));
const unpacked = message => {
    for (const name of message.packed) {
        const bytes = Buffer.from(message[name], "base64");
        message[name] = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    }
    return message;
};
const tape = new TextTape(unpacked(pieces[0]));
for (const piece of pieces.slice(1)) if (!tape.append(unpacked(piece))) throw new Error("a piece does not fit");
process.stdout.write(JSON.stringify(frames.map(frame => {
    tape.seek(frame);
    const { texts, more } = textsAt(tape, most ?? Infinity, wanted);
    return { more, device: [tape.allocatedAt.values[frame], tape.reservedAt.values[frame]], tellsDevice: tape.tellsDevice, texts: texts.map(text => {
        const tokens = text.stretches.flatMap(stretch => stretch.tokens), read = readTokens(tokens, tape.textOf);
        return { owner: text.owner, begin: text.begin, there: text.there, finished: text.finished, missing: text.missing, numTokens: text.numTokens,
                 stretches: text.stretches.map(({ block, tokens, shared }) => [block, tokens, shared]),
                 read, words: tokensInWords(tokens, tape.textOf, 5), cut: [9, 40, 400].map(room => cutInTheMiddle(read, room)) };
    }) };
})));
