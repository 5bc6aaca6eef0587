// Whole widgets, before and after the page gives them their first size.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { emptyPage, layOut, show, withTestId } from "./page.mjs";
import blockGrid from "../../../pagedkv/viz/front/widget.js";
import kvCacheView from "../../../pagedkv/viz/front/kv_entry.js";
import memoryView from "../../../pagedkv/viz/front/memory_entry.js";
import stepsView from "../../../pagedkv/viz/front/steps_entry.js";
import { memoryMessage } from "./memory_tapes.mjs";
import { randomTape } from "./random_tape.mjs";

const step = (text, blocks) => ({ actor: 0, call: "pop()", text, blocks, notes: [""], head: null, mark: "" });
const STEPS = { title: "t", source: "", result: "", actors: ["A"], hasHead: false, tellingFrame: 2,
                places: [{ name: "stack", kind: "stack", actor: -1 }],
                steps: [step("start", [[1, 0]]), step("takes 1", [[0]]), step("takes 0", [[]])] };
const MEMORY = memoryMessage([{ owner: 0, size: 8, changes: [["reserve", 0, 64], ["take", 0, 8]] },
                              { owner: 1, size: 8, changes: [["take", 8, 8]] }]);
const POOL = { ...randomTape(3).message, owners_are: "sequences" };
const WIDGETS = { "block grid": [blockGrid, POOL, "grid"], "KV cache view": [kvCacheView, POOL, "grid"],
                  "memory view": [memoryView, MEMORY, "memory"], "steps view": [stepsView, STEPS, "places"] };

const textOf = id => withTestId(id)[0].textContent;
const press = (root, ...keys) => keys.forEach(key => root.happens("keydown", { key }));

beforeEach(emptyPage);

for (const [name, [widget, tape, picture]] of Object.entries(WIDGETS)) {
    test(`${name}: before it has a size it obeys, and then it shows where it is`, () => {
        const { model, root } = show(widget, { tapes: [tape] });
        press(root, "ArrowRight", "End", "Home", "ArrowRight", "ArrowRight", " ", " ", "Escape");
        withTestId(picture)[0].parentNode.happens("pointermove", { clientX: 3, clientY: 3 });
        model.change("frame", 1);
        model.change("selected", "A");
        model.change("following", true);
        model.change("following", false);
        assert.match(textOf("counter"), /^\w+ 1 \//);
        layOut();
        assert.match(textOf("counter"), /^\w+ 1 \//);
        assert.ok(textOf("caption").length > 5, "the panel is drawn");
        const before = textOf("caption");
        press(root, "ArrowRight");
        assert.notEqual(textOf("caption"), before);
        assert.equal(model.get("frame"), 2);
    });

    test(`${name}: panels that come later have no size at first`, () => {
        const { model, root } = show(widget, { tapes: [tape] });
        layOut();
        layOut(0);  // in a tab that is not shown
        model.change("tapes", [tape, tape]);
        press(root, "ArrowRight");
        layOut();
        press(root, "ArrowRight");
        assert.deepEqual(withTestId("caption").slice(-2).map(each => each.textContent.length > 5), [true, true]);
    });

    test(`${name}: what its frames count`, () => {
        const { root } = show(widget, { tapes: [tape], frame: 1 });
        layOut();
        const unit = name === "steps view" ? "step" : "event";
        assert.equal(textOf("counter"), `${unit} 1 / ${name === "steps view" || name === "memory view" ? 2 : 60}`);
        assert.equal(withTestId("speed")[0].attributes.title, `${unit}s per second`);
        assert.equal(withTestId("forward")[0].attributes.title, `one ${unit} on (→)`);
        const strip = withTestId("timeline")[0].parentNode.attributes;
        assert.deepEqual([strip["aria-label"], strip["aria-valuetext"].split(" ")[0]], [`${unit} shown`, unit]);
    });
}
