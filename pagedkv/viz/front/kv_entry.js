// The KV cache view as anywidget loads it: the block grid's panel, with the texts of sequences, where they are asked for, and the
// prefix tree below the grid.

import { badges, Panel } from "./panel.js";
import { TextTape } from "./texts.js";
import { TextsView } from "./texts_view.js";
import { TreeView } from "./tree_view.js";
import { widgetOf } from "./view.js";

export default widgetOf({
    TapeKind: TextTape, testId: "kv-cache-view", name: "KV cache view", widthBeside: 330, badges,
    makePanel: (tape, view) => new Panel(tape, view.session, panel =>
        [...tape.lives ? [new TextsView(tape, view.session, panel)] : [], new TreeView(tape, view.session, panel)]),
    // What was kept free for whatever a pool would still do is let go.
    told(what, view) { if (what === "following") view.drawn.forEach(panel => panel.rest()); },
});
