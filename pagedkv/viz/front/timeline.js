// Under the grid: how many blocks were held, shared, cached and free, over all events; click or drag to go there.

import { ATTENTION, css, HUES } from "./colours.js";
import { hatchPattern } from "./canvas.js";
import { counted } from "./caption.js";
import { element } from "./elements.js";

const HEIGHT = 76;

export class Timeline {
    constructor(tape, session) {
        Object.assign(this, { tape, session });
        this.canvas = element("canvas", { class: "pk-timeline-canvas", "data-testid": "timeline" });
        this.head = element("div", { class: "pk-playhead" });
        this.strip = element("div", { class: "pk-timeline-strip", role: "slider", tabindex: "-1",
                                      "aria-label": "event shown", "aria-valuemin": "0" },
                             this.canvas, element("span", { class: "pk-free-label" }, "free"), this.head);
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
        this.strip.addEventListener("pointermove", event => {
            if (this.strip.hasPointerCapture(event.pointerId)) drag(event);
        });
        this.strip.addEventListener("pointerup", event => {
            if (this.strip.hasPointerCapture(event.pointerId)) drag(event);
        });
    }

    resize(width, ratio) {
        this.width = Math.max(1, width);
        this.ratio = ratio;
        this.canvas.width = Math.round(this.width * ratio);
        this.canvas.height = Math.round(HEIGHT * ratio);
        this.canvas.style.width = `${this.width}px`;
        this.canvas.style.height = `${HEIGHT}px`;
    }

    draw(colours) {
        const { tape, canvas, ratio } = this, context = canvas.getContext("2d");
        const { width, height } = canvas, frames = tape.numEvents, blocks = Math.max(1, tape.numBlocks);
        context.fillStyle = css(colours.free);
        context.fillRect(0, 0, width, height);
        if (tape.numEvents) {
            const frameOf = x => Math.min(frames, Math.floor((x + 0.5) * frames / width));
            const area = (bottom, top, fill) => {
                context.fillStyle = fill;
                context.beginPath();
                for (let x = 0; x <= width; x++) context.lineTo(x, height * (1 - top(frameOf(x)) / blocks));
                for (let x = width; x >= 0; x--) context.lineTo(x, height * (1 - bottom(frameOf(x)) / blocks));
                context.fill();
            };
            const used = tape.usedAt.values, shared = tape.sharedAt.values, cached = tape.cachedAt.values;
            area(() => 0, frame => used[frame] - shared[frame], css(HUES[0]));
            area(frame => used[frame] - shared[frame], frame => used[frame], css(HUES[1]));
            if (tape.everCached)
                area(frame => used[frame], frame => used[frame] + cached[frame], hatchPattern(context, css(HUES[4]), ratio));
            context.fillStyle = css(ATTENTION);  // refused calls and faults
            for (const frame of tape.troubles) context.fillRect(Math.round(frame * width / frames) - ratio, 0, 2 * ratio, 7 * ratio);
        }
        this.end.textContent = counted(frames, "event");
        this.strip.setAttribute("aria-valuemax", frames);
    }

    showFrame() {
        const { tape } = this, frame = tape.frame, share = tape.numEvents ? frame / tape.numEvents : 0;
        this.head.style.transform = `translateX(${share * this.width}px)`;
        const percent = count => `${Math.round(100 * count / Math.max(1, tape.numBlocks))} %`;
        const parts = [["used", tape.used], ["shared", tape.shared]];
        if (tape.everCached) parts.push(["cached", tape.cached]);
        if (!this.parts || this.parts.length !== parts.length) {
            this.parts = parts.map(([name]) => {
                const value = element("b");
                return [element("span", {}, element("i", { class: `pk-swatch pk-${name}` }), `${name} `, value), value];
            });
            this.now.replaceChildren(...this.parts.map(([part]) => part));
        }
        parts.forEach(([, count], i) => { this.parts[i][1].textContent = percent(count); });
        this.strip.setAttribute("aria-valuenow", frame);
        this.strip.setAttribute("aria-valuetext", `event ${frame} of ${tape.numEvents}`);
    }

    #frameAt(clientX) {
        const box = this.strip.getBoundingClientRect();
        return (clientX - box.left) / Math.max(1, box.width) * this.tape.numEvents;
    }
}
