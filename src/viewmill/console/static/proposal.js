// Another definition of a view: which rows would come and go, and, with --write, approving it.

import { post } from "./api.js";
import { element, number, replace, rowsTable } from "./dom.js";
import { errorBox } from "./errors.js";

const CREATE = /^\s*CREATE\s+(OR\s+REPLACE\s+)?MATERIALIZED/i;

function differences(found) {
  if (!found.come) {
    return [element("p", { class: "error" }, "The columns differ."), element("p", {}, `now: ${found.before.join(", ")}`),
      element("p", {}, `then: ${found.after.join(", ")}`)];
  }
  if (!found.come.total && !found.go.total) return element("p", { class: "done" }, "The rows are the same.");
  return [element("h3", { class: "came" }, `${number(found.come.total)} rows come`), rowsTable("Rows that come", found.come),
    element("h3", { class: "went" }, `${number(found.go.total)} rows go`), rowsTable("Rows that go", found.go)];
}

export function proposal(name, sql, mill) {
  const text = element("textarea", { rows: 6, spellcheck: "false", "aria-label": "Another definition" });
  text.value = sql.replace(CREATE, "CREATE OR REPLACE MATERIALIZED");
  const answer = element("div", { "aria-live": "polite" });
  const compare = element("button", { type: "button", onclick: () => act(propose) }, "Compare rows");
  const approve = element("button", { type: "button", hidden: true, onclick: () => act(accept) }, "Approve");
  let compared = null;
  text.addEventListener("input", () => { approve.hidden = true; });

  async function propose() {
    const asked = text.value;
    const found = await post("/api/propose", { name, sql: asked });
    compared = asked;
    approve.hidden = !mill.write || text.value !== asked;
    replace(answer, differences(found),
      mill.write ? null : element("p", { class: "soft" }, "This console only reads; started with --write it can approve."));
  }

  async function accept() {
    await post("/api/approve", { name, sql: compared });
    approve.hidden = true;
    replace(answer, element("p", { class: "done" }, "Approved: the view is defined so now."));
  }

  async function act(work) {
    compare.disabled = approve.disabled = true;
    try {
      await work();
    } catch (error) {
      replace(answer, errorBox(error));
    }
    compare.disabled = approve.disabled = false;
  }

  return element("details", { class: "proposal" }, element("summary", {}, "Propose another definition"), text,
    element("div", { class: "bar" }, compare, approve), answer);
}
