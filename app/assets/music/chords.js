// The chords of a piece, rows [tick, chord, whether it is a guess, symbol if that says more], as text and with changes. A given
// chord is locked: what is written keeps to it.
import { chordSign } from "./keys.js";
import { barCount } from "./piece.js";

export const NONE = "N.C.";
const signOf = ({ centre = 1 }, [, chord, , symbol]) => chordSign(chord, centre, symbol) || NONE;
const isWithin = ({ lines }, { first, stop }, tick) =>
  tick >= lines[first] && (stop >= lines.length - 1 || tick < lines[stop]);
const inBar = (piece, bar) =>
  piece.chords.filter(([tick]) => isWithin(piece, { first: bar, stop: bar + 1 }, tick));

// The names of the chords of a bar; the first bar has the chord in force, too.
function namesIn(piece, bar, isFirst) {
  const own = inBar(piece, bar),
    start = piece.lines[bar],
    before = piece.chords.findLast(([tick]) => tick < start);
  const held = isFirst && before && own[0]?.[0] !== start ? [before] : [];
  return [...held, ...own].map((row) => signOf(piece, row));
}

// The chords of some bars as text: Am | F C.
export const chordLine = (piece, { first, stop }) =>
  Array.from({ length: stop - first }, (_, place) =>
    namesIn(piece, first + place, !place).join(" "),
  ).join(" | ");

export const hasGuess = (piece, range) =>
  piece.chords.some(([tick, , isGuess]) => isGuess && isWithin(piece, range, tick));

export const hasLocked = (piece, range) =>
  piece.chords.some(([tick, , isGuess]) => !isGuess && isWithin(piece, range, tick));

// The chords after the prompt, repeated by what continues it; "" if none of them is given.
export function chordsAfter(piece, prompt, bars) {
  const all = barCount(piece),
    isGiven = ([tick, , isGuess]) => !isGuess && tick >= piece.lines[prompt];
  if (prompt >= all || !piece.chords.some(isGiven)) return "";
  return chordLine(piece, { first: prompt, stop: Math.min(all, prompt + bars) });
}

// A piece with other chords, and the change of its file: of the whole piece if that has no chords of its own yet.
function changed(piece, range, chords) {
  const stop = range.stop < barCount(piece) ? piece.lines[range.stop] : null,
    last = piece.chords.findLast(([tick]) => tick <= stop);
  if (stop !== null && last && !chords.some(([tick]) => tick === stop))
    chords.push([stop, ...last.slice(1)]);
  chords.sort((a, b) => a[0] - b[0]);
  const isWhole = piece.chords.some(([, , isGuess]) => isGuess),
    written = isWhole ? chords : chords.filter(([tick]) => isWithin(piece, range, tick)),
    columns = {
      ticks: written.map(([tick]) => tick),
      symbols: written.map((row) => signOf(piece, row)),
      guesses: written.map(([, , isGuess]) => isGuess ?? 0),
    };
  const span = isWhole ? {} : { start: piece.lines[range.first], stop };
  return { piece: { ...piece, chords }, changes: [{ change: "chords", ...span, ...columns }] };
}

// Write chords, [chord, symbol] by bars, over some bars, repeated as needed; those that stay the same are not locked.
export function withChords(piece, range, bars) {
  const made = piece.chords.filter(([tick]) => !isWithin(piece, range, tick));
  for (let bar = range.first; bar < range.stop; bar++) {
    const chords = bars[(bar - range.first) % bars.length],
      [from, to] = [piece.lines[bar], piece.lines[bar + 1]],
      rows = chords.map(([chord, symbol], place) => [
        from + Math.floor((place * (to - from)) / chords.length),
        ...[chord, 0, symbol],
      ]);
    const before = namesIn(piece, bar, bar === range.first).join(" "),
      isSame = rows.map((row) => signOf(piece, row)).join(" ") === before;
    made.push(...(isSame ? inBar(piece, bar) : rows));
  }
  return changed(piece, range, made);
}

// Lock the chords of some bars, or unlock them: they count as guesses.
export function withLocks(piece, range, isLocked) {
  const made = piece.chords.map(([tick, chord, isGuess, symbol]) => [
    ...[tick, chord, isWithin(piece, range, tick) ? Number(!isLocked) : isGuess, symbol],
  ]);
  return changed(piece, range, made);
}
