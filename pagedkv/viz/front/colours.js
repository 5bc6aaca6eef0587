// Colours of the grid. Owners take the hues of Okabe and Ito in the order in which they appear (see palette.py);
// what lies around them comes from JupyterLab's theme.

export const HUES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#f0e442"].map(parseColour);
export const ATTENTION = parseColour("#d55e00");

/** [red, green, blue] of "#rgb", "#rrggbb" or what getComputedStyle answers. */
export function parseColour(text) {
    const hex = /^#([0-9a-f]{3}|[0-9a-f]{6})$/i.exec(text.trim());
    if (hex) {
        const digits = hex[1].length === 3 ? hex[1].replace(/./g, "$&$&") : hex[1];
        return [0, 2, 4].map(at => parseInt(digits.slice(at, at + 2), 16));
    }
    const parts = text.match(/[\d.]+/g);
    return parts && parts.length >= 3 ? parts.slice(0, 3).map(Number) : [128, 128, 128];
}

export function mixColours(one, other, share) { return one.map((part, i) => Math.round(share * part + (1 - share) * other[i])); }
export function css(colour) { return `rgb(${colour.join(",")})`; }
export function luminance([red, green, blue]) { return (0.3 * red + 0.59 * green + 0.11 * blue) / 255; }
export function hueOf(owner) { return owner < 0 ? [128, 134, 142] : HUES[owner % HUES.length]; }
export function inkOn(colour) { return luminance(colour) > 0.55 ? "#1f2328" : "#ffffff"; }

/** At most three characters for the inside of a cell: "request 17" is 17. tape.py has the same rule. */
export function ownerLabel(name) {
    const characters = [...name];
    if (characters.length <= 3) return name;
    const digits = /[0-9]+$/.exec(name);
    return digits ? digits[0].slice(-3) : characters.slice(0, 2).join("");
}

/** What the theme gives, and what is mixed from it. `read(name)` answers the value of a CSS variable. */
export function makeColours(read) {
    const paper = parseColour(read("--pk-paper")), ink = parseColour(read("--pk-ink"));
    const dark = luminance(paper) < 0.5;
    const free = mixColours(ink, paper, dark ? 0.1 : 0.075);
    const followed = parseColour(read("--pk-accent"));
    const variants = [...HUES, hueOf(-1)].map(hue => ({
        full: hue, faint: mixColours(hue, paper, 0.42), shared: mixColours(hue, dark ? [255, 255, 255] : [0, 0, 0], 0.62),
        faintShared: mixColours(mixColours(hue, dark ? [255, 255, 255] : [0, 0, 0], 0.62), paper, 0.42),
        cached: mixColours(hue, free, 0.35), faintCached: mixColours(hue, free, 0.2),
    }));
    return { paper, ink, free, dark, followed, variant: owner => variants[owner < 0 ? HUES.length : owner % HUES.length] };
}

/** A colour as one pixel of ImageData, on a little-endian machine. */
export function pixel([red, green, blue]) { return (255 << 24 | blue << 16 | green << 8 | red) >>> 0; }
