// How a piece is played: with swing, and less exactly than it is written. The same piece is always played in the same way.
import { barAt, barCount, beatOf, rowsOf, withRows } from "./piece.js";

export const STRAIGHT = 50; // percent of a beat before its second eighth
const LATE = 0.06, // of a beat: the most that a note is early or late
  LOUD = 18; // velocities: the most that a note is louder or softer

// A number from −1 to 1, mostly near 0, that depends on some whole numbers alone.
function chance(...numbers) {
  const drawn = [1, 2].map((start) => {
    let hash = start;
    for (const number of numbers) {
      hash = Math.imul(hash ^ number, 0x85ebca6b);
      hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
      hash ^= hash >>> 16;
    }
    return hash / 2 ** 31;
  });
  return (drawn[0] + drawn[1]) / 2;
}

// A tick with the second eighths of quarters as late as the swing says.
function swung(piece, swing, tick) {
  const bar = Math.min(barAt(piece, tick), barCount(piece) - 1),
    { ticksPerBeat: beat } = piece,
    place = ((tick - piece.lines[bar]) / beat) % 1,
    long = swing / 100,
    to = place < 0.5 ? 2 * place * long : 1 - 2 * (1 - place) * (1 - long);
  return beatOf(piece, bar) % beat ? tick : tick + beat * (to - place); // not in eighths of three
}

// The piece as it is played, whose notes can begin between ticks, with the rows before and after as `pairs`.
export function felt(piece, { swing = STRAIGHT, humanise = 0 } = {}) {
  if (swing === STRAIGHT && !humanise) return piece;
  const much = humanise / 100,
    pairs = rowsOf(piece).map((row) => {
      const [onset, length, pitch, velocity, track] = row,
        by = much * LATE * piece.ticksPerBeat * chance(onset, pitch, track),
        from = Math.max(0, swung(piece, swing, onset) + by),
        to = swung(piece, swing, onset + length) + by,
        loud = Math.round(velocity + much * LOUD * chance(track, onset, pitch));
      return [row, [from, to - from, pitch, Math.min(127, Math.max(1, loud)), track]];
    });
  const rows = pairs.map(([, after]) => after);
  return { ...withRows(piece, rows, Float64Array), pairs };
}
