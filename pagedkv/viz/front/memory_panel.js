// One allocator: picture, numbers, what stands beside it, the event in words, timeline.

import { badge, sourceBadge } from "./badges.js";
import { element, svgElement } from "./elements.js";
import { dashesOf, MemoryCanvas } from "./memory_canvas.js";
import { describePlace, memoryCaption } from "./memory_caption.js";
import { addressAt } from "./memory_layout.js";
import { MemorySide, pinIcon } from "./memory_side.js";
import { MemoryTimeline } from "./memory_timeline.js";
import { answerAt, NEW } from "./memory_guess.js";
import { bytesAsText, percentOf } from "./memory_words.js";
import { grouped } from "./words.js";

const BESIDE = 720;  // from this width on, the side stands beside the picture and not below it
const TALLEST = 400, TALLEST_OF_SEVERAL = 300;
const PADDING = 24;  // of the panel, left and right together

export class MemoryPanel {
    constructor(tape, view) {
        const { session } = view, alone = session.tapes.length === 1;
        Object.assign(this, { tape, view, session, alone });
        this.question = this.verdict = this.pointed = this.look = null;
        this.showsLargest = false;
        const canvas = element("canvas", { class: "pk-canvas", role: "img", "data-testid": "memory" });
        const marks = element("canvas", { class: "pk-marks", "aria-hidden": "true" });
        this.picture = new MemoryCanvas(canvas, marks, tape);
        this.tip = element("div", { class: "pk-tip", "data-testid": "tooltip", role: "tooltip" });
        this.tip.hidden = true;
        this.cells = element("div", { class: "pk-cells" }, canvas, marks);
        this.legend = element("div", { class: "pk-legend" });
        // What the allocator has never taken has no addresses, so it is no part of the picture.
        this.untaken = element("div", { class: "pk-untaken", "data-testid": "untaken" });
        const most = tape.reservedAt.reduce((one, other) => Math.max(one, other), 0);
        this.untaken.hidden = tape.capacity === null || tape.capacity <= most;
        this.untaken.addEventListener("click", () => { if (this.question) this.view.guess.answer(this, NEW); });
        this.left = element("div", { class: "pk-left" }, this.cells, this.untaken, this.legend);
        this.side = new MemorySide(this, mark => { this.look = mark; this.#drawMarks(); });
        this.main = element("div", { class: "pk-main" }, this.left, this.side.root, this.tip);
        this.metrics = element("div", { class: "pk-metrics", "data-testid": "metrics" });
        this.step = element("span", { class: "pk-step" });
        this.wording = element("span", { class: "pk-words" });
        this.caption = element("div", { class: "pk-caption", "data-testid": "caption" }, this.step, this.wording);
        this.timeline = new MemoryTimeline(tape, session);
        this.root = element("section", { class: "pk-panel pk-memory", "aria-label": tape.title }, this.main, this.metrics,
                            this.caption, this.timeline.root);
        if (!alone) {
            this.place = element("span", { class: "pk-counter" });
            this.root.prepend(element("div", { class: "pk-panel-head" }, element("b", {}, tape.title), ...memoryBadges(tape),
                                      this.place));
        }
        this.#makeMetrics();
        this.cells.addEventListener("pointermove", event => this.#hover(event));
        this.cells.addEventListener("pointerleave", () => this.#point(null));
        this.cells.addEventListener("click", event => this.#click(event));
    }

    /** The last event in words, or what is asked, or what came of a guess. */
    get words() {
        if (this.question) return `Where does it go? ${this.question.call}`;
        return (this.verdict ? `${this.verdict.text} ` : "") + memoryCaption(this.tape).text;
    }

    setColours(colours) {
        this.colours = colours;
        this.picture.setColours(colours);
    }

    resize(width, ratio) {
        const beside = width >= BESIDE;
        this.main.classList.toggle("pk-beside", beside);
        const room = beside ? Math.round((width - PADDING) * 0.6) : width - PADDING;
        this.picture.resize(room, this.alone ? TALLEST : TALLEST_OF_SEVERAL, ratio);
        this.left.style.width = beside ? `${room}px` : "";
        this.timeline.resize(width - PADDING, ratio);
    }

    /** Everything again: another size, theme or selection. */
    drawAll() {
        this.picture.selected = this.side.selected;
        this.picture.drawAll();
        this.timeline.draw(this.colours);
        this.#drawLegend();
        this.side.draw();
        this.#drawMoment();
    }

    showFrame(touched) {
        if (this.verdict && this.tape.frame !== this.verdict.frame) this.showVerdict(null);
        this.picture.drawStretches(touched);
        this.side.showFrame();
        this.#drawMoment();
    }

    select() {
        this.picture.selected = this.side.selected;
        this.picture.drawAll();
        this.side.draw();
        this.#drawMoment();
    }

    /** Playing has stopped: what was shown now and then is shown exactly. */
    rest() {
        this.side.draw();
        this.#drawMoment();
    }

    /** A question before the next event (see memory_guess.js), or null: none any more. */
    ask(question) {
        this.question = question;
        this.verdict = null;
        this.root.classList.toggle("pk-asking", !!question);
        this.showQuestion();
        this.side.draw();
        this.#drawMoment();
    }

    showQuestion() {
        this.side.drawQuestion(this.question, this.verdict, answer => this.view.guess.answer(this, answer));
        if (this.question || this.verdict) this.side.root.scrollTop = 0;
        this.#drawMarks();
    }

    /** What came of a guess: {isRight, text}, or null. It stays until another frame is shown. */
    showVerdict(verdict) {
        this.verdict = verdict && { ...verdict, frame: this.tape.frame };
        this.showQuestion();
    }

    /** What the memory looks like, in words. */
    describe() {
        const { tape } = this;
        const parts = [`after event ${tape.frame} of ${tape.numEvents}`, `${bytesAsText(tape.used)} used`,
                       `${bytesAsText(tape.reserved)} reserved`,
                       `largest free run ${bytesAsText(tape.largestFree)} of ${bytesAsText(tape.free)} free`];
        const pinned = this.side.pinned?.length ?? 0;
        if (pinned) parts.push(`${pinned} pinned`);
        return `${tape.title}: ${parts.join(", ")}`;
    }

    #makeMetrics() {
        const metric = (name, value) => element("span", { class: "pk-metric" }, element("span", {}, name), " ", value);
        const names = ["used", "asked", "held", "reserved", "largest", "fragmentation"];
        this.values = Object.fromEntries(names.map(name => [name, element("b")]));
        const { values, tape } = this;
        const largest = element("button", { class: "pk-metric", type: "button", "data-testid": "largest",
                                            title: "show it in the picture", "aria-pressed": "false" },
                                element("span", {}, "largest free run"), " ", values.largest);
        largest.addEventListener("click", () => {
            this.showsLargest = !this.showsLargest;
            largest.setAttribute("aria-pressed", this.showsLargest);
            this.#drawMarks();
        });
        this.metrics.replaceChildren(metric("used", values.used), metric("asked for", values.asked),
            ...tape.everHeld ? [metric("held", values.held)] : [], metric("reserved", values.reserved), largest,
            element("span", { class: "pk-metric", title: "1 − largest request that fits / free memory in segments" },
                    element("span", {}, "external fragmentation"), " ", values.fragmentation));
    }

    #hover(event) {
        const address = this.#addressUnder(event);
        if (address === null) return this.#point(null);
        this.#point(address, event);
    }

    /** The pointer is over an address of the picture, null: over none. */
    #point(address, event = null) {
        const { tape } = this, piece = address === null ? -1 : tape.pieceAt(address);
        const place = address === null ? null
            : piece >= 0 ? { address: tape.pieceAddress[piece], size: tape.pieceSize[piece] } : tape.runAt(address);
        const same = place?.address === this.pointed?.address && place?.size === this.pointed?.size;
        this.pointed = place;
        this.pointedAt = address;
        if (address === null) this.tip.hidden = true;
        else if (!same || this.tip.hidden || event) this.#showTip(address, event);
        if (!same) this.#drawMarks();
    }

    #showTip(address, event) {
        const [heading, ...lines] = describePlace(this.tape, address);
        this.tip.replaceChildren(element("b", {}, heading), ...lines.map(line => element("div", {}, line)));
        this.tip.hidden = false;
        if (!event) return;
        const box = this.main.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
        const fits = x + 16 + this.tip.offsetWidth < box.width - 4;
        this.tip.style.left = `${fits ? x + 16 : Math.max(4, x - 12 - this.tip.offsetWidth)}px`;
        this.tip.style.top = `${Math.max(4, Math.min(y + 12, box.height - this.tip.offsetHeight - 4))}px`;
    }

    #click(event) {
        const address = this.#addressUnder(event), { tape } = this;
        if (address === null) return;
        if (this.question) {
            const answer = answerAt(tape, address);
            if (answer !== null) this.view.guess.answer(this, answer);
            return;
        }
        const piece = tape.pieceAt(address);
        if (piece < 0) return;
        const owner = tape.owners[tape.pieceOwner[piece]];
        this.session.select(this.session.selected === owner ? "" : owner);
    }

    #addressUnder(event) {
        if (!this.picture.layout) return null;  // before the first layout
        const box = this.cells.getBoundingClientRect();
        return addressAt(this.picture.layout, event.clientX - box.left, event.clientY - box.top);
    }

    #drawMoment() {
        const { tape, values } = this, { kind, text, step } = memoryCaption(tape), asked = this.question;
        this.caption.className = `pk-caption pk-${asked ? "asks" : kind}`;
        this.wording.textContent = this.caption.title = asked ? `next: ${asked.call} – where does it go?` : text;
        this.step.textContent = step === null || asked ? "" : `step ${step}`;
        if (this.place) this.place.textContent = `event ${grouped(tape.frame)} / ${grouped(tape.numEvents)}`;
        values.used.textContent = bytesAsText(tape.used);
        values.asked.textContent = bytesAsText(tape.requested);
        values.held.textContent = bytesAsText(tape.held);
        values.reserved.textContent = bytesAsText(tape.reserved);
        values.largest.textContent = bytesAsText(tape.largestFree);
        const fits = tape.inPieces ? tape.free : tape.largestFree;
        values.fragmentation.textContent = tape.free ? percentOf(tape.free - fits, tape.free) : "0 %";
        if (!this.untaken.hidden) {
            const left = `left on the device: ${bytesAsText(tape.capacity - tape.reserved)}`;
            if (this.untaken.textContent !== left) this.untaken.textContent = left;
        }
        this.timeline.showFrame();
        if (!this.session.playing) this.picture.canvas.setAttribute("aria-label", this.describe());
        if (!this.tip.hidden) this.#point(this.pointedAt);
        this.#drawMarks();
    }

    #drawMarks() {
        if (!this.picture.layout) return;
        const { tape } = this, event = this.question ? null : tape.event, failed = event?.note.why;
        let runs = null, largest = null;
        if (failed || this.showsLargest) {
            const all = tape.freeRuns();
            largest = all.find(run => run.size === tape.largestFree) ?? null;
            if (failed) runs = all;
        }
        this.picture.drawMarks({ changes: event?.changes ?? [], pointed: this.pointed, runs, largest,
                                 pinned: this.side.pinned ?? [], look: this.look,
                                 guess: typeof this.question?.given === "number" ? this.question.given : null });
    }

    #drawLegend() {
        const { tape } = this, entries = [["one", "in use"]];
        if (tape.everSetAside) entries.push(["aside", "set aside, not filled"]);
        if (tape.everHeld) entries.push(["held", "held: let go of, not yet free"]);
        entries.push(["free", "free"], ["event", "this event"]);
        if (tape.segmentsInOrder.length > 1) entries.push(["empty", "not taken from the device"]);
        if (this.side.selected >= 0) entries.push(["followed", "followed"]);
        const keys = entries.map(([kind, text]) => element("span", {}, element("i", { class: `pk-key pk-key-${kind}` }), text));
        if (tape.segmentsInOrder.length > 1) keys.push(element("span", {}, pinIcon(), "pinned segment"));
        if (tape.labels.length > 1) {
            const dashes = dashesOf(tape);
            for (const [i, label] of tape.labels.entries())
                if (label) {
                    const key = element("i", { class: `pk-key pk-key-segment pk-dash-${dashes[i]}` });
                    keys.push(element("span", {}, key, `${label} segment`));
                }
        }
        if (tape.troubles.length) keys.push(element("span", {}, element("b", { class: "pk-refused-key" }, "✕"), "refused"));
        if (tape.deviceCalls.length) keys.push(element("span", {}, tickIcon(), "device calls: up takes, down gives back"));
        const words = this.picture.layout.words.length;
        if (words) keys.push(element("span", { class: "pk-scale" }, `one row: ${bytesAsText(this.picture.layout.rowBytes)}`));
        this.legend.replaceChildren(...keys);
    }
}

function tickIcon() {
    return svgElement("svg", { viewBox: "0 0 14 14", width: 14, height: 14, "aria-hidden": "true" },
                      svgElement("path", { d: "M0 7h14M4 7V2M10 7v5", stroke: "currentColor", "stroke-width": 2, fill: "none" }));
}

/** Where the recording comes from, and how large the memory is. */
export function memoryBadges(tape) {
    return [sourceBadge(tape.source), ...tape.capacity === null ? [] : [badge(bytesAsText(tape.capacity))]];
}
