// The plan of a piece as in the language `ensemble`: the density, register and loudness of each bar, computed from the notes
// as in tokenization/ensemble/plan.py, and the letters of the form.
import { WIDTH, barCount } from "./piece.js";

// The curves of a plan: range of values, step, and line style.
export const CURVES = {
  density: { name: "Density", low: 0, high: 12, step: 0.5, line: "solid", colour: "given-1" },
  register: { name: "Register", low: 45, high: 90, step: 1, line: "dashed", colour: "given-2" },
  loudness: { name: "Loudness", low: 16, high: 124, step: 1, line: "dotted", colour: "new-2" },
};
const FLAT = 72; // the velocity of all notes of a piece without dynamics
const LEVELS = 16; // of loudness
const LIKE = 0.6; // the least Dice coefficient of similar bars
export const PHRASE = 4; // bars per letter
const PITCHES = ["C", "C♯", "D", "E♭", "E", "F", "F♯", "G", "A♭", "A", "B♭", "B"];
const DYNAMICS = ["pp", "p", "mp", "mf", "f", "ff"];

const levelOf = (velocity) => Math.floor((velocity * LEVELS) / 128);
const velocityOf = (level) => (level + 0.5) * (128 / LEVELS);

// The statistics of a bar, before its first note.
const empty = () => ({
  notes: 0,
  velocity: 0,
  tops: new Map(),
  pitched: new Set(),
  all: new Set(),
});

function counted(piece) {
  const { notes, lines, tracks } = piece;
  const bars = Array.from({ length: barCount(piece) }, empty);
  for (let i = 0, at = 0; i < notes.length; i += WIDTH) {
    const [onset, , pitch, velocity, track] = notes.subarray(i, i + WIDTH);
    while (at < bars.length - 1 && lines[at + 1] <= onset) at += 1;
    const bar = bars[at];
    const place = `${onset - lines[at]} ${track} ${pitch}`;
    if (bar.all.has(place)) continue; // the same note twice
    bar.all.add(place);
    bar.notes += 1;
    bar.velocity += velocityOf(levelOf(velocity));
    if (tracks[track].drum) continue;
    bar.pitched.add(place);
    bar.tops.set(onset, Math.max(pitch, bar.tops.get(onset) ?? 0));
  }
  return bars;
}

function isFlat({ notes }) {
  for (let i = 3; i < notes.length; i += WIDTH) if (notes[i] !== FLAT) return false;
  return true;
}

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

// The Dice coefficient of the notes of two bars.
function likeness(one, other) {
  let common = 0;
  for (const place of one) if (other.has(place)) common += 1;
  return (2 * common) / Math.max(1, one.size + other.size);
}

// Whether at least half of the non-empty bars of a phrase are similar to those of another.
function isLike(phrase, other) {
  const played = phrase.map((bar, place) => [bar, other[place]]).filter(([bar]) => bar.size);
  const alike = played.filter(([bar, before]) => before && likeness(bar, before) >= LIKE).length;
  return played.length > 0 && 2 * alike >= played.length;
}

const letterOf = (number) =>
  String.fromCharCode(65 + (number % 26)) + (Math.floor(number / 26) || "");

// A letter for each phrase, the same if it returns; "" for silence.
function lettersOf(bars) {
  const firsts = [];
  const letters = [];
  for (let from = 0; from < bars.length; from += PHRASE) {
    const phrase = bars.slice(from, from + PHRASE);
    let number = firsts.findIndex((first) => isLike(phrase, first));
    if (number < 0 && phrase.some((bar) => bar.size)) number = firsts.push(phrase) - 1;
    letters.push(number < 0 ? "" : letterOf(number));
  }
  return letters;
}

// The sections of a piece: those heard, a letter per phrase, and in new bars those `asked`, {letters, first, stop}.
export function sectionsOf(letters, asked = null) {
  const heard = letters.map((letter, number) => ({
    letter,
    first: number * PHRASE,
    stop: (number + 1) * PHRASE,
  }));
  if (!asked) return heard;
  const length = (asked.stop - asked.first) / asked.letters.length,
    line = (place) => Math.round(asked.first + place * length);
  const before = heard.filter(({ first }) => first < asked.first);
  return [
    ...before.map((one) => ({ ...one, stop: Math.min(one.stop, asked.first) })),
    ...asked.letters.map((letter, n) => ({ letter, first: line(n), stop: line(n + 1) })),
  ];
}

const plans = new WeakMap(); // notes → bar lines and plan, cached for painting

// {density, register, loudness, letters}: a value per bar, null if undefined, and a letter per phrase.
export function planOf(piece) {
  const kept = plans.get(piece.notes);
  if (kept?.lines === piece.lines) return kept.plan;
  const bars = counted(piece);
  const { lines, ticksPerBeat } = piece;
  const flat = isFlat(piece);
  const pitched = bars.some((bar) => bar.pitched.size);
  const plan = {
    density: bars.map(({ notes }, bar) => (notes * ticksPerBeat) / (lines[bar + 1] - lines[bar])),
    register: bars.map(({ tops }) => (tops.size ? mean([...tops.values()]) : null)),
    loudness: bars.map(({ notes, velocity }) => (notes && !flat ? velocity / notes : null)),
    letters: lettersOf(bars.map((bar) => (pitched ? bar.pitched : bar.all))),
  };
  plans.set(piece.notes, { lines, plan });
  return plan;
}

// The height of a value on its curve, 0 to 1, and back. Density has a square-root scale, to spread low values.
export function heightOf(curve, value) {
  const { low, high } = CURVES[curve];
  const part = Math.min(1, Math.max(0, (value - low) / (high - low)));
  return curve === "density" ? Math.sqrt(part) : part;
}

export function valueAt(curve, height) {
  const { low, high, step } = CURVES[curve];
  const part = Math.min(1, Math.max(0, height));
  const value = low + (high - low) * (curve === "density" ? part * part : part);
  return Math.max(low, Math.round(value / step) * step);
}

// A value in words for musicians.
export function valueLabel(curve, value) {
  if (curve === "density") return `${value} ${value === 1 ? "note" : "notes"} per beat`;
  if (curve === "register")
    return `highest notes around ${PITCHES[value % 12]}${Math.floor(value / 12) - 1}`;
  return `loudness ${value} (${DYNAMICS[Math.min(5, Math.floor((value * 6) / 128))]})`;
}

// The goals of `count` bars from `first` on as the server takes them, or null if there are none.
export function askedOf(goals, first, count) {
  const asked = {};
  for (const curve of Object.keys(CURVES)) {
    const values = Array.from({ length: count }, (_, bar) => goals[first + bar]?.[curve] ?? null);
    if (values.some((value) => value !== null)) asked[curve] = values;
  }
  return Object.keys(asked).length ? asked : null;
}
