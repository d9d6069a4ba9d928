// What a view would cost with less memory: a curve of budgets and estimated times of a refresh.

import { get } from "./api.js";
import { bytes, element, replace, shape, table } from "./dom.js";
import { errorBox } from "./errors.js";

const WIDTH = 600, HEIGHT = 160, LEFT = 10, TOP = 22;

function time(us) {
  return us >= 1000 ? `${(us / 1000).toFixed(1)} ms` : `${us.toFixed(1)} µs`;
}

function line(points) {
  const widest = Math.max(1, ...points.map((each) => each.budget));
  const highest = Math.max(1e-9, ...points.map((each) => each.refresh_us));
  const at = (each) => [LEFT + (each.budget / widest) * (WIDTH - 2 * LEFT),
    HEIGHT - 6 - (each.refresh_us / highest) * (HEIGHT - TOP - 6)];
  return shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart curve", role: "img",
    "aria-label": "The estimated time of a refresh for each budget, which the table below says too" },
    shape("text", { x: 2, y: 12, class: "soft" }, `at most ${time(highest)} with nothing kept; ${bytes(widest)} keeps everything`),
    shape("polyline", { points: points.map((each) => at(each).join(",")).join(" "), class: "line" }),
    points.map((each) => shape("circle", { cx: at(each)[0], cy: at(each)[1], r: 3.5 },
      shape("title", {}, `${bytes(each.budget)}: ${time(each.refresh_us)}, ${each.mode}`))));
}

export function memoryCurve(name) {
  const box = element("div");
  const button = element("button", { type: "button", onclick: read }, "Estimate it");

  async function read() {
    button.disabled = true;
    try {
      const { points, budget } = await get("/api/curve", { name });
      replace(box, line(points), table("Cost for each budget", ["budget", "next refresh", "how", "kept"], points, (each) =>
        [bytes(each.budget), time(each.refresh_us), each.mode, each.kept.join(", ")]),
        element("p", { class: "soft" }, budget === null ? "The view has no budget of its own." : `Its budget is ${bytes(budget)}.`), button);
    } catch (error) {
      replace(box, errorBox(error), button);
    }
    button.disabled = false;
  }

  replace(box, button);
  return box;
}
