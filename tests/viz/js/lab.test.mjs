// The fragmentation lab without a page: sizes, requests, the long list's window, and the talk with the kernel.

import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import { LabClient } from "../../../pagedkv/viz/front/lab_client.js";
import { LabRequests, newOwner, scrolledTo, visibleRows } from "../../../pagedkv/viz/front/lab_requests.js";
import { parseSize, shortSize, sizeInWords, withUnit } from "../../../pagedkv/viz/front/lab_sizes.js";
import { bytesOf } from "./random_tape.mjs";

const K = 1024, M = K * K, G = M * K;

test("sizes as people write them", () => {
    const sizes = { "64M": 64 * M, "1.5G": 1.5 * G, "512K": 512 * K, "512": 512, " 64 mib ": 64 * M, "2MB": 2 * M,
                    ".5k": 512, "1,024": 1024, "1_": null, "3 g": 3 * G, "1.3K": 1331 };
    for (const [text, bytes] of Object.entries(sizes)) assert.deepEqual(parseSize(text).bytes ?? null, bytes, text);
});

test("what is no size is told in words", () => {
    assert.equal(parseSize("").error, "write a size, such as 64M");
    assert.equal(parseSize("64X").error, "“64X” is no size: write it as 512K, 64M or 1.5G");
    for (const text of ["M", "1.2.3M", "64 M B", "1e9", "NaN", "Infinity", "<b>"])
        assert.match(parseSize(text).error, /is no size/, text);
    for (const text of ["0", "0M", "0.0001K", "-5M"]) assert.equal(parseSize(text).error, "a size is at least 1 byte", text);
    assert.equal(parseSize("1.5").error, "a number of bytes has no fraction");
    assert.equal(parseSize("99999999G").error, "that is more than any memory has");
});

test("the short form of a size is that size again", () => {
    for (const bytes of [1, 511, 1000, 1024, 1536, 64 * M, 64 * M + 1, 1.5 * G, 1.125 * M, 3 * G - 512, 184 * M, 2 ** 40])
        assert.equal(parseSize(shortSize(bytes)).bytes, bytes);
    assert.deepEqual([64 * M, 1.5 * G, 1000, 1536, 0.5 * G].map(shortSize), ["64M", "1.5G", "1000", "1.5K", "512M"]);
});

test("sizes to read", () => {
    assert.deepEqual([512, 1536, 20 * M, 1030 * M, 3.05 * G, 3 * G, 2.5 * G, 0].map(sizeInWords),
                     ["512 B", "1.5 KiB", "20 MiB", "1.01 GiB", "3.05 GiB", "3 GiB", "2.50 GiB", "0 B"]);
    assert.deepEqual([withUnit(2 * M, "B"), withUnit(11, ""), withUnit(2048, "pages")], ["2 MiB", "11", "2,048 pages"]);
});

function requestsOf(list, owners) {
    return new LabRequests({ version: 1, owners, ops: bytesOf(Uint8Array, list.map(([op]) => op)),
                             who: bytesOf(Uint32Array, list.map(([, who]) => who)),
                             sizes: bytesOf(Float64Array, list.map(([, , size]) => size ?? 0)), undos: 0, redos: 0, as_given: true });
}

test("requests and their text form", () => {
    const requests = requestsOf([[0, 0, 64 * M], [1, 0, 80 * M], [0, 1, 3 * G], [2, 0], [0, 0, 7]], ["A", "request 17"]);
    assert.equal(requests.length, 5);
    assert.equal(requests.text(), "a A 67108864\ng A 83886080\na request_17 3221225472\nf A\na A 7\n");
    assert.deepEqual(requests.at(3), { op: "free", owner: "A", bytes: 0 });
});

test("a long list has only the rows that are seen, and some around them", () => {
    assert.deepEqual(visibleRows(0, 216, 24, 21), [0, 15]);
    assert.deepEqual(visibleRows(24 * 10_000, 216, 24, 20_001), [9994, 10_015]);
    assert.deepEqual(visibleRows(24 * 20_001, 216, 24, 20_001), [19_995, 20_001]);
    assert.deepEqual(visibleRows(0, 216, 24, 0), [0, 0]);
    for (const scrolled of [0, 100, 5000]) {
        for (const row of [0, 3, 150, 400]) {
            const to = scrolledTo(row, scrolled, 216, 24);
            assert.ok(to <= row * 24 && row * 24 + 24 <= to + 216, `row ${row} from ${scrolled}`);
        }
        assert.equal(scrolledTo(scrolled / 24 + 2, scrolled, 216, 24), scrolled, "what is seen does not move");
    }
});

test("a new owner has a name of its own", () => {
    assert.equal(newOwner([]), "A");
    assert.equal(newOwner(["A", "C", "B"]), "D");
    const letters = [..."ABCDEFGHIJKLMNOPQRSTUVWXYZ"];
    assert.equal(newOwner([...letters, "26", "27"]), "28");
});

// ── the talk with the kernel

mock.timers.enable({ apis: ["setTimeout"] });
let model, client, answers, work;

beforeEach(() => {
    const handlers = new Map(), state = { lab_progress: "" };
    model = {
        sent: [], get: name => state[name], send(content) { this.sent.push(content); },
        on(name, act) { handlers.set(name, act); }, off(name) { handlers.delete(name); }, handlers,
        progress(text) { state.lab_progress = text; handlers.get("change:lab_progress")(); },
        answer(request, rest = {}) {
            const answer = { kind: "lab", ticket: request.ticket, ok: true, text: "", number: null, where: "workload", ...rest };
            handlers.get("msg:custom")(answer);
        },
    };
    answers = [];
    work = [];
    client = new LabClient(model, { answered: answer => answers.push(answer), working: text => work.push(text) });
});

afterEach(() => client.close());

test("an edit waits for the answer to the one before", () => {
    assert.equal(client.edit({ do: "delete", number: 3 }), true);
    assert.equal(client.edit({ do: "delete", number: 3 }), false);
    assert.equal(model.sent.length, 1);
    assert.equal(client.busy, true);
    model.answer(model.sent[0], { ok: false, text: "no" });
    assert.equal(client.busy, false);
    assert.deepEqual(answers.map(({ ok, text }) => [ok, text]), [[false, "no"]]);
    assert.equal(client.edit({ do: "undo" }), true);
});

test("a slider is heard once it rests, and only where it rests", () => {
    for (let value = 0; value < 30; value++) {
        client.set("settings 0", { do: "settings", setup: 0, values: { page: value } });
        mock.timers.tick(10);
    }
    client.set("capacity", { do: "capacity", capacity_bytes: 7 });
    assert.equal(model.sent.length, 0);
    mock.timers.tick(120);
    assert.deepEqual(model.sent.map(each => each.values?.page ?? each.capacity_bytes), [29, 7], "each setting has its own rest");
});

test("let go of, it is heard at once, and not twice", () => {
    client.set("settings 0", { do: "settings", values: { page: 1 } });
    client.flush("settings 0");
    client.flush("settings 0");
    mock.timers.tick(500);
    assert.equal(model.sent.length, 1);
});

test("only the newest answer about a thing counts", () => {
    for (const page of [1, 2]) {
        client.set("settings 0", { do: "settings", values: { page } });
        client.flush("settings 0");
    }
    const [first, second] = model.sent;
    model.answer(first, { where: "settings 0", ok: false, text: "too small" });
    assert.deepEqual(answers, []);
    assert.equal(client.waits("settings 0"), true);
    model.answer(second, { where: "settings 0" });
    assert.equal(answers.length, 1);
    assert.equal(client.waits("settings 0"), false);
});

test("answers to another page are none of ours; a failed replay is", () => {
    client.edit({ do: "undo" });
    model.answer({ ticket: "somebody:0" });
    model.handlers.get("msg:custom")({ kind: "more" });
    assert.deepEqual(answers, []);
    assert.equal(client.busy, true);
    model.answer({ ticket: null }, { ok: false, text: "RuntimeError: broken" });
    assert.equal(answers[0].text, "RuntimeError: broken");
});

test("what takes long is told, what is quick is not", () => {
    client.edit({ do: "undo" });
    mock.timers.tick(250);
    model.answer(model.sent[0]);
    mock.timers.tick(500);
    assert.deepEqual(work, []);
    client.edit({ do: "redo" });
    mock.timers.tick(310);
    assert.deepEqual(work, ["waiting for the kernel"]);
    model.progress("replaying on first fit: request 2,048 of 20,000");
    model.answer(model.sent[1]);
    model.progress("");
    assert.deepEqual(work, ["waiting for the kernel", "replaying on first fit: request 2,048 of 20,000", ""]);
});

test("closed, it hears and says nothing more", () => {
    client.set("capacity", { do: "capacity", capacity_bytes: 7 });
    client.close();
    mock.timers.tick(1000);
    assert.equal(model.sent.length, 0);
    assert.equal(model.handlers.size, 0);
});
