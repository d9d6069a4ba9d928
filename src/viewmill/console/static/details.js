// The page of one table or view: SQL, status, plan, states, refreshes, rows.

import { get, post } from "./api.js";
import { changedRows } from "./changed.js";
import { chart } from "./chart.js";
import { bytes, element, link, number, replace, rowsTable, table } from "./dom.js";
import { errorBox } from "./errors.js";
import { memoryCurve } from "./memory.js";
import { proposal } from "./proposal.js";
import { tempo } from "./tempo.js";
import { explainable } from "./why.js";

const LARGE = 100000; // from here on rows are read when asked for, not at every change
const STATUS = ["freshness", "version", "rows", "rows_changed", "refreshes", "refresh_kind", "strategy", "tier",
  "tier_reason", "engine_calls", "lag_s", "waiting_rows", "late_rows", "negative_rows", "next_refresh_s",
  "policies", "life", "budget_bytes", "kept", "released", "expects", "next_expected_s", "shares_with", "error", "bytes",
  "options", "refused", "source", "source_rows", "caught_up"];

function section(title, ...children) {
  return element("section", {}, element("h2", {}, title), children);
}

// A value as text; empty if there is nothing to say.
function fact(key, value) {
  if (value === undefined || value === null) return "";
  if (key.endsWith("bytes")) return bytes(value);
  if (key === "caught_up") return new Date(value * 1000).toLocaleString();
  if (Array.isArray(value)) return value.join(", ");
  if (typeof value === "object") return Object.entries(value).map(([name, each]) => `${name}: ${each}`).join("\n");
  return number(value);
}

function facts(status) {
  const known = STATUS.map((key) => [key, fact(key, status[key])]).filter(([, text]) => text !== "");
  return element("dl", {}, known.flatMap(([key, text]) =>
    [element("dt", {}, key.replaceAll("_", " ")), element("dd", { class: `fact-${key}` }, text)]));
}

function names(title, list) {
  if (!list.length) return null;
  return element("p", {}, `${title} `, list.flatMap((name, i) => [i ? ", " : "", link(name)]));
}

function states(plan) {
  if (!plan.states.length) return element("p", { class: "soft" }, "Nothing but the result is kept.");
  return table("States", ["state", "bytes", "definition"], plan.states, (each) =>
    [each.label, each.bytes === null ? "" : bytes(each.bytes), element("pre", {}, each.definition)]);
}

function offers(plan) {
  const rows = [
    ...plan.offered.map((each) => [each.strategy, "offered", each.cost]),
    ...plan.rejected.map((each) => [each.strategy, "declined", element("span", {}, each.reason,
      each.where.length ? element("pre", { class: "place" }, each.where.join("\n")) : null)]),
  ];
  return [
    element("p", {}, element("strong", {}, plan.strategy), `: ${plan.reason} (${plan.chosen.cost})`),
    rows.length ? table("Other strategies", ["strategy", "", "why"], rows, (row) => row) : null,
  ];
}

function history(steps) {
  if (!steps.length) return element("p", { class: "soft" }, "None since the console was started.");
  const shown = table("Refreshes", ["time", "version", "refreshes", "rows changed", "kind", "error"], steps.slice(0, 20), (each) =>
    [new Date(each.at * 1000).toLocaleTimeString(), number(each.version), number(each.refreshes),
      number(each.rows_changed), each.kind, each.error]);
  return [chart(steps), shown];
}

export function details(root, name, mill) {
  const parts = Object.fromEntries(["head", "facts", "live", "plan", "states", "history", "rows", "why", "said", "memory"]
    .map((each) => [each, element("div")]));
  const rowsTitle = element("button", { type: "button", onclick: readRows }, "Read the rows again");
  let drawnFor = null, refreshed = null, isView = false;
  replace(root, element("h1", {}, name), parts.head, parts.said, section("Status", parts.facts),
    section("Rows", parts.rows, rowsTitle, parts.why), parts.live, parts.history, parts.plan, parts.states, parts.memory);

  function actions(found) {
    if (found.kind !== "view") return null;
    return element("div", { class: "bar" },
      element("button", { type: "button", onclick: verify }, "Verify"),
      mill.write ? element("button", { type: "button", onclick: refresh }, "Refresh") : null);
  }

  async function act(work) {
    replace(parts.said, element("p", { role: "status" }, "…"));
    try {
      replace(parts.said, element("p", { role: "status", class: "done" }, await work()));
    } catch (error) {
      replace(parts.said, errorBox(error));
    }
  }

  function verify() {
    return act(async () => {
      const found = await post("/api/verify", { name });
      if (!found.differences) return "It equals its recomputed definition.";
      return `${number(found.differences)} rows differ: ${found.first.join("; ")}`;
    });
  }

  function refresh() {
    return act(async () => {
      await post("/api/refresh", { name });
      return "Refreshed.";
    });
  }

  async function readRows() {
    try {
      const found = await get("/api/rows", { name });
      const rows = rowsTable("Rows", found);
      replace(parts.rows, rows);
      if (isView) explainable(rows, found.rows, name, parts.why);
    } catch (error) {
      replace(parts.rows, errorBox(error));
    }
  }

  async function update() {
    let found;
    try {
      found = await get("/api/details", { name });
    } catch (error) {
      replace(parts.said, errorBox(error));
      return;
    }
    show(found);
    const now = JSON.stringify([found.status && found.status.refreshes, found.version, mill.version]);
    if (now !== refreshed && found.kind !== "broken") {
      if (refreshed === null || (found.rows || 0) <= LARGE) await readRows();
      refreshed = now;
    }
  }

  function show(found) {
    if (!parts.head.hasChildNodes()) {
      replace(parts.head, element("pre", { class: "sql" }, found.sql), names("reads", found.reads),
        names("read by", found.readers), actions(found),
        found.kind === "view" ? proposal(found.name, found.sql, mill) : null);
      isView = found.kind === "view";
      if (mill.follows && found.kind !== "broken") replace(parts.live, section("Live", tempo(found.name)));
      if (isView && mill.follows) parts.live.append(section("Latest changed rows", changedRows(found.name)));
      if (isView) replace(parts.memory, section("Memory and cost", memoryCurve(found.name)));
    }
    if (found.kind === "broken") replace(parts.facts, element("p", { class: "error" }, found.error));
    if (found.status) replace(parts.facts, facts(found.status));
    if (!found.plan) return;
    replace(parts.history, section("Refreshes", history(found.history)));
    replace(parts.states, section("States", states(found.plan)));
    if (drawnFor !== found.plan.strategy) drawPlan(found);
  }

  function drawPlan(found) {
    drawnFor = found.plan.strategy;
    const source = "/api/plan.svg?" + new URLSearchParams({ name });
    replace(parts.plan, section("Plan", offers(found.plan),
      element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Picture of the plan" },
        element("img", { src: source, alt: "The plan, which the text below says too" })),
      element("details", {}, element("summary", {}, "As text"), element("pre", {}, found.text))));
  }

  update();
  return { onNews: (news) => (news.more || news.changed.includes(name) || drawnFor === null ? update() : null) };
}
