// One widget model in this page: its tapes, the player, and the views that show them. However many views there are (the
// same grid in two cells), they move together, and what the kernel is told comes from here.

import { Player } from "./player.js";

const SYNC_MILLISECONDS = 250;  // while playing, the kernel hears of the frame this often
const BUSY = ["frame", "playing", "selected", "speed", "following"];

export class Session {
    /** TapeKind: the class of its tapes, such as Tape. traits: others of the model that views want to hear of. */
    constructor(model, TapeKind, traits = []) {
        Object.assign(this, { model, TapeKind, traits });
        this.views = new Set();
        this.tapes = null;  // decoded when the first view asks for them
        this.lastSync = 0;
        this.waiting = false;  // for the whole tapes, having missed a part
        this.setting = false;
        this.handlers = Object.fromEntries([...BUSY, ...traits].map(name => [`change:${name}`, () => this.#changedElsewhere(name)]));
        this.handlers["change:tapes"] = () => this.#tapesCame();
        this.handlers["msg:custom"] = (content, buffers) => this.#received(content, buffers);
        for (const [name, handler] of Object.entries(this.handlers)) model.on(name, handler);
        this.tick = now => this.#tick(now);
    }

    /** Decode the tapes and go to the model's frame, once. */
    open() {
        if (this.tapes) return;
        this.tapes = this.model.get("tapes").map(message => new this.TapeKind(message));
        this.player = new Player(this.#length(), this.model.get("frame"), this.model.get("speed"));
        this.player.go(this.player.frame);
        for (const tape of this.tapes) tape.seek(this.player.frame);
        this.selected = this.model.get("selected");
        this.touched = false;  // by hand, since the kernel opened it
        if (this.model.get("playing")) this.play();
    }

    close() {
        cancelAnimationFrame(this.timer);
        for (const [name, handler] of Object.entries(this.handlers)) this.model.off(name, handler);
    }

    attach(view) {
        this.views.add(view);
        this.#wake();
    }

    detach(view) {
        this.views.delete(view);
        if (!this.views.size && this.player?.playing) this.pause();
    }

    get frame() { return this.player.frame; }
    get playing() { return this.player.playing; }
    get following() { return this.model.get("following"); }

    play() {
        // The frame it opened with is there to be looked at; who presses play wants the whole story.
        if (!this.touched && this.player.frame === this.model.get("opening")) this.player.go(0);
        this.touched = true;
        this.player.play();
        this.#show();
        this.#set({ playing: this.player.playing, frame: this.player.frame });
        this.#tell("playing");
        this.#wake();
    }

    pause() {
        this.player.pause();
        this.#set({ playing: false, frame: this.player.frame });
        this.#tell("playing");
    }

    /** Go to a frame by hand. `moving`: more of it follows at once, as in a drag. */
    go(frame, moving = false) {
        this.touched = true;
        if (this.player.playing) this.pause();
        this.player.go(frame);
        this.#show();
        this.#sync(!moving);
    }

    select(owner) {
        if (owner === this.selected) return;
        this.selected = owner;
        this.#set({ selected: owner });
        this.#tell("selected");
    }

    setSpeed(speed) {
        this.player.speed = speed;
        this.#set({ speed });
        this.#tell("speed");
    }

    /** The kernel sent the whole tapes once more. */
    #tapesCame() {
        if (!this.tapes) return;
        const { frame, last, playing } = this.player;
        this.tapes = null;
        this.waiting = false;
        this.open();
        this.player.go(frame === last ? this.player.last : frame);
        this.#show();
        this.#tell("tapes");
        if (playing) this.play();
    }

    #length() { return Math.max(0, ...this.tapes.map(tape => tape.numEvents)); }

    #wake() {
        cancelAnimationFrame(this.timer);
        this.lastTick = null;
        if (this.player?.playing && this.views.size) this.timer = requestAnimationFrame(this.tick);
    }

    #tick(now) {
        // A tab in the background gets no ticks: it goes on where it was, without a jump.
        const passed = this.lastTick === null ? 0 : Math.min(250, now - this.lastTick);
        this.lastTick = now;
        if (this.player.advance(passed)) {
            this.#show();
            this.#sync(false);
        }
        if (this.player.playing) this.timer = requestAnimationFrame(this.tick);
        else this.pause();
    }

    /** Bring tapes and views to the player's frame. */
    #show() {
        const touched = this.tapes.map(tape => tape.moveTo(this.player.frame));
        for (const view of this.views) view.showFrame(touched);
    }

    #sync(exactly) {
        const now = performance.now();
        if (!exactly && now - this.lastSync < SYNC_MILLISECONDS) return;
        this.lastSync = now;
        this.#set({ frame: this.player.frame });
    }

    #set(values) {
        this.setting = true;
        let changed = false;
        for (const [name, value] of Object.entries(values))
            if (this.model.get(name) !== value) {
                this.model.set(name, value);
                changed = true;
            }
        this.setting = false;
        if (changed) this.model.save_changes();
    }

    #tell(what) { for (const view of this.views) view.show(what); }

    /** Set traits that are none of the session's own business; every view hears of it. */
    set(values) {
        this.#set(values);
        for (const name of Object.keys(values)) this.#tell(name);
    }

    #changedElsewhere(name) {
        if (this.setting || !this.tapes) return;
        if (this.traits.includes(name)) return this.#tell(name);
        const value = this.model.get(name);
        if (name === "frame") {
            if (value === this.player.frame) return;
            this.touched = true;
            this.player.go(value);
            this.#show();
        } else if (name === "playing") {
            if (value !== this.player.playing) value ? this.play() : this.pause();
        } else if (name === "selected") {
            this.selected = value;
            this.#tell("selected");
        } else if (name === "speed") {
            this.player.speed = value;
            this.#tell("speed");
        } else {
            // Whatever the kernel could not hear while its cell was running: where this page is now.
            if (!value) this.#sync(true);
            this.#tell("following");
        }
    }

    /** What a pool did meanwhile. Who is at the end stays at the end. */
    #received(content, buffers) {
        if (content.kind !== "more" || !this.tapes) return;
        const atEnd = this.player.frame === this.player.last;
        const message = { ...content.tape };
        content.columns.forEach((name, i) => { message[name] = buffers[i]; });
        if (!this.tapes[0].append(message)) {
            // Either it came with the tape already, or something before it is missing: after a reload in a running cell.
            if (message.since > this.tapes[0].numEvents && !this.waiting) {
                this.waiting = true;
                this.model.send({ kind: "again" });
            }
            return;
        }
        this.player.last = this.#length();
        if (atEnd) this.player.go(this.player.last);
        this.#show();
        this.#tell("tapes");
    }
}
