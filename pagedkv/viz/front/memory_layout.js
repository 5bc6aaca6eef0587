// Where each address is drawn. What was ever reserved flows through rows, in order of addresses, as words flow through a
// page: memory that belongs together is a *word*; between two words there is a small gap, however far apart their addresses
// are; a word that does not fit into what is left of a row begins the next one, and one that is longer than a row runs on.
// A row stands for a number of bytes that is a power of two. The layout is the same at every frame, so that things stay where
// they are. memory_layout.py has the same rules.

const LEAST_PITCH = 14, MOST_PITCH = 46, WORD_GAP = 5;  // CSS pixels
const FEW_ROWS = 4, LEAST_ROWS = 3, ROOM_FOR_PIECE = 14;  // a piece of average length should be as wide

/** {words: [{address, end, row, at}], numRows, rowBytes, width, pitch, bar (a row's height), height}; `at` in CSS pixels. */
export function layOut(tape, width, tallest) {
    const words = wordsOf(tape), wide = Math.max(40, width), total = words.reduce((sum, word) => sum + word.end - word.address, 0);
    const mostRows = Math.max(1, Math.floor(tallest / LEAST_PITCH));
    const wanted = Math.max(1, Math.min(mostRows, Math.max(FEW_ROWS, Math.ceil(tape.mostPieces * ROOM_FOR_PIECE / wide))));
    if (tape.rowBytes) {
        const numRows = flow(words, wide, tape.rowBytes);
        return laidOut(words, numRows, tape.rowBytes, wide, tallest, numRows);
    }
    let rowBytes = 1;
    while (2 * rowBytes * wanted <= total) rowBytes *= 2;
    // With few pieces there is room enough for rows in which no segment has to be broken.
    const longest = words.reduce((most, word) => Math.max(most, word.end - word.address), 0);
    while (wanted === FEW_ROWS && words.length > 1 && longest > rowBytes && flow(words, wide, 2 * rowBytes) >= LEAST_ROWS)
        rowBytes *= 2;
    let numRows = flow(words, wide, rowBytes);
    while (numRows > mostRows && rowBytes < total) {
        rowBytes *= 2;
        numRows = flow(words, wide, rowBytes);
    }
    return laidOut(words, numRows, rowBytes, wide, tallest, wanted);
}

function laidOut(words, numRows, rowBytes, wide, tallest, wanted) {
    const pitch = Math.max(LEAST_PITCH, Math.min(MOST_PITCH, Math.floor(tallest / Math.max(numRows, wanted, 1))));
    const bar = pitch - (pitch >= 30 ? 7 : pitch >= 20 ? 4 : 3);
    return { words, numRows, rowBytes, width: wide, pitch, bar, height: numRows * pitch };
}

/** What was ever reserved: [{address, end}] in order. Segments that overlapped at different times are one word. */
function wordsOf(tape) {
    const words = [];
    for (const row of tape.segmentsInOrder) {
        const address = tape.segmentAddress[row], end = address + tape.segmentSize[row], last = words.at(-1);
        if (last && address < last.end) last.end = Math.max(last.end, end);
        else words.push({ address, end, row: 0, at: 0 });
    }
    return words;
}

/** Gives every word its place; how many rows that takes. */
function flow(words, width, rowBytes) {
    const gap = words.length > 400 ? 2 : WORD_GAP;
    let row = 0, at = 0;
    for (const word of words) {
        const length = (word.end - word.address) / rowBytes * width;
        if (at > 0 && at + length > width) { row++; at = 0; }
        word.row = row;
        word.at = at;
        row += Math.floor((at + length) / width);
        at = (at + length) % width;
        if (at > 0) at += gap;
        if (at >= width) { row++; at = 0; }
    }
    return Math.max(1, at > 0 ? row + 1 : row);
}

/** The last word that begins at or before a place in the rows, as an index; -1 if there is none. */
function wordBefore(words, row, x) {
    let low = 0, high = words.length;
    while (low < high) {
        const middle = (low + high) >> 1, word = words[middle];
        if (word.row < row || (word.row === row && word.at <= x)) low = middle + 1; else high = middle;
    }
    return low - 1;
}

/** The word that holds an address, or null. */
export function wordOf(layout, address) {
    const { words } = layout;
    let low = 0, high = words.length;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (words[middle].address <= address) low = middle + 1; else high = middle;
    }
    const word = words[low - 1];
    return word && address < word.end ? word : null;
}

/** The words with a part in this row between two places: [{word, from, to}], addresses of the part. */
export function wordsInRow(layout, row, fromX, toX) {
    const { words, width, rowBytes } = layout, found = [];
    for (let i = Math.max(0, wordBefore(words, row, fromX)); i < words.length; i++) {
        const word = words[i], before = (row - word.row) * width - word.at;  // pixels of the word that lie left of the row
        if (word.row > row || (word.row === row && word.at >= toX)) break;
        const from = word.address + Math.floor(Math.max(0, before + fromX) * rowBytes / width);
        const to = Math.min(word.end, word.address + Math.ceil((before + toX) * rowBytes / width));
        if (from < to) found.push({ word, from, to });
    }
    return found;
}

/** The stretches of rows that show these addresses, which lie in one word: [{row, x, end}], CSS pixels. */
export function rowsOf(layout, address, end) {
    const word = wordOf(layout, address), parts = [], { width, rowBytes } = layout;
    if (!word) return parts;
    const from = word.at + (address - word.address) / rowBytes * width;
    const to = word.at + (Math.min(end, word.end) - word.address) / rowBytes * width;
    for (let row = Math.floor(from / width); row * width < to; row++)
        parts.push({ row: word.row + row, x: Math.max(0, from - row * width), end: Math.min(width, to - row * width) });
    return parts;
}

/** The address at a place in the picture, or null. */
export function addressAt(layout, x, y) {
    const row = Math.floor(y / layout.pitch), { words, width, rowBytes } = layout;
    if (x < 0 || x >= width || row < 0 || y - row * layout.pitch >= layout.bar) return null;
    const word = words[wordBefore(words, row, x)];
    if (!word) return null;
    const address = word.address + Math.floor(((row - word.row) * width + x - word.at) * rowBytes / width);
    return address < word.end ? address : null;
}
