// Under the picture: what was used, set aside, held and free over all events, and what each step cost; click or drag to go there.

import { ATTENTION, css, HUES, mixColours } from "./colours.js";
import { hatchPattern } from "./hatch.js";
import { bytesAsText, percentOf } from "./memory_words.js";
import { Strip } from "./strip.js";

const HEIGHT = 88, LANE = 13;  // the lane at the bottom is for calls of the device
const MOST_EMPTY = 4;  // the strip is as high as the capacity, unless hardly any of it was ever taken
const GIVING = /free|unmap|unreserve/i;  // of the device calls, those that give memory back

export class MemoryTimeline extends Strip {
    constructor(tape, session) {
        const most = tape.reservedAt.reduce((one, other) => Math.max(one, other), 0);
        const whole = tape.capacity !== null && tape.capacity <= MOST_EMPTY * most ? Math.max(tape.capacity, most) : most;
        super(tape, session, HEIGHT, bytesAsText(whole));
        this.whole = Math.max(1, whole);
    }

    paint(context, colours) {
        const { tape, ratio, whole } = this, { width, height } = context.canvas;
        const floor = height - Math.round(LANE * ratio);
        context.fillStyle = css(mixColours(colours.free, colours.paper, 0.35));
        context.fillRect(0, 0, width, floor);
        context.clearRect(0, floor, width, height - floor);
        if (!tape.numEvents) return;
        const { usedAt, requestedAt, reservedAt, heldAt } = tape;
        const reserved = css(mixColours(colours.ink, colours.paper, colours.dark ? 0.2 : 0.15));
        this.area(context, reserved, () => 0, frame => reservedAt[frame] / whole, floor);
        this.area(context, css(HUES[0]), () => 0, frame => requestedAt[frame] / whole, floor);
        const over = (fill, bottom, top) => {
            this.area(context, css(colours.paper), bottom, top, floor);
            this.area(context, fill, bottom, top, floor);
        };
        if (tape.everSetAside)
            over(hatchPattern(context, css(HUES[0]), ratio), frame => requestedAt[frame] / whole, frame => usedAt[frame] / whole);
        if (tape.everHeld)
            over(hatchPattern(context, css(HUES[3]), ratio, true), frame => usedAt[frame] / whole,
                 frame => (usedAt[frame] + heldAt[frame]) / whole);
        this.#paintCalls(context, colours, floor, height);
        this.#paintTroubles(context, colours, width);
    }

    /** What takes memory from the device goes up from the middle of the lane, what gives it back goes down. */
    #paintCalls(context, colours, floor, height) {
        const { tape, ratio } = this, { width } = context.canvas, middle = Math.round((floor + height) / 2) + ratio / 2;
        context.fillStyle = css(mixColours(colours.ink, colours.paper, 0.25));
        context.fillRect(0, Math.round(middle - ratio / 2), width, Math.max(1, Math.round(ratio)));
        context.fillStyle = css(colours.ink);
        const reach = 5 * ratio, drawn = new Set();
        for (const frame of tape.deviceCalls)
            for (const kind of Object.keys(tape.notes[tape.notesOf[frame - 1]].device_calls)) {
                const x = Math.round(this.middleOf(frame, width)), gives = GIVING.test(kind), key = 2 * x + gives;
                if (drawn.has(key)) continue;
                drawn.add(key);
                context.fillRect(Math.min(width - 2 * ratio, x - ratio), gives ? middle : middle - reach, 2 * ratio, reach);
            }
    }

    #paintTroubles(context, colours, width) {
        const { tape, ratio } = this, arm = 3.2 * ratio;
        let last = -100;
        for (const frame of tape.troubles) {
            const x = Math.max(arm + ratio, Math.min(width - arm - ratio, this.middleOf(frame, width))), y = arm + 2 * ratio;
            if (x - last < 1) continue;
            last = x;
            for (const [colour, line] of [[css(colours.paper), 4], [css(ATTENTION), 2.2]]) {
                context.strokeStyle = colour;
                context.lineWidth = line * ratio;
                context.beginPath();
                context.moveTo(x - arm, y - arm);
                context.lineTo(x + arm, y + arm);
                context.moveTo(x + arm, y - arm);
                context.lineTo(x - arm, y + arm);
                context.stroke();
            }
        }
    }

    showFrame() {
        const { tape } = this, percent = bytes => percentOf(bytes, this.whole);
        const parts = [["used", percent(tape.requested)]];
        if (tape.everSetAside) parts.push(["set aside", percent(tape.used - tape.requested)]);
        if (tape.everHeld) parts.push(["held", percent(tape.held)]);
        parts.push(["free", percent(tape.free)]);
        super.showFrame(parts);
    }
}
