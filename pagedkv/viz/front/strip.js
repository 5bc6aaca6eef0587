// A timeline's frame: a strip that is clicked or dragged, the playhead over it, and a line of numbers under it. What is
// drawn in the strip is another class's business: see timeline.js and memory_timeline.js. Every frame has a slot of the same
// width, the last one too.

import { element } from "./elements.js";
import { counted } from "./words.js";

export class Strip {
    constructor(tape, session, height, corner) {
        Object.assign(this, { tape, session, height });
        this.canvas = element("canvas", { class: "pk-timeline-canvas", "data-testid": "timeline" });
        this.head = element("div", { class: "pk-playhead" });
        this.corner = element("span", { class: "pk-free-label" }, corner);
        this.strip = element("div", { class: "pk-timeline-strip", role: "slider", tabindex: "-1",
                                      "aria-label": `${tape.unit} shown`, "aria-valuemin": "0" },
                             this.canvas, this.corner, this.head);
        this.now = element("span", { class: "pk-now" });
        this.end = element("span");
        this.root = element("div", { class: "pk-timeline" }, this.strip,
                            element("div", { class: "pk-axis" }, element("span", {}, "0"), this.now, this.end));
        const drag = event => session.go(this.#frameAt(event.clientX), event.type !== "pointerup");
        this.strip.addEventListener("pointerdown", event => {
            if (event.button) return;
            this.strip.setPointerCapture(event.pointerId);
            drag(event);
        });
        for (const kind of ["pointermove", "pointerup"])
            this.strip.addEventListener(kind, event => {
                if (this.strip.hasPointerCapture(event.pointerId)) drag(event);
            });
    }

    resize(width, ratio) {
        this.width = Math.max(1, width);
        this.ratio = ratio;
        this.canvas.width = Math.round(this.width * ratio);
        this.canvas.height = Math.round(this.height * ratio);
        this.canvas.style.width = `${this.width}px`;
        this.canvas.style.height = `${this.height}px`;
    }

    /** `paint(context)` draws into the strip. */
    draw(colours) {
        this.paint(this.canvas.getContext("2d"), colours);
        this.end.textContent = counted(this.tape.numEvents, this.tape.unit);
        this.strip.setAttribute("aria-valuemax", this.tape.numEvents);
    }

    /** Fill between two values of every frame; both are parts of the strip's height, from `floor` (device pixels) upwards. */
    area(context, fill, bottom, top, floor = context.canvas.height) {
        const { width } = context.canvas, frameOf = x => this.frameIn(x + 0.5, width);
        context.fillStyle = fill;
        context.beginPath();
        for (let x = 0; x <= width; x++) context.lineTo(x, floor * (1 - top(frameOf(x))));
        for (let x = width; x >= 0; x--) context.lineTo(x, floor * (1 - bottom(frameOf(x))));
        context.fill();
    }

    /** parts: [name, value in words], the numbers of this frame. */
    showFrame(parts) {
        const { tape } = this, frame = tape.frame;
        this.head.style.transform = `translateX(${this.middleOf(frame, this.width)}px)`;
        if (!this.parts || this.parts.length !== parts.length) {
            this.parts = parts.map(([name]) => {
                const value = element("b");
                const swatch = element("i", { class: `pk-swatch pk-${name.replaceAll(/\W/g, "-")}` });
                return [element("span", {}, swatch, `${name} `, value), value];
            });
            this.now.replaceChildren(...this.parts.map(([part]) => part));
        }
        parts.forEach(([, words], i) => { this.parts[i][1].textContent = words; });
        this.strip.setAttribute("aria-valuenow", frame);
        this.strip.setAttribute("aria-valuetext", `${tape.unit} ${frame} of ${tape.numEvents}`);
    }

    /** The middle of a frame's slot in a strip of this width. */
    middleOf(frame, width) { return (frame + 0.5) / (this.tape.numEvents + 1) * width; }

    /** The frame in whose slot x lies, in a strip of this width. */
    frameIn(x, width) {
        const frames = this.tape.numEvents;
        return Math.max(0, Math.min(frames, Math.floor(x * (frames + 1) / width)));
    }

    #frameAt(clientX) {
        const box = this.strip.getBoundingClientRect();
        return this.frameIn(clientX - box.left, Math.max(1, box.width));
    }
}
