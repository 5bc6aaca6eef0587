// Where each block is drawn.

const LARGEST_CELL = 48, LEAST_MARKED = 13, LEAST_SEPARATE = 5, MORE_FOR_PIXELS = 1.3;
const LARGE = 24, LARGE_SHAPE = 0.6;  // a grid of large cells is at most that high for its width

/**
 * The grid that fills `width` CSS pixels and is about `tallest` high at most: {columns, rows, cell (CSS pixels), width, height, style}.
 * style "cells": rounded, with marks; "squares": too small for marks other than a corner; "pixels": no gaps.
 * On the screen a cell is a whole number of device pixels, so that all look alike.
 */
export function chooseLayout(numBlocks, width, tallest = 400, ratio = 1, columns = 0) {
    const wide = Math.max(40, width);
    let cell, cols;
    if (columns) {
        cols = columns;
        cell = whole(Math.min(LARGEST_CELL, wide / cols), ratio);
    } else {
        cell = 1 / ratio;
        for (let device = Math.round(LARGEST_CELL * ratio); device >= 1; device--) {
            const size = device / ratio, most = Math.floor(wide / size), even = evenColumns(numBlocks, most);
            const limit = size >= LEAST_SEPARATE ? tallest : tallest * MORE_FOR_PIXELS;
            const rows = Math.ceil(numBlocks / even);
            if (!even || rows * size > limit || (size > LARGE && rows > LARGE_SHAPE * even)) continue;
            cell = size;
            break;
        }
        cols = evenColumns(numBlocks, Math.floor(wide / cell)) || 1;
    }
    cols = Math.max(1, Math.min(cols, numBlocks));
    const rows = Math.max(1, Math.ceil(numBlocks / cols));
    const style = cell >= LEAST_MARKED ? "cells" : cell >= LEAST_SEPARATE ? "squares" : "pixels";
    return { numBlocks, columns: cols, rows, cell, style, width: cols * cell, height: rows * cell };
}

/** A number of columns, at most `most`, in which people can count: 8, 16, 24, 32, then multiples of 32. */
function evenColumns(numBlocks, most) {
    if (numBlocks <= 8 && numBlocks <= most) return numBlocks;
    const unit = most >= 32 ? 32 : most >= 8 ? 8 : 1;
    return Math.floor(most / unit) * unit;
}

function whole(cell, ratio) { return Math.max(1, Math.floor(cell * ratio)) / ratio; }

/** The block at a place in the grid, or -1. */
export function blockAt(layout, x, y) {
    const column = Math.floor(x / layout.cell), row = Math.floor(y / layout.cell);
    if (column < 0 || column >= layout.columns || row < 0) return -1;
    const block = row * layout.columns + column;
    return block < layout.numBlocks ? block : -1;
}

/** The top left corner of a block's cell. */
export function placeOf(layout, block) {
    return { x: (block % layout.columns) * layout.cell, y: Math.floor(block / layout.columns) * layout.cell };
}

/** The part of a block table to show: at most `most` entries, around `focus` or at the end. */
export function tableWindow(length, most, focus = -1) {
    if (length <= most) return { start: 0, end: length };
    const centre = focus < 0 ? length : focus + Math.ceil(most / 2);
    const end = Math.max(most, Math.min(length, centre));
    return { start: end - most, end };
}
