// The steps view as anywidget loads it.

import { stepsBadges, StepsPanel } from "./steps_panel.js";
import { StepsTape } from "./steps_tape.js";
import { widgetOf } from "./view.js";

export default widgetOf({
    TapeKind: StepsTape, testId: "steps-view", name: "Step by step", widthBeside: 500, badges: stepsBadges,
    makePanel: (tape, view) => new StepsPanel(tape, view),
});
