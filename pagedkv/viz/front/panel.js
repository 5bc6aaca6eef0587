// One pool: grid, sequences, the event in words, timeline. Below the grid there may be other pictures of the same
// frame: each has root, resize(width), setColours(colours), draw(), showFrame(), point(block).

import { badge, sourceBadge } from "./badges.js";
import { ATTENTION, css } from "./colours.js";
import { captionOf, describeBlock } from "./caption.js";
import { element, svgElement } from "./elements.js";
import { DeviceTimeline } from "./device_timeline.js";
import { GridCanvas } from "./canvas.js";
import { blockAt, placeOf } from "./layout.js";
import { Sidebar } from "./sidebar.js";
import { Timeline } from "./timeline.js";
import { counted, grouped } from "./words.js";

const BESIDE = 560;  // from this width on, the sequences stand beside the grid and not below it
const TALLEST = 400, TALLEST_OF_SEVERAL = 280, TALLEST_OF_TWO = 300;  // one of several grids; one of two pictures
const ROOM_FOR_TABLES = 330, ROOM_BELOW = 250, OWNERS_WHILE_LIVE = 3;
const MOST_ARROWS = 12, MOST_ARROWS_DOWN = 3;  // arrows that go down cross the legend

export class Panel {
    /** makeBelow(panel): optional, a list of what stands below the grid. */
    constructor(tape, session, makeBelow = null) {
        const alone = session.tapes.length === 1;
        Object.assign(this, { tape, session, alone });
        this.pointed = -1;
        const canvas = element("canvas", { class: "pk-canvas", role: "img", "data-testid": "grid" });
        const marks = element("canvas", { class: "pk-marks", "aria-hidden": "true" });
        this.grid = new GridCanvas(canvas, marks, tape);
        this.tip = element("div", { class: "pk-tip", "data-testid": "tooltip", role: "tooltip" });
        this.tip.hidden = true;
        this.cells = element("div", { class: "pk-cells" }, canvas, marks);
        this.legend = element("div", { class: "pk-legend" });
        this.left = element("div", { class: "pk-left" }, this.cells, this.legend);
        this.side = new Sidebar(tape, session, block => this.point(block));
        this.arrows = svgElement("svg", { class: "pk-arrows", "aria-hidden": "true" });
        this.main = element("div", { class: "pk-main" }, this.left, this.side.root, this.arrows);
        this.below = makeBelow?.(this) ?? [];
        this.step = element("span", { class: "pk-step" });
        this.wording = element("span", { class: "pk-words" });
        this.caption = element("div", { class: "pk-caption", "data-testid": "caption" }, this.step, this.wording);
        this.timeline = new Timeline(tape, session);
        this.device = new DeviceTimeline(tape, session);
        this.root = element("section", { class: "pk-panel", "aria-label": tape.title }, this.main,
                            ...this.below.map(picture => picture.root), this.caption, this.timeline.root, this.device.root, this.tip);
        if (!alone) {
            this.place = element("span", { class: "pk-counter" });
            this.root.prepend(element("div", { class: "pk-panel-head" }, element("b", {}, tape.title), ...badges(tape), this.place));
        }
        this.cells.addEventListener("pointermove", event => this.#hover(event));
        this.cells.addEventListener("pointerleave", () => this.point(-1));
        this.cells.addEventListener("click", event => this.follow(this.#blockUnder(event)));
        this.side.root.addEventListener("scroll", () => this.#drawArrows(), { passive: true });
    }

    /** The last event in words. */
    get words() { return captionOf(this.tape).text; }

    resize(width, ratio) {
        const beside = width >= BESIDE;
        this.main.classList.toggle("pk-beside", beside);
        const room = beside ? Math.max(260, Math.round((width - 26) * 0.6)) : width - 26;
        this.grid.resize(room, this.#tallest(), ratio, this.session.model.get("columns"));
        const { width: gridWidth, height: gridHeight } = this.grid.layout;
        this.left.style.width = beside ? `${Math.max(gridWidth, Math.min(room, 300))}px` : "";
        const least = this.tape.tellsContents || this.tape.lives ? ROOM_FOR_TABLES : 190;
        this.tallestSide = beside ? Math.max(gridHeight + 34, least) : ROOM_BELOW;
        this.side.root.style.maxHeight = beside ? `${this.tallestSide}px` : "";
        this.sideWidth = beside ? width - this.left.offsetWidth : width;
        this.#fitSide();
        this.timeline.resize(width - 26, ratio);
        this.device.resize(width - 26, ratio);
        for (const picture of this.below) picture.resize(width - 26);
        this.side.reveal();
    }

    /** Somebody may be reading texts that grow: nothing above them does, so that there is room for all tables. */
    #fitSide() {
        const { tape, side } = this, leastOwners = this.session.following ? OWNERS_WHILE_LIVE : 0;
        side.root.style.minHeight = tape.lives
            ? `${Math.min(this.tallestSide, side.heightAtMost(this.sideWidth, leastOwners))}px` : "";
    }

    #tallest() { return !this.alone ? TALLEST_OF_SEVERAL : this.below.length ? TALLEST_OF_TWO : TALLEST; }

    setColours(colours) {
        this.colours = colours;
        for (const picture of this.below) picture.setColours(colours);
        this.grid.setColours(colours);
    }

    /** Everything again: another size, theme, selection, or more events. */
    drawAll() {
        this.grid.selected = this.side.selected;
        this.grid.drawAll();
        this.timeline.draw(this.colours);
        this.device.root.hidden = !this.tape.tellsDevice;
        if (this.tape.tellsDevice) this.device.draw(this.colours);
        this.#drawLegend();
        this.#fitSide();
        this.side.draw();
        for (const picture of this.below) picture.draw();
        this.#drawMoment();
    }

    showFrame(touched) {
        this.grid.drawBlocks(touched);
        this.side.showFrame();
        for (const picture of this.below) picture.showFrame();
        this.#drawMoment();
    }

    select() {
        this.grid.selected = this.side.selected;
        this.grid.drawAll();
        this.#drawLegend();
        this.side.reveal();
        for (const picture of this.below) picture.draw();
        this.#drawMoment();
    }

    /** Playing has stopped: what was shown now and then is shown exactly. */
    rest() {
        this.#fitSide();
        this.side.draw();
        for (const picture of this.below) picture.draw();
        this.showFrame([]);
    }

    /** What the pool looks like, in words. */
    describe() {
        const { tape } = this;
        const parts = [`${counted(tape.numBlocks, "block")} after event ${tape.frame} of ${tape.numEvents}`,
                       `${tape.used} used`, `${tape.shared} shared`];
        if (tape.everCached) parts.push(`${tape.cached} cached`);
        parts.push(`${tape.numBlocks - tape.used - tape.cached} free`);
        return `${tape.title}: ${parts.join(", ")}`;
    }

    /** The pointer is over a block: over its cell, or over another element that stands for it; over an entry of a table
     *  (null), which needs no explanation; or over none (-1). */
    point(block, over = null) {
        this.pointed = block;
        this.#drawMarks();
        for (const picture of this.below) picture.point(block);
        if (block < 0 || !over) { this.tip.hidden = true; return; }
        this.#fillTip();
        this.tip.hidden = false;
        if (over === this.cells) this.#placeTipAtCell(block); else this.#placeTipAt(over);
    }

    #fillTip() {
        const [heading, ...lines] = describeBlock(this.tape, this.pointed);
        this.tip.replaceChildren(element("b", {}, heading), ...lines.map(line => element("div", {}, line)));
    }

    #placeTipAtCell(block) {
        const box = this.root.getBoundingClientRect(), cells = this.cells.getBoundingClientRect();
        const { x, y } = placeOf(this.grid.layout, block), cell = this.grid.layout.cell;
        const left = cells.left - box.left + x + cell + 8, top = cells.top - box.top + y - 10;
        const fits = left + this.tip.offsetWidth < box.width - 4;
        this.tip.style.left = `${fits ? left : Math.max(4, left - cell - 16 - this.tip.offsetWidth)}px`;
        this.tip.style.top = `${Math.max(4, Math.min(top, box.height - this.tip.offsetHeight - 4))}px`;
    }

    /** Above it, or below where there is no room. */
    #placeTipAt(over) {
        const box = this.root.getBoundingClientRect(), at = over.getBoundingClientRect();
        const above = at.top - box.top - this.tip.offsetHeight - 6;
        this.tip.style.left = `${Math.max(4, Math.min(at.left - box.left, box.width - this.tip.offsetWidth - 4))}px`;
        this.tip.style.top = `${above >= 4 ? above : at.bottom - box.top + 6}px`;
    }

    /** Follow the block's owner; once more: its next owner, then nobody. */
    follow(block) {
        if (block < 0 || !this.tape.refcounts[block]) return;
        const owners = [...new Set(this.tape.references(block).map(reference => this.tape.ownerOf(reference)))];
        const next = owners[owners.indexOf(this.side.selected) + 1];
        this.session.select(next === undefined ? "" : this.tape.owners[next]);
    }

    #hover(event) {
        const block = this.#blockUnder(event);
        if (block !== this.pointed) this.point(block, this.cells);
    }

    #blockUnder(event) {
        if (!this.grid.layout) return -1;  // before the first layout
        const box = this.cells.getBoundingClientRect();
        return blockAt(this.grid.layout, event.clientX - box.left, event.clientY - box.top);
    }

    #drawMoment() {
        const { kind, text, step } = captionOf(this.tape);
        this.caption.className = `pk-caption pk-${kind}`;
        this.wording.textContent = this.caption.title = text;
        this.step.textContent = step === null ? "" : `step ${step}`;
        if (this.place) this.place.textContent = `event ${grouped(this.tape.frame)} / ${grouped(this.tape.numEvents)}`;
        this.timeline.showFrame();
        if (this.tape.tellsDevice) this.device.showFrame();
        if (!this.session.playing) this.grid.canvas.setAttribute("aria-label", this.describe());
        if (this.pointed >= 0 && !this.tip.hidden) this.#fillTip();
        this.#drawMarks();
    }

    #drawMarks() {
        const event = this.tape.event, copy = this.tape.copyUnderWay;
        const current = copy ? [copy.target] : event ? [...new Set(event.changes.map(change => change.block))] : [];
        this.grid.drawMarks(current, this.pointed, copy?.source);
        this.#drawArrows(current, copy);
    }

    /** From entries of tables to their blocks: of the current event, and the one pointed at; and from the source of a copy
     *  to its target. */
    #drawArrows(current = this.currentBlocks ?? [], copy = this.tape.copyUnderWay) {
        this.currentBlocks = current;
        this.pointedChips?.forEach(chip => chip.classList.remove("pk-pointed"));
        this.pointedChips = this.pointed < 0 ? [] : this.side.chipsOf(this.pointed);
        this.pointedChips.forEach(chip => chip.classList.add("pk-pointed"));
        const wanted = this.pointedChips.map(chip => [chip, this.pointed, css(this.colours.ink)]);
        if (!copy && this.side.chips.size)
            for (const block of current)
                for (const chip of this.side.chipsOfEvent(block)) wanted.push([chip, block, css(ATTENTION)]);
        const lines = wanted.filter(([chip]) => chip.isConnected);
        // Asking where things are makes the browser lay out the page, which is not for every frame.
        if (lines.length || copy)
            this.arrows.replaceChildren(...this.#makeArrows(lines), ...copy ? this.#makeCopyArrow(copy) : []);
        else if (this.arrows.firstChild) this.arrows.replaceChildren();
    }

    #makeArrows(wanted) {
        if (!wanted.length) return [];
        const main = this.main.getBoundingClientRect(), side = this.side.root.getBoundingClientRect();
        const cells = this.cells.getBoundingClientRect(), half = this.grid.layout.cell / 2;
        const beside = side.left >= cells.right - 2, lines = [];
        for (const [chip, block, colour] of wanted.slice(0, beside ? MOST_ARROWS : MOST_ARROWS_DOWN).reverse()) {
            const from = chip.getBoundingClientRect();
            if (from.top < side.top - 2 || from.bottom > side.bottom + 2) continue;  // scrolled away
            const { x, y } = placeOf(this.grid.layout, block);
            const toX = cells.left - main.left + x + half, toY = cells.top - main.top + y + half;
            // Behind the entries before it to the edge of the list, so that it crosses nobody's name.
            const startX = from.left - main.left, startY = (from.top + from.bottom) / 2 - main.top;
            const edgeX = side.left - main.left + (beside ? 2 : 6), top = side.top - main.top;
            lines.push(...beside
                ? arrow(`M${startX} ${startY}H${edgeX}`, edgeX, startY, toX + half, toY, 1, 0, colour)
                : arrow(`M${startX} ${startY}H${edgeX + 6}q-6 0 -6 -6V${top}`, edgeX, top, toX, toY + half, 0, 1, colour));
        }
        return lines;
    }

    /** From cell to cell, in a bow, with a word on it. */
    #makeCopyArrow({ source, target }) {
        const main = this.main.getBoundingClientRect(), cells = this.cells.getBoundingClientRect();
        const half = this.grid.layout.cell / 2, colour = css(ATTENTION);
        const middle = block => {
            const { x, y } = placeOf(this.grid.layout, block);
            return [cells.left - main.left + x + half, cells.top - main.top + y + half];
        };
        const [x1, y1] = middle(source), [x2, y2] = middle(target), length = Math.hypot(x2 - x1, y2 - y1) || 1;
        const [alongX, alongY] = [(x2 - x1) / length, (y2 - y1) / length];
        const side = x2 >= x1 ? 1 : -1, bow = Math.min(60, Math.max(18, 0.28 * length));  // the bow is above
        const bendX = (x1 + x2) / 2 + side * alongY * bow, bendY = (y1 + y2) / 2 - side * alongX * bow;
        // It leaves and arrives at the cells' edges, in the direction of its bow.
        const edge = (x, y) => {
            const far = Math.max(Math.abs(bendX - x), Math.abs(bendY - y)) || 1, reach = Math.min(half * 0.55, far);
            return [x + (bendX - x) / far * reach, y + (bendY - y) / far * reach];
        };
        const [fromX, fromY] = edge(x1, y1), [toX, toY] = edge(x2, y2);
        const angle = Math.atan2(toY - bendY, toX - bendX) * 180 / Math.PI;
        const labelX = (fromX + 2 * bendX + toX) / 4, labelY = (fromY + 2 * bendY + toY) / 4;
        const curve = `M${fromX} ${fromY}Q${bendX} ${bendY} ${toX} ${toY}`;
        const there = `translate(${toX} ${toY}) rotate(${angle})`;
        return [svgElement("path", { d: curve, class: "pk-copy-halo" }),
                svgElement("path", { d: curve, class: "pk-copy-line", stroke: colour }),
                svgElement("path", { d: "M3 0l-11 -6v12z", fill: colour, transform: there }),
                svgElement("text", { x: labelX, y: labelY, class: "pk-copy-word" }, "copy")];
    }

    #drawLegend() {
        const { tape } = this, pixels = this.grid.layout.style === "pixels";
        const entries = [["one", "held by one"]];
        if (tape.everShared) entries.push([pixels ? "darker" : "cut", "shared (refcount ≥ 2)"]);
        if (tape.everCached) entries.push([pixels ? "paler" : "hatched", "cached, free to take"]);
        entries.push(["free", "free"], ["event", "this event"]);
        if (tape.everCopied) entries.push(["source", "copied from"]);
        if (this.side.selected >= 0) entries.push(["followed", "followed"]);
        if (tape.everAtFault) entries.push([pixels ? "fault-pixel" : "fault", "given out twice"]);
        this.legend.replaceChildren(...entries.map(([kind, text]) =>
            element("span", {}, element("i", { class: `pk-key pk-key-${kind}` }), text)));
    }
}

/** A path, and from its end at (x1, y1) a curve to a head at (x2, y2), leaving and arriving along (-alongX, -alongY). */
function arrow(path, x1, y1, x2, y2, alongX, alongY, colour) {
    const bend = Math.max(20, 0.4 * (alongX * (x1 - x2) + alongY * (y1 - y2)));
    const [bendX, bendY] = [alongX * bend, alongY * bend];
    const curve = `${path}C${x1 - bendX} ${y1 - bendY} ${x2 + bendX} ${y2 + bendY} ${x2 + 5 * alongX} ${y2 + 5 * alongY}`;
    const head = alongX ? `M${x2} ${y2}l8 -4v8z` : `M${x2} ${y2}l-4 8h8z`;
    return [svgElement("path", { d: curve, fill: "none", stroke: colour, "stroke-width": 1.5 }),
            svgElement("path", { d: head, fill: colour })];
}

/** Where the pool comes from, and how large it is. */
export function badges(tape) {
    return [sourceBadge(tape.source),
            badge(counted(tape.numBlocks, "block") + (tape.blockSizeTokens ? ` × ${tape.blockSizeTokens} tokens` : ""))];
}
