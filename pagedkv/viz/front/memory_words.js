// Sizes and addresses in words, as pagedkv.core.memory.as_text has them.

import { grouped } from "./words.js";

const UNITS = [[2 ** 30, "GiB", 2], [2 ** 20, "MiB", 1], [2 ** 10, "KiB", 1]];
const FORMATS = [0, 1, 2].map(digits =>
    new Intl.NumberFormat("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }));

/** A size for people: "512 B", "1.5 KiB", "20 MiB", "3.05 GiB". Units are powers of 1024. */
export function bytesAsText(bytes) {
    for (const [unit, name, digits] of UNITS)
        if (Math.abs(bytes) >= unit) {
            const text = FORMATS[digits].format(rounded(bytes, unit, digits));
            return `${text.replace(/\.0+$/, "")} ${name}`;
        }
    return `${grouped(bytes)} B`;
}

/** bytes / unit to so many digits; halves go to the even neighbour, as in Python. */
function rounded(bytes, unit, digits) {
    const ten = 10 ** digits, scaled = bytes * ten / unit, low = Math.floor(scaled), rest = scaled - low;
    const up = rest > 0.5 || (rest === 0.5 && low % 2 !== 0);
    return (low + (up ? 1 : 0)) / ten;
}

export function hexOf(address) { return `0x${address.toString(16)}`; }

/** "37 %"; what is not nothing does not read as 0 %, and what is not all of it not as 100 %. */
export function percentOf(part, whole) {
    if (!whole) return "0 %";
    const percent = 100 * part / whole;
    if (percent > 0 && percent < 0.5) return "<1 %";
    if (percent < 100 && percent >= 99.5) return ">99 %";
    return `${rounded(part, whole / 100, 0)} %`;
}
