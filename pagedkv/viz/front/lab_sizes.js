// Sizes as people write them: 64M, 1.5G, 512K, 200. Units are powers of 1024.

const SIZE_UNITS = [["G", 2 ** 30], ["M", 2 ** 20], ["K", 2 ** 10], ["", 1]];
const SIZE_FORM = /^([0-9]*\.?[0-9]+|[0-9]+\.)\s*([KMG]?)(?:i?B)?$/i;

/** {bytes}, a whole number, or {error} that says what is wrong. */
export function parseSize(text) {
    const written = text.trim().replace(/(\d)[, ](?=\d{3}(?!\d))/g, "$1");
    if (!written) return { error: "write a size, such as 64M" };
    const found = SIZE_FORM.exec(written);
    if (!found && written.startsWith("-")) return { error: "a size is at least 1 byte" };
    if (!found) return { error: `“${text.trim()}” is no size: write it as 512K, 64M or 1.5G` };
    const unit = SIZE_UNITS.find(([name]) => name === found[2].toUpperCase())[1];
    const bytes = Number(found[1]) * unit;
    if (bytes > Number.MAX_SAFE_INTEGER) return { error: "that is more than any memory has" };
    if (!Number.isInteger(bytes) && unit === 1) return { error: "a number of bytes has no fraction" };
    if (Math.round(bytes) < 1) return { error: "a size is at least 1 byte" };
    return { bytes: Math.round(bytes) };
}

/** The shortest form that is exactly this size again: 64M, 1.5G, 1000. */
export function shortSize(bytes) {
    for (const [name, unit] of SIZE_UNITS) {
        const number = bytes / unit;
        if (unit === 1 || (number >= 1 && Math.round(number * 1000) / 1000 === number)) return `${number}${name}`;
    }
}

/** For reading, as `as_text` in pagedkv/core/memory.py has it: 512 B, 1.5 KiB, 20 MiB, 3.05 GiB. */
export function sizeInWords(bytes) {
    for (const [name, unit] of SIZE_UNITS)
        if (name && Math.abs(bytes) >= unit) {
            const digits = name === "G" ? 2 : 1, number = bytes / unit;
            const text = number.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
            return `${text.replace(/\.0+$/, "")} ${name}iB`;
        }
    return `${bytes.toLocaleString("en-US")} B`;
}

/** A setting's value with its unit. */
export function withUnit(value, unit) {
    return unit === "B" ? sizeInWords(value) : `${value.toLocaleString("en-US")}${unit ? ` ${unit}` : ""}`;
}
