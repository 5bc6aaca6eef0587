// The table of what came out: a column for each allocator, a row for each number, the best of each row marked.

import { element } from "./elements.js";

export class LabSummary {
    constructor(model) {
        this.model = model;
        this.root = element("section", { class: "lab-summary", "aria-label": "summary", "data-testid": "lab-summary" });
        this.take();
    }

    take() {
        const { titles, rows, note } = this.model.get("lab_results");
        const table = element("table", {},
            element("thead", {}, element("tr", {}, element("td"), ...titles.map(title => element("th", { scope: "col" }, title)))),
            element("tbody", {}, ...rows.map(row => element("tr", {},
                element("th", { scope: "row", title: row.explanation }, row.name),
                ...row.texts.map((text, i) => labCell(text, row.marks[i]))))));
        this.root.replaceChildren(table, ...(note ? [element("div", { class: "lab-note" }, note)] : []));
    }
}

function labCell(text, mark) {
    if (!mark) return element("td", {}, text);
    const full = mark === "★";
    return element("td", full ? { class: "lab-best" } : {}, text, element("span", { class: "lab-mark", "aria-hidden": "true" }, mark),
                   element("span", { class: "pk-spoken" }, full ? ", the best" : ", the best, but it refused more requests"));
}
