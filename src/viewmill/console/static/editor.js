// The SQL editor: Ctrl+Enter runs, an error is shown with its place underlined.

import { post } from "./api.js";
import { completion } from "./complete.js";
import { element, number, replace, rowsTable } from "./dom.js";
import { errorBox } from "./errors.js";

let kept = "";

export function editor(root, mill) {
  const takes = mill.write ? "any statement" : "SELECT, EXPLAIN and VERIFY";
  const text = element("textarea", { rows: 8, spellcheck: "false", "aria-label": "SQL", autocapitalize: "off",
    placeholder: "SELECT …" });
  const answer = element("div", { "aria-live": "polite" });
  const button = element("button", { type: "button", onclick: run }, "Run");
  text.value = kept;
  text.addEventListener("input", () => { kept = text.value; });
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      run();
    }
  });
  replace(root, element("h1", {}, "SQL"), text, completion(text),
    element("div", { class: "bar" }, button, element("span", { class: "soft" }, `Ctrl+Enter runs, Ctrl+Space completes; takes ${takes}`)), answer);
  text.focus();

  async function run() {
    button.disabled = true;
    replace(answer, element("p", { class: "soft" }, "running"));
    try {
      show(await post("/api/sql", { sql: text.value }));
    } catch (error) {
      replace(answer, errorBox(error));
      mark(error.said && error.said.where);
    }
    button.disabled = false;
  }

  function show(found) {
    const took = element("p", { class: "soft" }, `${found.ms.toFixed(1)} ms, version ${number(found.version)}`);
    if (found.done !== undefined) replace(answer, element("p", { class: "done" }, `done: ${found.done} statements`), took);
    else if (found.is_plan) replace(answer, element("pre", {}, found.rows.map((row) => row[0]).join("\n")), took);
    else replace(answer, rowsTable("Result", found), took);
  }

  // Select the place of an error, so that typing mends it.
  function mark(where) {
    if (!where || where.sql !== text.value) return;
    const letters = Array.from(where.sql);
    const start = letters.slice(0, where.start).join("").length;
    const end = letters.slice(0, where.end + 1).join("").length;
    text.focus();
    text.setSelectionRange(start, end);
  }

  return { onNews: () => null };
}
