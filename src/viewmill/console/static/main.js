// Which page is shown, and the news that keep it live.

import { get, listen } from "./api.js";
import { details } from "./details.js";
import { number, replace } from "./dom.js";
import { editor } from "./editor.js";
import { errorBox } from "./errors.js";
import { overview } from "./overview.js";
import { refused } from "./refused.js";

const root = document.getElementById("page");
const mill = { version: null, write: false };
let shown = { onNews: () => null };

history.replaceState(null, "", location.pathname + location.hash); // the token leaves the address bar

// A name in an address; one that somebody typed may be wrongly quoted.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function open() {
  const where = location.hash || "#/";
  const of = where.match(/^#\/of\/(.+)$/);
  const page = where === "#/sql" ? "sql" : where === "#/refused" ? "refused" : of ? "of" : "graph";
  for (const each of document.querySelectorAll("[data-page]")) {
    each.toggleAttribute("aria-current", each.dataset.page === page);
  }
  if (page === "sql") shown = editor(root, mill);
  else if (page === "of") shown = details(root, decoded(of[1]), mill);
  else if (page === "refused") shown = refused(root);
  else shown = overview(root, mill);
}

async function readMill() {
  const found = await get("/api/mill");
  Object.assign(mill, found);
  replace(document.getElementById("path"), found.path + (found.write ? "" : " (read only)"));
  replace(document.getElementById("version"), `version ${number(found.version)}`);
  const trouble = document.getElementById("trouble");
  replace(trouble, found.trouble);
  trouble.hidden = !found.trouble;
}

// One update at a time: news that come meanwhile are one more.
let busy = false, waiting = null;
async function onNews(news) {
  if (busy) {
    waiting = waiting ? { ...news, more: true } : news;
    return;
  }
  busy = true;
  try {
    await readMill();
    await shown.onNews(news);
  } catch (error) {
    if (!(error instanceof TypeError)) console.error(error); // a TypeError: the server is gone
  }
  busy = false;
  const next = waiting;
  waiting = null;
  if (next) onNews(next);
}

function onState(text) {
  const live = document.getElementById("live");
  live.textContent = text;
  live.className = text;
}

try {
  await readMill();
  addEventListener("hashchange", open);
  open();
  listen(onNews, onState);
} catch (error) {
  replace(root, errorBox(error));
}
