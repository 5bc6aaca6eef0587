// Where everything in the picture of an address goes: the sequence, the block table, the pool. Lengths are in pixels.
// pagedkv/viz/address_plot.py draws the same for print.

import { javaPlaceIn } from "./address_arithmetic.js";

const MARGIN = 16, GAP = 58, SMALL_GAP = 40, HEADING = 44, PITCH = 35, WIDEST_CELL = 44, ENTRY = 38;
const NARROW = 640, WIDE_POOL = 290;
const MOST_ROWS = 10;
export const BAR = 17;

/** At most `most` rows for the numbers below `total`: each either {number} or {gap: how many are left out}. The needed ones
    come first, the most important at the beginning; then both ends. */
export function rowsOf(total, needed, most) {
    if (total <= most) return Array.from({ length: total }, (_, number) => ({ number }));
    const chosen = new Set(), others = Array.from({ length: Math.min(total, most) }, (_, number) => number);
    for (const number of [...needed.slice(0, 1), 0, total - 1, ...needed, ...others]) {
        if (!chosen.has(number) && withGaps([...chosen, number], total).length <= most) chosen.add(number);
    }
    return withGaps([...chosen], total);
}

function withGaps(numbers, total) {
    const rows = [];
    let next = 0;
    for (const number of numbers.sort((one, other) => one - other)) {
        pushGap(rows, next, number);
        rows.push({ number });
        next = number + 1;
    }
    pushGap(rows, next, total);
    return rows;
}

/** Those from `first` up to `end`: a single one takes no more room than the word that it is left out. */
function pushGap(rows, first, end) {
    if (end - first === 1) rows.push({ number: first });
    else if (end > first) rows.push({ gap: end - first });
}

/** {width, height, stacked, sequence, table, pool}; each of the three has x, y, width and rows, which have x, y, width (of the
    bar or entry) and what rowsOf says. Sequence and table have the same rows. Only what is shown by `step` has an influence. */
export function layOutAddress(width, setting, place, step) {
    const { block_table: table, block_size: size } = setting;
    const stacked = width < NARROW, gap = stacked ? SMALL_GAP : GAP;
    const logical = rowsOf(table.length, step >= 1 ? [place.row] : [], MOST_ROWS);
    const label = labelWidth(table.length - 1), most = stacked ? width - 2 * MARGIN : 0.35 * width;
    const bar = Math.min(most - label, size * WIDEST_CELL);
    const under = (x, y, width) => logical.map((row, i) => ({ ...row, x, y: y + i * PITCH, width }));
    const sequence = { x: MARGIN, y: HEADING, width: label + bar, rows: under(MARGIN + label, HEADING, bar) };
    const tableX = stacked ? MARGIN + 14 : MARGIN + label + bar + gap;
    const top = stacked ? 2 * HEADING + logical.length * PITCH + 4 : HEADING;
    const entries = { x: tableX, y: top, width: 2 * ENTRY, rows: under(tableX, top, 2 * ENTRY) };
    const poolX = tableX + 2 * ENTRY + gap, needed = physicalOf(setting, place, step, logical);
    const pool = layOutPool(poolX, top, width - MARGIN - poolX, setting, needed);
    const lowest = Math.max(top + logical.length * PITCH, pool.bottom);
    return { width, height: lowest + 6, stacked, size, label, sequence, table: entries, pool };
}

function physicalOf({ block_table: table, block_size: size }, place, step, logical) {
    const java = place.position < 0 && step >= 4 ? javaPlaceIn({ block_table: table, block_size: size }, place.position) : null;
    return [...step >= 3 ? [place.physical] : [], ...java && !java.error ? [Math.floor(java.slot / size)] : [],
            ...logical.filter(row => "number" in row).map(row => table[row.number])];
}

function layOutPool(x, y, width, { block_size: size, num_blocks: blocks }, needed) {
    const columns = width >= WIDE_POOL && blocks > 6 ? 2 : 1, rows = rowsOf(blocks, needed, columns === 2 ? 20 : 14);
    const perColumn = Math.ceil(rows.length / columns), pitch = (width + 18) / columns, label = labelWidth(blocks - 1);
    const bar = Math.min(pitch - 18 - label, size * WIDEST_CELL);
    const placed = rows.map((row, i) => ({ ...row, column: Math.floor(i / perColumn), width: bar,
        x: x + Math.floor(i / perColumn) * Math.min(pitch, bar + label + 26) + label, y: y + i % perColumn * PITCH }));
    return { x, y, width, rows: placed, label, bottom: y + perColumn * PITCH };
}

function labelWidth(largest) { return 10 + 7.5 * String(largest).length; }

/** The row of this number, or undefined: it is left out. */
export function rowFor({ rows }, number) { return rows.find(row => row.number === number); }

/** [left, width] of the cell at an offset of a row's bar. */
export function cellIn(row, offset, size) { return [row.x + row.width * offset / size, row.width / size]; }

/** The slot of the pool at a point, or -1. */
export function slotAt({ pool, size }, x, y) {
    const isIn = row => row.x <= x && x < row.x + row.width && row.y <= y && y < row.y + BAR;
    const row = pool.rows.find(each => "number" in each && isIn(each));
    return row ? row.number * size + Math.min(size - 1, Math.floor((x - row.x) * size / row.width)) : -1;
}
