// The grid itself: one cell for each block. Only cells that changed are drawn again.

import { ATTENTION, css, hueOf, inkOn, ownerLabel, pixel } from "./colours.js";
import { hatchPattern } from "./hatch.js";
import { chooseLayout, placeOf } from "./layout.js";

const MOST_OUTLINED = 400, ROOM_FOR_LABEL = 22, ROOM_FOR_NUMBER = 30;

export class GridCanvas {
    /** canvas: the cells. marks: a second canvas above it, for what belongs to the moment and not to the pool. */
    constructor(canvas, marks, tape) {
        Object.assign(this, { canvas, marks, tape });
        this.context = canvas.getContext("2d");
        this.markContext = marks.getContext("2d");
        this.selected = -1;
    }

    resize(width, tallest, ratio, columns) {
        this.ratio = ratio;
        this.layout = chooseLayout(this.tape.numBlocks, width, tallest, ratio, columns);
        for (const each of [this.canvas, this.marks]) {
            each.width = Math.max(1, Math.round(this.layout.width * ratio));
            each.height = Math.max(1, Math.round(this.layout.height * ratio));
            each.style.width = `${this.layout.width}px`;
            each.style.height = `${this.layout.height}px`;
        }
        if (this.layout.style === "pixels") {
            this.small = document.createElement("canvas");
            this.small.width = this.layout.columns;
            this.small.height = this.layout.rows;
            this.smallContext = this.small.getContext("2d");
            this.image = this.smallContext.createImageData(this.layout.columns, this.layout.rows);
            this.pixels = new Uint32Array(this.image.data.buffer);
        } else this.small = null;
    }

    setColours(colours) {
        this.colours = colours;
        this.patterns = new Map();
        const shades = owner => {
            const variant = colours.variant(owner);
            return Object.fromEntries(Object.entries(variant).map(([name, colour]) => [name, pixel(colour)]));
        };
        this.shades = [...Array(6).keys(), -1].map(shades);
        this.freePixel = pixel(colours.free);
        this.faultPixel = pixel(ATTENTION);
    }

    drawAll() {
        if (this.small) {
            for (let block = 0; block < this.tape.numBlocks; block++) this.pixels[block] = this.#shade(block);
            return this.#drawPixels();
        }
        this.context.clearRect(0, 0, this.canvas.width, this.canvas.height);
        for (let block = 0; block < this.tape.numBlocks; block++) this.#drawCell(block);
    }

    /** Draw these blocks again; null: all of them. */
    drawBlocks(blocks) {
        if (!blocks) return this.drawAll();
        if (!blocks.length) return;
        if (this.small) {
            for (const block of blocks) this.pixels[block] = this.#shade(block);
            return this.#drawPixels();
        }
        for (const block of blocks) this.#drawCell(block);
    }

    /** Outline the blocks of the current event, the one that is being copied, and the one pointed at. */
    drawMarks(current, pointed, source = -1) {
        const context = this.markContext;
        context.clearRect(0, 0, this.marks.width, this.marks.height);
        if (this.small && this.selected >= 0)  // single pixels of one colour among thousands would not be found
            this.#outline(context, this.tape.table(this.selected).slice(-MOST_OUTLINED), css(this.colours.followed));
        this.#outline(context, current.slice(0, MOST_OUTLINED), css(ATTENTION));
        if (source >= 0) this.#outline(context, [source], css(ATTENTION), true);
        if (pointed >= 0) this.#outline(context, [pointed], css(this.colours.ink));
    }

    #faint(block) { return this.selected >= 0 && !this.tape.holds(this.selected, block); }

    #shade(block) {
        const { tape } = this, count = tape.refcounts[block];
        if (!count && !tape.isCached[block]) return this.freePixel;
        if (tape.faults[block]) return this.faultPixel;
        const owner = tape.shownOwner(block), shades = this.shades[owner < 0 ? 6 : owner % 6];
        if (!count) return this.selected >= 0 ? shades.faintCached : shades.cached;
        if (this.#faint(block)) return count > 1 ? shades.faintShared : shades.faint;
        return count > 1 ? shades.shared : shades.full;
    }

    #drawPixels() {
        this.smallContext.putImageData(this.image, 0, 0);
        this.context.imageSmoothingEnabled = false;
        this.context.clearRect(0, 0, this.canvas.width, this.canvas.height);
        this.context.drawImage(this.small, 0, 0, this.canvas.width, this.canvas.height);
    }

    #drawCell(block) {
        const { context, tape, ratio, layout, colours } = this, size = Math.round(layout.cell * ratio);
        const x = (block % layout.columns) * size, y = Math.floor(block / layout.columns) * size;
        const gap = Math.max(0.5, Math.round(size * 0.055)), inner = size - 2 * gap;
        const radius = layout.style === "cells" ? Math.min(7 * ratio, size * 0.15) : 0;
        const count = tape.refcounts[block], owner = tape.shownOwner(block), faint = this.#faint(block);
        const variant = colours.variant(owner);
        context.clearRect(x, y, size, size);
        context.fillStyle = css(count ? faint ? variant.faint : variant.full : colours.free);
        this.#roundedCell(context, x + gap, y + gap, inner, radius);
        context.fill();
        if (!count) {
            if (tape.isCached[block]) {
                context.fillStyle = this.#hatch(owner, this.selected >= 0);
                context.fill();
            }
            return this.#writeNumber(block, x, y, size, css(colours.ink), 0.45, Boolean(tape.isCached[block]));
        }
        if (tape.faults[block]) this.#drawSplit(block, x + gap, y + gap, inner, faint);
        else if (count > 1) {  // a cut corner
            const cut = inner * (layout.style === "cells" ? 0.42 : 0.5);
            context.fillStyle = css(colours.paper);
            context.beginPath();
            context.moveTo(x + size - gap - cut, y + gap - 1);
            context.lineTo(x + size - gap + 1, y + gap - 1);
            context.lineTo(x + size - gap + 1, y + gap + cut);
            context.fill();
        }
        if (this.selected >= 0 && !faint) {
            const line = Math.max(1, Math.min(2 * ratio, size * 0.12));
            context.strokeStyle = css(colours.followed);
            context.lineWidth = line;
            this.#roundedCell(context, x + line / 2, y + line / 2, size - line, radius + gap / 2);
            context.stroke();
        }
        this.#writeOwner(block, x, y, size, faint);
    }

    /** Two owners who do not know of each other: a corner of the cell each. */
    #drawSplit(block, x, y, inner, faint) {
        const { context, tape, colours } = this;
        const second = colours.variant(tape.ownerOf(tape.newest[block]));
        context.save();
        context.clip();
        context.fillStyle = css(faint ? second.faint : second.full);
        context.beginPath();
        context.moveTo(x + inner, y);
        context.lineTo(x + inner, y + inner);
        context.lineTo(x, y + inner);
        context.fill();
        for (const [colour, share] of [[colours.paper, 0.17], [ATTENTION, 0.08]]) {
            context.strokeStyle = css(colour);
            context.lineWidth = Math.max(1, inner * share);
            context.beginPath();
            context.moveTo(x + inner, y);
            context.lineTo(x, y + inner);
            context.stroke();
        }
        context.restore();
    }

    /** hatched: on paper of its own, else it would be lost among the lines. */
    #writeNumber(block, x, y, size, ink, alpha, hatched = false) {
        const { context, ratio, layout } = this;
        if (layout.cell < ROOM_FOR_NUMBER) return;
        context.globalAlpha = hatched ? 1 : alpha;
        context.fillStyle = ink;
        context.font = `${Math.round(9 * ratio)}px system-ui, sans-serif`;
        context.textAlign = "left";
        context.textBaseline = "top";
        if (hatched) {
            Object.assign(context, { strokeStyle: css(this.colours.paper), lineWidth: 4 * ratio, lineJoin: "round" });
            context.strokeText(String(block), x + size * 0.14, y + size * 0.14, size * 0.5);
        }
        context.fillText(String(block), x + size * 0.14, y + size * 0.14, size * 0.5);
        context.globalAlpha = 1;
    }

    #writeOwner(block, x, y, size, faint) {
        const { context, tape, layout, colours } = this;
        if (layout.cell < ROOM_FOR_LABEL) return;
        const inkFor = owner => faint ? css(colours.ink) : inkOn(hueOf(owner));
        const nameOf = owner => tape.owners[owner] === tape.noName ? "" : ownerLabel(tape.owners[owner]);
        const write = (text, atX, atY, share, ink) => {
            context.fillStyle = ink;
            context.font = `600 ${Math.round(size * share)}px system-ui, sans-serif`;
            context.textAlign = "center";
            context.textBaseline = "middle";
            context.globalAlpha = faint ? 0.55 : 1;
            context.fillText(text, x + size * atX, y + size * atY, size * 0.8);
            context.globalAlpha = 1;
        };
        const oldest = tape.ownerOf(tape.oldest[block]), count = tape.refcounts[block];
        this.#writeNumber(block, x, y, size, inkFor(oldest), 0.75);
        if (tape.faults[block]) {
            const newest = tape.ownerOf(tape.newest[block]);
            write(nameOf(oldest), 0.34, 0.42, 0.28, inkFor(oldest));
            write(nameOf(newest), 0.7, 0.72, 0.28, inkFor(newest));
            return;
        }
        const times = count > 1 ? `×${count}` : "", name = nameOf(oldest);
        write(name || times, 0.5, 0.55, 0.36, inkFor(oldest));
        if (times && name && layout.cell >= ROOM_FOR_NUMBER) write(times, 0.74, 0.82, 0.22, inkFor(oldest));
    }

    #outline(context, blocks, colour, dashed = false) {
        const { ratio, layout } = this, size = layout.cell * ratio, small = size < 9 * ratio;
        const box = Math.max(size, 7 * ratio), line = (small ? 1.5 : 2.5) * ratio, inset = small ? 0 : line / 2;
        const side = box - 2 * inset, radius = small ? 0 : Math.min(7 * ratio, box * 0.15);
        const within = (at, whole) => Math.max(line / 2, Math.min(whole - box - line / 2, at * ratio + (size - box) / 2)) + inset;
        context.strokeStyle = colour;
        context.lineWidth = line;
        context.beginPath();  // one path for all: hundreds of strokes would take longer than everything else
        for (const block of blocks) {
            const { x, y } = placeOf(layout, block);
            const left = within(x, this.marks.width), top = within(y, this.marks.height);
            if (radius) context.roundRect(left, top, side, side, radius); else context.rect(left, top, side, side);
        }
        if (dashed) context.setLineDash([side / 6, side / 9]);
        context.stroke();
        context.setLineDash([]);
    }

    #roundedCell(context, x, y, side, radius) {
        context.beginPath();
        if (radius) context.roundRect(x, y, side, side, radius);
        else context.rect(x, y, side, side);
    }

    /** Diagonal lines in the colour of the last holder. */
    #hatch(owner, faint) {
        const key = `${owner < 0 ? -1 : owner % 6}${faint}`;
        if (!this.patterns.has(key)) {
            const colour = this.colours.variant(owner)[faint ? "faint" : "full"];
            this.patterns.set(key, hatchPattern(this.context, css(colour), this.ratio));
        }
        return this.patterns.get(key);
    }
}
