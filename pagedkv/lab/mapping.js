// The mapping table: one row for each pair, a button that has the kernel run both sides, and below the row what they
// printed. Until a row has run, its verdict is for the reader to guess. The kernel's answer arrives as the trait `runs`,
// so a page that is loaded again shows it again.

const MARKS = { "holds": "✓", "holds in part": "◐", "misleading": "✗" };

function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function badge(verdict) {
  const mark = element("span", { "aria-hidden": "true" }, MARKS[verdict] + " ");
  return element("span", { class: `badge ${verdict.replaceAll(" ", "-")}` }, mark, verdict);
}

function side(title, ran) {
  const code = element("pre", { class: "code", tabindex: "0", "aria-label": `${title}: the code` });
  code.innerHTML = ran.code; // made by Pygments from our own source
  const printed = element("pre", { class: "printed", "aria-label": `${title}: what it printed` }, ran.output.trimEnd());
  if (ran.error) printed.append(element("span", { class: "error" }, (ran.output ? "\n" : "") + ran.error));
  else if (!ran.output) printed.append("(nothing printed)");
  return element("section", {}, element("h4", {}, title), code, element("p", { class: "prints" }, "prints"), printed);
}

class RowView {
  constructor(row, model, say) {
    this.row = row;
    this.model = model;
    this.say = say;
    this.times = model.get("runs")[row.key]?.times ?? 0;
    this.button = element("button", { type: "button", "data-testid": `run-${row.key}`, "aria-expanded": "false" });
    this.label("Run both");
    this.button.addEventListener("click", () => this.press());
    this.verdict = element("td", {}, element("span", { class: "guess" }, "your guess?"));
    this.line = element("tr", {},
      element("th", { scope: "row" }, element("code", {}, row.netty)), element("td", {}, row.kv),
      this.verdict, element("td", { class: "press" }, this.button));
    this.sides = element("div", { class: "sides" });
    const hide = element("button", { type: "button", class: "quiet", "aria-label": `Hide ${row.netty}` }, "Hide");
    hide.addEventListener("click", () => this.hide());
    this.details = element("tr", { class: "details", hidden: "" }, element("td", { colspan: "4" },
      element("p", { class: "why" }, row.why), this.sides, hide));
    if (this.times) this.show(false);
  }

  label(text) {
    this.button.textContent = text;
    this.button.setAttribute("aria-label", `${text}: ${this.row.netty} and ${this.row.kv}`);
  }

  press() {
    if (this.button.getAttribute("aria-busy") === "true") return;
    this.button.setAttribute("aria-busy", "true");
    this.label("running…");
    this.say(`Running both sides of ${this.row.netty}`);
    this.model.send({ run: this.row.key });
  }

  update() {
    const times = this.model.get("runs")[this.row.key]?.times ?? 0;
    if (times === this.times) return;
    this.times = times;
    this.show(true);
  }

  reveal() {
    this.verdict.replaceChildren(badge(this.row.verdict));
    this.details.hidden = false;
    this.button.setAttribute("aria-expanded", "true");
  }

  show(aloud) {
    const run = this.model.get("runs")[this.row.key];
    this.sides.replaceChildren(side("Netty, in Java", run.java), side("Our pool, in Python", run.python));
    this.sides.dataset.testid = `ran-${this.row.key}`;
    this.reveal();
    this.button.removeAttribute("aria-busy");
    this.label("Run again");
    if (aloud) this.say(`${this.row.verdict}. ${this.row.netty} printed: ${run.java.output}${run.java.error}. `
      + `${this.row.kv} printed: ${run.python.output}${run.python.error}.`);
  }

  hide() {
    this.details.hidden = true;
    this.button.setAttribute("aria-expanded", "false");
    this.button.focus();
  }
}

function render({ model, el }) {
  const status = element("div", { class: "status", role: "status" });
  const rows = model.get("rows").map(row => new RowView(row, model, text => { status.textContent = text; }));
  const titles = ["In Netty", "In a KV cache", "Does the pair hold?", "See for yourself"];
  const all = element("button", { type: "button", class: "quiet", "data-testid": "reveal" }, "Show all verdicts");
  all.addEventListener("click", () => {
    rows.forEach(row => row.reveal());
    status.textContent = "All verdicts are shown";
  });
  const table = element("table", { "aria-label": "Netty and the KV cache, pair by pair" },
    element("thead", {}, element("tr", {}, ...titles.map(title => element("th", { scope: "col" }, title)))),
    element("tbody", {}, ...rows.flatMap(row => [row.line, row.details])));
  el.classList.add("pagedkv-mapping");
  el.append(table, all, status);
  const update = () => rows.forEach(row => row.update());
  model.on("change:runs", update);
  return () => model.off("change:runs", update);
}

export default { render };
