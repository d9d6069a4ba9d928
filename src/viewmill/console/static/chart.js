// Bars of rows changed, one per refresh that was noticed, the newest to the right.

import { number, shape } from "./dom.js";

const WIDTH = 600, HEIGHT = 90, BARS = 100;

export function chart(history) {
  const shown = history.slice(0, BARS).reverse();
  const most = Math.max(1, ...shown.map((each) => each.rows_changed));
  const wide = WIDTH / BARS;
  const bars = shown.map((each, i) => {
    const high = Math.max(1, (each.rows_changed / most) * (HEIGHT - 20));
    return shape("rect", { x: (BARS - shown.length + i) * wide, y: HEIGHT - high, width: Math.max(1, wide - 1),
      height: high, class: each.error ? "bar failing" : `bar ${each.kind}` });
  });
  return shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", role: "img",
    "aria-label": `Rows changed by the last ${shown.length} refreshes, at most ${most}` },
    shape("text", { x: 2, y: 12, class: "soft" }, `at most ${number(most)} rows changed`), bars);
}
