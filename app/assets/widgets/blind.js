// The blind comparison: two takes, or a take and the real piece, as A and B in random order. The browser stores the choices;
// app/commands/evaluate/listening.py reads the file written here.
import { newId } from "../desk/state.js";
import { barCount, countIn, excerptFrom, firstFrom } from "../music/piece.js";
import { action, download, icon, make, marked } from "./parts.js";

const KEPT = "musicgen-listening";
const FORMAT = "musicgen listening 1";
const LEAD = 2; // bars before the new ones
const MOST = 16; // new bars in an excerpt
const HOW =
  "A and B are two takes, or a take and the original continuation, in random order. " +
  "Listen to both, then choose.";
const CHOICES = { A: "A is better", none: "No difference", B: "B is better" };
const SIDES = ["A", "B"];

// Whether no model wrote an entry: a file that was opened, or an example.
function isReal(entry) {
  return (entry?.kind === "file" || entry?.kind === "example") && !entry.provenance;
}

// The real continuation of the piece at the place of a take; null if it ends there or is not known to be real.
function realOf(desk, take) {
  const parent = desk.entries.get(take.parent);
  if (!isReal(parent) || take.how === "accompany") return null;
  const { piece } = parent;
  const { first } = take.region;
  const goesOn =
    first < barCount(piece) && firstFrom(piece.notes, piece.lines[first]) < piece.notes.length;
  return goesOn ? { entry: parent, facts: { what: "the real piece", source: "real" } } : null;
}

function takeOf(entry) {
  const { number, seed, model: source, provenance } = entry;
  const facts = { what: `take ${number + 1}`, source, seed, weights: provenance?.weights_sha256 };
  return { entry, facts };
}

// The pairs of sides {entry, facts}: two takes, or a take and the real piece.
export function pairsOf(desk) {
  const isHeard = (take) => take.state !== "running" && countIn(take.piece, take.region),
    takes = desk.takes.filter(isHeard);
  return takes.flatMap((one, place) => {
    const others = [...takes.slice(place + 1).map(takeOf), realOf(desk, one)].filter(Boolean);
    return others.map((other) => [takeOf(one), other]);
  });
}

// The bars to hear of both sides: from shortly before the new ones.
function barsOf(pair) {
  const take = pair[0].entry;
  const { first, stop } = take.region;
  const least = Math.min(stop, ...pair.map(({ entry }) => barCount(entry.piece)));
  return { first: Math.max(0, first - LEAD), stop: Math.min(least, first + MOST) };
}

// A pair in random order: {A, B, bars}, each side with an excerpt that does not give it away.
export function blind(pair, random = Math.random) {
  const bars = barsOf(pair);
  const { parent, origin } = pair[0].entry,
    plain = { parent, origin, kind: "file", title: "", state: "done" };
  const sides = pair.map(({ entry, facts }) => {
    const piece = excerptFrom(entry.piece, bars);
    return { facts, entry: { ...plain, id: `blind ${newId()}`, piece } };
  });
  const [A, B] = random() < 0.5 ? sides : sides.reverse();
  A.entry.title = "A";
  B.entry.title = "B";
  return { A, B, bars };
}

// The choices, in the browser's storage.
export class Choices {
  constructor(store = localStorage) {
    this.store = store;
  }

  get all() {
    return JSON.parse(this.store.getItem(KEPT) ?? "[]"); // another tab may have added some
  }

  // `chosen` is "A", "B" or "none".
  add({ A, B, bars }, chosen, title) {
    const choice = { id: newId(), made: new Date().toISOString(), title };
    const heard = { bars: [bars.first + 1, bars.stop], A: A.facts, B: B.facts };
    this.store.setItem(KEPT, JSON.stringify([...this.all, { ...choice, ...heard, chosen }]));
  }

  clear() {
    this.store.removeItem(KEPT);
  }

  text() {
    return JSON.stringify({ format: FORMAT, choices: this.all }, null, 1);
  }
}

// The dialog. `acts`: play(side), choose(chosen), draw(), save(), forget().
function dialogFor(acts) {
  const said = make("p", "mg-said", "", { role: "status" }),
    plays = SIDES.map((side) => action("", () => acts.play(side), "mg-chip")),
    verdicts = Object.entries(CHOICES).map(([chosen, text]) =>
      action(text, () => acts.choose(chosen)),
    );
  const next = action("Next pair", acts.draw, "mg-chip mg-further"),
    save = action("", acts.save),
    forget = action("Delete choices", acts.forget);
  const [players, choices, foot] = [plays, verdicts, [next, save, forget]].map((some) =>
    make("div", "mg-row", some),
  );
  const name = make("h2", "", "Compare blind"),
    close = icon("close", "Close", () => box.close()),
    head = make("div", "mg-field-head", [name, close]),
    all = [head, make("p", "mg-said", HOW), players, choices, said, foot],
    box = make("dialog", "mg-blind", all, { ariaLabel: name.textContent });
  return { box, plays, verdicts, said, next, save, forget };
}

// Show a pair: the side that plays, the sides heard so far (`known`), and the `answer` after the choice.
function showPair({ plays, verdicts, said, next }, { pair, known, answer }, player) {
  for (const [place, side] of SIDES.entries()) {
    const on = player.entry?.id === pair[side].entry.id && player.playing;
    plays[place].textContent = on ? `❚❚ ${side}` : `▶ ${side}`;
    plays[place].ariaLabel = `${on ? "Pause" : "Play"} ${side}`;
    plays[place].ariaPressed = on;
  }
  const waits = known.size < 2;
  for (const button of verdicts) button.disabled = waits || Boolean(answer);
  said.textContent = answer || (waits ? "Listen to A and B first." : "Which is better?");
  next.hidden = !answer;
}

// The button and the dialog that it opens. `show` hides the button if there is nothing to compare.
export function blindPart(app) {
  const { desk, player } = app;
  const choices = new Choices();
  const opener = marked(
    "blind",
    "Compare blind",
    () => (player.setLoop(null), box.showModal(), draw()),
  );
  const save = () => download(choices.text(), "listening.json", "application/json");
  const forget = () => (choices.clear(), show());
  const view = dialogFor({ play, choose, draw, save, forget });
  const { box, plays, next } = view;

  let pair = null; // the current pair: {A, B, bars}
  let known = new Set(); // the sides that have been heard
  let answer = "";

  function draw() {
    const pairs = pairsOf(desk);
    player.pause();
    pair = blind(pairs[Math.floor(Math.random() * pairs.length)]);
    known = new Set();
    answer = "";
    show();
    plays[0].focus();
  }

  function play(side) {
    const { entry } = pair[side];
    if (player.entry?.id === entry.id && player.playing) return player.pause();
    player.load(entry, { at: 0 });
    player.seek(0);
    known.add(side);
    player.play();
    show();
  }

  function choose(chosen) {
    player.pause();
    answer = `A was ${pair.A.facts.what}, B was ${pair.B.facts.what}.`;
    choices.add(pair, chosen, desk.current?.title ?? "");
    show();
    next.focus();
  }

  box.addEventListener("close", () => {
    pair = null;
    player.pause();
    app.follow();
    opener.focus();
  });

  function show() {
    opener.hidden = !pairsOf(desk).length;
    if (!pair) return;
    showPair(view, { pair, known, answer }, player);
    const kept = choices.all.length;
    view.save.textContent = `Download choices (${kept})`;
    view.save.hidden = view.forget.hidden = !kept;
  }
  return { opener, box, show };
}
