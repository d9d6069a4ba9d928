// Why a row of a view is there: the rows that it was made from, after a click on one of its cells.

import { post } from "./api.js";
import { element, link, replace, rowsTable } from "./dom.js";
import { errorBox } from "./errors.js";

function part(found) {
  const reads = [...new Set(found.reads)].flatMap((name, i) => [i ? ", " : "", link(name)]);
  return [element("p", {}, "from ", reads), rowsTable("Rows that it was made from", found)];
}

// Makes the cells of a table of rows answer a click, or Enter on their row.
export function explainable(shown, rows, name, box) {
  [...shown.querySelectorAll("tbody tr")].forEach((line, i) => {
    line.setAttribute("tabindex", 0);
    line.setAttribute("title", "Why is this row there?");
    line.classList.add("explainable");
    line.addEventListener("click", () => ask(rows[i]));
    line.addEventListener("keydown", (event) => { if (event.key === "Enter") ask(rows[i]); });
  });

  async function ask(row) {
    const said = row.map((each) => (each === null ? "NULL" : each)).join(", ");
    replace(box, element("p", { role: "status" }, "…"));
    try {
      const { of } = await post("/api/why", { name, row });
      replace(box, element("div", { class: "why" }, element("h3", {}, `Why (${said})?`), of.flatMap(part),
        of.some((each) => each.is_cut) ? element("p", { class: "soft" }, "and more rows") : null));
    } catch (error) {
      replace(box, errorBox(error));
    }
    box.scrollIntoView({ block: "nearest" });
  }
}
