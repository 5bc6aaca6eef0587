// The small labels in a heading.

import { element } from "./elements.js";

export function badge(text) { return element("span", { class: "pk-badge" }, text); }

/** Where a recording comes from, with a dot of its kind. */
export function sourceBadge(source) {
    const dot = element("i", { class: `pk-dot pk-${dotKind(source)}` });
    return element("span", { class: "pk-badge", "data-testid": "source" }, dot, source);
}

function dotKind(source) {
    if (/java|netty/i.test(source)) return "java";
    if (/python/i.test(source)) return "python";
    return /cuda|gpu/i.test(source) ? "cuda" : "other";
}
