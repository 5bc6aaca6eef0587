// Making HTML elements. Text is always set as text: an owner may be called anything.

export function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
}

const SVG = "http://www.w3.org/2000/svg";

export function svgElement(name, attributes = {}, ...children) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
}

const ICONS = {
    start: "M3 3h2v10H3zM13 3v10L6 8z", back: "M10.5 3v10L4 8z", play: "M4 2.5v11L13 8z", pause: "M4 3h3v10H4zM9 3h3v10H9z",
    forward: "M5.5 3v10L12 8z", end: "M11 3h2v10h-2zM3 3v10l7-5z",
    lock: "M4.5 7V5a3.5 3.5 0 0 1 7 0v2H13v7H3V7zM6.3 7h3.4V5a1.7 1.7 0 0 0-3.4 0z",
};

export function icon(name) {
    return svgElement("svg", { viewBox: "0 0 16 16", width: 14, height: 14, "aria-hidden": "true" },
                      svgElement("path", { d: ICONS[name], fill: "currentColor" }));
}
