// The prefix tree of a tape at its frame, and where each part of it is drawn. tree_layout.py does the same for print.
//
// Time runs to the right: a node stands one column after its parent. The first child of a node goes on in its row, each
// other one begins a new row, so that adding a branch moves nothing to the right or to another parent. A *chain* of nodes
// with one child each loses its middle where the row would become too long, and a node loses children where there would be
// too many rows.

import { GONE } from "./tape.js";
import { counted, grouped } from "./words.js";

const CHAINS = [Infinity, 9, 7, 5, 4, 3];  // how many nodes of a chain are drawn, its gap counted as one
export const DETACHED = "detached";

/**
 * The tree: {salts, children, order}. Ids from 0 are blocks. Ids below 0 are roots: -1 has the salt salts[0] (null:
 * none), and so on; that of DETACHED, the last one if it is there, has the nodes whose parent is gone. order: the blocks,
 * parents before their children.
 */
export function treeOf(tape) {
    const keys = [], salts = [], children = new Map(), detached = [], { numBlocks } = tape;
    // As one number, node and block sort without a function that compares them, which takes several times as long.
    for (let block = 0; block < numBlocks; block++)
        if (tape.isCached[block]) keys.push((tape.nodeOf[block] + 1) * numBlocks + block);
    const order = Array.from(Float64Array.from(keys).sort(), key => key % numBlocks);
    const under = (id, block) => { if (!children.get(id)?.push(block)) children.set(id, [block]); };
    for (const block of order) {
        const parent = tape.parentOf(block);
        if (parent === GONE) detached.push(block);
        else if (parent >= 0) under(parent, block);
        else {
            const salt = tape.saltOf(block);
            if (!salts.includes(salt)) salts.push(salt);
            under(-1 - salts.indexOf(salt), block);
        }
    }
    if (!salts.length) salts.push(null);
    if (detached.length) {
        salts.push(DETACHED);
        children.set(-salts.length, detached);
    }
    return { salts, children, order };
}

/** The tree in a line. Those that are detached, and all below them, are cut off: no lookup comes to them. */
export function treeWords(tree, tape) {
    if (!tree.order.length) return "no block can be found yet: only full ones are cached";
    const cut = tree.salts.at(-1) === DETACHED ? [...tree.children.get(-tree.salts.length)] : [];
    for (const block of cut) cut.push(...tree.children.get(block) ?? []);  // grows while it is read
    const found = tree.order.length - cut.length;
    const free = tape.cached - cut.filter(block => !tape.refcounts[block]).length;
    const words = `${counted(found, "block")} can be found, ${grouped(free)} of them free to take`;
    return (found ? words : "no block can be found") + (cut.length ? `; ${grouped(cut.length)} cut off` : "");
}

/**
 * Where to draw it: {items, rows, columns}. An item is {kind, row, column, from (the item before it, or -1)} and
 *     "root"   salt        "node"  block
 *     "gap"    blocks: those of a chain that are not drawn       "more"  count, branches: nodes that are not drawn
 * At most `mostRows` rows. `weight(block)`: what is to be seen rather than others: 0, 1, 2, ….
 */
export function layTree(tree, mostColumns, mostRows, weight) {
    const measures = measure(tree, weight);
    let laid;
    for (const longest of CHAINS) {
        laid = lay(tree, measures, mostRows, longest);
        if (laid.columns <= mostColumns) break;
    }
    return laid;
}

/** How many nodes each subtree has, how many ends, and the most that one of them weighs: by id, of which the roots' are
 *  the lowest. (Numbers in arrays: with Maps, ten thousand nodes would take longer than a frame.) */
function measure(tree, weight) {
    const numRoots = tree.salts.length, highest = tree.order.reduce((most, block) => Math.max(most, block), 0);
    const length = numRoots + highest + 1;
    const sizes = new Int32Array(length), leaves = new Int32Array(length), weights = new Int32Array(length);
    const gather = id => {
        let size = id < 0 ? 0 : 1, ends = 0, heaviest = id < 0 ? 0 : weight(id);
        for (const child of tree.children.get(id) ?? []) {
            const at = numRoots + child;
            size += sizes[at];
            ends += leaves[at];
            if (weights[at] > heaviest) heaviest = weights[at];
        }
        const at = numRoots + id;
        sizes[at] = size;
        leaves[at] = ends || 1;
        weights[at] = heaviest;
    };
    for (let i = tree.order.length - 1; i >= 0; i--) gather(tree.order[i]);
    for (let i = 1; i <= numRoots; i++) gather(-i);
    return { sizeOf: id => sizes[numRoots + id], leavesOf: id => leaves[numRoots + id],
             weightOf: id => weights[numRoots + id] };
}

function lay(tree, measures, mostRows, longest) {
    const items = [], roots = tree.salts.map((_, i) => -1 - i);
    let rows = 0, columns = 0;
    const put = item => {
        items.push(item);
        rows = Math.max(rows, item.row + 1);
        columns = Math.max(columns, item.column + 1);
        return items.length - 1;
    };
    const placeAll = (list, from, column, row, budget) => {
        const chosen = choose(list, budget, measures);
        let at = row;
        for (const [id, share] of chosen) {
            placeOne(id, from, column, at, share);
            at = rows;
        }
        if (chosen.length === list.length) return;
        const sizeOf = ids => ids.reduce((sum, id) => sum + measures.sizeOf(id), 0);
        put({ kind: "more", row: at, column, from, branches: list.length - chosen.length,
              count: sizeOf(list) - sizeOf(chosen.map(([id]) => id)) });
    };
    const placeOne = (id, from, column, row, budget) => {
        let last = from;
        if (id < 0) last = put({ kind: "root", row, column, from, salt: tree.salts[-1 - id] });
        else {
            const chain = [id];
            for (let next = tree.children.get(id); next?.length === 1; next = tree.children.get(next[0]))
                chain.push(next[0]);
            const long = chain.length > longest, head = Math.ceil((longest - 1) / 2), tail = longest - 1 - head;
            const drawn = long ? [...chain.slice(0, head), null, ...chain.slice(-tail)] : chain;
            for (const block of drawn) {
                const item = block === null ? { kind: "gap", blocks: chain.slice(head, -tail) }
                    : { kind: "node", block };
                last = put({ ...item, row, column: column++, from: last });
            }
            id = chain.at(-1);
            column--;
        }
        const list = tree.children.get(id);
        if (list) placeAll(list, last, column + 1, row, budget);
    };
    placeAll(roots, -1, 0, 0, mostRows);
    return { items, rows, columns };
}

/** Which of these nodes are drawn, and how many rows each gets: [[id, rows], …]. Others need a row too, to say so. */
function choose(list, budget, { leavesOf, weightOf }) {
    const most = list.length <= budget ? list.length : Math.max(0, budget - 1);
    const best = list.map((id, place) => ({ id, place, rows: 1 }))
        .sort((one, other) => weightOf(other.id) - weightOf(one.id) || other.place - one.place).slice(0, most);
    let left = budget - best.length - (most < list.length ? 1 : 0);
    for (let given = true; left > 0 && given;) {
        given = false;
        for (const each of best)
            if (left > 0 && each.rows < leavesOf(each.id)) {
                each.rows++;
                left--;
                given = true;
            }
    }
    return best.sort((one, other) => one.place - other.place).map(({ id, rows }) => [id, rows]);
}
