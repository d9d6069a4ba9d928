// The first page: the graph and the list of tables and views, a page at a time.

import { get } from "./api.js";
import { bytes, element, link, number, replace, table } from "./dom.js";
import { errorBox } from "./errors.js";
import { drawn } from "./graph.js";
import { pipeline, sinksTable } from "./pipeline.js";
import { tempo } from "./tempo.js";

const HEADS = ["name", "kind", "freshness", "rows", "rows changed", "refreshes", "last refresh",
  "strategy", "tier", "lag", "state"];
const CHOICES = [["", "everything"], ["tables", "tables"], ["views", "views"], ["stale", "stale views"],
  ["failing", "failing"]];

function cells(node) {
  const lag = node.lag_s ? `${node.lag_s.toFixed(1)} s, ${number(node.waiting_rows)} rows wait` : "";
  const fresh = element("span", { class: `badge ${node.error ? "failing" : node.freshness || ""}` },
    node.error ? "failing" : node.freshness || "");
  return [link(node.name), node.kind, node.freshness ? fresh : "", number(node.rows), number(node.rows_changed),
    number(node.refreshes), node.refresh_kind || "", node.strategy || "", node.tier || "", lag,
    bytes(node.state_bytes)];
}

export function overview(root, mill) {
  const asked = { text: "", only: "", page: 0 };
  const graph = element("div", { class: "scroll graph", tabindex: 0, role: "region", "aria-label": "Graph" });
  const sinks = element("div"), spark = pipeline(mill);
  const list = element("div"), count = element("p", { class: "soft", role: "status" });
  const text = element("input", { type: "search", placeholder: "part of a name", "aria-label": "Filter by name" });
  const only = element("select", { "aria-label": "Show only" },
    CHOICES.map(([value, label]) => element("option", { value }, label)));
  const before = element("button", { type: "button", onclick: () => turn(-1) }, "‹ Previous");
  const after = element("button", { type: "button", onclick: () => turn(1) }, "Next ›");
  text.addEventListener("input", () => ask({ text: text.value, page: 0 }));
  only.addEventListener("change", () => ask({ only: only.value, page: 0 }));
  replace(root, element("h1", {}, "Tables and views"),
    element("div", { class: "bar" }, text, only, before, after), count, graph,
    mill.follows ? tempo() : null, spark.box, list, sinks);

  function turn(by) {
    ask({ page: Math.max(0, asked.page + by) });
  }

  function ask(more) {
    Object.assign(asked, more);
    update();
  }

  let latest = 0;
  async function update() {
    const mine = ++latest;
    try {
      const found = await get("/api/nodes", asked);
      if (mine === latest) show(found);
    } catch (error) {
      if (mine === latest) replace(list, errorBox(error));
    }
  }

  function show(found) {
    asked.page = found.page;
    before.disabled = found.page === 0;
    after.disabled = found.page + 1 >= found.pages;
    const where = found.pages > 1 ? `, page ${found.page + 1} of ${number(found.pages)}` : "";
    replace(count, `${number(found.tables)} tables, ${number(found.views)} views; ${number(found.found)} match${where}`);
    const focus = document.activeElement && document.activeElement.getAttribute("href");
    const { scrollLeft, scrollTop } = graph;
    replace(graph, drawn(found));
    Object.assign(graph, { scrollLeft, scrollTop });
    replace(list, table("Tables and views", HEADS, found.nodes, cells));
    replace(sinks, sinksTable(found.sinks));
    if (focus) keep(focus);
  }

  // Who moves through the page with the keyboard stays where they were.
  function keep(href) {
    for (const each of root.querySelectorAll("a")) {
      if (each.getAttribute("href") === href) return each.focus({ preventScroll: true });
    }
  }

  update();
  return { onNews: () => { spark.update(); return update(); } };
}
