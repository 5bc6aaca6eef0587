// Under the grid: how many blocks were held, shared, cached and free, over all events; click or drag to go there.

import { ATTENTION, css, HUES } from "./colours.js";
import { hatchPattern } from "./hatch.js";
import { Strip } from "./strip.js";

const HEIGHT = 76;

export class Timeline extends Strip {
    constructor(tape, session) { super(tape, session, HEIGHT, "free"); }

    paint(context, colours) {
        const { tape, ratio } = this, { width, height } = context.canvas;
        const blocks = Math.max(1, tape.numBlocks);
        context.fillStyle = css(colours.free);
        context.fillRect(0, 0, width, height);
        if (!tape.numEvents) return;
        const used = tape.usedAt.values, shared = tape.sharedAt.values, cached = tape.cachedAt.values;
        this.area(context, css(HUES[0]), () => 0, frame => (used[frame] - shared[frame]) / blocks);
        this.area(context, css(HUES[1]), frame => (used[frame] - shared[frame]) / blocks, frame => used[frame] / blocks);
        if (tape.everCached)
            this.area(context, hatchPattern(context, css(HUES[4]), ratio), frame => used[frame] / blocks,
                      frame => (used[frame] + cached[frame]) / blocks);
        context.fillStyle = css(ATTENTION);  // refused calls and faults
        for (const frame of tape.troubles)
            context.fillRect(Math.round(this.middleOf(frame, width)) - ratio, 0, 2 * ratio, 7 * ratio);
    }

    showFrame() {
        const { tape } = this, percent = count => `${Math.round(100 * count / Math.max(1, tape.numBlocks))} %`;
        const parts = [["used", percent(tape.used)]];
        if (tape.everShared) parts.push(["shared", percent(tape.shared)]);
        if (tape.everCached) parts.push(["cached", percent(tape.cached)]);
        super.showFrame(parts);
    }
}
