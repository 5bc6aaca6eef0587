// One model, several views, and a kernel at the other end.

import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";
import { Session } from "../../../pagedkv/viz/front/session.js";
import { Tape } from "../../../pagedkv/viz/front/tape.js";
import { partOf, randomTape } from "./random_tape.mjs";

const { message } = randomTape(2);
let frames = [];
globalThis.requestAnimationFrame = act => frames.push(act);
globalThis.cancelAnimationFrame = () => { frames = []; };

/** Let the browser draw: one picture every 20 ms. */
function draw(pictures) {
    for (let i = 0; i < pictures; i++) {
        clock += 20;
        const due = frames;
        frames = [];
        due.forEach(act => act(clock));
    }
}

let clock = 0;
mock.method(performance, "now", () => clock);

function modelOf(values = {}) {
    const state = { tapes: [message], frame: 0, opening: -1, playing: false, selected: "", speed: 50, following: false, ...values };
    const handlers = new Map(), saved = [];
    let unsaved = {};
    return {
        state, saved, handlers,
        get: name => state[name],
        set(name, value) {
            state[name] = unsaved[name] = value;
            (handlers.get(`change:${name}`) ?? []).forEach(act => act());
        },
        save_changes() { saved.push(unsaved); unsaved = {}; },
        on(name, act) { handlers.set(name, [...(handlers.get(name) ?? []), act]); },
        off(name, act) { handlers.set(name, handlers.get(name).filter(each => each !== act)); },
        receive(content, buffers) { handlers.get("msg:custom").forEach(act => act(content, buffers)); },
    };
}

function viewOf() { return { shown: 0, told: [], showFrame() { this.shown++; }, show(what) { this.told.push(what); } }; }

function open(values) {
    const model = modelOf(values), session = new Session(model, Tape), view = viewOf();
    session.open();
    session.attach(view);
    return { model, session, view };
}

beforeEach(() => { frames = []; clock = 10_000; });

test("it begins at the model's frame, for every view", () => {
    const { session } = open({ frame: 17 });
    assert.equal(session.frame, 17);
    assert.equal(session.tapes[0].frame, 17);
    session.open();
    assert.equal(session.frame, 17);
});

test("while playing the kernel hears of it at most four times a second, and exactly at the pause", () => {
    const { model, session } = open();
    session.play();
    model.saved.length = 0;
    draw(51);  // a second: 50 events
    const heard = model.saved.filter(each => "frame" in each).length;
    assert.ok(heard >= 3 && heard <= 5, `${heard} times`);
    session.pause();
    assert.equal(model.state.frame, session.frame);
    assert.equal(model.state.playing, false);
});

test("it stops at the end and says so", () => {
    const { model, session } = open({ frame: 50 });
    session.play();
    draw(100);
    assert.deepEqual([session.playing, model.state.playing, model.state.frame], [false, false, 60]);
    assert.equal(frames.length, 0, "no picture is asked for any more");
});

test("play from the frame it opened with tells the whole story; after a step it goes on from there", () => {
    const { session } = open({ frame: 30, opening: 30 });
    session.play();
    assert.equal(session.frame, 0);
    const other = open({ frame: 30, opening: 30 }).session;
    other.go(30);
    other.play();
    assert.equal(other.frame, 30);
});

test("what the kernel sets is shown", () => {
    const { model, session, view } = open();
    model.set("frame", 12);
    assert.equal(session.tapes[0].frame, 12);
    model.set("selected", "owner 1");
    assert.equal(session.selected, "owner 1");
    assert.ok(view.told.includes("selected"));
    model.set("playing", true);
    assert.equal(session.playing, true);
    model.set("playing", false);
    assert.equal(session.playing, false);
});

test("two views move together; without any view it rests", () => {
    const { session, view } = open(), other = viewOf();
    session.attach(other);
    session.go(5);
    assert.deepEqual([view.shown, other.shown], [1, 1]);
    session.play();
    session.detach(view);
    assert.equal(session.playing, true);
    session.detach(other);
    assert.equal(session.playing, false);
});

test("two recordings in step, each to its own end", () => {
    const { session } = open({ tapes: [message, partOf(message, -1, 20)] });
    session.go(45);
    assert.deepEqual(session.tapes.map(tape => tape.frame), [45, 20]);
    session.go(7);
    assert.deepEqual(session.tapes.map(tape => tape.frame), [7, 7]);
});

function more(from, to) {
    const part = partOf(message, from, to), columns = ["changes", "ends", "ops", "who", "notes_of", "tokens"];
    return [{ kind: "more", columns, tape: Object.fromEntries(Object.entries(part).filter(([name]) => !columns.includes(name))) },
            columns.map(name => part[name])];
}

test("a pool is followed at the end, and not elsewhere", () => {
    const { model, session, view } = open({ tapes: [partOf(message, -1, 0)], following: true });
    model.receive(...more(0, 20));
    assert.deepEqual([session.frame, session.player.last], [20, 20]);
    session.go(5);
    model.receive(...more(20, 40));
    assert.deepEqual([session.frame, session.player.last], [5, 40]);
    model.receive(...more(20, 40));
    assert.equal(session.player.last, 40, "what is known already is not added again");
    assert.ok(view.told.includes("tapes"));
});

test("a page that has missed something asks for everything, once", () => {
    const { model, session, view } = open({ tapes: [partOf(message, -1, 10)], frame: 4, following: true });
    const asked = [];
    model.send = content => asked.push(content.kind);
    model.receive(...more(20, 30));
    model.receive(...more(30, 40));
    assert.deepEqual(asked, ["again"]);
    model.set("tapes", [partOf(message, -1, 40)]);
    assert.deepEqual([session.frame, session.player.last], [4, 40]);
    assert.ok(view.told.includes("tapes"));
    model.receive(...more(40, 60));
    assert.equal(session.player.last, 60);
});

test("after close nothing listens", () => {
    const { model, session } = open();
    session.close();
    assert.ok([...model.handlers.values()].every(list => !list.length));
});
