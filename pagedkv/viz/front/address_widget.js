// Where does a token lie? One position is translated step by step. Each step first asks: a guess is answered with what is right
// or with what that number would be, and whoever does not want to guess has it shown.
//
// Traits: setting (see address_arithmetic.js), title, position, step (how many of the four steps are shown), guesses (at this
// position: {step, value, right}). Another position starts again.

import { lowestPosition, placeIn } from "./address_arithmetic.js";
import { AddressPicture } from "./address_picture.js";
import { slipWords } from "./address_slips.js";
import { answerOf, foundWords, NUM_STEPS, questionFor, RULES, SLOT, STEP_NAMES, sumOf, unrefusedWords } from "./address_steps.js";
import { element, icon } from "./elements.js";
import { counted, grouped } from "./words.js";

const TRAITS = ["setting", "title", "position", "step", "guesses"];
const FIELDS = "input, [data-own-keys]";

/** A whole number as people type it, or null. */
export function wholeNumber(text) {
    const plain = text.replace(/[\s,_]/g, "").replace("−", "-");
    return /^-?\d{1,15}$/.test(plain) ? Number(plain) + 0 : null;
}

class AddressPage {
    constructor(model, el) {
        this.model = model;
        this.reached = 0;  // how many were at this position: they are not asked again
        this.shown = {};
        this.#build();
        el.append(this.root);
        this.handlers = TRAITS.map(name => [`change:${name}`, () => this.#changed(name)]);
        for (const [name, handler] of this.handlers) model.on(name, handler);
        this.resizes = new ResizeObserver(() => this.#resize());
        this.resizes.observe(this.root);
        this.#show();
    }

    close() {
        for (const [name, handler] of this.handlers) this.model.off(name, handler);
        this.resizes.disconnect();
        this.root.remove();
    }

    get setting() { return this.model.get("setting"); }
    get position() { return this.model.get("position"); }
    get step() { return this.model.get("step"); }
    get guesses() { return this.model.get("guesses"); }
    get place() { return placeIn(this.setting, this.position); }

    #build() {
        this.title = element("span", { class: "pk-title" });
        this.badge = element("span", { class: "pk-badge" });
        this.counter = element("span", { class: "pk-counter", "data-testid": "counter" });
        this.overButton = button("start", "start over", () => this.#startOver(), icon("start"));
        this.backButton = button("back", "one step back (←)", () => this.#go(this.step - 1), icon("back"));
        this.nextButton = button("forward", "next step (→)", () => this.#next(), icon("forward"));
        this.picture = new AddressPicture(slot => this.#guess(SLOT, slot));
        this.refused = element("p", { class: "addr-refused", role: "note", "data-testid": "refused" });
        this.rows = [1, 2, 3, 4].map(step => new StepRow(step, this));
        this.outcome = element("div", { class: "addr-outcome", "data-testid": "outcome" });
        this.spoken = element("div", { class: "pk-spoken", "aria-live": "polite" });
        this.root = element("div", { class: "pk-root addr-root", tabindex: "0", role: "group", "data-testid": "address-view",
                                     "data-lm-suppress-shortcuts": "true" },
            element("div", { class: "pk-head" }, this.title, this.badge,
                    element("span", { class: "pk-transport", role: "toolbar", "aria-label": "steps" },
                            this.overButton, this.backButton, this.nextButton, this.counter)),
            element("div", { class: "addr-frame" }, this.picture.svg), this.refused,
            element("ol", { class: "addr-steps", start: "0" }, this.#positionRow(), ...this.rows.map(row => row.root)),
            this.outcome, this.spoken);
        // JupyterLab has shortcuts for whatever has the focus and is no text field; it leaves alone what says so itself.
        this.root.addEventListener("focusin", event => { event.target.dataset.lmSuppressShortcuts = "true"; });
        this.root.addEventListener("keydown", event => this.#key(event));
        this.root.addEventListener("pointerdown", event => {
            if (!event.target.closest(`button, label, ${FIELDS}`)) this.root.focus({ preventScroll: true });
        });
    }

    #positionRow() {
        this.positionField = element("input", { class: "addr-field", type: "text", inputmode: "numeric", autocomplete: "off",
                                                "aria-label": "position", "data-testid": "position" });
        this.slider = element("input", { class: "addr-slider", type: "range", step: "1", "aria-label": "position, to slide",
                                         "data-testid": "slider" });
        this.positionSays = element("span", { class: "addr-says", "data-testid": "position-says" });
        this.positionField.addEventListener("change", () => this.#typedPosition());
        this.positionField.addEventListener("keydown", event => { if (event.key === "Enter") this.#typedPosition(); });
        this.slider.addEventListener("input", () => this.#moveTo(+this.slider.value));
        const body = element("span", { class: "addr-body addr-line" }, this.positionField, this.slider, this.positionSays);
        return element("li", { class: "addr-step addr-known" }, element("span", { class: "addr-count" }, "0"),
                       element("b", {}, STEP_NAMES[0]), body);
    }

    #typedPosition() {
        const value = wholeNumber(this.positionField.value), low = lowestPosition(this.setting);
        const { num_tokens: tokens } = this.setting;
        const wrong = value === null || value < low || value >= tokens;
        this.positionField.setAttribute("aria-invalid", wrong);
        if (!wrong) return this.#moveTo(value);
        this.positionSays.textContent = `positions go from 0 to ${grouped(tokens - 1)}, `
            + `and down to ${low} for a look at what is refused`;
        this.#say(this.positionSays.textContent);
    }

    #moveTo(position) {
        if (position !== this.position) this.#set({ position, step: 0, guesses: [] });
        else this.#show();
    }

    #startOver() {
        this.reached = 0;
        for (const row of this.rows) row.clear();
        this.#set({ step: 0, guesses: [] });
    }

    #go(step) {
        const to = Math.max(0, Math.min(this.reached, step));
        if (to === this.step) return;
        this.#set({ step: to });
        this.#say(to ? `Step ${to}: ${STEP_NAMES[to]}, ${sumOf(this.setting, this.place, to)}` : `Position ${this.position}`);
    }

    #next() {
        if (this.step < this.reached) return this.#go(this.step + 1);
        if (this.step === NUM_STEPS) return;
        const row = this.rows[this.step];
        row.say("Guess first, or press Show me.");
        row.field.focus({ preventScroll: true });
        this.#say(`${row.question.textContent} Guess, or press Show me.`);
    }

    guess(step, text) {
        const value = wholeNumber(text), row = this.rows[step - 1];
        if (value !== null) return this.#guess(step, value);
        row.say(text.trim() ? "A whole number, please: blocks, offsets and slots are counted."
            : "Type a number first, or press Show me.");
        this.#say(row.said.textContent);
    }

    #guess(step, value) {
        if (this.step >= step || this.reached >= step) return;
        const { setting, place } = this, right = value === answerOf(place, step);
        this.#set({ guesses: [...this.guesses, { step, value, right }], ...right ? { step } : {} });
        this.#say(right ? `Right. ${this.#sums(step)}` : slipWords(setting, place, step, value));
        if (right) this.#goOnIn(this.rows[step]?.field);
    }

    reveal(step) {
        this.#set({ step });
        this.#say(this.#sums(step));
        this.#goOnIn(this.rows[step]?.reveal);
    }

    #sums(step) { return `${STEP_NAMES[step]}: ${sumOf(this.setting, this.place, step)}`; }

    /** Whose field or button has gone finds the one of the next step; with none left, the keys of the whole. */
    #goOnIn(next) {
        const { activeElement } = document;
        if (activeElement !== this.root && this.root.contains(activeElement)) (next ?? this.root).focus({ preventScroll: true });
    }

    #say(text) { this.spoken.textContent = text; }

    #set(values) {
        this.isSetting = true;
        for (const [name, value] of Object.entries(values)) this.model.set(name, value);
        this.isSetting = false;
        this.model.save_changes();
        this.#show();
    }

    /** The kernel or another view of the same model has changed something. */
    #changed(name) {
        if (this.isSetting) return;
        // The kernel sends the position first and the restart after it: nothing of the new position may show before.
        if (name === "position" && this.step && this.step === this.shown.step) {
            this.model.set("step", 0);
            this.model.set("guesses", []);
        }
        this.#show();
    }

    #resize() {
        const width = this.root.clientWidth;
        if (!width || width === this.width) return;
        this.width = width;
        this.root.classList.toggle("addr-narrow", width < 560);
        this.#draw();
    }

    #draw() {
        // Without a width it is not on the page (yet).
        if (this.width) this.picture.draw(this.width, this.setting, this.place, this.step, this.reached < SLOT);
    }

    #show() {
        const { setting, position, step, guesses, place } = this;
        const moved = position !== this.shown.position;
        if (moved) this.positionField.setAttribute("aria-invalid", false);
        if (moved || (this.shown.guesses?.length && !guesses.length)) {  // it starts again
            this.reached = 0;
            for (const row of this.rows) row.clear();
        }
        this.reached = Math.max(this.reached, step);
        this.shown = { position, step, guesses };
        this.#showHead(setting, position, step);
        this.#showPosition(setting, position, place);
        for (const row of this.rows) row.show({ setting, place, step, reached: this.reached, guesses });
        this.#showOutcome(setting, place, step);
        this.#draw();
    }

    #showHead(setting, position, step) {
        const title = this.model.get("title") || `Where does token ${grouped(position)} lie?`;
        this.title.textContent = title;
        this.root.setAttribute("aria-label", `Address translation: ${title}. Arrow keys step, s shows the next answer.`);
        this.badge.textContent = `blocks of ${counted(setting.block_size, "token")}`;
        this.counter.textContent = `step ${step} of ${NUM_STEPS}`;
        this.backButton.disabled = !step;
        this.nextButton.disabled = step === NUM_STEPS;
    }

    #showPosition(setting, position, place) {
        const { num_tokens: tokens, block_size: size } = setting;
        Object.assign(this.slider, { min: Math.min(-size, position), max: tokens - 1 });
        this.slider.value = position;
        if (this.positionField.getAttribute("aria-invalid") !== "true") {
            this.positionField.value = position;
            const token = setting.tokens[position];
            this.positionSays.textContent = position < 0 ? "" : token ? `the token “${token}”` : `from 0 to ${grouped(tokens - 1)}`;
        }
        this.refused.hidden = position >= 0;
        if (position < 0) {
            const call = element("code", {}, `locate(block_table, ${position}, ${size})`);
            this.refused.replaceChildren(element("b", {}, "✗ refused: "), call,
                                         " raises an IndexError, because the sum below would go through without one:");
        }
    }

    #showOutcome(setting, place, step) {
        const words = place.position < 0 ? unrefusedWords(setting, place, step) : foundWords(place, step);
        this.outcome.hidden = !words.length;
        this.outcome.classList.toggle("addr-trouble", place.position < 0);
        this.outcome.replaceChildren(...words.map(text => element("p", {}, text)));
    }

    #key(event) {
        if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest(FIELDS)) return;
        const act = { ArrowRight: () => this.#next(), ArrowLeft: () => this.#go(this.step - 1),
                      Home: () => this.#go(0), End: () => this.#go(this.reached),
                      s: () => this.step < NUM_STEPS && this.reveal(this.step + 1) }[event.key];
        if (!act) return;
        event.preventDefault();
        event.stopPropagation();
        act();
    }
}

/** One of the four steps: a question with a field, later the sum. */
class StepRow {
    constructor(step, page) {
        this.step = step;
        this.question = element("span", { class: "addr-question", "data-testid": `question-${step}` });
        this.rule = element("span", { class: "addr-rule" });
        this.sum = element("code", { class: "addr-sum", "data-testid": `sum-${step}` });
        this.verdict = element("span", { class: "addr-says", "data-testid": `verdict-${step}` });
        this.field = element("input", { class: "addr-field", type: "text", inputmode: "numeric", autocomplete: "off", size: "6",
                                        "aria-label": `your guess: ${STEP_NAMES[step]}`, "data-testid": `guess-${step}` });
        this.check = element("button", { class: "pk-button addr-button", type: "button", "data-testid": `check-${step}` },
                             "Check");
        this.reveal = element("button", { class: "pk-button addr-button", type: "button", "data-testid": `reveal-${step}`,
                                          title: "show the answer without a guess (s)" }, "Show me");
        this.said = element("p", { class: "addr-said", "data-testid": `said-${step}` });
        this.check.addEventListener("click", () => page.guess(step, this.field.value));
        this.field.addEventListener("keydown", event => { if (event.key === "Enter") page.guess(step, this.field.value); });
        this.reveal.addEventListener("click", () => page.reveal(step));
        this.form = element("span", { class: "addr-line" }, this.field, this.check, this.reveal);
        this.answer = element("span", { class: "addr-line" }, this.sum, this.rule, this.verdict);
        const asks = element("span", { class: "addr-line" }, this.question, this.form);
        this.root = element("li", { class: "addr-step" }, element("span", { class: "addr-count" }, step),
                            element("b", {}, STEP_NAMES[step]),
                            element("span", { class: "addr-body" }, asks, this.answer, this.said));
    }

    clear() {
        this.field.value = "";
        this.said.textContent = "";
    }

    say(text) {
        this.said.textContent = text;
        this.said.hidden = false;
    }

    show({ setting, place, step, reached, guesses }) {
        const { step: own } = this, known = step >= own, seen = reached >= own, open = !seen && own === step + 1;
        const asks = open || (!seen && own === SLOT), tries = guesses.filter(guess => guess.step === own), last = tries.at(-1);
        this.root.classList.toggle("addr-known", known);
        this.root.classList.toggle("addr-open", open);
        this.question.hidden = known;
        this.question.textContent = open || (seen && own === step + 1) ? questionFor(setting, place, own)
            : asks ? "Or straight to the slot, here or by a click in the pool:" : "?";
        this.form.hidden = !asks;
        this.reveal.hidden = !open;
        this.answer.hidden = !known;
        this.sum.textContent = known ? sumOf(setting, place, own) : "";
        this.rule.textContent = known ? RULES[own] : "";
        this.verdict.textContent = !last ? "" : !last.right ? "✗ shown, not guessed"
            : tries.length === 1 ? "✓ right at once" : `✓ right, with guess ${tries.length}`;
        const text = asks && last && !last.right ? `✗ ${slipWords(setting, place, own, last.value)}` : "";
        if (text || !asks || last !== this.last) this.said.textContent = text;
        this.last = last;
        this.said.hidden = !this.said.textContent;
    }
}

function button(name, label, act, ...children) {
    const made = element("button", { class: "pk-button", type: "button", title: label, "aria-label": label,
                                     "data-testid": name }, ...children);
    made.addEventListener("click", act);
    return made;
}

export default { render({ model, el }) {
    const page = new AddressPage(model, el);
    return () => page.close();
} };
