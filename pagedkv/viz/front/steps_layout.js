// Where places and their blocks are drawn. steps_layout.py has the same rules, and says them.

export const TILE = 34, GAP = 6, PAD = 11, HEADING = 30, BOX_GAP = 14, PITCH = TILE + GAP, HEAD_ROOM = 58;
const MOST_ROWS = 8, MOST_COLUMNS = 4;
const LETTER = 7.2, SWATCH = 17;  // of a heading

/** A box for each place: {kind, x, y, width, height, left, columns, rows}. headAt: the place that the head of a stack is drawn at. */
export function layOutPlaces(kinds, names, mostBlocks, width, headAt = -1) {
    const boxes = [];
    let row = [], x = 0, y = 0;
    const closeRow = () => {
        const height = Math.max(...row.map(box => box.height));
        for (const box of row) boxes.push({ ...box, height });
        row = [];
        return height;
    };
    kinds.forEach((kind, number) => {
        const { columns, rows } = sizeOf(kind, mostBlocks[number]), room = number === headAt ? HEAD_ROOM : 0;
        const wide = 2 * PAD + Math.max(room + columns * PITCH - GAP, SWATCH + LETTER * names[number].length);
        if (row.length && x + wide > width) {
            y += closeRow() + BOX_GAP;
            x = 0;
        }
        const left = kind === "stack" ? x + room + (wide - room - TILE) / 2 : x + PAD + room;
        row.push({ kind, x, y, width: wide, height: HEADING + rows * PITCH - GAP + PAD, left, columns, rows });
        x += wide + BOX_GAP;
    });
    closeRow();
    return boxes;
}

function sizeOf(kind, most) {
    if (kind === "stack") return { columns: 1, rows: Math.min(MOST_ROWS, Math.max(1, most)) };
    let columns = 1;
    while (columns < MOST_COLUMNS && columns * columns < most) columns++;
    return { columns, rows: Math.min(MOST_ROWS, Math.max(1, Math.ceil(most / columns))) };
}

/** How many of `count` blocks have a tile of their own: the last place goes to "+ n" if not all do. */
export function numShown(box, count) {
    const room = box.columns * box.rows;
    return count <= room ? count : room - 1;
}

/** The top left corner of the tile of block number `index` of `count`; index numShown(…) is that of "+ n". */
export function slotIn(box, index, count) {
    if (box.kind === "stack") {
        const fromBelow = Math.min(count, box.rows) - index;
        return { x: box.left, y: box.y + box.height - PAD + GAP - fromBelow * PITCH };
    }
    return { x: box.left + index % box.columns * PITCH, y: box.y + HEADING + Math.floor(index / box.columns) * PITCH };
}

/**
 * Which tile stands for which block: [{key, block, place, x, y}]. A tile that stays in its place keeps its key; one that
 * moves takes it along. A block in two places has two tiles. `before`: key → place, as it was.
 */
export function tilesFor(boxes, blocks, before = new Map()) {
    const wanted = [];
    blocks.forEach((listed, place) => {
        for (let index = 0; index < numShown(boxes[place], listed.length); index++)
            wanted.push({ key: null, block: listed[index], place, ...slotIn(boxes[place], index, listed.length) });
    });
    const free = new Map(before);  // keys that nobody has taken yet
    for (const tile of wanted)
        for (const key of keysOf(tile.block))
            if (tile.key === null && free.get(key) === tile.place) take(tile, key);
    for (const tile of wanted)
        for (const key of keysOf(tile.block))
            if (tile.key === null && free.has(key)) take(tile, key);
    const taken = new Set(wanted.map(tile => tile.key));
    for (const tile of wanted) {
        let number = 0;
        while (tile.key === null) {
            const key = `${tile.block}/${number++}`;
            if (!taken.has(key)) taken.add(tile.key = key);
        }
    }
    return wanted;

    function keysOf(block) { return [...free.keys()].filter(key => key.startsWith(`${block}/`)); }
    function take(tile, key) {
        tile.key = key;
        free.delete(key);
    }
}
