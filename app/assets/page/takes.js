// The takes, below each other on a shared time axis and pitch scale, also while they are being written.
import { aroundNew, countIn } from "../music/piece.js";
import { Axis } from "../roll/roll.js";
import { Blind } from "../widgets/blind.js";
import { cardParts, zoomButtons } from "../widgets/card.js";
import { action, count, icon, make, passFocus } from "../widgets/parts.js";
import { planShown } from "../widgets/plan_view.js";

const hint = (verb) => `Press ${verb}: new takes appear here, and you can play them at once.`;

// Whether only chords are new.
const isChords = (region) => region.tracks?.length === 0;

// Describe a take with `fresh` new notes, of which the first of `draw` is shown; silence is a valid result of rewriting bars.
function factsOf({ state, how, seed, region, provenance, reached }, { fresh, draw, verb }) {
  const cut = reached ? ` · interrupted after ${reached.bars} of ${count(reached.of, "bar")}` : "";
  if (isChords(region)) return state === "running" ? "Chords" : `New chords${cut} · seed ${seed}`;
  if (state === "running")
    return count(fresh, "new note") + (draw > 1 ? ` · first of ${draw}` : "");
  const best = provenance?.best_of ? ` · best of ${provenance.best_of}` : "";
  if (fresh) return `${count(fresh, "new note")}${cut} · seed ${seed}${best}`;
  if (reached) return "Interrupted before its first note";
  if (how === "infill") return `These bars are now empty · seed ${seed}`;
  return `The model wrote no notes; press ${verb} to try again.`;
}

function takeCard(app, id, axis) {
  const { desk } = app,
    entryOf = () => desk.entries.get(id),
    { number, how, run } = entryOf(),
    isEarlier = run !== desk.takes.at(-1).run, // a starred one, which takes less room
    name = `Take ${number + 1}`;
  const label = `Piano roll of take ${number + 1}`,
    parts = cardParts(app, entryOf, {
      name: name.toLowerCase(),
      label,
      height: isEarlier ? "clamp(90px, 12vh, 130px)" : "clamp(200px, 26vh, 280px)",
      axis,
    }),
    { facts, star, roll, bar, play, menu } = parts;
  const further = action("Keep this take", () => app.use(id), "mg-chip mg-further"),
    drop = icon("bin", "Delete this take", () => app.remove(id), "mg-icon mg-drop");
  const foot = make(isEarlier ? "span" : "div", "mg-foot", [
      play,
      make("span", "mg-actions", [menu, further]),
    ]),
    inHead = isEarlier ? [foot] : [],
    head = make("div", "mg-head", [make("h3", "", name), facts, ...inHead, star, drop]),
    within = [head, roll.view, bar, ...(isEarlier ? [] : [foot])],
    card = make("article", "mg-card mg-take", within, { ariaLabel: name });

  function show(lanes) {
    const entry = entryOf(),
      over = entry.state !== "running",
      fresh = countIn(entry.piece, entry.region);
    const { run: at, verb } = app.composer,
      draw = at?.settled.has(at.ids?.indexOf(id)) ? 1 : at?.draw;
    facts.textContent = factsOf(entry, { fresh, draw, verb });
    parts.show(entry, { lanes, seen: aroundNew(entry), plan: planShown(app, entry) });
    further.hidden = menu.hidden = drop.hidden = !over;
    further.disabled = !fresh && how !== "infill" && !isChords(entry.region);
  }
  return { id, card, show, roll, play };
}

// The cards of the current takes, or a hint if there are none.
export function takesPart(app, lanesNow) {
  const { desk } = app,
    axis = new Axis(),
    compare = new Blind(app),
    zoom = zoomButtons({ scale: (factor) => cards[0].roll.scale(factor) }),
    tools = make("span", "mg-tools", [compare.opener, zoom]),
    rest = make("p", "mg-rest"),
    grid = make("div", "mg-takes", [rest]),
    box = make("section", "mg-takes-part", [tools, grid], { id: "mg-takes", ariaLabel: "Takes" });
  let cards = [];

  function renew(ids) {
    const before = cards,
      left = before.findIndex((one) => one.card.contains(document.activeElement));
    cards = ids.map((id) => takeCard(app, id, axis));
    grid.append(...(ids.length ? cards.map((one) => one.card) : [rest]));
    passFocus(grid, cards[Math.min(left, ids.length - 1)]?.play ?? app.stageRoll);
    for (const one of before) (one.roll.close(), one.card.remove());
    if (ids.length) rest.remove();
  }

  function show() {
    const ids = desk.takes.map((take) => take.id),
      isOther = ids.join() !== cards.map((one) => one.id).join(),
      fresh = isOther && ids.findIndex((id) => app.composer.run?.ids.includes(id)),
      lanes = lanesNow();
    if (isOther) renew(ids);
    for (const one of cards) one.show(lanes);
    rest.textContent = hint(app.composer.verb);
    tools.hidden = !ids.length;
    compare.show();
    // While trading, the player is at the keyboard.
    if (!app.trade.on) cards[fresh]?.card.scrollIntoView({ block: "nearest" });
  }
  return Object.assign(box, { show, cards: () => cards, dialog: compare.box });
}
