// What the current event did, in words. words.py says the same in Python.
//
// The events of a bare pool read as its calls. Where events tell what the blocks contain, they read as what happened to
// a sequence. A member of a shared pool that has died, and what is taken back from it, read the same in both.

import { ADDED, REMOVED } from "./tape.js";
import { tokensInWords } from "./tokens.js";
import { counted, grouped } from "./words.js";

const DEAD = " (dead)";  // at the end of a dead member's name
const MOST_BLOCKS = 8, MOST_WRITTEN = 8, MOST_TOLD = 40;

/** {text, kind, step}: kind is "start", "done", "refused" or "fault". */
export function captionOf(tape) {
    const event = tape.event;
    if (!event) {
        const held = tape.used;
        return { kind: "start", step: null, text: held
            ? `before the first event: ${counted(held, "block")} ${held === 1 ? "is" : "are"} held`
            : "before the first event: every block is free" };
    }
    const { op, owner, note, changes, step } = event, by = owner === null ? "" : ` by ${owner}`;
    const plain = tape.tellsContents;
    if (note.error) {
        const text = plain && op === "allocate"
            ? `${owner ?? "somebody"} asks for ${note.asked} block${note.asked === "1" ? "" : "s"} – refused: ${note.error}`
            : `${op}(${note.asked})${by} – refused: ${note.error}`;
        return { kind: "refused", step, text: note.message ? `${text} · ${note.message}` : text };
    }
    const blocks = changes.map(change => change.block);
    let text = ofADeath(event, blocks) || (plain ? inPlainWords(tape, event, blocks)
        : op === "allocate" ? `allocate(${blocks.length})${by} → ${blockList(blocks)}`
            : `${op}([${ids(blocks)}])${by}`);
    if (note.copied_from !== undefined && !plain) text += `, a copy of block ${note.copied_from}`;
    if (note.faults?.length) return { kind: "fault", step, text: `${text} – fault: ${note.faults.join("; ")}` };
    const effect = note.died === true ? "" : effectOf(tape, op, changes);  // nothing has changed but a name
    return { kind: "done", step, text: effect ? `${text} – ${effect}` : text };
}

/** What an event of a manager of sequences was about. */
function inPlainWords(tape, { op, owner, note }, blocks) {
    const who = owner ?? "somebody", named = blockList(blocks), are = blocks.length === 1 ? "is" : "are";
    const told = tape.toldBy(tape.frame - 1);
    if (op === "write") {
        const said = tokensInWords(told, tape.textOf, MOST_WRITTEN);
        const what = !told.length ? "something" : tape.textOf.size ? `“${said}”`
            : `token${told.length === 1 ? "" : "s"} ${said}`;
        return `${who} writes ${what} into ${named}`;
    }
    if (op === "retain") {
        if (note.forked_from !== undefined) return `${who} forks from ${note.forked_from} and shares ${named}`;
        return `found in the cache for ${who}: ${counted(blocks.length, "block")} (${ids(blocks)})`;
    }
    if (op === "allocate") {
        if (note.copied_from !== undefined) return `${who} copies block ${note.copied_from} to ${named} before it writes`;
        return `${who} takes ${named}${told.length ? ` for ${counted(told.length, "token")}` : ""}`;
    }
    if (op === "release") {
        if (note.replaced_by !== undefined)
            return `${who} gives up ${named}: block ${note.replaced_by} stands in its table instead`;
        return `${who} gives back ${named}`;
    }
    if (op === "cache")
        return `${named} ${are} full and can be found from now on`
            + (note.salt !== undefined ? `, by the salt ${note.salt} only` : "");
    return `${named} ${are} evicted and can no longer be found`;
}

/** What a watched pool tells of a member that has died; "" for any other event. */
function ofADeath({ op, owner, note }, blocks) {
    const named = owner ?? "somebody", who = named.endsWith(DEAD) ? named.slice(0, -DEAD.length) : named;
    const different = [...new Set(blocks)], list = blockList(different);  // there is one of them for each reference
    const are = different.length === 1 ? "is" : "are";
    if (op === "retain" && note.died === true) return `${who} has died; what it held is still taken: ${list}`;
    if (op === "release" && note.died === true)
        return `${who} has died; from now on ${list} ${are} shown as held by ${who}${DEAD}`;
    if (op === "release" && note.reaped === true) return `taken back from ${who}, which has died: ${list}`;
    return "";
}

/** What the event meant for the blocks. */
function effectOf(tape, op, changes) {
    if (op === "write" || (tape.tellsContents && (op === "cache" || op === "evict"))) return "";
    if (op === "cache") return "can be found again from now on";
    if (op === "evict") return "can no longer be found";
    if (op === "allocate" || !changes.length) return "";
    const delta = new Map();
    for (const { block, what } of changes)
        delta.set(block, (delta.get(block) ?? 0) + (what & ADDED ? 1 : what & REMOVED ? -1 : 0));
    const after = [...delta].map(([block, change]) => ({ block, before: tape.refcounts[block] - change, now: tape.refcounts[block] }));
    const freed = after.filter(({ now }) => now === 0), held = after.filter(({ now }) => now > 0);
    if (held.length && held.length <= 3 && !freed.length)
        return held.map(({ block, before, now }) => `refcount(${block}) ${before} → ${now}`).join(", ");
    const parts = [];
    if (freed.length) {
        const cached = freed.filter(({ block }) => tape.isCached[block]).length;
        parts.push(`${freed.length === 1 ? `block ${freed[0].block} is` : `${counted(freed.length, "block")} are`} free`
            + (cached ? `, ${cached === freed.length ? "and" : `${cached} of them`} still cached` : ""));
    }
    if (held.length) parts.push(op === "retain" ? `${counted(held.length, "block")} now shared`
        : `${counted(held.length, "block")} still held by others`);
    return parts.join(", ");
}

/** The lines of the box beside a block under the pointer: [heading, ...lines]. */
export function describeBlock(tape, block) {
    const references = tape.references(block), count = references.length;
    const lines = [`block ${block} · refcount ${grouped(count)}`];
    if (tape.faults[block]) lines.push("given out while somebody held it");
    for (const reference of references.slice(0, 5)) {
        const owner = tape.ownerOf(reference), logical = tape.logicalIndex(reference), step = tape.stepOf(reference);
        const tokens = tokensInBlock(tape, owner, logical);
        lines.push(`${tape.owners[owner]}, logical ${logical}`
            + (tokens === null ? "" : ` · ${tokens} of ${tape.blockSizeTokens} tokens`)
            + (step < 0 ? " · since before the first step" : ` · since step ${step}`));
        const event = tape.eventOf(reference);
        if (event >= 0 && tape.note(event).copied_from !== undefined && tape.changesOf(event)[0]?.block === block)
            lines.push(`copied from ${tape.note(event).copied_from}`);
    }
    if (count > 5) lines.push(`… and ${counted(count - 5, "reference")} more`);
    if (!count) {
        const last = tape.shownOwner(block);
        lines.push((tape.isCached[block] ? "cached, free to take" : "free") + (last < 0 ? "" : ` · last held by ${tape.owners[last]}`));
    } else if (tape.isCached[block]) lines.push("cached: its contents can be found"
        + (tape.tellsContents ? ", and are not written to any more" : ""));
    const contents = tape.contents(block);
    if (contents.length)
        lines.push(`${counted(contents.length, "token")}: ${tokensInWords(contents, tape.textOf, MOST_TOLD)}`);
    return lines;
}

/** How many tokens of its owner a block holds, or null if events did not tell. */
export function tokensInBlock(tape, owner, logical) {
    const size = tape.blockSizeTokens, tokens = tape.tokensOf.values[owner];
    return !size || tokens < 0 ? null : Math.max(0, Math.min(size, tokens - logical * size));
}

/** "349 tokens · 22 blocks, 4 shared" */
export function describeOwner(tape, owner, table = null) {
    const blocks = tape.numHeld.values[owner], tokens = tape.tokensOf.values[owner], size = tape.blockSizeTokens;
    const parts = [];
    if (tokens >= 0 && blocks) parts.push(counted(tokens, "token"));
    let held = counted(blocks, "block");
    if (table) {
        const shared = table.filter(block => tape.refcounts[block] > 1).length;
        if (shared) held += `, ${grouped(shared)} shared`;
    }
    parts.push(held);
    if (table && tokens < 0 && size && blocks) parts.push(`room for ${counted(blocks * size, "token")}`);
    return parts.join(" · ");
}

function blockList(blocks) {
    if (!blocks.length) return "no block";
    return blocks.length === 1 ? `block ${blocks[0]}` : `blocks ${ids(blocks)}`;
}

function ids(blocks) {
    const text = blocks.slice(0, MOST_BLOCKS).join(", ");
    return blocks.length <= MOST_BLOCKS ? text : `${text}, … (${counted(blocks.length, "block")})`;
}
