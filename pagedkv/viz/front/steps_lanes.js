// A lane for each actor: its calls as bars, each step a dot, a cross where it goes wrong. Click or drag to go there. What
// nobody has seen yet is not drawn.

import { ATTENTION, css, hueOf, inkOn, mixColours } from "./colours.js";
import { Strip } from "./strip.js";
import { element } from "./elements.js";
import { swatchOf } from "./steps_places.js";
import { counted } from "./words.js";

export const LANE = 30;  // CSS pixels
const BAR = 18, DOT = 2.6, CALL_LETTER = 6.1;

export class StepsLanes extends Strip {
    constructor(tape, session) {
        super(tape, session, LANE * Math.max(1, tape.actors.length), "");
        this.names = element("div", { class: "st-names" }, ...tape.actors.map((name, actor) =>
            element("div", { class: "st-name" }, swatchOf(actor), name)));
        this.all = element("div", { class: "st-lanes", "data-testid": "lanes" }, this.names, this.root);
    }

    paint(context, colours) {
        const { tape, ratio } = this, { width, height } = context.canvas;
        context.clearRect(0, 0, width, height);
        const line = css(mixColours(colours.ink, colours.paper, 0.22));
        tape.actors.forEach((_, actor) => {
            const middle = (actor + 0.5) * LANE * ratio;
            context.fillStyle = line;
            context.fillRect(0, Math.round(middle), width, Math.max(1, Math.round(ratio)));
            for (const { call, from, to } of tape.callsOf[actor])
                if (from <= tape.seen) this.#paintCall(context, colours, { call, from, to: Math.min(to, tape.seen) }, actor, middle);
        });
        this.#paintMarks(context, colours);
    }

    #paintCall(context, colours, { call, from, to }, actor, middle) {
        const { tape, ratio } = this, { width } = context.canvas, slot = width / (tape.numEvents + 1);
        const reach = Math.min(slot / 2, 9 * ratio), hue = hueOf(actor);
        const left = this.middleOf(from, width) - reach, right = this.middleOf(to, width) + reach;
        const fill = mixColours(hue, colours.paper, 0.3);
        context.fillStyle = css(fill);
        context.strokeStyle = css(hue);
        context.lineWidth = ratio;
        context.beginPath();
        context.roundRect(left, middle - BAR / 2 * ratio, right - left, BAR * ratio, 4 * ratio);
        context.fill();
        context.stroke();
        for (let frame = from; frame <= to; frame++) {
            if (tape.steps[frame].actor !== actor) continue;
            context.fillStyle = css(colours.ink);
            context.beginPath();
            context.arc(this.middleOf(frame, width), middle + 4 * ratio, DOT * ratio, 0, 2 * Math.PI);
            context.fill();
        }
        if (!call || call.length * CALL_LETTER * ratio > right - left - 4 * ratio) return;
        context.fillStyle = inkOn(fill);
        context.font = `${10 * ratio}px ui-monospace, monospace`;
        context.textBaseline = "bottom";
        context.fillText(call, left + 4 * ratio, middle + 2 * ratio);
    }

    #paintMarks(context, colours) {
        const { tape, ratio } = this, { width } = context.canvas, arm = 4 * ratio;
        tape.steps.forEach((step, frame) => {
            if (!step.mark || frame > tape.seen) return;
            const x = this.middleOf(frame, width), y = Math.max(0, step.actor) * LANE * ratio + arm + 2 * ratio;
            for (const [colour, line] of [[css(colours.paper), 5], [css(ATTENTION), 2.6]]) {
                context.strokeStyle = colour;
                context.lineWidth = line * ratio;
                context.beginPath();
                context.moveTo(x - arm, y - arm);
                context.lineTo(x + arm, y + arm);
                context.moveTo(x + arm, y - arm);
                context.lineTo(x - arm, y + arm);
                context.stroke();
            }
        });
    }

    draw(colours) {
        this.drawn = this.tape.seen;
        this.colours = colours;
        super.draw(colours);
        this.end.textContent = counted(this.tape.numEvents, "step");
    }

    showFrame() {
        if (this.colours && this.drawn !== this.tape.seen) this.draw(this.colours);
        super.showFrame([]);
        this.strip.setAttribute("aria-valuetext", `step ${this.tape.frame} of ${this.tape.numEvents}: ${this.tape.sentence()}`);
    }
}
