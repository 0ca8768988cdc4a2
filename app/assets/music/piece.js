// A piece of music as plain data: notes as one array of numbers, bar lines, tempos, chords. Pieces are immutable: functions
// return new ones.

export const WIDTH = 5; // numbers per note: onset, duration, pitch, velocity, track

// A piece may have recorded moves of controllers: rows [tick, controller, value, track].
export const SUSTAIN = 64, // the controller of the pedal
  BEND = 128; // the pitch bend, as in tokenization/changes.py

// A piece from the data of the server.
export const pieceOf = (plain) => ({ ...plain, notes: Int32Array.from(plain.notes) });

// A piece in the key of the one that it was made from, if that is stated and not guessed.
export const inKeyOf = (before, piece) =>
  before?.key?.[2] === 0 ? { ...piece, key: before.key, centre: before.centre } : piece;

// The last pitched track, or the first track if there is none.
export function lastPitched(tracks) {
  const last = tracks.findLastIndex((track) => !track.drum);
  return Math.max(0, last);
}

export const noteCount = (piece) => piece.notes.length / WIDTH;
export const barCount = (piece) => piece.lines.length - 1;

// The notes as rows [onset, duration, pitch, velocity, track].
export function rowsOf(piece) {
  const rows = [];
  for (let i = 0; i < piece.notes.length; i += WIDTH)
    rows.push(Array.from(piece.notes.subarray(i, i + WIDTH)));
  return rows;
}

const inOrder = (a, b) => a[0] - b[0] || a[4] - b[4] || a[2] - b[2] || a[1] - b[1];

export function withRows(piece, rows, Numbers = Int32Array) {
  const kept = rows.filter((row) => row[1] > 0).sort(inOrder);
  return { ...piece, notes: Numbers.from(kept.flat()), pairs: undefined }; // of edits.js
}

// The tick at which the last note to sound ends.
export function endTick(piece) {
  let end = 0;
  for (let i = 0; i < piece.notes.length; i += WIDTH)
    end = Math.max(end, piece.notes[i] + piece.notes[i + 1]);
  return end;
}

// The number of leading indices for which `isBefore` holds, by binary search: some pieces change tempo at every beat.
export function countUntil(length, isBefore) {
  let low = 0,
    high = length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isBefore(middle)) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The place in the array of the first note at or after a tick.
export const firstFrom = (notes, tick) =>
  WIDTH * countUntil(notes.length / WIDTH, (note) => notes[note * WIDTH] < tick);

// The bar of a tick, from 0.
export const barAt = ({ lines }, tick) =>
  Math.max(0, countUntil(lines.length, (bar) => lines[bar] <= tick) - 1);

// The number of empty bars before the first note, which the server leaves out of a file. As there, the onset is rounded to
// sixteenths.
export function restBefore(piece) {
  const step = piece.ticksPerBeat / 4;
  return piece.notes.length ? barAt(piece, Math.floor(piece.notes[0] / step + 0.5) * step) : 0;
}

// The ticks per beat of a bar: the unit of its metre, or three of them in compound metres such as 6/8.
export function beatOf({ meters, ticksPerBeat, lines }, bar) {
  const [, top, low] = meters.findLast(([tick]) => tick <= lines[bar]) ?? [0, 4, 4];
  return ((4 * ticksPerBeat) / low) * (low === 8 && top > 3 && top % 3 === 0 ? 3 : 1);
}

// The number of the bar line nearest to a tick.
export function lineNear(piece, tick) {
  const bar = Math.min(barAt(piece, tick), barCount(piece) - 1);
  return tick - piece.lines[bar] > piece.lines[bar + 1] - tick ? bar + 1 : bar;
}

// Apply an update of the server: for each column, the number of rows to keep and those to add.
export function grown(piece, { notes, ...columns }) {
  const flat = new Int32Array((notes.keep + notes.add.length) * WIDTH);
  flat.set(piece.notes.subarray(0, notes.keep * WIDTH));
  notes.add.forEach((row, index) => flat.set(row, (notes.keep + index) * WIDTH));
  const next = { ...piece, notes: flat };
  for (const name of ["tracks", "tempos", "chords", "meters", "lines"])
    next[name] = [...piece[name].slice(0, columns[name].keep), ...columns[name].add];
  return next;
}

// The lines of the first bars, extended by bars of the last length if the piece has fewer.
export function linesFor(piece, bars) {
  const lines = piece.lines.slice(0, bars + 1);
  const last =
    piece.lines.length > 1 ? piece.lines.at(-1) - piece.lines.at(-2) : 4 * piece.ticksPerBeat;
  while (lines.length < bars + 1) lines.push(lines.at(-1) + last);
  return lines;
}

export const withBars = (piece, bars) => ({ ...piece, lines: linesFor(piece, bars) });

// The piece with `change` applied to its tempos, chords and metres: rows that begin with a tick.
export const withColumns = (piece, change) => ({
  ...piece,
  tempos: change(piece.tempos),
  chords: change(piece.chords),
  meters: change(piece.meters),
});

// The piece without the bars first … stop − 1; later bars move forward.
export function without(piece, first, stop) {
  const from = piece.lines[first],
    to = piece.lines[stop],
    length = to - from,
    isEnd = stop === barCount(piece);
  const rows = [];
  for (const row of rowsOf(piece)) {
    if (row[0] < from) rows.push([row[0], Math.min(row[1], from - row[0]), ...row.slice(2)]);
    else if (row[0] >= to && !isEnd) rows.push([row[0] - length, ...row.slice(1)]);
  }
  const later = piece.lines.slice(stop).map((line) => line - length),
    lines = [...piece.lines.slice(0, first), ...later],
    left = (column) => shifted(column, from, isEnd ? Infinity : to);
  const controls = piece.controls
    ?.filter(([tick]) => tick < from || (tick >= to && !isEnd))
    .map(([tick, ...more]) => [tick < from ? tick : tick - length, ...more]);
  return withColumns({ ...withRows(piece, rows), lines, ...(controls && { controls }) }, left);
}

// The same as a change of the file (tokenization/changes.py).
export const cutOf = ({ lines }, first, stop) => ({
  ...{ change: "cut", start: lines[first] },
  stop: stop < lines.length - 1 ? lines[stop] : null,
});

// The first bars; notes held past them are cut.
export const trimmed = (piece, bars) => without(piece, bars, barCount(piece));

// Rows that begin with a tick, without those in a gap; the last value in the gap stays in force after it.
function shifted(rows, from, to) {
  const before = rows.filter(([tick]) => tick < from),
    after = rows.filter(([tick]) => tick >= to);
  const held = rows.filter(([tick]) => tick < to).at(-1);
  const isHeld = held?.[0] >= from && to < Infinity && after[0]?.[0] !== to,
    first = isHeld ? [[to, ...held.slice(1)]] : [];
  const later = [...first, ...after].map(([tick, ...more]) => [tick - (to - from), ...more]);
  return [...before, ...later];
}

// The bars first … stop − 1 as a piece, with the tempo, chord and metre in force there.
export const excerptFrom = (piece, { first, stop }) =>
  without(trimmed(piece, Math.min(stop, barCount(piece))), 0, first);

// Whether a note is in a region: bars first … stop − 1, of some tracks or of all.
export function inRegion(region, lines, onset, track) {
  if (!region) return false;
  const { first, stop, tracks } = region,
    bars = lines.length - 1;
  if (onset < lines[Math.min(first, bars)]) return false;
  if (stop < bars && onset >= lines[stop]) return false;
  return !tracks || tracks.includes(track);
}

// A region after deleting the bars first … stop − 1; null if nothing of it is left.
export function regionWithout(region, first, stop) {
  const at = (bar) => Math.min(bar, Math.max(first, bar - (stop - first))),
    made = region && { ...region, first: at(region.first), stop: at(region.stop) };
  return made && made.first < made.stop ? made : null;
}

// The new bars with those that lead in and out; null if that is the whole piece.
export function aroundNew({ region, piece }) {
  const bars = barCount(piece),
    open = region?.stop >= bars;
  if (!region || (open && !region.first)) return null;
  const first = Math.max(0, region.first - (open ? 1 : 2)),
    stop = Math.min(bars, region.stop + (open ? 0 : 2));
  return first || stop < bars ? { first, stop } : null;
}

export function countIn(piece, region) {
  let count = 0;
  for (let i = 0; i < piece.notes.length; i += WIDTH)
    if (inRegion(region, piece.lines, piece.notes[i], piece.notes[i + 4])) count += 1;
  return count;
}

// An empty piece with as many bars of another metre.
export const withMetre = (piece, beats, unit) => ({
  ...piece,
  meters: [[0, beats, unit]],
  lines: piece.lines.map((_, bar) => (bar * beats * 4 * piece.ticksPerBeat) / unit),
});

// Four empty bars of 4/4 for piano.
export const emptyPiece = () => ({
  notes: new Int32Array(),
  tracks: [{ name: "Piano", program: 0, drum: false }],
  tempos: [[0, 110]],
  chords: [],
  meters: [[0, 4, 4]],
  ticksPerBeat: 12,
  lines: [0, 48, 96, 144, 192],
  centre: 1,
});
