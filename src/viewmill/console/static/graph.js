// The graph of one page of tables and views: what a node reads stands to its left.

import { address, number, shape } from "./dom.js";

const WIDTH = 260, HEIGHT = 62, GAP_X = 60, GAP_Y = 16, LETTERS = 38, BOLD_LETTERS = 32;

function keyOf(node) {
  return node.key || node.name;
}

function clipped(text, most) {
  const letters = Array.from(text);
  return letters.length > most ? letters.slice(0, most - 1).join("") + "…" : text;
}

// Each table that follows a source stands to the right of it. The key of a node is its name; that of a
// source is an object, which equals no name.
function withSources(nodes) {
  return nodes.flatMap((each) => {
    if (!each.source) return [each];
    const key = ["source", each.name];
    const source = { key, name: each.source, of: each.name, kind: "source", freshness: each.freshness,
      error: each.error, rows: each.source_rows };
    return [source, { ...each, error: null, freshness: null, reads: [key] }];
  });
}

// A view that is cut into blocks stands to the right of them. Blocks that views share are drawn once.
function withBlocks(nodes) {
  const made = new Map();
  const keys = new Map();
  const keyed = (view, block) => {
    const same = block.shared_with.length ? block.same : JSON.stringify([view.name, block.name]);
    if (!keys.has(same)) keys.set(same, ["block", same]);
    return keys.get(same);
  };
  const views = nodes.map((node) => {
    if (!node.blocks || !node.blocks.length) return node;
    const own = new Map(node.blocks.slice(0, -1).map((block) => [block.name, keyed(node, block)]));
    const reads = (block) => [...block.reads, ...block.blocks.map((name) => own.get(name)).filter(Boolean)];
    for (const block of node.blocks.slice(0, -1)) {
      made.set(own.get(block.name), { key: own.get(block.name), name: block.name, of: node.name, kind: "block",
        strategy: block.strategy, shared_with: block.shared_with, reads: reads(block) });
    }
    return { ...node, reads: reads(node.blocks[node.blocks.length - 1]) };
  });
  return [...views, ...made.values()];
}

function withSinks(nodes, sinks) {
  const made = sinks.map((each, i) => ({ ...each, key: ["sink", i], name: each.sink, of: each.view, kind: "sink",
    freshness: each.state, reads: [each.view] }));
  return [...nodes, ...made];
}

// The column of each node: one more than the farthest of what it reads.
function columns(nodes) {
  const byName = new Map(nodes.map((each) => [keyOf(each), each]));
  const found = new Map();
  const visit = (node, above) => {
    if (found.has(keyOf(node))) return found.get(keyOf(node));
    let column = 0;
    for (const name of node.reads || []) {
      const below = byName.get(name);
      if (below && !above.has(name)) {
        column = Math.max(column, 1 + visit(below, new Set([...above, keyOf(node)])));
      }
    }
    found.set(keyOf(node), column);
    return column;
  };
  nodes.forEach((each) => visit(each, new Set()));
  return found;
}

function place(nodes) {
  const heights = [], places = new Map();
  const column = columns(nodes);
  for (const node of nodes) {
    const x = column.get(keyOf(node));
    const y = heights[x] || 0;
    heights[x] = y + 1;
    places.set(keyOf(node), { x: 10 + x * (WIDTH + GAP_X), y: 10 + y * (HEIGHT + GAP_Y) });
  }
  const width = 20 + heights.length * (WIDTH + GAP_X) - GAP_X;
  const height = 20 + Math.max(1, ...heights.map((each) => each || 0)) * (HEIGHT + GAP_Y);
  return { places, width, height };
}

function lines(node) {
  if (node.kind === "source") return [`${node.freshness}, ${number(node.rows)} rows taken`, node.error || ""];
  if (node.kind === "sink") return [`${node.state}${node.waiting ? `, ${number(node.waiting)} wait` : ""}`, node.error || ""];
  if (node.kind === "block") return [`block, ${node.strategy}`, node.shared_with.length ? `shared with ${node.shared_with.join(", ")}` : ""];
  if (node.kind === "table") return [node.rows === undefined ? "table" : `table, ${number(node.rows)} rows`, ""];
  if (node.kind === "broken") return ["broken", node.error];
  if (node.rows === undefined) return ["view", ""];
  const changed = `${number(node.rows)} rows, ${number(node.rows_changed)} changed`;
  return [`${node.freshness}, ${changed}`, `${node.refresh_kind}, ${node.strategy}, ${node.tier}`];
}

function box(node, at) {
  const state = node.error ? "failing" : node.freshness || "plain";
  const said = lines(node);
  const texts = [node.name, ...said].map((text, i) =>
    shape("text", { x: at.x + 12, y: at.y + 20 + i * 17, class: i ? "soft" : "name" }, clipped(text, i ? LETTERS : BOLD_LETTERS)));
  return shape("a", { href: address(node.of || node.name), class: `node ${node.kind} ${state}` },
    shape("title", {}, [node.name, ...said].filter(Boolean).join("\n")),
    shape("rect", { x: at.x, y: at.y, width: WIDTH, height: HEIGHT, rx: 6 }),
    shape("rect", { x: at.x, y: at.y, width: 5, height: HEIGHT, rx: 2, class: "state" }),
    texts);
}

function edge(from, to) {
  const x1 = from.x + WIDTH, y1 = from.y + HEIGHT / 2, x2 = to.x, y2 = to.y + HEIGHT / 2;
  const middle = (x1 + x2) / 2;
  return shape("path", { class: "edge", d: `M${x1},${y1} C${middle},${y1} ${middle},${y2} ${x2},${y2}` });
}

export function drawn(found) {
  const nodes = withSinks(withBlocks(withSources([...found.outside, ...found.nodes])), found.sinks);
  const { places, width, height } = place(nodes);
  const edges = nodes.flatMap((node) => (node.reads || [])
    .filter((name) => places.has(name))
    .map((name) => edge(places.get(name), places.get(keyOf(node)))));
  return shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group",
    "aria-label": "Which view reads what" },
    edges, nodes.map((each) => box(each, places.get(keyOf(each)))));
}
