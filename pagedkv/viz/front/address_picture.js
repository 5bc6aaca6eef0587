// The picture of an address: the sequence cut into logical blocks, the block table, the pool with the one slot. It shows what the
// steps up to `step` have said, and nothing of the next.

import { javaPlaceIn } from "./address_arithmetic.js";
import { BAR, cellIn, layOutAddress, rowFor, slotAt } from "./address_layout.js";
import { svgElement } from "./elements.js";
import { counted, grouped } from "./words.js";

const FEWEST_PIXELS = 3.5;  // of a cell that still has an edge
const CHARACTER = 6.2, FLAG_CHARACTER = 6.8;  // pixels

export class AddressPicture {
    /** guessSlot(slot): somebody clicked a slot of the pool. */
    constructor(guessSlot) {
        this.svg = svgElement("svg", { class: "addr-picture", role: "img", "data-testid": "picture" });
        this.hover = svgElement("rect", { class: "addr-hover", visibility: "hidden" });
        this.svg.addEventListener("click", event => {
            const slot = this.#slotUnder(event);
            if (slot >= 0) guessSlot(slot);
        });
        this.svg.addEventListener("pointermove", event => this.#point(this.#slotUnder(event)));
        this.svg.addEventListener("pointerleave", () => this.#point(-1));
    }

    /** asks: whether a click in the pool is a guess. */
    draw(width, setting, place, step, asks) {
        Object.assign(this, { setting, place, step, asks, layout: layOutAddress(width, setting, place, step) });
        const { layout } = this, { height } = layout;
        setAll(this.svg, { width, height, viewBox: `0 0 ${width} ${height}`, "aria-label": pictureWords(setting, place, step) });
        this.parts = [];
        this.#drawSequence();
        this.#drawTable();
        this.#drawPool();
        if (step >= 1) this.#drawArrowToTable();
        if (step >= 3) this.#drawArrowToPool();
        this.#drawMarks();
        this.svg.replaceChildren(...this.parts, this.hover);
        this.#point(-1);
    }

    #add(name, attributes, ...children) { this.parts.push(svgElement(name, attributes, ...children)); }

    #write(x, y, text, kind = "", anchor = "start") {
        this.#add("text", { x, y, class: `addr-text ${kind}`, "text-anchor": anchor }, text);
    }

    #head({ x, y }, title, words) {
        this.#write(x, y - 25, title, "addr-heading");
        this.#write(x, y - 10, words, "addr-faint");
    }

    #drawSequence() {
        const { layout: { sequence }, setting, place, step } = this, { block_size: size, num_tokens: tokens } = setting;
        this.#head(sequence, "sequence", `${counted(tokens, "token")}, cut into logical blocks of ${grouped(size)}`);
        for (const row of sequence.rows) {
            if (this.#drawGap(row)) continue;
            const here = step >= 1 && row.number === place.row;
            this.#write(row.x - 7, row.y + 13, String(row.number), here ? "addr-bold" : "", "end");
            const written = Math.max(0, Math.min(size, tokens - row.number * size));
            this.#drawBar(row, written, here);
            if (setting.tokens.length) this.#writeTokens(row, written);
        }
    }

    #writeTokens(row, written) {
        const { setting: { tokens, block_size: size } } = this;
        for (let offset = 0; offset < written; offset++) {
            this.#writeToken(row, offset, tokens[row.number * size + offset]);
        }
    }

    #writeToken(row, offset, token, kind = "") {
        const text = token.trim(), [x, width] = cellIn(row, offset, this.layout.size), room = Math.floor((width - 3) / CHARACTER);
        const shown = text.length <= room ? text : room >= 3 ? `${text.slice(0, room - 1)}…` : "";
        if (shown) this.#write(x + width / 2, row.y + 12.5, shown, `addr-token ${kind}`, "middle");
    }

    #drawTable() {
        const { layout: { table }, setting, place, step } = this;
        this.#head(table, "block table", "logical → physical");
        for (const row of table.rows) {
            if (this.#drawGap(row)) continue;
            const half = row.width / 2, here = row.number === place.row;
            for (const [i, number] of [row.number, setting.block_table[row.number]].entries()) {
                const kind = i ? "addr-entry" : "addr-index";
                this.#add("rect", { x: row.x + i * half, y: row.y, width: half, height: BAR, class: kind });
                const bold = here && step >= (i ? 3 : 1) ? "addr-bold" : "";
                this.#write(row.x + (i + 0.5) * half, row.y + 12.5, String(number), `addr-number ${bold}`, "middle");
            }
        }
    }

    #drawPool() {
        const { layout: { pool }, setting, place, step } = this, { block_size: size, block_table: entries } = setting;
        const words = `${counted(setting.num_blocks, "block")} of ${counted(size, "slot")}`;
        const legend = `${words}; thick: this sequence's`;
        this.#head(pool, "pool", legend.length * CHARACTER > pool.width ? words : legend);
        for (const row of pool.rows) {
            if (this.#drawGap(row)) continue;
            const own = entries.includes(row.number), here = step >= 3 && row.number === place.physical;
            this.#write(row.x - 7, row.y + 13, String(row.number), here ? "addr-bold" : own ? "" : "addr-faint", "end");
            this.#drawBar(row, own ? size : 0, here, own);
        }
    }

    #drawGap(row) {
        if (!row.gap) return false;
        this.#write(row.x + 4, row.y + 12, `⋮ ${grouped(row.gap)} more`, "addr-faint");
        return true;
    }

    /** A block: `filled` of its cells in use. */
    #drawBar(row, filled, here, own = true) {
        const { layout: { size } } = this, { x, y, width } = row;
        this.#add("rect", { x, y, width, height: BAR, class: "addr-free" });
        if (filled) this.#add("rect", { x, y, width: width * filled / size, height: BAR, class: "addr-filled" });
        if (width / size >= FEWEST_PIXELS) {
            const edges = Array.from({ length: size }, (_, i) => `M${(x + width * i / size).toFixed(1)} ${y}v${BAR}`);
            this.#add("path", { d: edges.join(""), class: "addr-edges" });
        }
        this.#add("rect", { x, y, width, height: BAR, class: `addr-block ${own ? "addr-own" : ""} ${here ? "addr-here" : ""}` });
    }

    #drawArrowToTable() {
        const { layout: { sequence, table, stacked, label }, place } = this;
        const from = rowFor(sequence, place.row), to = rowFor(table, place.row);
        const y = from.y + BAR / 2, end = [to.x, to.y + BAR / 2];
        if (stacked) this.#arrow([from.x - label, y], [8, y], [8, end[1]], end);
        else this.#arrow([from.x + from.width + 4, y], end);
    }

    #drawArrowToPool() {
        const { layout: { table, pool }, place } = this, from = rowFor(table, place.row), to = rowFor(pool, place.physical);
        const start = [from.x + from.width + 4, from.y + BAR / 2], bend = (start[0] + pool.x) / 2 - 3;
        const end = [to.x - pool.label - 2, to.y + BAR / 2], lane = to.y - 6;  // between two rows of the first column
        if (to.column) this.#arrow(start, [bend, start[1]], [bend, lane], [end[0] - 11, lane], [end[0] - 11, end[1]], end);
        else this.#arrow(start, [bend, start[1]], [bend, end[1]], end);
    }

    /** Along these points, round at the corners, to the last one. */
    #arrow(...points) {
        const [x, y] = points.at(-1), d = roundedPath([...points.slice(0, -1), [x - 5, y]]);
        this.#add("path", { d, class: "addr-halo" });
        this.#add("path", { d, class: "addr-arrow" });
        this.#add("path", { d: `M${x - 1} ${y}l-8 -4.5v9z`, class: "addr-head" });
    }

    #drawMarks() {
        const { layout: { sequence, pool }, setting, place, step } = this;
        const below = place.position < 0, token = setting.tokens[place.row * setting.block_size + place.offset] ?? "";
        if (step >= 2) this.#mark(rowFor(sequence, place.row), place.offset, `offset ${place.offset}`, token);
        if (step < 4) return;
        const words = `${below ? "Python:" : "slot"} ${grouped(place.slot)}`;
        this.#mark(rowFor(pool, place.physical), place.offset, words, token);
        const java = below ? javaPlaceIn(setting, place.position) : null;
        if (!java || java.error) return;
        const { block_size: size } = setting;
        this.#mark(rowFor(pool, Math.floor(java.slot / size)), java.slot % size, `Java: ${grouped(java.slot)}`);
    }

    /** One cell, with a flag below it that says what it is. */
    #mark(row, offset, text, token = "") {
        if (!row) return;
        const [x, width] = cellIn(row, offset, this.layout.size), flag = text.length * FLAG_CHARACTER + 10;
        const shown = Math.max(width, 5), last = row.x + row.width - Math.min(flag, row.width) + 3;
        const left = Math.min(Math.max(row.x - 3, x + width / 2 - flag / 2), last);
        this.#add("rect", { x: x + (width - shown) / 2, y: row.y - 2, width: shown, height: BAR + 4, class: "addr-cell" });
        if (token) this.#writeToken(row, offset, token, "addr-on-mark");
        this.#add("rect", { x: left, y: row.y + BAR + 1.5, width: flag, height: 14, rx: 3, class: "addr-flag" });
        this.#write(left + flag / 2, row.y + BAR + 12, text, "addr-flag-text", "middle");
    }

    #slotUnder(event) {
        if (!this.asks) return -1;
        const box = this.svg.getBoundingClientRect();
        return slotAt(this.layout, event.clientX - box.left, event.clientY - box.top);
    }

    #point(slot) {
        this.svg.style.cursor = slot < 0 ? "" : "crosshair";
        this.hover.setAttribute("visibility", slot < 0 ? "hidden" : "visible");
        if (slot < 0) return;
        const { size, pool } = this.layout, row = rowFor(pool, Math.floor(slot / size));
        const [x, width] = cellIn(row, slot % size, size);
        setAll(this.hover, { x, y: row.y - 1, width, height: BAR + 2 });
    }
}

function setAll(node, attributes) { for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value); }

function roundedPath(points) {
    const parts = [`M${points[0].join(" ")}`];
    for (let i = 1; i < points.length - 1; i++) {
        const [before, corner, after] = points.slice(i - 1, i + 2);
        parts.push(`L${towards(corner, before).join(" ")}Q${corner.join(" ")} ${towards(corner, after).join(" ")}`);
    }
    return `${parts.join("")}L${points.at(-1).join(" ")}`;
}

/** A few pixels from one point on the way to the other, and not more than half of it. */
function towards([x, y], [otherX, otherY]) {
    const length = Math.hypot(otherX - x, otherY - y), share = length ? Math.min(6, length / 2) / length : 0;
    return [x + (otherX - x) * share, y + (otherY - y) * share];
}

/** What the picture shows, for who cannot see it. */
export function pictureWords({ block_table: table, block_size: size, num_tokens: tokens, num_blocks: blocks }, place, step) {
    const entries = table.slice(0, 12).map((block, i) => `${i} to ${block}`).join(", ") + (table.length > 12 ? ", and more" : "");
    const marked = [`logical block ${place.row}`, `the cell at offset ${place.offset} in it`,
                    `an arrow from the table to physical block ${place.physical}`, `slot ${place.slot} in it`].slice(0, step);
    return `A sequence of ${counted(tokens, "token")} in blocks of ${grouped(size)}. `
        + `Block table, logical to physical: ${entries}. A pool of ${counted(blocks, "block")}. `
        + (marked.length ? `Marked: ${marked.join("; ")}.` : "Nothing is marked yet.");
}
