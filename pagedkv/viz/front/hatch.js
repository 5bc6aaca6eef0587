// Patterns for what a colour alone cannot say.

/** A pattern of diagonal lines; `falling`: the other way round. */
export function hatchPattern(context, colour, ratio, falling = false) {
    const side = Math.max(4, Math.round(5 * ratio)), tile = document.createElement("canvas");
    tile.width = tile.height = side;
    const pen = tile.getContext("2d");
    pen.strokeStyle = colour;
    pen.lineWidth = 1.3 * ratio;
    pen.beginPath();
    const [from, to] = falling ? [-1, side + 1] : [side + 1, -1];
    for (const offset of [-side, 0, side]) {
        pen.moveTo(offset - 1, from);
        pen.lineTo(offset + side + 1, to);
    }
    pen.stroke();
    return context.createPattern(tile, "repeat");
}
