// The history: all pieces and takes, in the order in which they were made.
import { action, count, fold, icon, make, passFocus } from "../widgets/parts.js";
import { factsOf } from "./titles.js";

export function historyPart(app) {
  const { desk } = app;
  const only = action("Starred only", () => ((starred = !starred), show())),
    list = make("ol", "mg-history-list"),
    box = fold("", "mg-card mg-history", [make("div", "mg-row", [only]), list]);
  const summary = box.firstChild;
  let starred = false,
    shown = "";
  box.addEventListener("toggle", () => show());

  function row(entry) {
    const { id, title } = entry,
      starIt = icon("star", `Star: ${title}`, () => desk.star(id), "mg-icon mg-star"),
      bin = icon("bin", `Delete: ${title}`, () => app.remove(id), "mg-icon mg-drop");
    starIt.ariaPressed = desk.stars.has(id);
    const words = [make("span", "", title), make("span", "mg-facts", factsOf(entry).join(" · "))],
      more = { title, ariaCurrent: id === desk.open.current || null },
      open = action(words, () => app.recall(id), "mg-item mg-history-open", more);
    return make("li", "mg-history-row", [starIt, open, bin]);
  }

  function show() {
    const all = desk.listed,
      some = all.filter(({ id }) => desk.stars.has(id));
    const stars = some.length ? `, ${some.length} starred` : "";
    summary.textContent = `History: ${count(all.length, "piece")}${stars}`;
    box.hidden = !all.length;
    if (box.open) showRows(starred ? some : all);
  }

  function showRows(entries) {
    only.ariaPressed = starred;
    const facts = entries.map(({ id, state }) => [id, state, desk.stars.has(id)]),
      key = JSON.stringify([facts, desk.open.current]);
    if (key === shown) return;
    shown = key;
    const focused = document.activeElement,
      before = [...list.children],
      at = before.findIndex((one) => one.contains(focused));
    const rows = entries.map(row);
    const kind = [...focused.classList].at(-1), // identifies the button within its row
      same = rows[Math.min(at, rows.length - 1)]?.querySelector(`.${kind}`);
    list.append(...rows);
    passFocus(list, same ?? summary);
    for (const one of before) one.remove();
  }
  return Object.assign(box, { show });
}
