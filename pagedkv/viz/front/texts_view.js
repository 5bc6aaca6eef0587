// The texts of the sequences, between the grid and the prefix tree: a row for each. There is room for all of them as they
// are at the tape's end, up to some height: so nothing moves while texts grow, and none is shortened beside an empty place.
// What is more is scrolled to. While a pool is followed the end is not known: a few rows are there from the beginning, and
// it grows by lines.

import { css, hueOf } from "./colours.js";
import { element } from "./elements.js";
import { cutInTheMiddle, linesOf, shareLines, textsAt } from "./texts.js";
import { readTokens } from "./tokens.js";
import { counted, grouped } from "./words.js";

const TEXT_MILLISECONDS = 80;  // between two drawings while playing
const MOST_TEXTS = 40, MOST_ROWS_SEEN = 6, MOST_ROWS_ON_A_PHONE = 5, ROWS_WHILE_LIVE = 3;
const TEXT_LINES = 2, TEXT_LINE_HEIGHT = 19, NAME_WIDTH = 232, ROW_HEIGHT = 42, ROW_HEIGHT_ON_A_PHONE = 62;  // as in texts.css
const EDGES = 22, BESIDE_NAME = 560, LOST_IN_A_LINE = 6;  // letters, where a line breaks
const MOST_READ_ALOUD = 160, PROBE = 50;  // letters

export class TextsView {
    /** panel: the one that it is a part of; it has point(block). */
    constructor(tape, session, panel) {
        Object.assign(this, { tape, session, panel });
        this.rows = element("div", { class: "pk-texts-rows" });
        this.nothing = element("div", { class: "pk-more" }, "no sequence yet");
        this.more = element("div", { class: "pk-more" });
        this.scroll = element("div", { class: "pk-texts-scroll" }, this.rows, this.nothing, this.more);
        this.legend = element("div", { class: "pk-legend" });
        this.words = element("span");
        this.root = element("div", { class: "pk-texts", role: "group", "aria-label": "texts", "data-testid": "texts" },
            element("div", { class: "pk-tree-title" }, element("b", {}, "Texts"), this.words), this.scroll, this.legend);
        this.shown = new Map();  // owner and begin → what is drawn
        this.whole = new Set();  // whose whole text is shown
        this.lines = new Map();  // owner → how many lines its text may have, if more than usual
        this.width = this.drawnAt = this.took = this.tallest = 0;
    }

    resize(width) {
        this.width = width;
        this.letter = this.tallest = 0;
    }

    setColours(colours) { this.colours = colours; }

    /** Show the current frame; at most some times a second while playing. */
    showFrame() {
        const now = performance.now();
        if (this.session.playing && now - this.drawnAt < Math.max(TEXT_MILLISECONDS, 5 * this.took)) return;
        this.draw();
        this.drawnAt = performance.now();
        this.took = this.drawnAt - now;
    }

    draw() {
        const { tape, session } = this;
        this.root.hidden = !tape.tellsContents && !session.following;
        if (this.root.hidden || !this.width || !this.colours) return;
        if (!this.letter) this.#measure();
        const selected = tape.owners.indexOf(session.selected), who = tape.frame ? tape.who.values[tape.frame - 1] : -1;
        const { texts, more } = textsAt(tape, MOST_TEXTS, [selected, who]);
        this.#fitHeight();
        this.#drawRows(texts, selected, who);
        this.nothing.hidden = texts.length > 0;
        this.more.textContent = more ? `… and ${counted(more, "sequence")} more: click a block to see its owner's` : "";
        const finished = texts.filter(text => text.finished).length;
        const words = `${grouped(texts.length - finished)} going on` + (finished ? `, ${grouped(finished)} finished` : "");
        if (this.words.textContent !== words) this.words.textContent = words;
        this.#drawLegend();
        this.point(this.panel.pointed);
    }

    /** The pointer is over this block, in one of the pictures; -1: over none. */
    point(block) {
        this.marked?.forEach(span => span.classList.remove("pk-pointed"));
        this.marked = block < 0 ? [] : [...this.rows.querySelectorAll(`[data-block="${block}"]`)];
        this.marked.forEach(span => span.classList.add("pk-pointed"));
    }

    /** How wide a letter is, and how many fit into a row. */
    #measure() {
        const probe = element("span", { class: "pk-text" }, "0".repeat(PROBE));
        probe.style.cssText = "position: absolute; visibility: hidden; width: auto; white-space: pre";
        this.root.append(probe);
        this.letter = probe.getBoundingClientRect().width / PROBE || 7.2;
        probe.remove();
        this.narrow = this.width < BESIDE_NAME;
        this.root.classList.toggle("pk-narrow", this.narrow);
        const columns = Math.floor((this.width - EDGES - (this.narrow ? 0 : NAME_WIDTH)) / this.letter);
        this.columns = Math.max(12, columns - 1);  // the newest token has a frame, some letters are wider
    }

    /** For the whole text, as it is at the end. */
    #linesWanted(life) {
        const measured = `${this.columns}|${life.end === Infinity ? this.tape.numEvents : ""}`;
        if (life.measured !== measured) {
            life.measured = measured;
            life.wanted = linesOf(wordsBefore(life.last.missing) + this.#pieces(life.last).join(""), this.columns);
        }
        return life.wanted;
    }

    /** Room for the texts as they will be at the end; what texts with more than the usual lines need is added, as long as
     *  there are few. While a pool is followed it does not shrink. */
    #fitHeight() {
        const row = this.narrow ? ROW_HEIGHT_ON_A_PHONE : ROW_HEIGHT, wanted = new Map();
        const most = this.narrow ? MOST_ROWS_ON_A_PHONE : MOST_ROWS_SEEN, all = this.tape.lives?.all ?? [];
        const owners = new Set(all.map(life => life.owner)), { following } = this.session;
        if (owners.size < most)
            for (const life of all) wanted.set(life.owner, Math.max(this.#linesWanted(life), wanted.get(life.owner) ?? 0));
        const spare = Math.floor((most - owners.size) * row / TEXT_LINE_HEIGHT);
        const lines = shareLines([...wanted.values()], TEXT_LINES, spare);
        this.lines = new Map([...wanted.keys()].map((owner, i) => [owner, lines[i]]));
        const more = lines.reduce((sum, each) => sum + each - TEXT_LINES, 0) * TEXT_LINE_HEIGHT;
        const height = owners.size > most ? most * row + 12 : owners.size * row + more;
        this.tallest = Math.max(following ? this.tallest : 0, (following ? ROWS_WHILE_LIVE : 1) * row, height);
        this.scroll.style.height = `${this.tallest}px`;
    }

    #drawRows(texts, selected, who) {
        const keys = new Map(texts.map(text => [`${text.owner} ${text.begin}`, text]));
        for (const [key, { root }] of this.shown)
            if (!keys.has(key)) { root.remove(); this.shown.delete(key); this.whole.delete(key); }
        let previous = null, fresh = null;
        for (const [key, text] of keys) {
            let row = this.shown.get(key);
            if (!row) this.shown.set(key, row = fresh = this.#makeRow(text, key));
            if (!row.root.parentNode || row.root.previousElementSibling !== previous) {
                if (previous) previous.after(row.root); else this.rows.prepend(row.root);
            }
            previous = row.root;
            this.#fill(row, text, key, text.owner === selected, text.owner === who);
        }
        const asked = this.selected !== selected && texts.find(text => text.owner === selected);
        this.selected = selected;
        if (asked) this.#reveal(this.shown.get(`${asked.owner} ${asked.begin}`));
        else if (fresh) this.#reveal(fresh);
    }

    /** Bring a row into sight, without moving the page. */
    #reveal({ root }) {
        const top = root.offsetTop, below = top + root.offsetHeight - this.scroll.clientHeight;
        if (this.scroll.scrollTop < below || this.scroll.scrollTop > top) this.scroll.scrollTop = Math.min(below, top);
    }

    #makeRow({ owner }, key) {
        const { tape, session } = this, name = tape.owners[owner];
        const swatch = element("i", { class: "pk-swatch" });
        swatch.style.background = css(hueOf(owner));
        const what = element("span", { class: "pk-what" });
        const button = element("button", { class: "pk-text-name", type: "button", "data-testid": "text-of", title: name },
                               element("span", {}, swatch, element("b", {}, name)), what);
        const follow = () => session.select(session.selected === name ? "" : name);
        button.addEventListener("click", follow);
        const text = element("div", { class: "pk-text", "data-testid": "text" });
        text.addEventListener("click", event => {
            if (event.target.closest("button")) {
                if (this.whole.has(key)) this.whole.delete(key); else this.whole.add(key);
                this.draw();
                text.querySelector("button")?.focus();
            } else if (!String(getSelection())) follow();
        });
        // Once for all stretches, which come and go.
        text.addEventListener("pointerover", event => {
            const block = event.target.closest("[data-block]")?.dataset.block;
            this.panel.point(block === undefined ? -1 : +block);
        });
        text.addEventListener("pointerleave", () => this.panel.point(-1));
        return { root: element("div", { class: "pk-text-row" }, button, text), button, what, text, look: null };
    }

    #fill(row, text, key, selected, current) {
        const { tape } = this, { stretches, finished, there, missing, numTokens } = text;
        row.root.classList.toggle("pk-selected", selected);
        row.root.classList.toggle("pk-finished", finished);
        row.root.classList.toggle("pk-current", current && !finished);
        row.button.setAttribute("aria-pressed", selected);
        const whole = this.whole.has(key);
        const lines = this.lines.get(text.owner) ?? TEXT_LINES;
        const look = `${finished}|${there}|${missing}|${this.columns}|${lines}|${whole}|${tape.textOf.size}|`
            + stretches.map(({ block, telling, shared }) => `${block}:${telling}${shared ? "*" : ""}`).join();
        if (row.look === look) return;
        row.look = look;
        const words = (finished ? "finished · " : "") + counted(numTokens, "token") + (there ? `, ${grouped(there)} there already` : "");
        if (row.what.textContent !== words) row.what.textContent = row.what.title = words;
        row.root.style.setProperty("--pk-lines", lines);
        const { runs, said } = this.#runs(text, whole, lines);
        row.text.replaceChildren(...runs);
        row.root.classList.toggle("pk-whole", whole);
        row.button.setAttribute("aria-label", `${tape.owners[text.owner]}, ${words}: ${said}`);
    }

    #pieces({ stretches }) {
        const pieces = readTokens(stretches.flatMap(stretch => stretch.tokens), this.tape.textOf);
        if (pieces.length) pieces[0] = pieces[0].trimStart();
        return pieces;
    }

    /** A text as elements: stretches, and a button for what is left out. */
    #runs(text, whole, lines) {
        const { stretches, there, missing, finished } = text, pieces = this.#pieces(text), { columns } = this;
        const room = Math.max(24, lines * (columns - LOST_IN_A_LINE) - wordsBefore(missing).length);
        const fits = whole || linesOf(wordsBefore(missing) + pieces.join(""), columns) <= lines;
        const [head, tail] = fits ? [pieces.length, 0] : cutInTheMiddle(pieces, room);
        const gapEnd = pieces.length - tail, known = there - missing, runs = [];
        if (missing) runs.push(element("span", { class: "pk-what" }, wordsBefore(missing)));
        let at = 0;
        const add = (block, shared, from, to) => {
            if (from >= to) return;
            const last = to === pieces.length && !finished;
            const kind = (shared ? " pk-shared" : "") + (from < known ? " pk-there" : "");
            const span = element("span", { class: `pk-stretch${kind}`, "data-block": block },
                                 pieces.slice(from, last ? to - 1 : to).join(""));
            if (last) span.append(element("b", { class: "pk-newest" }, pieces[to - 1]));
            runs.push(span);
        };
        for (const { block, tokens: those, shared } of stretches) {
            const end = at + those.length;
            for (const [from, to] of [[at, Math.min(end, known)], [Math.max(at, known), end]]) {
                add(block, shared, from, Math.min(to, head));
                if (from <= head && head < to && head < gapEnd) runs.push(this.#gap(gapEnd - head));
                add(block, shared, Math.max(from, gapEnd, head), to);
            }
            at = end;
        }
        if (whole) runs.push(this.#lessButton());
        return { runs, said: spoken(pieces, head, gapEnd) };
    }

    #gap(count) {
        return element("button", { class: "pk-text-gap", type: "button", title: "show the whole text" },
                       `… ${counted(count, "token")} …`);
    }

    #lessButton() { return element("button", { class: "pk-text-gap", type: "button" }, "less"); }

    #drawLegend() {
        const { tape } = this, entries = [["newest", "newest token"]];
        if (tape.lives?.all.some(life => life.there)) entries.push(["there", "there already: found in the cache, or shared by a fork"]);
        if (tape.everShared) entries.push(["shared", "in a shared block"]);
        const key = entries.map(([kind]) => kind).join();
        if (this.legendKey === key) return;
        this.legendKey = key;
        this.legend.replaceChildren(...entries.map(([kind, words]) =>
            element("span", {}, element("span", { class: "pk-text" }, element("span", { class: `pk-stretch pk-${kind}` }, "abc")), words)));
    }
}

function wordsBefore(missing) { return missing ? `… ${counted(missing, "token")} before …` : ""; }

/** What a screen reader says of a text: its end, where it goes on. */
function spoken(pieces, head, gapEnd) {
    const shown = `${pieces.slice(0, head).join("")}${head < gapEnd ? " … " : ""}${pieces.slice(Math.max(head, gapEnd)).join("")}`;
    return shown.length <= MOST_READ_ALOUD ? shown : `… ${shown.slice(-MOST_READ_ALOUD)}`;
}
