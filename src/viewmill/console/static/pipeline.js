// A Spark pipeline: its counters, its last batches, its sinks.

import { element, number, replace, shape, table } from "./dom.js";

const WIDTH = 600, HEIGHT = 90, TOP = 18, BARS = 100;

function bars(title, batches, value, kind) {
  const most = Math.max(...batches.map(value), 1e-9);
  const wide = WIDTH / BARS;
  return shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: `chart ${kind}`, role: "img", "aria-label": title },
    shape("text", { x: 2, y: 12, class: "soft" }, `${title}, at most ${number(Math.round(most))}`),
    batches.map((each, i) => {
      const high = Math.max(1, (value(each) / most) * (HEIGHT - TOP));
      return shape("rect", { class: each.letters ? "bar failing" : `bar ${kind}`, x: (BARS - batches.length + i) * wide,
        y: HEIGHT - high, width: wide - 1, height: high });
    }));
}

function fact(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "object") return Object.entries(value).map(([key, each]) => `${key}: ${number(each)}`).join("\n");
  return typeof value === "number" ? number(Math.round(value * 10) / 10) : String(value);
}

export function pipeline(mill) {
  const box = element("div");
  function update() {
    if (!mill.pipeline) return;
    const known = Object.entries(mill.pipeline).map(([key, value]) => [key, fact(value)]).filter(([, text]) => text !== "");
    replace(box, element("section", {}, element("h2", {}, "Pipeline"),
      element("dl", {}, known.flatMap(([key, text]) =>
        [element("dt", {}, key.replaceAll("_", " ")), element("dd", { class: `fact-${key}` }, text)])),
      mill.batches.length ? element("div", { class: "tempo" },
        bars("Rows per batch", mill.batches, (each) => each.rows, "rate"),
        bars("Milliseconds per batch", mill.batches, (each) => each.ms, "latency")) : null));
  }
  update();
  return { box, update };
}

export function sinksTable(sinks) {
  if (!sinks.length) return null;
  return [element("h2", {}, "Sinks"), table("Sinks", ["view", "sink", "state", "version", "waiting", "lag", "error"], sinks, (each) =>
    [each.view, each.sink, each.state, number(each.version), number(each.waiting),
      each.lag_s ? `${each.lag_s.toFixed(1)} s` : "", each.error || ""])];
}
