// Beside the grid: who holds blocks, and the block table of the one that is followed.

import { css, hueOf } from "./colours.js";
import { describeOwner } from "./caption.js";
import { element } from "./elements.js";
import { tableWindow } from "./layout.js";
import { counted } from "./words.js";

const MOST_ROWS = 60, FEW_OWNERS = 12, MOST_CHIPS = 42, MILLISECONDS = 120;

export class Sidebar {
    /** point(block): the pointer is over this entry of the table, -1: over none. */
    constructor(tape, session, point) {
        Object.assign(this, { tape, session, point });
        this.list = element("div", { class: "pk-rows" });
        this.more = element("div", { class: "pk-more" });
        this.root = element("div", { class: "pk-side", "data-testid": "sequences" },
                            element("div", { class: "pk-side-title" },
                                    `${tape.ownersAre[0].toUpperCase()}${tape.ownersAre.slice(1)} – click one to follow it`),
                            this.list, this.more);
        this.rows = new Map();
        this.chips = new Map();
        this.centre = null;  // of the part of a long table that is shown; null: follow what happens
        this.drawnAt = 0;
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
            if (owner !== selected && tape.owners.length > FEW_OWNERS && !tape.numHeld.values[owner]) continue;
            if (owner === selected || shown.length < MOST_ROWS) shown.push(owner); else others++;
        }
        for (const [owner, row] of this.rows)
            if (!shown.includes(owner)) { row.root.remove(); this.rows.delete(owner); }
        let previous = null;
        for (const owner of shown) {
            const row = this.rows.get(owner) ?? this.#makeRow(owner);
            if (!row.root.parentNode || row.root.previousElementSibling !== previous) {
                if (previous) previous.after(row.root); else this.list.prepend(row.root);
            }
            previous = row.root;
            const table = owner === selected ? tape.table(owner) : null;
            const what = describeOwner(tape, owner, table);
            if (row.what.textContent !== what) row.what.textContent = what;
            row.root.classList.toggle("pk-selected", owner === selected);
            row.root.classList.toggle("pk-idle", !tape.numHeld.values[owner]);
            row.button.setAttribute("aria-pressed", owner === selected);
            if (table) this.#drawTable(row, table);
            else if (row.table) { row.table.remove(); row.table = null; }
        }
        const nothing = !tape.owners.length ? "nobody holds a block yet" : "";
        const more = others ? `… and ${counted(others, "owner")} more: click a block to follow its owner` : nothing;
        if (this.more.textContent !== more) this.more.textContent = more;
    }

    /** The entry of the followed table that shows this block. */
    chipOf(block) { return this.chips.get(block) ?? null; }

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

    #drawTable(row, table) {
        const { tape } = this;
        if (!row.table) {
            row.table = element("div", { class: "pk-table", "data-testid": "table" });
            row.root.append(row.table);
        }
        const current = new Set(tape.event?.changes.map(change => change.block) ?? []);
        const focus = this.centre ?? table.findLastIndex(block => current.has(block));
        const { start, end } = tableWindow(table.length, MOST_CHIPS, focus);
        const entries = [];
        this.chips.clear();
        if (start) entries.push(this.#moreButton(`… ${counted(start, "entry").replace("entrys", "entries")} before`, start - MOST_CHIPS / 2));
        for (let logical = start; logical < end; logical++) {
            const block = table[logical];
            const kind = (tape.refcounts[block] > 1 ? " pk-shared" : "") + (current.has(block) ? " pk-current" : "");
            const chip = element("span", { class: `pk-chip${kind}`, "data-block": block }, `${logical}→${block}`);
            chip.addEventListener("pointerenter", () => this.point(block));
            chip.addEventListener("pointerleave", () => this.point(-1));
            this.chips.set(block, chip);
            entries.push(chip);
        }
        if (end < table.length)
            entries.push(this.#moreButton(`${counted(table.length - end, "entry").replace("entrys", "entries")} after …`, end + MOST_CHIPS / 2));
        if (!table.length) entries.push(element("span", { class: "pk-what" }, "its table is empty at this moment"));
        row.table.replaceChildren(...entries);
    }

    #moreButton(text, centre) {
        const button = element("button", { class: "pk-chip-more", type: "button" }, text);
        button.addEventListener("click", () => { this.centre = Math.max(0, centre); this.draw(); });
        return button;
    }
}
