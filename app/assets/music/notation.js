// Simplifies a piece for notation: onsets on sixteenths or triplets, one voice per staff, no inaudibly short rests.
import { rowsOf, withRows } from "./piece.js";

const MIDDLE = 60; // C4: lower notes go to the lower of two staves

const roundTo = (tick, step) => Math.round(tick / step) * step;
const upTo = (tick, step) => Math.ceil(tick / step) * step;
const deviation = (ticks, step) =>
  ticks.reduce((sum, tick) => sum + Math.abs(tick - roundTo(tick, step)), 0);

// Quantise the onsets of each beat to triplets or sixteenths, whichever is nearer.
function onGrid(rows, beat) {
  const beats = Map.groupBy(rows, ([onset]) => Math.floor(onset / beat));
  return [...beats.values()].flatMap((some) => {
    const ticks = some.map(([onset]) => onset);
    const step = deviation(ticks, beat / 3) < deviation(ticks, beat / 4) ? beat / 3 : beat / 4;
    return some.map(([onset, length, ...more]) => [
      roundTo(onset, step),
      length + onset - roundTo(onset, step),
      ...more,
    ]);
  });
}

const chordsOf = (rows) =>
  [...Map.groupBy(rows, ([onset]) => onset).values()].sort((a, b) => a[0][0] - b[0][0]);

// The chords of a staff: each lasts until the next if it ends near or after it, else to a half beat.
function onStaff(rows, beat) {
  const chords = chordsOf(onGrid(rows, beat));
  return chords.flatMap((chord, place) => {
    const next = chords[place + 1]?.[0][0] ?? Infinity;
    const end = Math.max(...chord.map(([onset, length]) => onset + length));
    const [onset] = chord[0];
    const stop = end > next - beat / 2 ? next : Math.min(next, upTo(end, beat / 2));
    return chord.map((row) => [onset, Math.max(beat / 4, stop - onset), ...row.slice(2)]);
  });
}

// Drums have no durations: each lasts until the next one or to the next beat.
function onDrums(rows, beat) {
  const chords = chordsOf(onGrid(rows, beat));
  return chords.flatMap((chord, place) => {
    const [onset] = chord[0];
    const end = Math.min(chords[place + 1]?.[0][0] ?? Infinity, upTo(onset + 1, beat));
    return chord.map((row) => [onset, end - onset, ...row.slice(2)]);
  });
}

export function asRead(piece) {
  const { tracks, ticksPerBeat: beat } = piece;
  const rows = rowsOf(piece);
  const read = tracks.flatMap(({ drum }, track) => {
    const own = rows.filter((row) => row[4] === track);
    if (drum) return onDrums(own, beat);
    const low = own.filter((row) => row[2] < MIDDLE);
    const high = own.filter((row) => row[2] >= MIDDLE);
    const isSingle =
      !low.some((row) => row[2] < MIDDLE - 5) || !high.some((row) => row[2] > MIDDLE + 5);
    return isSingle ? onStaff(own, beat) : [...onStaff(high, beat), ...onStaff(low, beat)];
  });
  return withRows(piece, read);
}
