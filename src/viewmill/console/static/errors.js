// An error with everything that it says, and the SQL with the place underlined.

import { element } from "./dom.js";

function underlined(where) {
  const { sql, start, end } = where;
  // Places are counted in characters, JavaScript counts in halves of them.
  const letters = Array.from(sql);
  return element("pre", { class: "sql" },
    letters.slice(0, start).join(""),
    element("mark", {}, letters.slice(start, end + 1).join("") || " "),
    letters.slice(end + 1).join(""));
}

export function errorBox(error) {
  const said = error.said || { message: error.message };
  return element("div", { class: "error", role: "alert" },
    element("strong", {}, said.message),
    said.where ? underlined(said.where) : null,
    said.detail ? element("p", {}, said.detail) : null,
    said.hint ? element("p", { class: "hint" }, said.hint) : null);
}
