// The requests of the workload, to be edited. Row r of the list stands for frame r: row 0 for "before the first request", row
// r for request r - 1. The row of the frame that is shown is the current one, and what the buttons are about.

import { css, hueOf } from "./colours.js";
import { element } from "./elements.js";
import { LabRequests, newOwner, REQUEST_OPS, scrolledTo, visibleRows } from "./lab_requests.js";
import { parseSize, shortSize, sizeInWords } from "./lab_sizes.js";
import { numbers } from "./bytes.js";
import { counted } from "./words.js";

const LAB_ROW = 24, LAB_PAGE = 8;  // pixels; rows that PageDown moves

export class LabEditor {
    constructor(model, session, client) {
        Object.assign(this, { model, session, client });
        this.target = null;  // the row to go to once what was edited is replayed
        this.rows = new Map();  // row → element, of those that are there
        this.#build();
        this.takeRequests();
        this.takeResults();
    }

    get current() { return Math.min(this.requests.length, this.target ?? this.session.frame); }

    takeRequests() {
        this.requests = new LabRequests(this.model.get("lab_requests"));
        this.rows.clear();
        this.space.replaceChildren();
        this.space.style.height = `${(this.requests.length + 1) * LAB_ROW}px`;
        this.count.textContent = counted(this.requests.length, "request");
        if (!this.ownerTouched) this.owner.value = newOwner(this.requests.owners);
        this.known.replaceChildren(...this.requests.owners.slice(0, 200).map(owner => element("option", { value: owner })));
        this.#showButtons();
        this.#showCurrent();
    }

    takeResults() {
        const results = this.model.get("lab_results");
        this.refused = numbers(Uint8Array, results.refused);
        this.titles = results.titles;
        this.rows.clear();
        this.space.replaceChildren();
        this.#showRows();
    }

    showFrame() {
        if (this.session.tapes !== this.tapes) return;  // new ones: showTapes follows
        this.target = null;
        this.#showCurrent();
    }

    showTapes() {
        this.tapes = this.session.tapes;
        const { target } = this;
        this.target = null;
        if (target !== null && target !== this.session.frame) this.session.go(target);
        this.#showCurrent();
    }

    /** The kernel's answer to an edit. */
    answered({ ok, text, number }) {
        if (ok && number !== null) {
            this.target = Math.min(number + 1, this.requests.length);
            this.ownerTouched = false;
            this.owner.value = newOwner(this.requests.owners);
        }
        this.say(text, !ok);
        this.#showButtons();
        this.#showCurrent();
    }

    say(text, wrong = false) {
        this.message.textContent = text ? `${wrong ? "✗" : "✓"} ${text}` : "";
        this.message.classList.toggle("lab-wrong", wrong);
    }

    working(text) {
        this.progress.hidden = !text;
        this.progress.lastChild.textContent = text ? `${text} …` : "";
    }

    #build() {
        const button = (name, text, label, act) => {
            const made = element("button", { class: "lab-button", type: "button", title: label, "aria-label": label,
                                             "data-testid": `lab-${name}` }, text);
            made.addEventListener("click", () => { if (made.getAttribute("aria-disabled") !== "true") act(); });
            return made;
        };
        this.count = element("b", { "data-testid": "lab-count" });
        this.undo = button("undo", "Undo", "undo the last edit (Ctrl+Z)", () => this.#edit({ do: "undo" }));
        this.redo = button("redo", "Redo", "redo (Ctrl+Y)", () => this.#edit({ do: "redo" }));
        this.reset = button("reset", "Reset", "back to the given workload", () => this.#edit({ do: "reset" }));
        const copy = button("copy", "Copy as text", "copy the workload as text", () => this.#copy());
        const head = element("div", { class: "lab-line" }, this.count,
                             element("span", { class: "lab-right" }, this.undo, this.redo, this.reset, copy));

        this.space = element("div", { class: "lab-space" });
        this.list = element("div", { class: "lab-list", role: "listbox", tabindex: "0", "data-own-keys": "", "data-testid": "lab-list",
                                     "aria-label": "requests; arrow keys choose, Delete deletes, Enter goes to the size, "
                                         + "Alt and an arrow key move" }, this.space);
        this.list.addEventListener("scroll", () => this.#showRows(), { passive: true });
        this.list.addEventListener("click", event => {
            const row = event.target.closest("[data-row]");
            if (row) this.#go(+row.dataset.row);
        });
        this.list.addEventListener("dblclick", () => this.#toSize());
        this.list.addEventListener("keydown", event => this.#key(event));

        this.size = this.#sizeField("size", "size of the current request", () => this.#resize());
        this.what = element("span", { class: "lab-what" });
        this.up = button("up", "↑", "move up (Alt+↑)", () => this.#move(-1));
        this.down = button("down", "↓", "move down (Alt+↓)", () => this.#move(1));
        this.remove = button("delete", "Delete", "delete this request (Delete)", () => this.#delete());
        const now = element("div", { class: "lab-line lab-form", role: "group", "aria-label": "the current request" }, this.what,
                            this.size.input, element("span", { class: "lab-right" }, this.up, this.down, this.remove));

        this.op = element("select", { class: "lab-field", "aria-label": "operation of the new request", "data-testid": "lab-new-op" },
                          ...REQUEST_OPS.map(op => element("option", { value: op }, op)));
        this.op.addEventListener("change", () => {
            this.newSize.input.hidden = this.op.value === "free";
            if (this.newSize.input.hidden) this.#wrong(this.newSize, "");
            const { owner } = this.requests.length && this.current ? this.requests.at(this.current - 1) : { owner: "" };
            if (!this.ownerTouched) this.owner.value = this.op.value === "allocate" ? newOwner(this.requests.owners) : owner;
        });
        this.known = element("datalist", { id: `lab-owners-${this.client.name}` });
        this.owner = element("input", { class: "lab-field lab-owner", "aria-label": "owner of the new request", list: this.known.id,
                                        autocomplete: "off", spellcheck: "false", "data-testid": "lab-new-owner" });
        this.owner.addEventListener("input", () => { this.ownerTouched = true; });
        this.newSize = this.#sizeField("new-size", "size of the new request", () => {});
        this.newSize.input.value = "64M";
        const adding = element("form", { class: "lab-line lab-form", "aria-label": "add a request after the current one" },
                               element("span", { class: "lab-what" }, "add after"), this.op, this.owner, this.known,
                               this.newSize.input,
                               element("button", { class: "lab-button lab-right", type: "submit", "data-testid": "lab-add" }, "Add"));
        const add = event => {
            event.preventDefault();
            this.#add();
        };
        adding.addEventListener("submit", add);
        // JupyterLab keeps Enter from doing what it does in a form.
        adding.addEventListener("keydown", event => { if (event.key === "Enter" && event.target.matches("input")) add(event); });

        this.message = element("div", { class: "lab-message", role: "status", "data-testid": "lab-message" });
        this.progress = element("div", { class: "lab-progress", role: "status", "data-testid": "lab-progress" },
                                element("i", { class: "lab-spinner", "aria-hidden": "true" }), element("span"));
        this.progress.hidden = true;
        this.text = element("textarea", { class: "lab-text", rows: "5", readonly: "", "aria-label": "the workload as text" });
        this.text.hidden = true;
        this.root = element("section", { class: "lab-editor", "aria-label": "workload" }, head, this.list, now, this.size.error,
                            adding, this.newSize.error,
                            element("div", { class: "lab-status" }, this.message, this.progress), this.text);
        new ResizeObserver(() => this.#showCurrent()).observe(this.list);
    }

    /** A field for a size, with what is wrong about it under it. */
    #sizeField(name, label, commit) {
        const error = element("div", { class: "lab-error", id: `lab-${name}-${this.client.name}`, role: "alert",
                                       "data-testid": `lab-${name}-error` });
        const input = element("input", { class: "lab-field lab-size", "aria-label": label, "aria-describedby": error.id,
                                         title: "a size, such as 512K, 64M or 1.5G", autocomplete: "off", spellcheck: "false",
                                         "data-testid": `lab-${name}` });
        const field = { input, error };
        error.hidden = true;
        input.addEventListener("focus", () => { if (this.session.playing) this.session.pause(); });
        input.addEventListener("input", () => this.#wrong(field, parseSize(input.value).error ?? ""));
        input.addEventListener("change", commit);
        input.addEventListener("keydown", event => {
            if (event.key === "Enter") commit();
            if (event.key !== "Escape") return;
            event.stopPropagation();
            if (field === this.size) this.#showSize();
            this.#wrong(field, "");
        });
        return field;
    }

    #wrong({ input, error }, text) {
        error.textContent = text;
        error.hidden = !text;
        input.setAttribute("aria-invalid", text ? "true" : "false");
    }

    #edit(request) {
        if (this.session.playing) this.session.pause();
        if (!this.client.edit({ version: this.requests.version, ...request }))
            return this.say("the last change has not been answered yet", true);
        this.say("");
        this.#showButtons();
    }

    #resize() {
        const number = this.current - 1, { bytes, error } = parseSize(this.size.input.value);
        this.#wrong(this.size, error ?? "");
        // Enter and leaving the field both commit: the second finds nothing to do.
        if (error || number < 0 || bytes === this.requests.sizes[number] || this.client.busy) return;
        this.#edit({ do: "resize", number, size_bytes: bytes });
    }

    #add() {
        const free = this.op.value === "free", { bytes, error } = free ? { bytes: 0 } : parseSize(this.newSize.input.value);
        this.#wrong(this.newSize, error ?? "");
        if (error) return this.newSize.input.focus();
        this.#edit({ do: "add", after: this.current - 1, op: this.op.value, owner: this.owner.value, size_bytes: bytes });
    }

    #delete() { if (this.current > 0) this.#edit({ do: "delete", number: this.current - 1 }); }

    #move(by) { if (this.current > 0) this.#edit({ do: "move", number: this.current - 1, by }); }

    async #copy() {
        const text = this.requests.text();
        try {
            await navigator.clipboard.writeText(text);
            this.text.hidden = true;
            this.say(`${counted(this.requests.length, "line")} copied`);
        } catch {  // no clipboard on a page that came over plain http
            this.text.value = text;
            this.text.hidden = false;
            this.text.select();
            this.say("this page may not use the clipboard: copy it from here");
        }
    }

    #go(row) {
        this.target = null;
        this.session.go(Math.max(0, Math.min(this.requests.length, row)));
        this.#showCurrent();
    }

    #toSize() {
        if (this.size.input.hidden) return;
        this.size.input.focus();
        this.size.input.select();
    }

    #key(event) {
        const { key } = event, command = event.ctrlKey || event.metaKey;
        const act = () => {
            if (command && key.toLowerCase() === "z") return this.#edit({ do: event.shiftKey ? "redo" : "undo" });
            if (command && key.toLowerCase() === "y") return this.#edit({ do: "redo" });
            if (command) return false;
            if (event.altKey) return key === "ArrowUp" ? this.#move(-1) : key === "ArrowDown" ? this.#move(1) : false;
            switch (key) {
            case "ArrowUp": return this.#go(this.current - 1);
            case "ArrowDown": return this.#go(this.current + 1);
            case "PageUp": return this.#go(this.current - LAB_PAGE);
            case "PageDown": return this.#go(this.current + LAB_PAGE);
            case "Home": return this.#go(0);
            case "End": return this.#go(this.requests.length);
            case "Delete": case "Backspace": return this.#delete();
            case "Enter": case "F2": return this.#toSize();
            default: return false;
            }
        };
        if (act() === false) return;
        event.preventDefault();
        event.stopPropagation();
    }

    #showButtons() {
        // Not `disabled`, which would take the focus from a button that has just been pressed.
        const off = (button, is) => button.setAttribute("aria-disabled", is ? "true" : "false");
        const { current, requests, client } = this;
        off(this.undo, client.busy || !requests.undos);
        off(this.redo, client.busy || !requests.redos);
        off(this.reset, client.busy || requests.asGiven);
        off(this.up, client.busy || current < 2);
        off(this.down, client.busy || current < 1 || current === requests.length);
        off(this.remove, client.busy || current < 1);
    }

    #showCurrent() {
        const { current } = this;
        if (current !== this.shownCurrent) {
            this.#wrong(this.size, "");
            this.shownCurrent = current;
        }
        const { scrollTop, clientHeight } = this.list;
        if (clientHeight) {
            const to = scrolledTo(current, scrollTop, clientHeight, LAB_ROW);
            if (to !== scrollTop) this.list.scrollTop = to;
        }
        this.#showRows();
        this.#showSize();
        this.#showButtons();
    }

    #showSize() {
        const { current, requests, size } = this;
        if (!current) {
            this.what.textContent = "before the first request";
            size.input.hidden = true;
            return;
        }
        const { op, owner, bytes } = requests.at(current - 1);
        this.what.textContent = `request ${(current - 1).toLocaleString("en-US")}: ${op} ${owner}`;
        size.input.hidden = op === "free";
        const key = `${requests.version}/${current}/${bytes}`;
        if (key === this.shownSize && document.activeElement === size.input) return;  // somebody is writing there
        this.shownSize = key;
        size.input.value = shortSize(bytes);
    }

    #showRows() {
        const { current, requests, rows } = this;
        const [first, end] = visibleRows(this.list.scrollTop, this.list.clientHeight || 9 * LAB_ROW, LAB_ROW, requests.length + 1);
        for (const [row, made] of rows)
            if (row < first || row >= end) {
                made.remove();
                rows.delete(row);
            }
        for (let row = first; row < end; row++) {
            if (!rows.has(row)) {
                const made = this.#makeRow(row);
                rows.set(row, made);
                this.space.append(made);
            }
            rows.get(row).setAttribute("aria-selected", row === current ? "true" : "false");
        }
        if (rows.has(current)) this.list.setAttribute("aria-activedescendant", rows.get(current).id);
        else this.list.removeAttribute("aria-activedescendant");
    }

    #makeRow(row) {
        const made = element("div", { class: "lab-row", role: "option", id: `lab-row-${row}-${this.client.name}`, "data-row": row,
                                      "aria-posinset": row + 1, "aria-setsize": this.requests.length + 1 });
        made.style.top = `${row * LAB_ROW}px`;
        if (!row) {
            made.append(element("span", { class: "lab-number" }),
                        element("span", { class: "lab-start" }, "before the first request"));
            return made;
        }
        const { op, owner, bytes } = this.requests.at(row - 1);
        const swatch = element("i", { class: "pk-swatch", "aria-hidden": "true" });
        swatch.style.background = css(hueOf(this.requests.who[row - 1]));
        made.append(element("span", { class: "lab-number" }, (row - 1).toLocaleString("en-US")), element("span", {}, op), swatch,
                    element("b", { class: "lab-name", title: owner }, owner), this.#refusals(row - 1),
                    element("span", { class: "lab-bytes" }, op === "free" ? "" : sizeInWords(bytes)));
        return made;
    }

    /** Who refused this request. */
    #refusals(number) {
        const mask = this.refused?.length === this.requests.length ? this.refused[number] : 0;
        const names = this.titles?.filter((_, bit) => mask >> bit & 1) ?? [];
        if (!names.length) return element("span");
        return element("span", { class: "lab-refused", title: `refused by ${names.join(", ")}` },
                       `✗ ${names.length > 1 && names.length === this.titles.length ? "all" : names.join(", ")}`);
    }
}
