// A trace, step by step. steps_tape.py checks it and says what its parts are; frame i is the state after step i.

export class StepsTape {
    constructor(message) {
        Object.assign(this, message);
        this.numEvents = this.steps.length - 1;
        this.owners = [];
        this.frame = this.seen = 0;  // seen: the last frame that was ever shown, up to which the story is told
        this.callsOf = this.actors.map((_, actor) => callsIn(this.steps, actor));
    }

    get step() { return this.steps[this.frame]; }
    get unit() { return "step"; }  // what its frames count
    get resultNow() { return this.frame >= this.tellingFrame ? this.result : ""; }

    seek(frame) {
        this.frame = Math.max(0, Math.min(this.numEvents, frame));
        this.seen = Math.max(this.seen, this.frame);
    }

    /** Go to a frame; all of it is drawn again, it is small. */
    moveTo(frame) {
        this.seek(frame);
        return null;
    }

    mostBlocks() {
        return this.places.map((_, place) => this.steps.reduce((most, step) => Math.max(most, step.blocks[place].length), 0));
    }

    numBlocks() { return new Set(this.steps.flatMap(step => step.blocks.flat())).size; }

    /** What the step did, with who did it. */
    sentence(frame = this.frame) {
        const { actor, text, mark } = this.steps[frame];
        const said = actor < 0 ? text : `${this.actors[actor]}: ${text}`;
        return mark ? `${said} – ${mark}` : said;
    }

    /** Which blocks are in which place. */
    where(frame = this.frame) {
        return this.places.map(({ name }, place) => `${name}: ${this.steps[frame].blocks[place].join(", ") || "none"}`).join("; ");
    }

    /** The blocks that are not where they were before this frame's step. */
    moved(frame = this.frame) {
        if (!frame) return new Set();
        const now = whereabouts(this.steps[frame]), before = whereabouts(this.steps[frame - 1]);
        return new Set([...now.keys(), ...before.keys()].filter(block => `${now.get(block)}` !== `${before.get(block)}`));
    }

    /** The blocks that are in two places at once. */
    doubled(frame = this.frame) {
        return new Set([...whereabouts(this.steps[frame])].filter(([, places]) => places.length > 1).map(([block]) => block));
    }
}

/** Block → the places it is in. */
function whereabouts(step) {
    const found = new Map();
    step.blocks.forEach((blocks, place) => {
        for (const block of blocks) found.set(block, [...found.get(block) ?? [], place]);
    });
    return found;
}

/** An actor's calls: {call, from, to}, the frames of its first and its last step. A step outside any call is one of its own. */
export function callsIn(steps, actor) {
    const calls = [];
    let open = null;
    steps.forEach((step, frame) => {
        if (step.actor !== actor) return;
        if (open && (!step.call || step.call === open.call)) open.to = frame;
        else calls.push(open = { call: step.call, from: frame, to: frame });
        if (!step.call) open = null;
    });
    return calls;
}
