// Blind comparisons: the available pairs, the excerpts to hear, and the choices, which the browser stores.
// app/commands/evaluate/listening.py reads the file written here.
import { barCount, countIn, excerptFrom, firstFrom } from "../music/piece.js";
import { newId } from "./state.js";

const KEPT = "musicgen-listening";
const FORMAT = "musicgen listening 1";
const LEAD = 2; // bars before the new ones
const MOST = 16; // new bars in an excerpt

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
      return []; // a browser that keeps nothing
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
