// The fragmentation lab: a memory view with the workload and the settings above it, and a table of what came out below it.

import { element } from "./elements.js";
import { LabClient } from "./lab_client.js";
import { LabEditor } from "./lab_editor.js";
import { LabSettings } from "./lab_settings.js";
import { LabSummary } from "./lab_summary.js";
import { memoryWidget } from "./memory_widget.js";

function labExtras(model, session) {
    const client = new LabClient(model, {
        answered(answer) {
            if (answer.where === "workload") editor.answered(answer);
            else settings.answered(answer);
        },
        working(text) { editor.working(text); },
    });
    const editor = new LabEditor(model, session, client);
    const settings = new LabSettings(model, client);
    const summary = new LabSummary(model);
    const handlers = {
        "change:lab_requests": () => editor.takeRequests(),
        "change:lab_forms": () => settings.takeForms(),
        "change:lab_results": () => { editor.takeResults(); summary.take(); },
    };
    for (const [name, handler] of Object.entries(handlers)) model.on(name, handler);
    editor.showTapes();
    const above = element("div", { class: "lab-above", "data-testid": "fragmentation-lab" },
                          element("div", { class: "lab-columns" }, editor.root, settings.root));
    return {
        above,
        below: summary.root,
        show(what) {
            if (what === "frame") editor.showFrame();
            else if (what === "tapes") editor.showTapes();
        },
        close() {
            client.close();
            for (const [name, handler] of Object.entries(handlers)) model.off(name, handler);
        },
    };
}

export default memoryWidget(labExtras);
