// What widgets have in common: a heading with the controls, panels that move in step, keys, theme, size.
//
// A *kind* of view says what is in it:
//
//     TapeKind                    the class of its tapes; their `unit` is what a frame counts: "event" or "step"
//     testId, name                of its outermost element; what it is called by a screen reader
//     makePanel(tape, view)       a panel: root, tape, words, setColours(colours), resize(width, ratio), drawAll(),
//                                 showFrame(touched), select(), rest() (playing has stopped)
//     badges(tape)                for the heading of a single panel
//     widthBeside                 panels narrower than that stand one below the other
//     controls(view)              optional: further elements for the heading
//     key(event, view)            optional: true if it has dealt with a key
//     step(view, by)              optional: true if it has dealt with a step by hand
//     moved(view)                 optional: another frame is shown
//     traits, told(what, view)    optional: traits of the model that concern it, and what happens when one changes
//     extras(model, session)      optional: see memory_widget.js

import { makeColours } from "./colours.js";
import { element, icon } from "./elements.js";
import { keyAction, SPEEDS } from "./player.js";
import { Session } from "./session.js";
import { grouped } from "./words.js";

const THEME_SETTLES = [0, 150, 600];  // milliseconds: a theme's stylesheet may come after its name
const OWN_KEYS = "input, select, textarea, [contenteditable], [data-own-keys]";

export class View {
    constructor(session, el, kind) {
        Object.assign(this, { session, el, kind, model: session.model });
        this.panels = [];
        this.extras = kind.extras?.(this.model, session) ?? null;
        this.#build();
        this.resizes = new ResizeObserver(() => this.#resize());
        this.resizes.observe(this.root);
        this.themes = new MutationObserver(() => this.#themeChanged());
        this.themes.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-jp-theme-name", "class"] });
        this.timers = [];
        session.attach(this);
    }

    close() {
        this.session.detach(this);
        this.resizes.disconnect();
        this.themes.disconnect();
        this.timers.forEach(clearTimeout);
        this.extras?.close?.();
        this.root.remove();
    }

    /** The panels that can draw. A new one has no size before its first layout, which draws it as it should be by then: a
     *  key or the kernel may come earlier. */
    get drawn() { return this.laidOut ? this.panels : []; }

    showFrame(touched) {
        this.drawn.forEach((panel, i) => panel.showFrame(touched[i]));
        this.kind.moved?.(this);
        this.#showPlace();
        this.extras?.show?.("frame");
    }

    show(what) {
        if (what === "selected") this.drawn.forEach(panel => panel.select());
        else if (what === "tapes") {
            const { tapes } = this.session;
            if (this.panels.length !== tapes.length || this.panels.some((panel, i) => panel.tape !== tapes[i])) this.#fill();
            this.#drawAll();
            this.kind.moved?.(this);
        } else if (what === "playing" && !this.session.playing) this.drawn.forEach(panel => panel.rest());
        this.kind.told?.(what, this);
        this.#showPlace();
        this.extras?.show?.(what);
    }

    /** One event (or step) on or back, by hand. */
    step(by) {
        if (!this.kind.step?.(this, by)) this.session.go(this.session.frame + by);
    }

    #build() {
        const { session } = this, unit = this.unit = session.tapes[0]?.unit ?? "event";
        this.title = element("span", { class: "pk-title" });
        this.badges = element("span", { class: "pk-badges" });
        this.playButton = iconButton("play", "play", () => session.playing ? session.pause() : session.play());
        this.playButton.classList.add("pk-play");
        this.speed = element("select", { class: "pk-speed", title: `${unit}s per second`,
                                         "aria-label": `${unit}s per second`, "data-testid": "speed" });
        this.speed.addEventListener("change", () => session.setSpeed(+this.speed.value));
        this.counter = element("span", { class: "pk-counter", "data-testid": "counter" });
        this.liveBadge = element("span", { class: "pk-badge pk-live", "data-testid": "live" }, element("i", { class: "pk-dot" }), "live");
        const controls = element("span", { class: "pk-transport", role: "toolbar", "aria-label": "playing" },
            ...this.kind.controls?.(this) ?? [],
            iconButton("start", "first frame (Home)", () => session.go(0)),
            iconButton("back", `one ${unit} back (←)`, () => this.step(-1)),
            this.playButton, iconButton("forward", `one ${unit} on (→)`, () => this.step(1)),
            iconButton("end", "last frame (End)", () => session.go(session.player.last)), this.speed, this.counter);
        this.body = element("div", { class: "pk-panels" });
        this.spoken = element("div", { class: "pk-spoken", "aria-live": "polite" });
        this.root = element("div", { class: "pk-root", tabindex: "0", role: "group", "data-testid": this.kind.testId,
                                     "data-lm-suppress-shortcuts": "true" },
            element("div", { class: "pk-head" }, this.title, this.badges, this.liveBadge, controls),
            ...this.extras?.above ? [this.extras.above] : [], this.body,
            ...this.extras?.below ? [this.extras.below] : [], this.spoken);
        // JupyterLab has shortcuts for whatever has the focus and is no text field; it leaves alone what says so itself.
        this.root.addEventListener("focusin", event => { event.target.dataset.lmSuppressShortcuts = "true"; });
        this.root.addEventListener("keydown", event => this.#key(event));
        this.root.addEventListener("pointerdown", event => {
            if (!event.target.closest(`button, a, label, ${OWN_KEYS}`)) this.root.focus({ preventScroll: true });
        });
        this.el.append(this.root);
        this.#fill();
    }

    #fill() {
        const { tapes } = this.session, alone = tapes.length === 1;
        this.panels = tapes.map(tape => this.kind.makePanel(tape, this));
        this.body.replaceChildren(...this.panels.map(panel => panel.root));
        this.root.classList.toggle("pk-several", !alone);
        const title = this.model.get("title");
        this.title.textContent = title;
        this.root.setAttribute("aria-label", `${this.kind.name}: ${title}. Space plays, arrow keys step, Escape stops following.`);
        this.badges.replaceChildren(...(alone ? this.kind.badges(tapes[0]) : []));
        this.width = 0;
        this.laidOut = false;
        this.#resize();
    }

    #resize() {
        const width = this.root.clientWidth, ratio = window.devicePixelRatio || 1;  // 0: not on the page (yet)
        if (!width || (width === this.width && ratio === this.ratio)) return;
        Object.assign(this, { width, ratio });
        const count = this.panels.length, beside = count > 1 && width / count >= this.kind.widthBeside;
        this.body.classList.toggle("pk-row-of-panels", beside);
        this.colours = this.#readColours();
        for (const panel of this.panels) {
            panel.setColours(this.colours);
            panel.resize(beside ? Math.floor(width / count) - 1 : width, ratio);
        }
        this.laidOut = true;
        this.#drawAll();
    }

    #drawAll() {
        if (!this.width) return;
        this.panels.forEach(panel => panel.drawAll());
        this.#showPlace();
    }

    #themeChanged() {
        this.timers.forEach(clearTimeout);
        this.timers = THEME_SETTLES.map(wait => setTimeout(() => {
            if (!this.root.clientWidth) return void (this.width = 0);  // in a tab that is not shown: when it is
            this.colours = this.#readColours();
            this.panels.forEach(panel => panel.setColours(this.colours));
            this.#drawAll();
        }, wait));
    }

    #readColours() {
        // A custom property answers as it is written, var() and all; a colour that uses it answers as a colour.
        const probe = element("span");
        probe.hidden = true;
        this.root.append(probe);
        const read = name => { probe.style.color = `var(${name})`; return getComputedStyle(probe).color; };
        const colours = makeColours(read);
        probe.remove();
        this.root.classList.toggle("pk-dark", colours.dark);
        return colours;
    }

    #showPlace() {
        const { session } = this;
        this.counter.textContent = `${this.unit} ${grouped(session.frame)} / ${grouped(session.player.last)}`;
        this.liveBadge.hidden = !session.following;
        if (this.shownPlaying !== session.playing) {
            this.shownPlaying = session.playing;
            this.playButton.replaceChildren(icon(session.playing ? "pause" : "play"));
            const label = session.playing ? "pause" : "play";
            this.playButton.title = `${label} (Space)`;
            this.playButton.setAttribute("aria-label", label);
        }
        this.playButton.disabled = !session.player.last;
        if (this.shownSpeed !== session.player.speed) {
            this.shownSpeed = session.player.speed;
            const speeds = [...new Set([...SPEEDS, session.player.speed])].sort((a, b) => a - b);
            this.speed.replaceChildren(...speeds.map(speed => element("option", { value: speed }, `${speed} / s`)));
            this.speed.value = session.player.speed;
        }
        if (!session.playing && !session.following) {
            const words = this.panels.map(panel => panel.words).join(". ");
            if (this.spoken.textContent !== words) this.spoken.textContent = words;
        }
    }

    #key(event) {
        if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest(OWN_KEYS)) return;
        if (event.key === " " && event.target.closest("button")) return event.stopPropagation();  // that button's own
        const { session } = this, action = keyAction(event.key, event.shiftKey, session.player);
        if (action === null && !this.kind.key?.(event, this)) return;
        event.preventDefault();
        event.stopPropagation();
        if (action === null) return;
        if (action === "toggle") session.playing ? session.pause() : session.play();
        else if (action === "clear") session.select("");
        else if (Math.abs(action - session.frame) === 1) this.step(action - session.frame);
        else session.go(action);
    }
}

function iconButton(name, label, act) {
    const made = element("button", { class: "pk-button", type: "button", title: label, "aria-label": label,
                                     "data-testid": name }, icon(name));
    made.addEventListener("click", act);
    return made;
}

/** What anywidget asks for: once per model, a session; and a view in each place that shows it. */
export function widgetOf(kind) {
    return () => {
        let session;
        return {
            initialize({ model }) {
                session = new Session(model, kind.TapeKind, kind.traits);
                return () => session.close();
            },
            render({ el }) {
                session.open();
                const view = new View(session, el, kind);
                return () => view.close();
            },
        };
    };
}
