// Beside the picture: why a request failed, how the allocator decided, which segments are pinned, who has how much.

import { css, hueOf } from "./colours.js";
import { element, svgElement } from "./elements.js";
import { bytesAsText, hexOf, percentOf } from "./memory_words.js";
import { counted, grouped } from "./words.js";

const LEADS_ON = "→ ";  // of a look that rejects nothing, see memory.py
const FEW_OWNERS = 12, MOST_OWNER_ROWS = 40, MOST_PINNED = 5, MOST_KEEPERS = 3, MILLISECONDS = 120;

export class MemorySide {
    /** point(mark): what is pointed at here lies there, {address, size}; null: nothing is. */
    constructor(panel, point) {
        Object.assign(this, { panel, tape: panel.tape, session: panel.session, point });
        const card = (name, testId) => {
            const made = element("div", { class: `pk-card pk-card-${name}`, "data-testid": testId });
            made.hidden = true;
            return made;
        };
        this.question = card("question", "question");
        this.question.setAttribute("aria-live", "polite");
        this.why = card("why", "why");
        this.decision = card("decision", "decision");
        this.pins = card("pins", "pins");
        this.rows = element("div", { class: "pk-rows" });
        this.more = element("div", { class: "pk-more" });
        this.owners = element("div", { "data-testid": "owners" },
                              element("div", { class: "pk-side-title" }, "Owners – click one to follow it"), this.rows, this.more);
        this.root = element("div", { class: "pk-side", tabindex: "-1" }, this.question, this.why, this.decision, this.pins,
                            this.owners);
        this.rowOf = new Map();
        this.drawnAt = 0;
        this.hovers = new Map();
    }

    get selected() { return this.session.selected ? this.tape.owners.indexOf(this.session.selected) : -1; }

    /** Show the current frame; at most some times a second while playing. */
    showFrame() {
        const now = performance.now();
        if (this.session.playing && now - this.drawnAt < MILLISECONDS) return;
        this.drawnAt = now;
        this.draw();
    }

    draw() {
        const { tape } = this, asking = this.panel.question !== null, event = asking ? null : tape.event;
        this.#drawWhy(event);
        this.#drawDecision(event);
        this.pinned = tape.pinned();
        this.#drawPins();
        this.#drawOwners();
    }

    /** "Where does it go?", or what came of it. */
    drawQuestion(question, verdict, answer) {
        this.question.hidden = !question && !verdict;
        this.question.classList.toggle("pk-right", !!verdict?.isRight);
        this.question.classList.toggle("pk-wrong", !!verdict && !verdict.isRight);
        if (question) {
            const answered = question.given !== undefined;
            const choices = question.choices.map(({ answer: each, text }, i) => {
                const button = element("button", { class: "pk-choice", type: "button", "aria-pressed": question.given === each },
                                       element("kbd", {}, String(i + 1)), text);
                button.disabled = answered;
                button.addEventListener("click", () => answer(each));
                this.#hoverable(button, () => typeof each === "number" ? this.tape.runAt(each) : null);
                return button;
            });
            this.question.replaceChildren(element("b", {}, "Where does it go?"), element("code", {}, question.call),
                element("p", {}, answered ? "Your guess is noted; the other memory is still to be answered."
                    : "Click the free memory it comes from, or choose:"),
                element("div", { class: "pk-choices", role: "group", "aria-label": "answers" }, ...choices));
        } else if (verdict) this.question.replaceChildren(element("b", {}, verdict.isRight ? "✓ " : "✗ "), verdict.text);
    }

    #drawWhy(event) {
        const why = event?.note.why;
        this.why.hidden = !why;
        if (!why) return;
        const [heading, ...rest] = why.words.split(": ");
        const inTotal = why.free_bytes + why.device_bytes, most = Math.max(why.size_bytes, inTotal, 1);
        const bars = [["asked for", why.size_bytes, "asked"], ["free in total", inTotal, "total"],
                      ["reserved, unused", why.free_bytes, "reserved"], ["longest run", why.largest_free_bytes, "longest"]];
        const rows = bars.flatMap(([name, bytes, kind]) => {
            const bar = element("i", { class: `pk-bar pk-bar-${kind}` });
            bar.style.width = `${100 * bytes / most}%`;
            const track = element("span", { class: "pk-track" }, bar);
            if (kind !== "asked") {
                const line = element("i", { class: "pk-asked-line" });
                line.style.left = `${100 * why.size_bytes / most}%`;
                track.append(line);
            }
            return [element("span", {}, name), track, element("b", {}, bytesAsText(bytes))];
        });
        this.why.replaceChildren(element("b", { class: "pk-card-title" }, `Why it failed: ${heading.toLowerCase()}`),
                                 element("p", {}, rest.join(": ")), element("div", { class: "pk-bars" }, ...rows));
    }

    #drawDecision(event) {
        const decision = event ? this.tape.decisionOf(event.number) : null;
        this.decision.hidden = !decision;
        if (!decision) return;
        const { asked, rounded, looks, numLooks, notes } = decision;
        const freed = event.op === "free" && !looks.length;
        const title = element("b", { class: "pk-card-title" }, freed ? "What came of it" : "Decision");
        const more = rounded === asked ? "" : `, rounded up by ${bytesAsText(rounded - asked)}`;
        const sizes = element("span", { class: "pk-what" }, freed ? "" : ` ${bytesAsText(asked)} asked for${more}`);
        const left = numLooks - looks.length;
        const rows = looks.map((look, i) => {
            const chosen = look.verdict === "chosen", leadsOn = look.verdict.startsWith(LEADS_ON);
            const row = element("li", { class: chosen ? "pk-look pk-chosen" : "pk-look", tabindex: "0", "data-testid": "look" },
                element("span", { class: "pk-mark", "aria-hidden": "true" }, chosen ? "✓" : leadsOn ? "→" : "✗"),
                element("span", { class: "pk-look-what" }, look.what),
                element("span", { class: "pk-look-size" }, bytesAsText(look.size)),
                element("code", {}, hexOf(look.address)), element("span", { class: "pk-verdict" }, leadsOn ? look.verdict.slice(LEADS_ON.length) : look.verdict));
            this.#hoverable(row, () => look);
            // The chosen one is kept whatever its number: those between it and the first are not.
            return chosen && i === looks.length - 1 && left > 0 ? [this.#moreLooks(left), row] : [row];
        }).flat();
        if (left > 0 && looks.at(-1)?.verdict !== "chosen") rows.push(this.#moreLooks(left));
        const nothing = looks.length || freed ? [] : [element("p", {}, "There was no candidate to look at.")];
        this.decision.replaceChildren(title, sizes, ...nothing, element("ol", { class: "pk-looks" }, ...rows),
            element("ul", { class: "pk-notes" }, ...notes.map(note => element("li", {}, note))));
    }

    #moreLooks(count) { return element("li", { class: "pk-more-looks" }, `… and ${grouped(count)} more`); }

    #drawPins() {
        const { tape, pinned } = this;
        this.pins.hidden = !pinned.length;
        if (!pinned.length) return;
        const rows = pinned.slice(0, MOST_PINNED).map(({ segment, free, pieces }) => {
            const address = tape.segmentAddress[segment], size = tape.segmentSize[segment];
            const label = tape.labels[tape.segmentLabel[segment]];
            const keepers = new Map();
            for (const piece of pieces)
                keepers.set(tape.pieceOwner[piece], (keepers.get(tape.pieceOwner[piece]) ?? 0) + tape.pieceSize[piece]);
            const largest = [...keepers].sort((one, other) => other[1] - one[1]);
            const name = ([owner, bytes]) => `${tape.owners[owner]} (${bytesAsText(bytes)})`;
            const names = largest.slice(0, MOST_KEEPERS).map(name).join(", ");
            const others = largest.length > MOST_KEEPERS ? ` and ${counted(largest.length - MOST_KEEPERS, "other")}` : "";
            const row = element("button", { class: "pk-pin-row", type: "button", "data-testid": "pin",
                                            title: "follow what keeps it" }, pinIcon(),
                element("span", {}, `${label ? `${label} ` : ""}segment of ${bytesAsText(size)}, ${percentOf(free, size)} free`,
                        element("span", { class: "pk-what" }, `kept by ${names}${others} · ${hexOf(address)}`)));
            row.addEventListener("click", () => this.session.select(tape.owners[largest[0][0]]));
            this.#hoverable(row, () => ({ address, size }));
            return row;
        });
        const rest = pinned.slice(MOST_PINNED), bytes = pinned.reduce((sum, each) => sum + each.free, 0);
        this.pins.replaceChildren(element("b", { class: "pk-card-title" }, `Pinned: ${counted(pinned.length, "segment")}`),
            element("span", { class: "pk-what" }, ` ${bytesAsText(bytes)} cannot go back to the device`), ...rows,
            ...rest.length ? [element("div", { class: "pk-more" }, `… and ${counted(rest.length, "segment")} more`)] : []);
    }

    #drawOwners() {
        const { tape } = this, selected = this.selected;
        let shown = [...tape.owners.keys()].filter(owner => owner !== tape.nobody), others = 0;
        if (shown.length > FEW_OWNERS) {
            shown = shown.filter(owner => tape.ownerPieces[owner]);
            shown.sort((one, other) => tape.ownerBytes[other] - tape.ownerBytes[one] || one - other);
            others = Math.max(0, shown.length - MOST_OWNER_ROWS);
            shown.length = Math.min(shown.length, MOST_OWNER_ROWS);
            if (selected >= 0 && !shown.includes(selected)) shown.unshift(selected);
        }
        const kept = new Set(shown);
        for (const [owner, row] of this.rowOf)
            if (!kept.has(owner)) { row.root.remove(); this.rowOf.delete(owner); }
        let previous = null;
        for (const owner of shown) {
            const row = this.rowOf.get(owner) ?? this.#makeRow(owner);
            const following = previous ? previous.nextElementSibling : this.rows.firstElementChild;
            if (row.root !== following) {
                if (previous) previous.after(row.root); else this.rows.prepend(row.root);
            }
            previous = row.root;
            const pieces = tape.ownerPieces[owner];
            const what = pieces ? `${bytesAsText(tape.ownerBytes[owner])} in ${counted(pieces, "piece")}` : "nothing";
            if (row.what.textContent !== what) row.what.textContent = what;
            row.root.classList.toggle("pk-selected", owner === selected);
            row.root.classList.toggle("pk-idle", !pieces);
            row.button.setAttribute("aria-pressed", owner === selected);
        }
        const more = others ? `… and ${counted(others, "owner")} more: click a piece to follow its owner`
            : shown.length ? "" : "nobody has memory at this moment";
        if (this.more.textContent !== more) this.more.textContent = more;
    }

    #makeRow(owner) {
        const name = this.tape.owners[owner], swatch = element("i", { class: "pk-swatch" });
        swatch.style.background = css(hueOf(owner));
        const what = element("span", { class: "pk-what" });
        const button = element("button", { class: "pk-row", type: "button", "data-testid": "owner", title: name },
                               swatch, element("b", {}, name), what);
        button.addEventListener("click", () => this.session.select(this.session.selected === name ? "" : name));
        const row = { root: element("div", { class: "pk-owner" }, button), button, what };
        this.rowOf.set(owner, row);
        return row;
    }

    /** Pointing at it, or reaching it with the keyboard, outlines its place. */
    #hoverable(node, place) {
        for (const kind of ["pointerenter", "focus"]) node.addEventListener(kind, () => this.point(place()));
        for (const kind of ["pointerleave", "blur"]) node.addEventListener(kind, () => this.point(null));
    }
}

export function pinIcon() {
    return svgElement("svg", { viewBox: "0 0 10 14", width: 10, height: 14, class: "pk-pin", "aria-hidden": "true" },
                      svgElement("circle", { cx: 5, cy: 4, r: 3.4, fill: "currentColor" }),
                      svgElement("path", { d: "M5 7v6", stroke: "currentColor", "stroke-width": 1.4 }));
}
