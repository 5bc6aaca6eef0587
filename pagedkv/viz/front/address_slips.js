// What a wrong guess would have been right for: one sentence on the number itself.

import { grouped } from "./words.js";
import { javaPlaceIn, positionAt } from "./address_arithmetic.js";

/** A wrong guess at a step, explained. */
export function slipWords(setting, place, step, guess) {
    const slip = (place.position < 0 ? negativeSlip : () => null)(setting, place, step, guess)
        ?? [null, logicalSlip, offsetSlip, physicalSlip, slotSlip][step](setting, place, guess);
    return `${grouped(guess)} ${slip}`;
}

function negativeSlip(setting, { position }, step, guess) {
    const { block_size: size } = setting, java = javaPlaceIn(setting, position);
    if (step === 1 && guess === java.logical) {
        return `is what Java's ${position} / ${size} gives: Java rounds towards 0, Python's // rounds down.`;
    }
    if (step === 2 && guess === java.offset) {
        return `is what Java's ${position} % ${size} gives: there a remainder has the sign of the position.`;
    }
    if (step === 3 && guess === java.physical) return `is block_table[0], where Java's ${position} / ${size} leads.`;
    if (step === 4 && guess === java.slot) return `is where Java's / and % lead: ${java.physical} * ${size} - ${-java.offset}.`;
    return null;
}

function logicalSlip({ block_table: table, block_size: size }, place, guess) {
    const { position, logical, offset, physical, slot } = place;
    if (guess === offset) return "is the offset in the block, not the block.";
    if (guess === position) return "is the position itself: it counts tokens, not blocks.";
    if (guess === physical) return "is the physical block. The logical one counts the blocks of the sequence.";
    if (guess === slot) return "is already the slot in the pool.";
    if (position >= 0 && guess < 0) return "is below 0: the first block is 0.";
    if (guess === logical + 1) {
        return `is one too many: the first block is 0, and block ${guess} would begin at position ${grouped(guess * size)}.`;
    }
    if (guess === logical - 1) return `is one too few: block ${guess} ends with position ${grouped(logical * size - 1)}.`;
    if (guess === size) return "is the block size.";
    if (guess >= table.length) return `is beyond the table, which has ${table.length} rows, from 0 on.`;
    return `would hold the positions from ${grouped(guess * size)} to ${grouped(guess * size + size - 1)}.`;
}

function offsetSlip({ block_size: size }, place, guess) {
    const { position, logical, offset, physical } = place;
    if (guess === logical) return "is the logical block, not the offset in it.";
    if (guess === position) return "is the position itself: the whole blocks before it are still to be taken away.";
    if (guess === offset + 1) return "is one too many: the first token of a block has offset 0.";
    if (guess === offset - 1 && guess >= 0) return "is one too few: that is the token before it.";
    if (guess === physical) return "is the physical block, not the offset.";
    if (guess === size - offset) return "is how many slots are left in the block from there on.";
    if (guess < 0 || guess >= size) return `is no offset: they go from 0 to ${size - 1}.`;
    return `would be position ${grouped(logical * size + guess)}.`;
}

function physicalSlip({ block_table: table, num_blocks: blocks }, place, guess) {
    const { position, logical, offset, row, slot } = place;
    if (guess === logical) return "is the logical block. The table says in which physical block it lies.";
    if (guess === row + 1 || guess === row - 1) {
        if (!table.includes(guess)) return "is a logical block next to it. The table says in which physical block it lies.";
    }
    if (table.includes(guess)) {
        const at = table.indexOf(guess), off = Math.abs(at - row) === 1 ? ", one row off" : "";
        return `is the entry of logical block ${at}${off}.`;
    }
    if (guess === offset) return "is the offset in the block, not the block.";
    if (guess === position) return "is the position itself: it counts tokens, not blocks.";
    if (guess === slot) return "is already the slot in the pool.";
    if (guess < 0 || guess >= blocks) return `is not in the pool: its blocks go from 0 to ${grouped(blocks - 1)}.`;
    return "is in the pool, but not in this sequence's table.";
}

function slotSlip(setting, place, guess) {
    const { block_size: size, num_blocks: blocks } = setting, { position, logical, offset, physical, slot } = place;
    if (guess === position) {
        return `is the position itself: its slot only if logical block ${logical} lay in physical block ${logical}.`;
    }
    if (offset && guess === physical * size) return `is the first slot of block ${physical}: the offset is missing.`;
    if (guess === physical) return `is the physical block: each has ${size} slots.`;
    if (guess === physical + offset) return `is ${physical} + ${offset}: each of the blocks before it has ${size} slots.`;
    if (guess === logical) return "is the logical block: it says nothing of the pool yet.";
    if (guess === offset) return "is the offset: where in its block, not where in the pool.";
    if (guess === slot + 1) return "is one too many: the first slot of a block has offset 0.";
    if (guess === slot - 1) return "is one too few: that is the slot before it.";
    if (guess < 0 || guess >= blocks * size) return `is not in the pool: its slots go from 0 to ${grouped(blocks * size - 1)}.`;
    if (offset && guess === logical * size) return `is ${logical} * ${size}, of the logical block, and the offset is missing.`;
    const block = Math.floor(guess / size), held = positionAt(setting, guess);
    if (held < 0) return `is in block ${block}, which is not this sequence's.`;
    return `is in block ${block} and would be position ${grouped(held)}.`;
}
