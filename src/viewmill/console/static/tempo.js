// Rows per second and milliseconds per commit, over the last two minutes.

import { get } from "./api.js";
import { element, number, replace, shape } from "./dom.js";

const WIDTH = 600, HEIGHT = 90, TOP = 18, EVERY_MS = 2000;

function drawn(title, values, said, kind) {
  const most = Math.max(...values, 1e-9);
  const wide = WIDTH / values.length;
  const bars = values.map((value, i) => (value <= 0 ? null : shape("rect", { class: `bar ${kind}`, x: i * wide,
    width: wide - 1, y: HEIGHT - (value / most) * (HEIGHT - TOP), height: (value / most) * (HEIGHT - TOP) })));
  return shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: `chart ${kind}`, role: "img", "aria-label": `${title}: ${said}` },
    shape("text", { x: 2, y: 12, class: "soft" }, `${title}: ${said}`), bars);
}

const short = (value) => (value === null ? "none yet" : `${value >= 10 ? value.toFixed(0) : value.toFixed(2)} ms`);

// The charts of all commits, or of those that changed `name`; they move on while they are on the page.
export function tempo(name) {
  const box = element("div", { class: "tempo" });
  let timer = null;

  async function update() {
    const found = await get("/api/tempo", name === undefined ? {} : { name });
    const rates = found.rows.map((each) => each / found.seconds);
    const now = Math.max(...rates.slice(-2));
    const commits = found.commits.reduce((sum, each) => sum + each, 0);
    replace(box,
      drawn("Rows changed per second", rates, `${number(Math.round(now))} now, at most ${number(Math.round(Math.max(...rates)))}`, "rate"),
      drawn("Slowest commit", found.ms, `half of ${number(commits)} under ${short(found.p50_ms)}, 99% under ${short(found.p99_ms)}`, "latency"));
  }

  function tick() {
    if (!box.isConnected) return clearInterval(timer);
    if (!document.hidden) update().catch(() => null); // the head of the page says that it is gone
  }

  timer = setInterval(tick, EVERY_MS);
  update().catch(() => null);
  return box;
}
