// The history: the newest first, each piece with its takes and edits below it.
import { namesOf } from "../music/naming.js";
import { action, barsLabel, count, fold, icon, make } from "../widgets/parts.js";

const KINDS = { file: "opened", example: "example", edit: "edited" };

// The facts of an entry, the most important first.
function factsOf(entry) {
  const { kind, piece, region, how, model, seed, made, act } = entry,
    all = count(piece.lines.length - 1, "bar");
  const time = new Date(made).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  if (kind === "take" && region) {
    const names = region.tracks && namesOf(piece, region.tracks),
      bars = barsLabel(region),
      what = how === "continue" ? bars : `${names ? `${names} in ${bars}` : bars} rewritten`;
    return [how === "accompany" ? `${names} written` : what, model, `seed ${seed}`, time];
  }
  return [act ?? KINDS[kind], all, time].filter(Boolean);
}

export function historyPart(app) {
  const { desk } = app;
  const only = action("Starred only", () => ((starred = !starred), show())),
    list = make("ol", "mg-history-list"),
    box = fold("", "mg-card mg-history", [make("div", "mg-row", [only]), list]);
  const summary = box.firstChild;
  const unfolded = new Set(); // the pieces whose earlier versions are shown
  let starred = false,
    shown = "";
  box.addEventListener("toggle", () => show());

  function row(entry) {
    const { id, title } = entry,
      starIt = icon("star", `Star: ${title}`, () => desk.star(id), "mg-icon mg-star"),
      bin = icon("bin", `Delete: ${title}`, () => app.remove(id), "mg-icon mg-drop");
    starIt.ariaPressed = desk.stars.has(id);
    const words = [
        make("span", "", title),
        make("span", "mg-facts", ["", ...factsOf(entry)].join(" · ")),
      ],
      more = { title, ariaCurrent: id === desk.open.current || null },
      open = action(words, () => app.recall(id), "mg-item mg-history-open", more);
    return make("li", "mg-history-row", [starIt, open, bin]);
  }

  // The newest entry of a piece, and a fold with the others.
  function pieceRow([newest, ...others]) {
    const made = row(newest);
    if (!others.length) return made;
    const { origin } = newest,
      inside = make("ol", "mg-history-list", others.map(row)),
      more = fold(`${count(others.length, "earlier version")}`, "mg-versions", [inside]);
    more.open = unfolded.has(origin) || others.some(({ id }) => id === desk.open.current);
    more.addEventListener("toggle", () => unfolded[more.open ? "add" : "delete"](origin));
    made.append(more);
    return made;
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
    const buttons = () => [...list.querySelectorAll("button")],
      at = buttons().indexOf(document.activeElement);
    const pieces = Map.groupBy(entries.toReversed(), ({ id, origin }) => origin ?? id);
    list.replaceChildren(...[...pieces.values()].map(pieceRow));
    const next = buttons().at(Math.min(at, buttons().length - 1)); // in the same place
    if (at >= 0) (next ?? summary).focus({ preventScroll: true });
  }
  return Object.assign(box, { show });
}
