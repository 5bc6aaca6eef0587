// The picture of the memory: rows of segments, with the pieces in them. Only the stretches that changed are drawn again.
//
// All edges lie on whole device pixels, and what is drawn again is clipped and cleared first: a stretch looks the same
// whether it was drawn alone or with everything else.

import { ATTENTION, css, hueOf, inkOn, mixColours, ownerLabel } from "./colours.js";
import { hatchPattern } from "./hatch.js";
import { layOut, rowsOf, wordsInRow } from "./memory_layout.js";
import { HELD } from "./memory_tape.js";
import { bytesAsText } from "./memory_words.js";

const MOST_OUTLINED = 300, MOST_SPANS = 12, MOST_RUNS_NAMED = 40;
const ROOM_FOR_LABEL = 20, HIGH_FOR_LABEL = 11, HIGH_FOR_SIZE = 29, ROOM_FOR_SIZE = 58;  // CSS pixels
const DASHES = [[], [5, 2], [1.5, 2], [8, 2, 2, 2]];  // of a segment's outline, by label

export class MemoryCanvas {
    /** canvas: the memory. marks: a second canvas above it, for what belongs to the moment. */
    constructor(canvas, marks, tape) {
        Object.assign(this, { canvas, marks, tape });
        this.context = canvas.getContext("2d");
        this.markContext = marks.getContext("2d");
        this.selected = -1;
        this.dashes = dashesOf(tape);
    }

    resize(width, tallest, ratio) {
        this.ratio = ratio;
        this.layout = layOut(this.tape, width, tallest);
        this.width = Math.round(this.layout.width * ratio);
        for (const each of [this.canvas, this.marks]) {
            each.width = Math.max(1, this.width);
            each.height = Math.max(1, Math.round(this.layout.height * ratio));
            each.style.width = `${this.layout.width}px`;
            each.style.height = `${this.layout.height}px`;
        }
        this.patterns = new Map();
    }

    setColours(colours) {
        this.colours = colours;
        this.patterns = new Map();
        this.line = css(mixColours(colours.ink, colours.paper, colours.dark ? 0.42 : 0.38));
        this.faintLine = css(mixColours(colours.ink, colours.paper, colours.dark ? 0.26 : 0.2));
    }

    drawAll() {
        this.context.clearRect(0, 0, this.canvas.width, this.canvas.height);
        for (let row = 0; row < this.layout.numRows; row++) this.#paintRow(row, 0, this.width);
    }

    /** Draw these stretches again, [address, end, …]; null: everything. */
    drawStretches(stretches) {
        if (!stretches) return this.drawAll();
        const spans = new Map();  // row → [from, to, …] in device pixels
        for (let i = 0; i < stretches.length; i += 2)
            for (const { row, x, end } of rowsOf(this.layout, stretches[i], stretches[i + 1])) {
                if (!spans.has(row)) spans.set(row, []);
                spans.get(row).push(Math.round(x * this.ratio) - 2, Math.round(end * this.ratio) + 2);
            }
        for (const [row, list] of spans) {
            if (list.length > 2 * MOST_SPANS) list.splice(0, list.length, 0, this.width);
            for (let i = 0; i < list.length; i += 2)
                this.#paintRow(row, Math.max(0, list[i]), Math.min(this.width, list[i + 1]));
        }
    }

    /** What belongs to the moment. Each of it may be missing. */
    drawMarks({ changes = [], pointed = null, runs = null, largest = null, pinned = [], look = null, guess = null }) {
        const context = this.markContext, { colours, ratio } = this;
        context.clearRect(0, 0, this.marks.width, this.marks.height);
        for (const { segment } of pinned.slice(0, MOST_OUTLINED)) this.#drawPin(context, this.tape.segmentAddress[segment]);
        if (runs) this.#drawRuns(context, runs, largest);
        else if (largest) this.#drawBracket(context, largest, `largest free run: ${bytesAsText(largest.size)}`);
        for (const { address, size } of changes.slice(0, MOST_OUTLINED))
            this.#outline(context, address, address + size, css(ATTENTION), 2.5 * ratio);
        if (look) {
            context.setLineDash([4 * ratio, 3 * ratio]);
            this.#outline(context, look.address, look.address + look.size, css(colours.ink), 2 * ratio);
            context.setLineDash([]);
        }
        if (guess !== null) this.#drawGuess(context, guess);
        if (pointed) this.#outline(context, pointed.address, pointed.address + pointed.size, css(colours.ink), 1.5 * ratio);
    }

    /** Part of one row, between two device pixels. */
    #paintRow(row, from, to) {
        const { context, layout, ratio, tape } = this;
        if (row < 0 || row >= layout.numRows || to <= from) return;
        const top = Math.round(row * layout.pitch * ratio), height = Math.round(layout.bar * ratio);
        context.save();
        context.beginPath();
        context.rect(from, top - 1, to - from, height + 2);
        context.clip();
        context.clearRect(from, top - 1, to - from, height + 2);
        for (const part of wordsInRow(layout, row, from / ratio, to / ratio)) {
            const place = this.#placer(part.word, row);
            this.#paintEmpty(place, part.word, top, height);
            const { segments, pieces } = tape;
            for (let i = Math.max(0, segments.below(part.from + 1) - 1); i < segments.length; i++) {
                const segment = segments.rows[i], address = tape.segmentAddress[segment], end = address + tape.segmentSize[segment];
                if (address >= part.to) break;
                if (end > part.from) this.#paintSegment(place, segment, address, end, top, height);
            }
            let lastPixel = -1;
            for (let i = Math.max(0, pieces.below(part.from + 1) - 1); i < pieces.length; i++) {
                const piece = pieces.rows[i], address = tape.pieceAddress[piece], end = address + tape.pieceSize[piece];
                if (address >= part.to) break;
                if (end <= part.from) continue;
                const box = place(address, end);
                if (box.x === lastPixel && box.end - box.x <= 1) continue;  // many pieces in one pixel: the first is seen
                lastPixel = box.x;
                this.#paintPiece(place, piece, address, end, box, top, height);
            }
        }
        context.restore();
    }

    /** Where addresses of a word lie in a row: {x, end} in device pixels, at least one wide; whether they begin, end there. */
    #placer(word, row) {
        const { layout, ratio, width } = this;
        const scale = layout.width / layout.rowBytes, before = (row - word.row) * layout.width - word.at;
        return (address, end) => {
            const from = Math.round(((address - word.address) * scale - before) * ratio);
            const to = Math.round(((end - word.address) * scale - before) * ratio);
            const x = Math.max(0, Math.min(width - 1, from));
            return { x, end: Math.max(x + 1, Math.min(width, to)), begins: from >= 0, ends: to <= width };
        };
    }

    /** Memory that the device has, and the allocator has not taken (any more, or yet). */
    #paintEmpty(place, word, top, height) {
        const { context, ratio } = this, { x, end, begins, ends } = place(word.address, word.end);
        context.strokeStyle = this.faintLine;
        context.lineWidth = ratio;
        context.setLineDash([2 * ratio, 3 * ratio]);
        openBox(context, x, top, end - x, height, begins, ends, ratio / 2);
        context.setLineDash([]);
    }

    #paintSegment(place, segment, address, end, top, height) {
        const { context, ratio, colours, tape } = this, box = place(address, end), width = box.end - box.x;
        const line = Math.max(1, Math.round(ratio));
        context.fillStyle = css(colours.free);
        context.fillRect(box.x, top, width, height);
        if (width < 4 * ratio) {  // too narrow for an outline on both sides
            context.fillStyle = this.line;
            context.fillRect(box.x, top, width, line);
            context.fillRect(box.x, top + height - line, width, line);
            return;
        }
        context.strokeStyle = this.line;
        context.lineWidth = line;
        context.setLineDash(DASHES[this.dashes[tape.segmentLabel[segment]]].map(length => length * ratio));
        openBox(context, box.x, top, width, height, box.begins, box.ends, line / 2);
        context.setLineDash([]);
    }

    #paintPiece(place, piece, address, end, box, top, height) {
        const { context, tape, colours, ratio } = this, owner = tape.pieceOwner[piece];
        const variant = colours.variant(owner), followed = this.selected === owner, faint = this.selected >= 0 && !followed;
        const inset = Math.round(2 * ratio), y = top + inset, high = height - 2 * inset;
        const width = box.end - box.x, gap = width >= 4 * ratio && box.ends ? Math.max(1, Math.round(ratio)) : 0;
        const left = box.begins && width >= 6 * ratio ? box.x + Math.round(ratio) : box.x, right = box.end - gap;
        const filled = Math.min(tape.filled[piece], end - address);
        const held = tape.pieceState[piece] === HELD;
        const full = css(faint ? variant.faint : variant.full);
        const edge = held ? left : filled >= end - address ? right
            : Math.max(left, Math.min(right, place(address + filled, end).x));
        if (held) {
            context.fillStyle = css(colours.paper);
            context.fillRect(left, y, right - left, high);
            context.fillStyle = this.#hatch(owner, faint, true);
            context.fillRect(left, y, right - left, high);
        } else {
            if (edge < right) {
                context.fillStyle = css(mixColours(faint ? variant.faint : variant.full, colours.paper, 0.2));
                context.fillRect(edge, y, right - edge, high);
                context.fillStyle = this.#hatch(owner, faint, false);
                context.fillRect(edge, y, right - edge, high);
            }
            context.fillStyle = full;
            if (edge > left) context.fillRect(left, y, edge - left, high);
        }
        if ((held || filled < end - address) && right - left >= 5 * ratio) {
            context.strokeStyle = full;
            context.lineWidth = Math.max(1, Math.round(ratio));
            openBox(context, left, y, right - left, high, box.begins, box.ends, context.lineWidth / 2);
        }
        if (followed) {
            const line = Math.max(1, Math.round(2 * ratio));
            context.fillStyle = css(colours.followed);
            context.fillRect(left, top, right - left, line);
            context.fillRect(left, top + height - line, right - left, line);
        }
        this.#write(owner, box.begins ? end - address : 0, left, right, edge, y, high, faint);
    }

    /** Whose it is and, where it begins, how large. On the hatch, which begins at `edge`, a text has a plain ground. */
    #write(owner, bytes, left, right, edge, top, height, faint) {
        const { context, tape, ratio, colours } = this, width = right - left;
        if (width < ROOM_FOR_LABEL * ratio || height < HIGH_FOR_LABEL * ratio) return;
        const name = tape.owners[owner] === tape.noName ? "" : tape.owners[owner], size = Math.round(11 * ratio);
        context.font = `600 ${size}px system-ui, sans-serif`;
        const most = width - 6 * ratio, text = context.measureText(name).width <= 1.15 * most ? name : ownerLabel(name);
        context.textAlign = "left";
        context.textBaseline = "middle";
        const two = bytes > 0 && height >= HIGH_FOR_SIZE * ratio && width >= ROOM_FOR_SIZE * ratio, middle = top + height / 2;

        const hatched = left + Math.min(most, context.measureText(text).width) + 7 * ratio > edge && edge < right - 5 * ratio;
        const ground = hatched ? css(colours.paper) : null, ink = hatched || faint ? css(colours.ink) : inkOn(hueOf(owner));
        const line = (words, font, y, alpha) => {
            if (!words) return;
            context.font = font;
            if (ground) {
                context.fillStyle = ground;
                const wide = Math.min(most, context.measureText(words).width) + 3 * ratio;
                context.fillRect(left + 2 * ratio, y - 7 * ratio, wide, 14 * ratio);
            }
            context.globalAlpha = alpha;
            context.fillStyle = ink;
            context.fillText(words, left + 4 * ratio, y, most);
            context.globalAlpha = 1;
        };
        line(text, `600 ${size}px system-ui, sans-serif`, two ? middle - 6 * ratio : middle + ratio / 2, faint ? 0.7 : 1);
        const small = `${Math.round(10 * ratio)}px system-ui, sans-serif`;
        if (two) line(bytesAsText(bytes), small, middle + 8 * ratio, faint ? 0.6 : 0.85);
    }

    #hatch(owner, faint, falling) {
        const key = `${owner % 6}${faint}${falling}`;
        if (!this.patterns.has(key)) {
            const variant = this.colours.variant(owner);
            this.patterns.set(key, hatchPattern(this.context, css(faint ? variant.faint : variant.full), this.ratio, falling));
        }
        return this.patterns.get(key);
    }

    /** The boxes of a stretch, one in each of its rows, at least so wide that one finds them. */
    #boxes(address, end) {
        const { layout, ratio } = this, least = 6 * ratio;
        return rowsOf(layout, address, end).map(({ row, x, end: right }) => {
            const from = Math.round(x * ratio), width = Math.max(least, Math.round(right * ratio) - from);
            return { x: Math.max(0, Math.min(this.width - width, from - Math.max(0, (least - (right - x) * ratio) / 2))), width,
                     y: Math.round(row * layout.pitch * ratio), height: Math.round(layout.bar * ratio) };
        });
    }

    #outline(context, address, end, colour, line) {
        context.strokeStyle = colour;
        context.lineWidth = line;
        context.beginPath();
        for (const { x, y, width, height } of this.#boxes(address, end))
            context.rect(x + line / 2, y + line / 2, Math.max(1, width - line), height - line);
        context.stroke();
    }

    /** Why a request failed: every free run with its size, the longest marked. */
    #drawRuns(context, runs, largest) {
        const { ratio, colours } = this, longest = [...runs].sort((one, other) => other.size - one.size).slice(0, MOST_RUNS_NAMED);
        context.setLineDash([3 * ratio, 2 * ratio]);
        for (const { address, size } of runs.length > 10 * MOST_OUTLINED ? longest : runs)
            this.#outline(context, address, address + size, css(colours.ink), 1.5 * ratio);
        context.setLineDash([]);
        for (const run of longest.reverse()) {
            const [box] = this.#boxes(run.address, run.address + run.size).sort((one, other) => other.width - one.width);
            if (box && (!largest || run.address !== largest.address)) this.#pill(context, bytesAsText(run.size), box, false);
        }
        if (largest) this.#drawBracket(context, largest, `longest: ${bytesAsText(largest.size)}`);
    }

    /** A bracket along the bottom of a run, and what it is. */
    #drawBracket(context, run, text) {
        const { ratio, colours } = this, boxes = this.#boxes(run.address, run.address + run.size);
        context.strokeStyle = css(colours.ink);
        context.lineWidth = 2.5 * ratio;
        for (const { x, y, width, height } of boxes) {
            const left = x + 1.5 * ratio, right = x + width - 1.5 * ratio;
            const bottom = y + height - 1.5 * ratio, top = bottom - Math.min(height / 2, 8 * ratio);
            context.beginPath();
            context.moveTo(left, top);
            context.lineTo(left, bottom);
            context.lineTo(right, bottom);
            context.lineTo(right, top);
            context.stroke();
        }
        const [widest] = [...boxes].sort((one, other) => other.width - one.width);
        if (widest) this.#pill(context, text, widest, true);
    }

    /** A text on a ground of its own, in a box if it fits and else wherever it can be read. */
    #pill(context, text, box, always) {
        const { ratio, colours } = this;
        context.font = `600 ${Math.round(10.5 * ratio)}px system-ui, sans-serif`;
        const width = context.measureText(text).width + 8 * ratio, height = 14 * ratio;
        if (!always && width > box.width - 2 * ratio) return;
        const x = Math.max(1, Math.min(this.width - width - 1, box.x + (box.width - width) / 2));
        const y = box.y + (box.height - height) / 2 - (always ? ratio : 0);
        context.fillStyle = css(colours.paper);
        context.strokeStyle = css(colours.ink);
        context.lineWidth = ratio;
        context.beginPath();
        context.roundRect(x, y, width, height, 7 * ratio);
        context.fill();
        if (always) context.stroke();
        context.fillStyle = css(colours.ink);
        context.textAlign = "center";
        context.textBaseline = "middle";
        context.fillText(text, x + width / 2, y + height / 2 + ratio / 2);
    }

    #drawPin(context, address) {
        const [part] = rowsOf(this.layout, address, address + 1);
        if (!part) return;
        const { ratio, colours, layout } = this;
        const x = Math.round(part.x * ratio) + 7 * ratio, y = Math.round(part.row * layout.pitch * ratio);
        context.save();
        context.translate(Math.min(this.width - 7 * ratio, x), y + Math.min(4 * ratio, layout.bar * ratio / 6));
        drawPinShape(context, ratio, css(colours.paper), css(colours.ink));
        context.restore();
    }

    #drawGuess(context, address) {
        const [part] = rowsOf(this.layout, address, address + 1);
        if (!part) return;
        const { ratio, layout, colours } = this, x = part.x * ratio, y = (part.row * layout.pitch + layout.bar / 2) * ratio;
        context.fillStyle = css(colours.followed);
        context.strokeStyle = css(colours.paper);
        context.lineWidth = 2 * ratio;
        context.beginPath();
        context.arc(Math.max(8 * ratio, Math.min(this.width - 8 * ratio, x)), y, 7 * ratio, 0, 2 * Math.PI);
        context.fill();
        context.stroke();
        context.fillStyle = css(colours.paper);
        context.font = `700 ${Math.round(10 * ratio)}px system-ui, sans-serif`;
        context.textAlign = "center";
        context.textBaseline = "middle";
        context.fillText("?", Math.max(8 * ratio, Math.min(this.width - 8 * ratio, x)), y + ratio / 2);
    }
}

/** Which outline each label's segments have: those with most memory the plain one. */
export function dashesOf(tape) {
    const bytes = tape.labels.map(() => 0);
    tape.segmentLabel.forEach((label, row) => { bytes[label] += tape.segmentSize[row]; });
    const ranked = [...bytes.keys()].sort((one, other) => bytes[other] - bytes[one] || one - other);
    return bytes.map((_, label) => Math.min(ranked.indexOf(label), DASHES.length - 1));
}

/** A drawing pin, some 9 by 13 pixels, with its head at the origin. */
function drawPinShape(context, ratio, ground, ink) {
    context.lineJoin = "round";
    for (const [colour, line] of [[ground, 4], [ink, 1.2]]) {
        context.strokeStyle = colour;
        context.fillStyle = ink;
        context.lineWidth = line * ratio;
        context.beginPath();
        context.arc(0, 3.5 * ratio, 3.2 * ratio, 0, 2 * Math.PI);
        context.moveTo(0, 6.5 * ratio);
        context.lineTo(0, 12 * ratio);
        context.stroke();
        if (colour === ink) {
            context.beginPath();
            context.arc(0, 3.5 * ratio, 3.2 * ratio, 0, 2 * Math.PI);
            context.fill();
        }
    }
}

/** A box whose left and right side are drawn only where what it shows begins and ends. */
function openBox(context, x, y, width, height, begins, ends, inset) {
    const left = x + inset, right = x + width - inset, top = y + inset, bottom = y + height - inset;
    context.beginPath();
    context.moveTo(left, top);
    context.lineTo(right, top);
    if (ends) context.lineTo(right, bottom); else context.moveTo(right, bottom);
    context.lineTo(left, bottom);
    if (begins) context.lineTo(left, top);
    context.stroke();
}
