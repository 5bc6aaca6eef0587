// One story: the places, the steps so far with a column for each actor, what each actor has read, the step in words, lanes.

import { badge, sourceBadge } from "./badges.js";
import { css, hueOf } from "./colours.js";
import { element } from "./elements.js";
import { StepsLanes } from "./steps_lanes.js";
import { Places, swatchOf } from "./steps_places.js";
import { counted } from "./words.js";

const BESIDE = 760;  // from this width on, the steps stand beside the places and not below them
const PADDING = 24, LEAST_HISTORY = 330, NAMES = 92;  // CSS pixels

export class StepsPanel {
    constructor(tape, view) {
        const { session } = view;
        Object.assign(this, { tape, session });
        this.places = new Places(tape, session);
        this.legend = element("div", { class: "pk-legend" });
        this.left = element("div", { class: "st-left" }, this.places.root, this.legend);
        this.history = element("ol", { class: "st-history", "data-testid": "history" });
        this.history.style.setProperty("--st-actors", Math.max(1, tape.actors.length));
        this.#fillHistory();
        this.side = element("div", { class: "st-side", tabindex: "-1" }, this.#columns(), this.history);
        this.main = element("div", { class: "st-main" }, this.left, this.side);
        this.cards = tape.actors.map((name, actor) => {
            const note = element("span", { class: "st-note" });
            return { note, root: element("div", { class: "st-card", "data-actor": name }, swatchOf(actor), element("b", {}, name), note) };
        });
        this.step = element("span", { class: "pk-step" });
        this.wording = element("span", { class: "pk-words" });
        this.caption = element("div", { class: "pk-caption", "data-testid": "caption" }, this.step, this.wording);
        this.result = element("div", { class: "st-result", "data-testid": "result" });
        this.result.hidden = !tape.result;
        this.lanes = new StepsLanes(tape, session);
        this.root = element("section", { class: "pk-panel st-panel", "aria-label": tape.title }, this.main,
            element("div", { class: "st-cards" }, ...this.cards.map(card => card.root)), this.caption, this.lanes.all, this.result);
    }

    /** The step in words, and what came of it. */
    get words() { return [this.tape.sentence(), this.tape.resultNow].filter(Boolean).join(". "); }

    setColours(colours) { this.colours = colours; }

    resize(width, ratio) {
        const beside = width >= BESIDE;
        this.main.classList.toggle("st-beside", beside);
        this.places.resize(beside ? width - LEAST_HISTORY - 2 * PADDING : width - PADDING);
        // What stands beside the places is as high as they are: a longer list is scrolled.
        this.side.style.height = beside ? `${Math.max(230, this.left.offsetHeight)}px` : "230px";
        this.lanes.resize(width - PADDING - NAMES, ratio);
    }

    drawAll() {
        this.lanes.draw(this.colours);
        this.#drawMoment(false);
    }

    showFrame() { this.#drawMoment(true); }
    select() { /* nobody can be followed */ }
    rest() { this.#drawMoment(true); }

    #drawMoment(slides) {
        const { tape } = this, { step, frame } = tape;
        this.places.draw(slides);
        this.#drawLegend();
        this.cards.forEach(({ note, root }, actor) => {
            note.textContent = note.title = step.notes[actor] || "–";
            root.classList.toggle("st-acts", step.actor === actor);
        });
        this.caption.className = `pk-caption pk-${step.mark ? "fault" : frame ? "done" : "start"}`;
        this.step.textContent = `step ${frame}`;
        this.wording.textContent = this.caption.title = tape.sentence();
        this.result.textContent = tape.resultNow || "\u00a0";
        this.result.classList.toggle("st-tells", !!tape.resultNow);
        [...this.history.children].forEach((row, number) => {
            // What has not happened yet is not told, but its room is kept.
            row.classList.toggle("st-later", number > frame);
            row.classList.toggle("st-now", number === frame);
            if (number === frame) row.setAttribute("aria-current", "step"); else row.removeAttribute("aria-current");
            row.inert = number > frame;
        });
        this.#reveal(this.history.children[frame]);
        this.lanes.showFrame();
    }

    /** Scrolls the list, and never the page. */
    #reveal(row) {
        const top = row.offsetTop - this.side.offsetTop, { scrollTop, clientHeight } = this.side;
        if (top < scrollTop + 30) this.side.scrollTop = Math.max(0, top - 40);
        else if (top + row.offsetHeight > scrollTop + clientHeight) this.side.scrollTop = top + row.offsetHeight - clientHeight + 8;
    }

    #columns() {
        const head = element("div", { class: "st-columns", "aria-hidden": "true" }, element("span", {}, ""),
            ...this.tape.actors.map((name, actor) => element("span", {}, swatchOf(actor), name)));
        head.style.setProperty("--st-actors", Math.max(1, this.tape.actors.length));
        return head;
    }

    #fillHistory() {
        const { tape, session } = this;
        this.history.replaceChildren(...tape.steps.map((step, frame) => {
            const said = element("span", { class: "st-said" }, step.text, ...step.mark ? [element("b", {}, ` ✗ ${step.mark}`)] : []);
            if (step.actor < 0) said.style.gridColumn = "2 / -1";
            else Object.assign(said.style, { gridColumn: `${step.actor + 2}`, borderLeftColor: css(hueOf(step.actor)) });
            const go = element("button", { class: "st-row", type: "button", "aria-label": `step ${frame}: ${tape.sentence(frame)}` },
                               element("span", { class: "st-number" }, `${frame}`), said);
            go.addEventListener("click", () => session.go(frame));
            return element("li", {}, go);
        }));
    }

    #drawLegend() {
        const { tape } = this, kinds = new Set(tape.places.map(({ kind, actor }) => kind === "stack" && actor >= 0 ? "cache" : kind));
        const entries = [["moved", "moved by this step"]];
        if (kinds.has("cache")) entries.push(["cache", "free, in a cache"]);
        if (tape.steps.some((_, frame) => frame <= tape.seen && tape.doubled(frame).size)) entries.push(["doubled", "in two places"]);
        this.legend.replaceChildren(...entries.map(([kind, text]) =>
            element("span", {}, element("i", { class: `pk-key st-key-${kind}` }), text)));
    }
}

/** Where the story comes from, and how large it is. */
export function stepsBadges(tape) {
    return [...tape.source ? [sourceBadge(tape.source)] : [], badge(counted(tape.numBlocks(), "block"))];
}
