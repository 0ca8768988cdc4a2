// The history: all pieces and takes, as a tree by origin.
import { action, count, fold, icon, make, passFocus } from "../widgets/parts.js";
import { factsOf, splitTitle } from "./titles.js";

// The entries, each after its parent, with their depths. A cycle of parents, possible in a damaged project, is cut at its
// first entry.
export function treeOf(desk) {
  const entries = desk.listed,
    ids = new Set(entries.map((one) => one.id)),
    rows = new Map();
  const root = ({ parent }) => {
    for (let i = 0; parent && i < 300; i++) {
      if (ids.has(parent)) return parent;
      parent = desk.entries.get(parent)?.parent;
    }
    return null;
  };
  const children = Map.groupBy(entries, root);
  const walk = (entry, depth) => {
    if (rows.has(entry)) return;
    rows.set(entry, depth);
    for (const child of children.get(entry.id) ?? []) walk(child, depth + 1);
  };
  for (const entry of [...(children.get(null) ?? []), ...entries]) walk(entry, 0);
  return [...rows];
}

export function historyPart(app) {
  const { desk } = app;
  const only = action("Starred only", () => ((starred = !starred), show())),
    list = make("ol", "mg-history-list"),
    box = fold("", "mg-card mg-history", [make("div", "mg-row", [only]), list], {
      id: "mg-history",
    });
  const summary = box.firstChild;
  let starred = false;
  box.addEventListener("toggle", () => show());

  function row(entry, depth) {
    const { id, title } = entry,
      starIt = icon("star", `Star: ${title}`, () => desk.star(id), "mg-icon mg-star"),
      bin = icon("bin", `Delete: ${title}`, () => app.remove(id), "mg-icon mg-drop");
    starIt.ariaPressed = desk.stars.has(id);
    const { variation } = splitTitle(title),
      short = depth && variation ? variation[0].toUpperCase() + variation.slice(1) : title;
    const words = [make("span", "", short), make("span", "mg-facts", factsOf(entry).join(" · "))],
      more = { title, ariaCurrent: id === desk.open.current || null },
      open = action(words, () => app.recall(id), "mg-history-open", more);
    const line = make("li", "mg-history-row", [starIt, open, bin]);
    line.style.setProperty("--depth", Math.min(depth, 8));
    return line;
  }

  function show() {
    const size = desk.open.listed.length,
      kept = desk.open.listed.filter((id) => desk.stars.has(id)).length;
    summary.textContent = `History: ${count(size, "piece")}${kept ? `, ${kept} starred` : ""}`;
    box.hidden = !size;
    if (!box.open) return;
    only.ariaPressed = starred;
    const focused = document.activeElement,
      before = [...list.children],
      at = before.findIndex((one) => one.contains(focused));
    const rows = treeOf(desk)
      .filter(([entry]) => !starred || desk.stars.has(entry.id))
      .map(([entry, depth]) => row(entry, starred ? 0 : depth));
    const kind = [...focused.classList].at(-1), // identifies the button within its row
      same = rows[Math.min(at, rows.length - 1)]?.querySelector(`.${kind}`);
    list.append(...rows);
    passFocus(list, same ?? summary);
    for (const one of before) one.remove();
  }
  return Object.assign(box, { show });
}
