// The block grid's widget: a panel for each pool.

import { badges, Panel } from "./panel.js";
import { Tape } from "./tape.js";
import { widgetOf } from "./view.js";

export default widgetOf({
    TapeKind: Tape, testId: "block-grid", name: "Block grid", widthBeside: 330, badges,
    makePanel: (tape, view) => new Panel(tape, view.session),
});
