// The capacity and the settings of each allocator. What is changed is sent once it rests; what the kernel refuses stays in the
// form, with the reason under it, until something else is shown.

import { element } from "./elements.js";
import { parseSize, shortSize, withUnit } from "./lab_sizes.js";

const CAPACITY_STEPS = 16, CAPACITY_MOST = 64;  // the slider goes in sixteenths of the given capacity, up to four times of it

export class LabSettings {
    constructor(model, client) {
        Object.assign(this, { model, client });
        this.root = element("section", { class: "lab-settings", "aria-label": "settings" });
        this.#build();
        this.takeForms();
    }

    /** What holds in the kernel. What somebody has just moved stays. */
    takeForms() {
        const { forms, capacity_bytes } = this.model.get("lab_forms");
        if (!this.client.waits("capacity")) {
            this.#setCapacity(capacity_bytes);
            this.#tell("capacity", "");
        }
        forms.forEach((form, number) => {
            const about = `settings ${number}`;
            this.errors.get(about).parentElement.firstChild.textContent = form.title;  // it may tell a setting
            if (this.client.waits(about)) return;
            form.fields.forEach((field, i) => this.groups[number][i].take(field));
            this.#tell(about, "");
        });
    }

    /** The kernel's answer to something that was set. */
    answered({ where, ok, text }) { this.#tell(where, ok ? "" : text); }

    #tell(about, text) {
        const error = this.errors.get(about);
        if (!error) return;
        error.textContent = text ? `✗ ${text}` : "";
        error.hidden = !text;
        error.parentElement.classList.toggle("lab-invalid", Boolean(text));
    }

    #build() {
        const { forms, given_capacity_bytes } = this.model.get("lab_forms");
        this.given = given_capacity_bytes;
        this.errors = new Map();
        this.groups = forms.map((form, number) => form.fields.map((field, i) => makeSettingField(
            field, `lab-setting-${number}-${field.keyword}`, now => this.#sent(number, now),
            `lab-${number}-${i}-${this.client.name}`)));
        this.root.append(this.#capacityGroup(), ...forms.map((form, number) => this.#group(
            form.title, `settings ${number}`, this.groups[number].length ? this.groups[number].map(field => field.root)
                : [element("div", { class: "lab-faint" }, "no settings")])));
    }

    #group(title, about, fields) {
        const error = element("div", { class: "lab-error", role: "alert", "data-testid": `lab-error-${about.replace(" ", "-")}` });
        error.hidden = true;
        this.errors.set(about, error);
        return element("fieldset", { class: "lab-group" }, element("legend", {}, title), ...fields, error);
    }

    #sent(number, now) {
        const about = `settings ${number}`, { forms } = this.model.get("lab_forms");
        const values = Object.fromEntries(this.groups[number].map((field, i) => [forms[number].fields[i].keyword, field.value]));
        this.client.set(about, { do: "settings", setup: number, values });
        if (now) this.client.flush(about);
    }

    #capacityGroup() {
        const id = `lab-capacity-${this.client.name}`;
        this.slider = element("input", { type: "range", min: 1, max: CAPACITY_MOST, step: 1, id, "data-testid": "lab-capacity-slider",
                                         "aria-label": "capacity" });
        this.capacity = element("input", { class: "lab-field lab-size", "aria-label": "capacity, as a size", autocomplete: "off",
                                           spellcheck: "false", title: "a size, such as 512M or 1.5G", "data-testid": "lab-capacity" });
        const send = (bytes, now) => {
            this.#setCapacity(bytes, document.activeElement === this.capacity);
            this.client.set("capacity", { do: "capacity", capacity_bytes: bytes });
            if (now) this.client.flush("capacity");
        };
        this.slider.addEventListener(
            "input", () => send(Math.max(1, Math.floor(this.given * this.slider.value / CAPACITY_STEPS)), false));
        this.slider.addEventListener("change", () => this.client.flush("capacity"));
        const written = now => {
            const { bytes, error } = parseSize(this.capacity.value);
            this.#tell("capacity", error ?? "");
            if (!error) send(bytes, now);
        };
        this.capacity.addEventListener("input", () => this.#tell("capacity", parseSize(this.capacity.value).error ?? ""));
        this.capacity.addEventListener("change", () => written(true));
        this.capacity.addEventListener("keydown", event => { if (event.key === "Enter") written(true); });
        return this.#group("Device memory", "capacity",
                           [element("label", { class: "lab-setting" }, element("span", {}, "capacity"), this.slider, this.capacity)]);
    }

    #setCapacity(bytes, writing = false) {
        this.slider.value = Math.round(bytes * CAPACITY_STEPS / this.given);
        this.slider.setAttribute("aria-valuetext", withUnit(bytes, "B"));
        if (!writing) this.capacity.value = shortSize(bytes);
    }
}

/** One setting: {root, value, take(field)}. `changed(now)`: somebody has changed it; now: and will not go on at once. */
export function makeSettingField(field, testId, changed, id) {
    const label = element("span", { title: field.label }, field.label);
    if (field.kind === "choice") {
        const select = element("select", { class: "lab-field", id, "data-testid": testId });
        select.addEventListener("change", () => changed(true));
        const take = now => {
            if (select.length !== now.labels.length || now.labels.some((text, i) => select.options[i].text !== text))
                select.replaceChildren(...now.labels.map((text, i) => element("option", { value: i }, text)));
            select.value = now.value;
        };
        take(field);
        return { root: element("label", { class: "lab-setting" }, label, select), take, get value() { return +select.value; } };
    }
    const slides = field.kind === "span";
    const input = slides
        ? element("input", { type: "range", min: field.first, max: field.last, step: field.step, id, "data-testid": testId })
        : element("input", { class: "lab-field lab-size", id, autocomplete: "off", spellcheck: "false", "data-testid": testId });
    const shown = element("output", { for: id, class: "lab-value" });
    const limited = !field.optional ? null
        : element("input", { type: "checkbox", "data-testid": `${testId}-on`, "aria-label": `${field.label}: on` });
    // Off means None; what it would be if it were on stays in the field.
    const read = () => {
        if (limited && !limited.checked) return null;
        if (slides) return +input.value;
        return field.unit === "B" ? parseSize(input.value).bytes ?? null : Number(input.value);
    };
    const show = () => {
        const value = read();
        shown.textContent = value === null ? "off" : slides ? withUnit(value, field.unit) : field.unit === "B" ? "" : field.unit;
        if (slides) input.setAttribute("aria-valuetext", shown.textContent);
        input.disabled = value === null && Boolean(limited) && !limited.checked;
    };
    const take = now => {
        if (limited) limited.checked = now.value !== null;
        if (now.value !== null) {
            // a value from Python may lie outside the slider
            if (slides) { input.min = Math.min(now.first, now.value); input.max = Math.max(now.last, now.value); }
            input.value = !slides && now.unit === "B" ? shortSize(now.value) : now.value;
        }
        show();
    };
    input.addEventListener("input", () => { show(); if (slides) changed(false); });
    input.addEventListener("change", () => changed(true));
    input.addEventListener("keydown", event => { if (event.key === "Enter") changed(true); });
    limited?.addEventListener("change", () => { show(); changed(true); });
    take(field);
    return { root: element("label", { class: "lab-setting" }, label,
        limited ? element("span", { class: "lab-switch" }, limited, input) : input, shown), take, get value() { return read(); } };
}
