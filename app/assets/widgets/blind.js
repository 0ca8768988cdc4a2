// The blind comparison: two takes, or a take and the real piece, as A and B in random order. The browser stores the choices;
// app/commands/evaluate/listening.py reads the file written here.
import { newId } from "../desk/state.js";
import { barCount, countIn, excerptFrom, firstFrom } from "../music/piece.js";
import { action, download, icon, make, marked } from "./parts.js";

const KEPT = "musicgen-listening";
const FORMAT = "musicgen listening 1";
const LEAD = 2; // bars before the new ones
const MOST = 16; // new bars in an excerpt
const NAME = "Compare blind";
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
  constructor(storeOf = () => localStorage) {
    this.storeOf = storeOf;
  }

  get all() {
    try {
      return JSON.parse(this.storeOf().getItem(KEPT) ?? "[]"); // another tab may have added some
    } catch {
      return []; // a browser that stores nothing
    }
  }

  // `chosen` is "A", "B" or "none".
  add({ A, B, bars }, chosen, title) {
    const choice = { id: newId(), made: new Date().toISOString(), title };
    const heard = { bars: [bars.first + 1, bars.stop], A: A.facts, B: B.facts };
    this.storeOf().setItem(KEPT, JSON.stringify([...this.all, { ...choice, ...heard, chosen }]));
  }

  clear() {
    this.storeOf().removeItem(KEPT);
  }

  text() {
    return JSON.stringify({ format: FORMAT, choices: this.all }, null, 1);
  }
}

// The button and the dialog that it opens. The button is hidden if there is nothing to compare.
export class Blind {
  constructor(app) {
    Object.assign(this, { app, choices: new Choices(), pair: null }); // {A, B, bars}
    this.opener = marked("blind", NAME, () => this.open());
    this.said = make("p", "mg-said", "", { role: "status" });
    this.plays = SIDES.map((side) => action("", () => this.play(side)));
    this.verdicts = Object.entries(CHOICES).map(([chosen, text]) =>
      action(text, () => this.choose(chosen)),
    );
    const give = () => download(this.choices.text(), "listening.json", "application/json"),
      forget = () => (this.choices.clear(), this.show());
    this.next = action("Next pair", () => this.draw(), "mg-chip mg-further");
    this.stored = [action("", give), action("Delete choices", forget)];
    const foot = [this.next, ...this.stored],
      rows = [this.plays, this.verdicts, foot].map((some) => make("div", "mg-row", some));
    const close = icon("close", "Close", () => this.box.close()),
      head = make("div", "mg-field-head", [make("h2", "", NAME), close]),
      all = [head, make("p", "mg-said", HOW), ...rows, this.said];
    this.box = make("dialog", "mg-blind", all, { ariaLabel: NAME });
    this.box.addEventListener("close", () => this.close());
  }

  open() {
    this.app.player.setLoop(null);
    this.box.showModal();
    this.draw();
  }

  close() {
    this.pair = null;
    this.app.player.pause();
    this.app.follow();
    this.opener.focus();
  }

  draw() {
    const pairs = pairsOf(this.app.desk);
    this.app.player.pause();
    this.pair = blind(pairs[Math.floor(Math.random() * pairs.length)]);
    this.known = new Set(); // the sides that have been heard
    this.answer = "";
    this.show();
    this.plays[0].focus();
  }

  play(side) {
    const { player } = this.app;
    if (this.isPlaying(side)) return player.pause();
    player.load(this.pair[side].entry, { at: 0 });
    player.seek(0);
    this.known.add(side);
    player.play();
    return this.show();
  }

  isPlaying(side) {
    const { player } = this.app;
    return player.playing && player.entry?.id === this.pair[side].entry.id;
  }

  choose(chosen) {
    const { pair } = this;
    this.app.player.pause();
    this.answer = `A was ${pair.A.facts.what}, B was ${pair.B.facts.what}.`;
    this.choices.add(pair, chosen, this.app.desk.current?.title ?? "");
    this.show();
    this.next.focus();
  }

  show() {
    const { answer, known, plays, verdicts, next, stored, said } = this;
    this.opener.hidden = !pairsOf(this.app.desk).length;
    if (!this.pair) return;
    for (const [place, side] of SIDES.entries()) {
      const on = this.isPlaying(side);
      plays[place].textContent = on ? `❚❚ ${side}` : `▶ ${side}`;
      plays[place].ariaLabel = `${on ? "Pause" : "Play"} ${side}`;
      plays[place].ariaPressed = on;
    }
    const waits = known.size < 2,
      kept = this.choices.all.length;
    for (const button of verdicts) button.disabled = waits || Boolean(answer);
    said.textContent = answer || (waits ? "Listen to A and B first." : "Which is better?");
    next.hidden = !answer;
    stored[0].textContent = `Download choices (${kept})`;
    for (const button of stored) button.hidden = !kept;
  }
}
