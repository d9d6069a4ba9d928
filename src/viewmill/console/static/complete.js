// Completion of the word before the caret: Ctrl+Space or typing asks, arrows choose, Tab inserts, Escape closes.

import { get } from "./api.js";
import { element, replace } from "./dom.js";

const WORD = /(`[^`\n]*|[\p{L}_][\p{L}\p{N}_]*)$/u;
const LEAST = 2; // letters, before typing asks by itself

export function completion(text) {
  const list = element("ul", { id: "completions", role: "listbox", "aria-label": "Completions", hidden: true });
  let found = [], chosen = 0, word = "", latest = 0;
  text.setAttribute("aria-autocomplete", "list");
  text.setAttribute("aria-controls", "completions");
  text.addEventListener("input", () => ask(LEAST));
  text.addEventListener("blur", close);
  text.addEventListener("keydown", onKey);

  async function ask(least) {
    const mine = ++latest;
    const before = text.value.slice(0, text.selectionStart).match(WORD);
    if (!before || before[0].length < least) return close();
    try {
      const answer = await get("/api/complete", { word: before[0] });
      if (mine === latest) show(before[0], answer.found);
    } catch {
      if (mine === latest) close();
    }
  }

  function show(asked, answer) {
    if (!answer.length) return close();
    word = asked;
    found = answer;
    list.hidden = false;
    replace(list, found.map((each, i) => element("li", { id: `completion-${i}`, role: "option",
      onmousedown: (event) => { event.preventDefault(); insert(i); } },
      each.name, " ", element("small", {}, each.kind))));
    choose(0);
  }

  function choose(which) {
    chosen = (which + found.length) % found.length;
    [...list.children].forEach((each, i) => each.setAttribute("aria-selected", i === chosen));
    text.setAttribute("aria-activedescendant", `completion-${chosen}`);
    list.children[chosen].scrollIntoView({ block: "nearest" });
  }

  function insert(which) {
    const end = text.selectionStart;
    text.setRangeText(found[which].insert, end - word.length, end, "end");
    text.dispatchEvent(new Event("input"));
    close();
  }

  function close() {
    latest += 1;
    found = [];
    list.hidden = true;
    list.replaceChildren();
    text.removeAttribute("aria-activedescendant");
  }

  function onKey(event) {
    if (event.key === " " && event.ctrlKey) ask(1);
    else if (!found.length) return;
    else if (event.key === "ArrowDown") choose(chosen + 1);
    else if (event.key === "ArrowUp") choose(chosen - 1);
    else if (event.key === "Tab" && !event.shiftKey) insert(chosen);
    else if (event.key === "Escape") close();
    else {
      if (event.key.startsWith("Arrow") || event.key === "Home" || event.key === "End") close();
      return;
    }
    event.preventDefault();
  }

  return list;
}
