// The rows that the last refreshes of a view changed: followed from the click on, while the page is open.

import { get } from "./api.js";
import { element, number, replace, table } from "./dom.js";
import { errorBox } from "./errors.js";

const EVERY_MS = 2000, SHOWN = 40;
const followed = new Set();

function lines(change) {
  const heads = change.columns.length - 1; // the last column says how often
  return change.rows.map((row) => [Number(row[heads]), row.slice(0, heads), change]);
}

function signed(times) {
  const kind = times > 0 ? "came" : "went";
  return element("span", { class: kind }, (times > 0 ? "+" : "") + number(times));
}

export function changedRows(name) {
  const box = element("div", { class: "changed" });
  let timer = null;

  async function update() {
    const { changes } = await get("/api/changed", { name });
    if (!changes.length) return replace(box, element("p", { class: "soft" }, "Nothing has changed since you began to follow it."));
    const heads = ["version", "", ...changes[0].columns.slice(0, -1).map((each) => each.name)];
    const rows = changes.flatMap(lines).slice(0, SHOWN);
    const total = changes.reduce((sum, each) => sum + each.total, 0);
    replace(box, table("Latest changed rows", heads, rows, ([times, values, change]) =>
      [number(change.version), signed(times), ...values.map((each) => (each === null ? "NULL" : each))]),
      element("p", { class: "soft" }, `${number(rows.length)} of ${number(total)} rows, in ${number(changes.length)} refreshes`));
  }

  function tick() {
    if (!box.isConnected) return clearInterval(timer);
    if (!document.hidden) update().catch((error) => replace(box, errorBox(error)));
  }

  function follow() {
    followed.add(name);
    timer = setInterval(tick, EVERY_MS);
    update().catch((error) => { clearInterval(timer); replace(box, errorBox(error)); });
  }

  if (followed.has(name)) follow();
  else replace(box, element("button", { type: "button", onclick: follow }, "Follow the changed rows"));
  return box;
}
