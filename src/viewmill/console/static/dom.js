// Elements of the page. Whatever comes from the mill gets in as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined) continue;
    made.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return made;
}

export function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function shape(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

export function replace(parent, ...children) {
  parent.replaceChildren(...children.flat(Infinity).filter((each) => each !== null && each !== undefined));
}

export function link(name) {
  return element("a", { href: address(name) }, name);
}

export function address(name) {
  return "#/of/" + encodeURIComponent(name);
}

export function number(value) {
  return typeof value === "number" ? value.toLocaleString("en-US") : String(value ?? "");
}

export function bytes(count) {
  if (typeof count !== "number") return "";
  let size = count, unit = "B";
  for (const next of ["kB", "MB", "GB"]) {
    if (size < 1000) break;
    size /= 1000;
    unit = next;
  }
  return (unit === "B" ? size : size.toFixed(1)) + " " + unit;
}

// A table of plain texts; `cells` gives an array of texts or elements for each row.
export function table(caption, heads, rows, cells) {
  return element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    element("table", {},
      element("thead", {}, element("tr", {}, heads.map((each) => element("th", { scope: "col" }, each)))),
      element("tbody", {}, rows.map((row) =>
        element("tr", {}, cells(row).map((each) => element("td", {}, each)))))));
}

// Rows of SQL: each column has a name and a type, NULL is shown as such.
export function rowsTable(caption, found) {
  const heads = found.columns.map((each) =>
    element("span", {}, each.name, " ", element("small", {}, each.type)));
  const shown = table(caption, heads, found.rows, (row) =>
    row.map((value) => (value === null ? element("span", { class: "null" }, "NULL") : value)));
  const cut = found.rows.length < found.total ? `the first ${number(found.rows.length)} of ` : "";
  return element("div", {}, shown, element("p", { class: "soft" }, `${cut}${number(found.total)} rows`));
}
