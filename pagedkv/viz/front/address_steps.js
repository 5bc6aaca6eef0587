// The four steps from a position to its slot, in words and as sums.

import { grouped } from "./words.js";
import { javaPlaceIn, positionAt, powerOfTwo } from "./address_arithmetic.js";

export const NUM_STEPS = 4, SLOT = 4;
export const STEP_NAMES = ["position", "logical block", "offset", "physical block", "slot"];
export const RULES = ["", "position // block_size", "position % block_size", "block_table[logical block]",
                      "physical block * block_size + offset"];

export function answerOf(place, step) { return [place.position, place.logical, place.offset, place.physical, place.slot][step]; }

export function questionFor({ block_size: size }, { position, logical }, step) {
    if (position < 0) {
        return ["", `What is ${position} // ${size} in Python?`, `And ${position} % ${size}, in Python?`,
                `What does block_table[${logical}] read?`, "Which slot is read, then?"][step];
    }
    return ["", `Which logical block holds position ${grouped(position)}?`, "At which offset in that block?",
            `In which physical block does logical block ${logical} lie?`, "Which slot of the pool is it, then?"][step];
}

export function sumOf({ block_size: size }, place, step) {
    const { position, logical, offset, physical, slot } = place;
    return [`${position}`, `${position} // ${size} = ${logical}`, `${position} % ${size} = ${offset}`,
            `block_table[${logical}] = ${physical}`, `${physical} * ${size} + ${offset} = ${slot}`][step];
}

/** What came out, once everything is shown. */
export function foundWords({ position, offset, physical, slot }, step) {
    if (step < SLOT) return [];
    return [`Position ${grouped(position)} lies in slot ${grouped(slot)}: block ${physical} of the pool, offset ${offset}.`];
}

/** What a position below 0 would read if nobody refused it, one sentence a language. Only what has been shown by now. */
export function unrefusedWords(setting, place, step) {
    const { block_size: size, num_tokens: tokens } = setting, { position } = place;
    if (step < SLOT) return [];
    const held = positionAt(setting, place.slot);
    const python = `Python reads slot ${grouped(place.slot)} without a word: `
        + (held < tokens ? `the token at position ${grouped(held)}.`
            : `in block ${place.physical}, where no token has been written yet.`);
    const java = javaPlaceIn(setting, position), bits = powerOfTwo(size);
    const sums = `${position} / ${size} is ${java.logical} and ${position} % ${size} is ${java.offset}`;
    const shift = bits > 0 ? ` ${position} >> ${bits} is ${place.logical}: no index of an array in Java.` : "";
    if (java.error) return [python, `In Java ${sums}: ${java.error}.${java.logical < 0 ? "" : shift}`];
    const other = Math.floor(java.slot / size), own = setting.block_table.includes(other);
    return [python, `In Java ${sums}: slot ${java.physical} * ${size} - ${-java.offset} = ${grouped(java.slot)}, `
        + `in block ${other}, which is ${own ? "another block of this sequence" : "not this sequence's"}.${shift}`];
}
