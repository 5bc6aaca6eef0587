// Guess first, then see: before an allocation is shown one says where it will go.
//
// What counts is the free run: a guess is right if the memory comes from the run that was clicked, wherever in it. Besides
// there are two other answers: new memory from the device, and none at all.

import { bytesAsText, hexOf } from "./memory_words.js";
import { callOf } from "./memory_caption.js";
import { RESERVE, TAKE } from "./memory_tape.js";
import { grouped } from "./words.js";

export const NEW = "new", NONE_AT_ALL = "none";  // answers; the others are addresses of free runs
const MOST_CHOICES = 6;

/** The question that the next event of a tape makes, or null: {call, answers (right ones), choices: [{answer, text}], outcome}. */
export function questionOf(tape) {
    if (tape.frame >= tape.numEvents) return null;
    const event = tape.eventAt(tape.frame);
    if (event.op !== "allocate" || event.note.skipped || event.note.faults) return null;
    const taken = event.changes.filter(change => change.kind === TAKE);
    if (!taken.length && !event.note.error) return null;
    const runs = tape.freeRuns();
    const runOf = address => runs.find(run => run.address <= address && address < run.address + run.size);
    const answers = new Set(event.note.error ? [NONE_AT_ALL] : taken.map(change => runOf(change.address)?.address ?? NEW));
    return { call: callOf(event), answers, choices: choicesOf(tape, event, runs, answers),
             outcome: outcomeOf(event, taken, runOf) };
}

/** The answer that an address in the picture stands for, or null: that memory is in use. */
export function answerAt(tape, address) {
    if (tape.segmentAt(address) < 0) return NEW;
    return tape.runAt(address)?.address ?? null;
}

function choicesOf(tape, event, runs, answers) {
    const long = runs.filter(run => run.size >= event.size);
    // Paging puts a request together from runs of any length.
    const isLong = answer => typeof answer !== "number" || long.some(run => run.address === answer);
    const shown = spread([...answers].every(isLong) ? long : runs, run => answers.has(run.address));
    const choices = shown.map(run => ({ answer: run.address, text: `${bytesAsText(run.size)} free at ${hexOf(run.address)}` }));
    const grows = event.changes.some(change => change.kind === RESERVE) || tape.segmentsInOrder.length > 1;
    if (grows || !tape.segments.length) choices.push({ answer: NEW, text: "new memory from the device" });
    return [...choices, { answer: NONE_AT_ALL, text: "nowhere: it is refused" }];
}

/** At most MOST_CHOICES of them: one of those that must be there, and others from all over the memory. */
function spread(list, isNeeded) {
    if (list.length <= MOST_CHOICES) return list;
    const needed = list.findIndex(isNeeded), places = new Set(needed < 0 ? [] : [needed]);
    for (let i = 0; places.size < MOST_CHOICES; i++) places.add(Math.floor(i * (list.length - 1) / (MOST_CHOICES - 1)));
    return [...places].sort((one, other) => one - other).map(place => list[place]);
}

function outcomeOf(event, taken, runOf) {
    if (event.note.error) return `it is refused: ${event.note.error}`;
    const [first] = taken, run = runOf(first.address);
    const more = taken.length > 1 ? `, and ${grouped(taken.length - 1)} pieces more` : "";
    return run ? `it goes to ${hexOf(first.address)}, in the free run of ${bytesAsText(run.size)}${more}`
        : `it gets new memory from the device, at ${hexOf(first.address)}${more}`;
}

/** The questions of one view: asked all at once, one for each panel that has one, and answered one by one. */
export class Guess {
    constructor(view) {
        this.view = view;
        this.frame = null;  // where it asks, while it asks
    }

    get on() { return this.view.model.get("guess"); }
    get asks() { return this.frame !== null; }

    toggle() { this.view.session.set({ guess: !this.on }); }

    /** One event on, by hand. True if that is a question first, or answers one. */
    step() {
        const { session, panels } = this.view;
        if (this.asks) {  // on, without an answer
            this.#reveal();
            return true;
        }
        if (!this.on || session.playing || session.frame >= session.player.last) return false;
        for (const panel of panels) panel.ask(panel.tape.frame === session.frame ? questionOf(panel.tape) : null);
        if (!panels.some(panel => panel.question)) return false;
        this.frame = session.frame;
        return true;
    }

    answer(panel, answer) {
        if (!this.asks || !panel.question) return;
        panel.question.given = answer;
        panel.showQuestion();
        if (this.view.panels.every(each => !each.question || each.question.given !== undefined)) this.#reveal();
    }

    /** A number key: the choice of the first panel that still waits. */
    choose(number) {
        const panel = this.view.panels.find(each => each.question && each.question.given === undefined);
        const choice = panel?.question.choices[number - 1];
        if (!this.asks || !choice) return false;
        this.answer(panel, choice.answer);
        return true;
    }

    /** Somebody went elsewhere, or turned it off. */
    drop() {
        if (!this.asks) return;
        this.frame = null;
        for (const panel of this.view.panels) panel.ask(null);
    }

    moved() { if (this.asks && this.view.session.frame !== this.frame) this.drop(); }

    #reveal() {
        const { session, panels, model, root } = this.view, hadFocus = root.contains(document.activeElement);
        let right = 0, made = 0;
        const verdicts = panels.map(({ question }) => {
            if (!question || question.given === undefined) return null;
            const isRight = question.answers.has(question.given);
            made++;
            right += isRight ? 1 : 0;
            return { isRight, text: `${isRight ? "Right" : "Not so"}: ${question.outcome}.` };
        });
        const frame = this.frame;
        this.frame = null;
        panels.forEach(panel => panel.ask(null));
        session.go(frame + 1);
        panels.forEach((panel, i) => panel.showVerdict(verdicts[i]));
        if (made) {
            const [before, all] = [model.get("guesses_right"), model.get("guesses_made")];
            session.set({ guesses_right: before + right, guesses_made: all + made });
        }
        if (hadFocus && !root.contains(document.activeElement)) root.focus({ preventScroll: true });
    }
}
