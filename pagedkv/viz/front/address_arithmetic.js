// Where a position of a sequence lies: its block table, divided and looked up. pagedkv/core/block_table.py has the rule.
//
// A *setting* is what the kernel sends: {block_table, block_size, num_blocks, num_tokens, tokens}. A *place* is a position with
// all that follows from it: {position, logical, offset, row, physical, slot}; row is the table's row that is read.

/** What Python's operators make of a position. Below 0 it is what they would read if nobody refused it. */
export function placeIn({ block_table: table, block_size: size }, position) {
    const logical = Math.floor(position / size), offset = position - logical * size;
    const row = logical < 0 ? logical + table.length : logical;  // table[-1] is the last
    return { position, logical, offset, row, physical: table[row], slot: table[row] * size + offset };
}

/** What Java's / and % make of a position below 0. error: the exception that ends it, or "" if a wrong slot is read. */
export function javaPlaceIn({ block_table: table, block_size: size }, position) {
    const logical = Math.trunc(position / size) + 0, offset = position % size + 0;  // + 0: JavaScript has a -0
    const physical = table[logical], slot = logical < 0 ? undefined : physical * size + offset;
    const error = logical < 0 ? `block_table[${logical}] is an ArrayIndexOutOfBoundsException`
        : slot < 0 ? `slot ${slot} is an ArrayIndexOutOfBoundsException` : "";
    return { position, logical, offset, physical, slot, error };
}

export function lowestPosition({ block_table: table, block_size: size }) { return -table.length * size; }

/** The position that a slot holds, or -1: of another sequence, or of none. */
export function positionAt(setting, slot) {
    const row = setting.block_table.indexOf(Math.floor(slot / setting.block_size));
    return row < 0 ? -1 : row * setting.block_size + slot % setting.block_size;
}

/** n of 2 ** n, or -1 for a number that is no power of two. */
export function powerOfTwo(number) {
    const power = Math.round(Math.log2(number));
    return 2 ** power === number ? power : -1;
}
