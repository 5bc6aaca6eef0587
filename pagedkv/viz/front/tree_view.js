// The prefix tree below the grid: a button for each node that is drawn, lines between them, and in words what is left out.

import { css, hueOf, inkOn, ownerLabel } from "./colours.js";
import { element, svgElement } from "./elements.js";
import { DETACHED, layTree, treeOf, treeWords } from "./prefix_tree.js";
import { tokensInWords } from "./tokens.js";
import { counted, grouped } from "./words.js";

const ROOT_WIDTH = 76, NARROWEST = 116, NARROWEST_ON_A_PHONE = 96, PHONE = 560, WIDEST = 168;  // CSS pixels
const NODE_HEIGHT = 46, BETWEEN = 20, BETWEEN_ROWS = 10;
const MOST_TREE_ROWS = 9, NODE_OWNERS = 3, MOST_STRIPES = 6, NODE_TOKENS = 24;
const TREE_MILLISECONDS = 100;  // between two drawings while playing

export class TreeView {
    /** panel: the one that it is a part of; it has point(block, element) and follow(block). */
    constructor(tape, session, panel) {
        Object.assign(this, { tape, session, panel });
        this.heading = element("div", { class: "pk-tree-title" });
        this.lines = svgElement("svg", { class: "pk-tree-lines", "aria-hidden": "true" });
        this.nodes = element("div", { class: "pk-tree-nodes" });
        this.plane = element("div", { class: "pk-tree-plane" }, this.lines, this.nodes);
        this.scroll = element("div", { class: "pk-tree-scroll" }, this.plane);
        this.legend = element("div", { class: "pk-legend" });
        this.root = element("div", { class: "pk-tree", role: "group", "aria-label": "prefix tree",
                                     "data-testid": "prefix-tree" },
                            this.heading, this.scroll, this.legend);
        this.shown = new Map();  // what is drawn, by its key: {element, ...}
        this.width = this.drawnAt = this.took = 0;
    }

    resize(width) { this.width = width; }

    setColours(colours) { this.colours = colours; }

    /** Show the current frame; at most some times a second while playing. */
    showFrame() {
        const now = performance.now();
        if (this.session.playing && now - this.drawnAt < Math.max(TREE_MILLISECONDS, 5 * this.took)) return;
        this.draw();
        this.drawnAt = performance.now();
        this.took = this.drawnAt - now;  // of a large tree: it is no reason to play slowly
    }

    draw() {
        if (!this.width || !this.colours) return;
        const { tape } = this, tree = treeOf(tape);
        this.selected = tape.owners.indexOf(this.session.selected);
        this.current = new Set(tape.event?.changes.map(change => change.block) ?? []);
        const least = this.width < PHONE ? NARROWEST_ON_A_PHONE : NARROWEST;
        const columns = Math.max(2, 1 + Math.floor((this.width - ROOT_WIDTH) / (least + BETWEEN)));
        const laid = layTree(tree, columns, MOST_TREE_ROWS, block => this.#weight(block));
        const room = (this.width - ROOT_WIDTH) / Math.max(1, laid.columns - 1) - BETWEEN;
        this.nodeWidth = Math.floor(Math.max(least, Math.min(WIDEST, room)));
        const right = this.#left(laid.columns - 1) + (laid.columns > 1 ? this.nodeWidth : ROOT_WIDTH);
        const height = laid.rows * (NODE_HEIGHT + BETWEEN_ROWS) - BETWEEN_ROWS;
        // Not lower than it was: what stands below must not jump to and fro while it plays.
        this.tallest = this.session.playing || this.session.following ? Math.max(this.tallest ?? 0, height) : height;
        this.plane.style.width = `${right}px`;
        this.plane.style.height = `${Math.max(this.tallest, NODE_HEIGHT)}px`;
        this.lines.setAttribute("width", right);
        this.lines.setAttribute("height", height);
        this.#drawHeading(tree);
        this.#drawItems(laid.items);
        const later = laid.items.filter(item => item.from >= 0);
        this.lines.replaceChildren(...later.map(item => this.#line(laid.items[item.from], item)));
        this.#drawLegend(tree);
        this.#reveal(laid.items, right);
        this.point(this.panel.pointed);
    }

    /** Where the tree is wider than there is room, bring the event's last node into sight. */
    #reveal(items, right) {
        if (right <= this.width || this.revealed === this.tape.frame) return;
        this.revealed = this.tape.frame;
        const last = items.findLast(item => item.kind === "node" && this.current.has(item.block));
        if (!last) return;
        const left = this.#left(last.column), end = left + this.nodeWidth, { scrollLeft } = this.scroll;
        if (left < scrollLeft) this.scroll.scrollLeft = left - BETWEEN;
        else if (end > scrollLeft + this.width) this.scroll.scrollLeft = end - this.width + BETWEEN;
    }

    /** The pointer is over this block, in one of the pictures; -1: over none. */
    point(block) {
        this.marked?.classList.remove("pk-pointed");
        this.marked = null;
        if (block < 0) return;
        for (const { item, element: made } of this.shown.values())
            if (item.block === block || item.blocks?.includes(block)) this.marked = made;
        this.marked?.classList.add("pk-pointed");
    }

    #weight(block) {
        if (this.current.has(block)) return 3;
        if (this.selected >= 0 && this.tape.holds(this.selected, block)) return 2;
        return this.tape.refcounts[block] ? 1 : 0;
    }

    #left(column) { return column ? ROOT_WIDTH + BETWEEN + (column - 1) * (this.nodeWidth + BETWEEN) : 0; }
    #top(row) { return row * (NODE_HEIGHT + BETWEEN_ROWS); }

    #drawHeading(tree) {
        const words = treeWords(tree, this.tape);
        if (this.words === words) return;
        this.words = words;
        this.heading.replaceChildren(element("b", {}, "Prefix tree"), element("span", {}, words));
    }

    #drawLegend(tree) {
        const { tape } = this, entries = [["node", "held: bars in its owners' colours, ×2 = refcount"]];
        if (tape.everCached) entries.push(["node-free", "nobody holds it: free to take"]);
        entries.push(["event", "this event"]);
        if (tree.salts.includes(DETACHED))
            entries.push(["detached", "detached: no lookup comes here, the part before it is gone"]);
        const key = entries.map(([kind]) => kind).join();
        if (this.legendKey === key) return;
        this.legendKey = key;
        this.legend.replaceChildren(...entries.map(([kind, text]) =>
            element("span", {}, element("i", { class: `pk-key pk-key-${kind}` }), text)));
    }

    /** Elements are kept as long as their node is drawn, so that the focus stays where it is. */
    #drawItems(items) {
        const keys = new Map();
        for (const item of items) {
            const key = item.kind === "node" ? `node ${item.block} ${this.tape.nodeOf[item.block]}`
                : item.kind === "root" ? `root ${item.salt}` : `${item.kind} ${item.row} ${item.column}`;
            keys.set(key, item);
        }
        for (const [key, { element: made }] of this.shown)
            if (!keys.has(key)) { made.remove(); this.shown.delete(key); }
        let previous = null;
        for (const [key, item] of keys) {
            const shown = this.shown.get(key) ?? { element: this.#make(item), look: null };
            this.shown.set(key, shown);
            shown.item = item;
            const made = shown.element;
            // the order of the tab key: as they are drawn
            if (!made.parentNode || made.previousElementSibling !== previous) {
                if (previous) previous.after(made); else this.nodes.prepend(made);
            }
            previous = made;
            made.style.left = `${this.#left(item.column)}px`;
            made.style.top = `${this.#top(item.row)}px`;
            made.style.width = `${item.column ? this.nodeWidth : ROOT_WIDTH}px`;
            this.#fill(shown);
        }
    }

    #make(item) {
        if (item.kind === "root") {
            const detached = item.salt === DETACHED;
            return element("div", { class: `pk-tree-root${detached ? " pk-detached" : ""}`, title: item.salt ?? "" },
                           ...(detached ? [element("b", {}, "detached"), element("span", {}, "parent is gone")]
                               : item.salt === null ? [element("b", {}, "root")]
                                   : [element("b", {}, "root"), element("span", {}, `salt ${item.salt}`)]));
        }
        if (item.kind !== "node") return element("div", { class: `pk-tree-${item.kind}` });
        const { block } = item;
        const made = element("button", { class: "pk-node", type: "button", "data-testid": "node", "data-block": block });
        made.addEventListener("pointerenter", () => this.panel.point(block, made));
        made.addEventListener("pointerleave", () => this.panel.point(-1));
        made.addEventListener("focus", () => { if (made.matches(":focus-visible")) this.panel.point(block, made); });
        made.addEventListener("blur", () => this.panel.point(-1));
        made.addEventListener("click", () => this.panel.follow(block));
        return made;
    }

    #fill(shown) {
        const { item, element: made } = shown;
        if (item.kind === "root") return;
        if (item.kind === "gap") {
            made.textContent = `… ${counted(item.blocks.length, "block")} …`;
            made.classList.toggle("pk-current", item.blocks.some(block => this.current.has(block)));
            return;
        }
        if (item.kind === "more") {
            made.textContent = `… ${grouped(item.count)} more`;
            const branches = item.branches === 1 ? "a branch" : `${grouped(item.branches)} branches`;
            made.title = `${counted(item.count, "more block")} in ${branches}`;
            return;
        }
        const { tape } = this, { block } = item, count = tape.refcounts[block];
        const owners = [...new Set(tape.references(block).map(reference => tape.ownerOf(reference)))];
        const tokens = tokensInWords(tape.contents(block), tape.textOf, NODE_TOKENS);
        const followed = owners.includes(this.selected), last = tape.shownOwner(block);
        const look = [count, owners.join(), tokens, this.colours.dark, last, this.nodeWidth].join("|");
        made.classList.toggle("pk-current", this.current.has(block));
        made.classList.toggle("pk-followed", followed);
        made.classList.toggle("pk-faint", this.selected >= 0 && !followed);
        made.setAttribute("aria-pressed", followed);
        if (shown.look === look) return;
        shown.look = look;
        made.classList.toggle("pk-node-free", !count);
        made.style.setProperty("--pk-hue", css(hueOf(last)));
        const bar = element("i", { class: "pk-node-bar" });
        if (count) bar.style.background = stripes(owners);
        const named = this.#numNamed(owners, `${block}${count}`.length);
        const marks = owners.slice(0, named).map(owner => {
            const name = tape.owners[owner];
            const mark = element("i", { class: "pk-node-owner" }, name === tape.noName ? "" : ownerLabel(name));
            mark.style.background = css(hueOf(owner));
            mark.style.color = inkOn(hueOf(owner));
            return mark;
        });
        if (named && owners.length > named)
            marks.push(element("i", { class: "pk-node-others" }, `+${owners.length - named}`));
        made.replaceChildren(bar,
            element("span", { class: "pk-node-head" }, element("b", {}, String(block)),
                    element("span", { class: "pk-node-refs" }, `×${grouped(count)}`),
                    element("span", { class: "pk-node-owners" }, ...marks)),
            element("span", { class: "pk-node-tokens" }, tokens || "tokens not told"));
        const held = count ? `held by ${owners.map(owner => tape.owners[owner]).join(", ")}` : "free to take";
        made.setAttribute("aria-label", `block ${block}, refcount ${count}, ${held}: ${tokens || "tokens not told"}`);
    }

    /** How many owners' labels there is room for, beside a number of block and a refcount with so many digits. */
    #numNamed(owners, numDigits) {
        let room = this.nodeWidth - 41 - 7 * numDigits, number = 0;
        for (const owner of owners.slice(0, NODE_OWNERS)) {
            room -= 2 + Math.max(15, 6 + 6 * ownerLabel(this.tape.owners[owner]).length);
            if (room < (number + 1 < owners.length ? 14 : -2)) break;
            number++;
        }
        return number;
    }

    #line(from, to) {
        const startX = this.#left(from.column) + (from.column ? this.nodeWidth : ROOT_WIDTH);
        const endX = this.#left(to.column);
        const startY = this.#top(from.row) + NODE_HEIGHT / 2, endY = this.#top(to.row) + NODE_HEIGHT / 2;
        const bend = Math.min(8, BETWEEN / 2);
        const path = startY === endY ? `M${startX} ${startY}H${endX}`
            : `M${startX} ${startY}h${BETWEEN / 2 - bend}q${bend} 0 ${bend} ${bend}`
                + `V${endY - bend}q0 ${bend} ${bend} ${bend}H${endX}`;
        const followed = this.selected >= 0 && to.kind === "node" && this.tape.holds(this.selected, to.block);
        const gone = from.kind === "root" && from.salt === DETACHED;
        const kind = `${followed ? " pk-followed" : ""}${gone ? " pk-detached" : ""}`;
        return svgElement("path", { d: path, class: `pk-tree-line${kind}` });
    }
}

/** The owners' colours one below the other, as a background. */
function stripes(owners) {
    const some = owners.slice(0, MOST_STRIPES), share = 100 / some.length;
    const parts = some.map((owner, i) => `${css(hueOf(owner))} ${i * share}% ${(i + 1) * share}%`);
    return `linear-gradient(${parts.join(",")})`;
}
