// Asking the kernel for changes. One client for each place that shows a lab.
//
// An edit of the workload waits for the kernel's answer before the next one may be asked for: it names a request by its
// number, and the list is another one afterwards. Settings and the capacity may follow each other as fast as a slider moves;
// what is asked for last is what counts.

const SLIDER_SETTLES = 120, WAIT_IS_LONG = 300;  // milliseconds

let labClients = 0;

export class LabClient {
    /** heard: functions to call with what happened:
        answered(answer)  the kernel's answer to something that was asked here, or a replay that failed
        working(text)     what it is busy with, once that takes long; "" when it is over */
    constructor(model, heard) {
        Object.assign(this, { model, heard });
        this.name = `${labClients++}-${Math.random().toString(36).slice(2)}`;  // other pages hear the answers too
        this.tickets = 0;
        this.editing = null;  // the ticket of the edit that is under way
        this.newest = new Map();  // what it is about → the last ticket
        this.settling = new Map();  // what it is about → {timer, request}
        this.said = "";
        this.onMessage = content => this.#received(content);
        this.onProgress = () => this.#tellWork();
        model.on("msg:custom", this.onMessage);
        model.on("change:lab_progress", this.onProgress);
    }

    close() {
        this.model.off("msg:custom", this.onMessage);
        this.model.off("change:lab_progress", this.onProgress);
        clearTimeout(this.slow);
        for (const { timer } of this.settling.values()) clearTimeout(timer);
    }

    get busy() { return this.editing !== null; }

    /** Change the workload. False if the last edit has not been answered yet. */
    edit(request) {
        if (this.busy) return false;
        this.editing = this.#send("workload", request);
        return true;
    }

    /** Change a setting or the capacity, once the slider rests. */
    set(about, request) {
        clearTimeout(this.settling.get(about)?.timer);
        const timer = setTimeout(() => this.flush(about), SLIDER_SETTLES);
        this.settling.set(about, { timer, request });
    }

    flush(about) {
        const waiting = this.settling.get(about);
        if (!waiting) return;
        clearTimeout(waiting.timer);
        this.settling.delete(about);
        this.#send(about, waiting.request);
    }

    /** Whether something about this is on its way that the kernel has not answered. */
    waits(about) { return this.settling.has(about) || this.newest.has(about); }

    #send(about, request) {
        const ticket = `${this.name}:${this.tickets++}`;
        this.newest.set(about, ticket);
        this.model.send({ kind: "lab", ticket, ...request });
        this.#waitForAnswer();
        return ticket;
    }

    #waitForAnswer() {
        clearTimeout(this.slow);
        this.late = false;
        this.slow = setTimeout(() => {
            this.late = true;
            this.#tellWork();
        }, WAIT_IS_LONG);
    }

    #received(content) {
        if (content.kind !== "lab") return;
        if (content.ticket === null) return this.heard.answered(content);  // a replay has failed, whoever asked for it
        if (content.ticket === this.editing) this.editing = null;
        const about = [...this.newest].find(([, ticket]) => ticket === content.ticket)?.[0];
        if (about === undefined) return;  // somebody else's, or no longer the newest
        this.newest.delete(about);
        if (!this.newest.size) {
            clearTimeout(this.slow);
            this.late = false;
        }
        this.#tellWork();
        this.heard.answered(content);
    }

    #tellWork() {
        const text = this.model.get("lab_progress") || (this.late ? "waiting for the kernel" : "");
        if (text === this.said) return;
        this.said = text;
        this.heard.working(text);
    }
}
