// Beside the grid: who holds blocks, and the block table of the one that is followed. Where events tell what blocks
// contain, and there are few owners, every table is shown.

import { css, hueOf } from "./colours.js";
import { describeOwner, tokensInBlock } from "./caption.js";
import { element, icon } from "./elements.js";
import { tableWindow } from "./layout.js";
import { ADDED, REMOVED } from "./tape.js";
import { counted } from "./words.js";

const MOST_ROWS = 60, FEW_OWNERS = 12, MOST_CHIPS = 42, MILLISECONDS = 120;
const MOST_TABLES = 8, CHIPS_OF_MANY = 14;  // if every table is shown: how many tables, and entries in each
// About how high its parts are, as grid.css has them; and how wide an entry is.
const ENDS_HEIGHT = 103, NAME_HEIGHT = 28, CHIPS_HEIGHT = 29, TABLE_EDGES = 6, CHIP_WIDTH = 54, SIDE_EDGES = 40;

export class Sidebar {
    /** point(block): the pointer is over this entry of the table, -1: over none. */
    constructor(tape, session, point) {
        Object.assign(this, { tape, session, point });
        this.list = element("div", { class: "pk-rows" });
        this.more = element("div", { class: "pk-more" });
        this.root = element("div", { class: "pk-side", "data-testid": "sequences" },
                            element("div", { class: "pk-side-title" },
                                    `${tape.ownersAre[0].toUpperCase()}${tape.ownersAre.slice(1)} – click one to follow it`),
                            this.list, this.more, this.key = element("div", { class: "pk-legend pk-chip-key" }));
        this.key.hidden = true;
        this.rows = new Map();
        this.chips = new Map();
        this.centre = null;  // of the part of a long table that is shown; null: follow what happens
        this.drawnAt = 0;
        this.longest = [];  // by owner: the most entries that its table ever has, as far as events are
        this.numCounted = 0;
        this.held = [];
    }

    /** How high it may ever get for what the events do, about, in a width; as if there were at least so many owners. */
    heightAtMost(width, leastOwners) {
        this.#countEntries();
        const inALine = Math.max(1, Math.floor((width - SIDE_EDGES) / CHIP_WIDTH));
        const lines = entries => Math.ceil(Math.min(CHIPS_OF_MANY, entries) / inALine);
        const table = entries => entries ? TABLE_EDGES + CHIPS_HEIGHT * lines(entries) : 0;
        const tables = Array.from({ length: Math.max(leastOwners, this.longest.length) }, (_, owner) =>
            NAME_HEIGHT + table(this.longest[owner] ?? (owner < leastOwners ? 1 : 0)));
        return ENDS_HEIGHT + tables.reduce((sum, height) => sum + height, 0);
    }

    /** Go through the changes that have come since. */
    #countEntries() {
        const { changes } = this.tape, { held, longest } = this;
        for (; this.numCounted < changes.length; this.numCounted += 2) {
            const what = changes.values[this.numCounted + 1], owner = what >>> 8;
            if (what & ADDED) held[owner] = (held[owner] ?? 0) + 1;
            else if (what & REMOVED) held[owner] = (held[owner] ?? 0) - 1;
            if ((held[owner] ?? 0) > (longest[owner] ?? -1)) longest[owner] = held[owner] ?? 0;
        }
    }

    get selected() { return this.tape.owners.indexOf(this.session.selected); }

    /** Show the current frame; at most some times a second while playing. */
    showFrame() {
        const now = performance.now();
        if (this.session.playing && now - this.drawnAt < MILLISECONDS) return;
        this.drawnAt = now;
        this.draw();
    }

    draw() {
        const { tape } = this, selected = this.selected, shown = [];
        let others = 0;
        for (let owner = 0; owner < tape.owners.length; owner++) {
            const idle = owner !== selected && !tape.numHeld.values[owner];
            // What was cached before the first event is nobody's.
            const nobody = tape.tellsContents && tape.owners[owner] === tape.noName;
            if (idle && (tape.owners.length > FEW_OWNERS || nobody)) continue;
            if (owner === selected || shown.length < MOST_ROWS) shown.push(owner); else others++;
        }
        for (const [owner, row] of this.rows)
            if (!shown.includes(owner)) { row.root.remove(); this.rows.delete(owner); }
        const all = tape.tellsContents && shown.filter(owner => tape.numHeld.values[owner]).length <= MOST_TABLES;
        this.chips.clear();
        this.#drawKey(all || (tape.tellsContents && selected >= 0));
        let previous = null;
        for (const owner of shown) {
            const row = this.rows.get(owner) ?? this.#makeRow(owner);
            if (!row.root.parentNode || row.root.previousElementSibling !== previous) {
                if (previous) previous.after(row.root); else this.list.prepend(row.root);
            }
            previous = row.root;
            const table = owner === selected || (all && tape.numHeld.values[owner]) ? tape.table(owner) : null;
            const what = describeOwner(tape, owner, owner === selected || !all ? table : null);
            if (row.what.textContent !== what) row.what.textContent = what;
            row.root.classList.toggle("pk-selected", owner === selected);
            row.root.classList.toggle("pk-idle", !tape.numHeld.values[owner]);
            row.button.setAttribute("aria-pressed", owner === selected);
            if (table) this.#drawTable(row, table, owner, all && owner !== selected ? CHIPS_OF_MANY : MOST_CHIPS);
            else if (row.table) { row.table.remove(); row.table = null; }
        }
        const nothing = !tape.owners.length ? "nobody holds a block yet" : "";
        const more = others ? `… and ${counted(others, "owner")} more: click a block to follow its owner` : nothing;
        if (this.more.textContent !== more) this.more.textContent = more;
    }

    /** The entries that show this block: of the followed table, or of all that are shown. */
    chipsOf(block) { return (this.chips.get(block) ?? []).map(({ chip }) => chip); }

    /** Those that the current event is about: its owner's, where every table is shown. */
    chipsOfEvent(block) {
        const { tape } = this, who = tape.frame ? tape.who.values[tape.frame - 1] : -1;
        return (this.chips.get(block) ?? []).filter(({ owner }) => owner === who || owner === this.selected)
            .map(({ chip }) => chip);
    }

    /** Somebody else is followed, or the list is new: bring their row into sight. */
    reveal() {
        this.centre = null;
        this.draw();
        const row = this.rows.get(this.selected)?.root, { root } = this;
        if (!row) return;
        const below = row.offsetTop + row.offsetHeight + 8 - root.clientHeight, above = row.offsetTop - 8;
        if (root.scrollTop < below || root.scrollTop > above) root.scrollTop = Math.min(below, above);
    }

    #makeRow(owner) {
        const { tape, session } = this, name = tape.owners[owner];
        const swatch = element("i", { class: "pk-swatch" });
        swatch.style.background = css(hueOf(owner));
        const what = element("span", { class: "pk-what" });
        const button = element("button", { class: "pk-row", type: "button", "data-testid": "sequence", title: name },
                               swatch, element("b", {}, name), what);
        button.addEventListener("click", () => session.select(session.selected === name ? "" : name));
        const row = { root: element("div", { class: "pk-owner" }, button), button, what, table: null };
        this.rows.set(owner, row);
        return row;
    }

    #drawTable(row, table, owner, most) {
        const { tape } = this;
        if (!row.table) {
            row.table = element("div", { class: "pk-table", "data-testid": "table" });
            row.root.append(row.table);
        }
        const current = new Set(tape.event?.changes.map(change => change.block) ?? []), copy = tape.copyUnderWay;
        // Until the source is given up, its copy stands beside it, for the same place in the table.
        const doubled = copy && copy.target === table.at(-1) && copy.source === table.at(-2);
        const focus = (owner === this.selected ? this.centre : null) ?? table.findLastIndex(block => current.has(block));
        const { start, end } = tableWindow(table.length, most, focus);
        const entries = [];
        const more = (text, centre) => owner === this.selected ? this.#moreButton(text, centre)
            : element("span", { class: "pk-what", style: "background: var(--pk-paper)" }, text);  // arrows pass behind it
        const entry = number => counted(number, "entry").replace("entrys", "entries");
        if (start) entries.push(more(`… ${entry(start)} before`, start - most / 2));
        for (let at = start; at < end; at++) {
            const block = table[at], logical = doubled && at === table.length - 1 ? at - 1 : at;
            const chip = this.#makeChip(owner, logical, block, current.has(block), copy);
            if (!this.chips.get(block)?.push({ chip, owner })) this.chips.set(block, [{ chip, owner }]);
            entries.push(chip);
        }
        if (end < table.length) entries.push(more(`${entry(table.length - end)} after …`, end + most / 2));
        if (!table.length) entries.push(element("span", { class: "pk-what" }, "its table is empty at this moment"));
        row.table.replaceChildren(...entries);
    }

    /** logical→physical; a line at its foot says how full the block is. */
    #makeChip(owner, logical, block, current, copy) {
        const { tape } = this, count = tape.refcounts[block], tokens = tokensInBlock(tape, owner, logical);
        const kind = (count > 1 ? " pk-shared" : "") + (current ? " pk-current" : "")
            + (copy?.source === block ? " pk-source" : "") + (tape.tellsContents ? " pk-telling" : "");
        const chip = element("span", { class: `pk-chip${kind}`, "data-block": block }, `${logical}→${block}`);
        chip.addEventListener("pointerenter", () => this.point(block));
        chip.addEventListener("pointerleave", () => this.point(-1));
        if (!tape.tellsContents) return chip;
        const size = tape.blockSizeTokens, words = [`logical block ${logical} is block ${block}`];
        if (tokens !== null) {
            if (tokens < size) chip.append(element("small", {}, `${tokens}/${size}`));
            const line = element("i", { class: "pk-fill" });
            line.style.width = `${100 * tokens / size}%`;
            line.style.background = css(hueOf(owner));
            chip.append(line);
            words.push(`${tokens} of ${size} tokens`);
        }
        if (count > 1) words.push(`shared, refcount ${count}`);
        if (tape.isCached[block]) {
            chip.append(icon("lock"));
            words.push("cached: read-only");
        }
        chip.title = words.join(" · ");
        return chip;
    }

    /** What the marks of the entries mean. */
    #drawKey(wanted) {
        this.key.hidden = !wanted;
        if (!wanted || this.key.firstChild) return;
        const entry = (what, text) => element("span", {}, what, text);
        this.key.append(entry(element("span", { class: "pk-chip pk-telling" }, "0→5"), "logical → physical block"),
                        entry(element("span", { class: "pk-chip pk-telling pk-shared" }, "0→5"), "shared"),
                        entry(icon("lock"), "cached, read-only"));
    }

    #moreButton(text, centre) {
        const button = element("button", { class: "pk-chip-more", type: "button" }, text);
        button.addEventListener("click", () => { this.centre = Math.max(0, centre); this.draw(); });
        return button;
    }
}
