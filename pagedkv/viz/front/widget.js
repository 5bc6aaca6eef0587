// The widget: a heading with the controls, and a panel for each pool. All of them move in step.

import { makeColours } from "./colours.js";
import { captionOf } from "./caption.js";
import { element, icon } from "./elements.js";
import { badges, Panel } from "./panel.js";
import { keyAction, SPEEDS } from "./player.js";
import { Session } from "./session.js";

const THEME_SETTLES = [0, 150, 600];  // milliseconds: a theme's stylesheet may come after its name

class GridView {
    constructor(session, el) {
        this.session = session;
        this.model = session.model;
        this.el = el;
        this.panels = [];
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
        this.root.remove();
    }

    showFrame(touched) {
        this.panels.forEach((panel, i) => panel.showFrame(touched[i]));
        this.#showPlace();
    }

    show(what) {
        if (what === "selected") this.panels.forEach(panel => panel.select());
        else if (what === "tapes") {
            if (this.panels.some((panel, i) => panel.tape !== this.session.tapes[i])) this.#fill();
            this.#drawAll();
        } else if (what === "playing") {
            if (!this.session.playing) this.panels.forEach(panel => panel.side.draw());
            this.panels.forEach(panel => panel.showFrame([]));
        }
        this.#showPlace();
    }

    #build() {
        const button = (name, label, act) => {
            const made = element("button", { class: "pk-button", type: "button", title: label, "aria-label": label,
                                             "data-testid": name }, icon(name));
            made.addEventListener("click", act);
            return made;
        };
        const { session } = this;
        this.title = element("span", { class: "pk-title" });
        this.badges = element("span", { class: "pk-badges" });
        this.playButton = button("play", "play", () => session.playing ? session.pause() : session.play());
        this.playButton.classList.add("pk-play");
        this.speed = element("select", { class: "pk-speed", title: "events per second", "aria-label": "events per second",
                                         "data-testid": "speed" });
        this.speed.addEventListener("change", () => session.setSpeed(+this.speed.value));
        this.counter = element("span", { class: "pk-counter", "data-testid": "counter" });
        this.liveBadge = element("span", { class: "pk-badge pk-live", "data-testid": "live" }, element("i", { class: "pk-dot" }), "live");
        const step = by => session.go(session.frame + by);
        const controls = element("span", { class: "pk-transport", role: "toolbar", "aria-label": "playing" },
            button("start", "first frame (Home)", () => session.go(0)), button("back", "one event back (←)", () => step(-1)),
            this.playButton, button("forward", "one event on (→)", () => step(1)),
            button("end", "last frame (End)", () => session.go(session.player.last)), this.speed, this.counter);
        this.body = element("div", { class: "pk-panels" });
        this.spoken = element("div", { class: "pk-spoken", "aria-live": "polite" });
        this.root = element("div", { class: "pk-root", tabindex: "0", role: "group", "data-testid": "block-grid",
                                     // JupyterLab's own shortcuts stay out of it
                                     "data-lm-suppress-shortcuts": "true" },
            element("div", { class: "pk-head" }, this.title, this.badges, this.liveBadge, controls), this.body, this.spoken);
        this.root.addEventListener("keydown", event => this.#key(event));
        this.root.addEventListener("pointerdown", event => {
            if (!event.target.closest("button, select")) this.root.focus({ preventScroll: true });
        });
        this.el.append(this.root);
        this.#fill();
        this.#resize();
    }

    #fill() {
        const { tapes } = this.session, alone = tapes.length === 1;
        this.panels = tapes.map(tape => new Panel(tape, this.session, alone));
        this.body.replaceChildren(...this.panels.map(panel => panel.root));
        this.root.classList.toggle("pk-several", !alone);
        const title = this.model.get("title");
        this.title.textContent = title;
        this.root.setAttribute("aria-label", `Block grid: ${title}. Space plays, arrow keys step, Escape stops following.`);
        this.badges.replaceChildren(...(alone ? badges(tapes[0]) : []));
        this.width = 0;
        this.#resize();
    }

    #resize() {
        const width = this.root.clientWidth, ratio = window.devicePixelRatio || 1;  // 0: not on the page (yet)
        if (!width || (width === this.width && ratio === this.ratio)) return;
        Object.assign(this, { width, ratio });
        const count = this.panels.length, beside = count > 1 && width / count >= 330;
        this.body.classList.toggle("pk-row-of-panels", beside);
        const columns = this.model.get("columns");
        this.colours = this.#readColours();
        for (const panel of this.panels) {
            panel.setColours(this.colours);
            panel.resize(beside ? Math.floor(width / count) - 1 : width, ratio, columns);
        }
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
        const { session } = this, number = value => value.toLocaleString("en-US");
        this.counter.textContent = `event ${number(session.frame)} / ${number(session.player.last)}`;
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
            const words = this.panels.map(panel => captionOf(panel.tape).text).join(". ");
            if (this.spoken.textContent !== words) this.spoken.textContent = words;
        }
    }

    #key(event) {
        if (event.ctrlKey || event.metaKey || event.altKey || event.target === this.speed) return;
        if (event.key === " " && event.target.closest("button")) return event.stopPropagation();  // that button's own
        const { session } = this, action = keyAction(event.key, event.shiftKey, session.player);
        if (action === null) return;
        event.preventDefault();
        event.stopPropagation();
        if (action === "toggle") session.playing ? session.pause() : session.play();
        else if (action === "clear") session.select("");
        else session.go(action);
    }
}

/** What anywidget asks for: once per model, a session; and a view in each place that shows it. */
export default function makeWidget() {
    let session;
    return {
        initialize({ model }) {
            session = new Session(model);
            return () => session.close();
        },
        render({ el }) {
            session.open();
            const view = new GridView(session, el);
            return () => view.close();
        },
    };
}
