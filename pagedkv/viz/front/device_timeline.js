// Below the timeline, where events tell it: what the device's own allocator had in use, and had taken from the device.

import { css, HUES } from "./colours.js";
import { Strip } from "./strip.js";

const DEVICE_HEIGHT = 52, HEADROOM = 1.12, GIB = 2 ** 30;

export class DeviceTimeline extends Strip {
    constructor(tape, session) {
        super(tape, session, DEVICE_HEIGHT, "device memory");
        this.canvas.dataset.testid = "device-memory";
        this.corner.classList.add("pk-low");  // the lines are mostly above
        this.strip.setAttribute("aria-label", "event shown, over the device's memory");
    }

    paint(context, colours) {
        const { tape, ratio } = this, { width, height } = context.canvas;
        context.fillStyle = css(colours.free);
        context.fillRect(0, 0, width, height);
        if (!tape.tellsDevice) return;
        const allocated = tape.allocatedAt.values, reserved = tape.reservedAt.values;
        let most = 1;
        for (let frame = 0; frame <= tape.numEvents; frame++) most = Math.max(most, reserved[frame], allocated[frame]);
        this.corner.textContent = `device memory, 0 … ${gib(most)}`;
        this.#line(context, css(HUES[1]), [6 * ratio, 4 * ratio], reserved, most * HEADROOM);
        this.#line(context, css(colours.ink), [], allocated, most * HEADROOM);
    }

    #line(context, colour, dashes, bytesAt, most) {
        const { width, height } = context.canvas;
        context.strokeStyle = colour;
        context.lineWidth = 2 * this.ratio;
        context.setLineDash(dashes);
        context.beginPath();
        for (let x = 0; x < width; x++) {
            const bytes = bytesAt[this.frameIn(x + 0.5, width)];
            if (bytes >= 0) context.lineTo(x, height * (1 - bytes / most));
        }
        context.stroke();
        context.setLineDash([]);
    }

    showFrame() {
        const { tape } = this, words = bytes => bytes < 0 ? "not told" : gib(bytes);
        super.showFrame([["allocated", words(tape.allocatedAt.values[tape.frame])],
                         ["reserved", words(tape.reservedAt.values[tape.frame])]]);
    }
}

/** Bytes as "1.25 GiB"; plot.py says the same. */
export function gib(bytes) { return `${(bytes / GIB).toFixed(bytes < GIB / 10 ? 4 : 2)} GiB`; }
