// Rows that were refused: dead letters of a pipeline, late rows of tables.

import { get } from "./api.js";
import { element, link, number, replace, table } from "./dom.js";
import { errorBox } from "./errors.js";

function letters(found) {
  if (!found.total) return element("p", { class: "soft" }, "No dead letters wait.");
  return [table("Dead letters", ["source", "batch", "reason", "row"], found.letters, (each) =>
    [each.source, number(each.batch), each.reason, each.row]),
    element("p", { class: "soft" }, `${number(found.letters.length)} of ${number(found.total)}; \`viewmill dead-letters\` or pipe.replay_letters() takes them again.`)];
}

function late(each) {
  const heads = Object.keys(each.rows[0] || {});
  return [element("h3", {}, link(each.table), `: ${number(each.total)} refused`),
    table(`Late rows of ${each.table}`, heads, each.rows, (row) => heads.map((head) => row[head]))];
}

export function refused(root) {
  const box = element("div");
  replace(root, element("h1", {}, "Refused rows"), box);

  async function update() {
    try {
      const found = await get("/api/refused");
      replace(box, element("h2", {}, "Dead letters"), letters(found), element("h2", {}, "Late rows"),
        found.late.length ? found.late.flatMap(late) : element("p", { class: "soft" }, "No table has refused late rows."));
    } catch (error) {
      replace(box, errorBox(error));
    }
  }

  update();
  return { onNews: update };
}
