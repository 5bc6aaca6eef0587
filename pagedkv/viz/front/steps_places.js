// The places and the blocks in them. A tile that has moved slides to its new place, unless its reader wants no motion.

import { css, hueOf, inkOn } from "./colours.js";
import { element } from "./elements.js";
import { HEAD_ROOM, layOutPlaces, numShown, slotIn, tilesFor } from "./steps_layout.js";

const SLIDE = 450;  // milliseconds at most
const PART_OF_A_STEP = 0.6;  // of the time between two steps, for a slide: then there is a rest to read in

export class Places {
    constructor(tape, session) {
        Object.assign(this, { tape, session });
        this.tiles = new Map();  // key → {element, place}
        this.root = element("div", { class: "st-places", role: "img", "data-testid": "places" });
        this.headAt = tape.hasHead ? tape.places.findIndex(place => place.kind === "stack") : -1;
        this.boxes = tape.places.map(({ name, kind, actor }) => {
            const heading = element("div", { class: "st-heading" });
            if (actor >= 0) heading.append(swatchOf(actor));
            heading.append(element("span", {}, name));
            const hint = element("div", { class: "st-empty" }, "none");
            return element("div", { class: `st-box st-${kind}`, "data-place": name }, heading, hint);
        });
        this.head = element("div", { class: "st-head", "data-testid": "head" });
        this.head.hidden = this.headAt < 0;
        this.more = tape.places.map(() => element("div", { class: "st-more" }));
        this.root.append(...this.boxes, this.head, ...this.more);
    }

    resize(width) {
        const { tape } = this;
        this.layout = layOutPlaces(tape.places.map(place => place.kind), tape.places.map(place => place.name),
                                   tape.mostBlocks(), width, this.headAt);
        this.layout.forEach((box, i) => Object.assign(this.boxes[i].style, {
            left: `${box.x}px`, top: `${box.y}px`, width: `${box.width}px`, height: `${box.height}px` }));
        this.root.style.height = `${Math.max(...this.layout.map(box => box.y + box.height))}px`;
        this.root.style.width = `${Math.max(...this.layout.map(box => box.x + box.width))}px`;
        this.draw(false);
    }

    /** slides: whether what has moved is seen to move. */
    draw(slides = true) {
        if (!this.layout) return;
        const { tape, session, layout } = this, { blocks, head } = tape.step;
        const longest = session.playing ? 1000 / session.player.speed * PART_OF_A_STEP : SLIDE;
        this.root.style.setProperty("--st-slide", slides ? `${Math.round(Math.min(SLIDE, longest))}ms` : "0ms");
        const tiles = tilesFor(layout, blocks, new Map([...this.tiles].map(([key, tile]) => [key, tile.place])));
        const moved = tape.moved(), doubled = tape.doubled(), seen = new Set();
        for (const { key, block, place, x, y } of tiles) {
            seen.add(key);
            let tile = this.tiles.get(key);
            if (!tile) {
                tile = { element: element("div", { class: "st-tile", "data-block": block }, element("span", {}, `${block}`)) };
                this.tiles.set(key, tile);
                this.root.append(tile.element);
            }
            tile.place = place;
            this.#dress(tile.element, tape.places[place], moved.has(block), doubled.has(block));
            tile.element.style.transform = `translate(${x}px, ${y}px)`;
        }
        for (const [key, tile] of this.tiles)
            if (!seen.has(key)) {
                tile.element.remove();
                this.tiles.delete(key);
            }
        layout.forEach((box, place) => this.#drawRest(box, place, blocks[place].length));
        if (this.headAt >= 0) this.#drawHead(layout[this.headAt], blocks[this.headAt], head);
        this.root.setAttribute("aria-label", tape.where());
    }

    #dress(tile, { kind, actor }, moved, doubled) {
        const cached = kind === "stack" && actor >= 0, held = kind === "set" && actor >= 0;
        tile.className = `st-tile st-in-${cached ? "cache" : held ? "hand" : kind}`
            + (moved ? " st-moved" : "") + (doubled ? " st-doubled" : "");
        tile.style.setProperty("--st-hue", css(hueOf(actor)));
        tile.style.color = held ? inkOn(hueOf(actor)) : "";
        tile.title = doubled ? "in two places at once" : "";
    }

    #drawRest(box, place, count) {
        const shown = numShown(box, count), more = this.more[place], node = this.boxes[place];
        node.classList.toggle("st-is-empty", !count);
        more.hidden = shown === count;
        if (more.hidden) return;
        const { x, y } = slotIn(box, shown, count);
        more.textContent = `+ ${count - shown}`;
        more.title = `${count - shown} more ${box.kind === "stack" ? "below" : "blocks"}`;
        more.style.transform = `translate(${x}px, ${y}px)`;
    }

    #drawHead(box, listed, head) {
        const { x, y } = slotIn(box, 0, Math.max(1, listed.length));
        this.head.style.transform = `translate(${x - HEAD_ROOM}px, ${y}px)`;
        this.head.textContent = head === null || head === undefined ? "" : head < 0 ? "head: none" : `head ${head}`;
        this.head.classList.toggle("st-points", head !== null && head === listed[0]);
    }
}

export function swatchOf(actor) {
    const swatch = element("i", { class: "pk-swatch" });
    swatch.style.background = css(hueOf(actor));
    return swatch;
}
