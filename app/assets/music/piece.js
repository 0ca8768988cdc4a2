// A piece of music as plain data: notes as one array of numbers, bar lines, tempo, chords; and what can be made of one.
// A piece is never changed: every function returns a new one.

export const WIDTH = 5; // numbers a note: onset, duration, pitch, velocity, track

// What the server sends → a piece.
export const pieceOf = (plain) => ({ ...plain, notes: Int32Array.from(plain.notes) });

// The last track that is no drums, or the first.
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

export function withRows(piece, rows) {
  const kept = rows.filter((row) => row[1] > 0).sort(inOrder);
  return { ...piece, notes: Int32Array.from(kept.flat()) };
}

// The tick at which the last note ends.
export function endTick(piece) {
  let end = 0;
  for (let i = 0; i < piece.notes.length; i += WIDTH)
    end = Math.max(end, piece.notes[i] + piece.notes[i + 1]);
  return end;
}

// How many of a row of things come before something, found by halving: some pieces change tempo at every beat.
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

// Where in the array the first note stands that begins at a tick or later.
export const firstFrom = (notes, tick) =>
  WIDTH * countUntil(notes.length / WIDTH, (note) => notes[note * WIDTH] < tick);

// The number of the bar, from 0, that a tick lies in.
export const barAt = ({ lines }, tick) =>
  Math.max(0, countUntil(lines.length, (bar) => lines[bar] <= tick) - 1);

// How many bars are empty before the first note: the server hears a file from the bar that this falls into, or lies just before.
export function restBefore(piece) {
  const step = piece.ticksPerBeat / 4;
  return piece.notes.length ? barAt(piece, Math.floor(piece.notes[0] / step + 0.5) * step) : 0;
}

// The ticks of a beat in a bar: what its metre counts, or three of them where eighths go by threes, as in 6/8.
export function beatOf({ meters, ticksPerBeat, lines }, bar) {
  const [, top, low] = meters.findLast(([tick]) => tick <= lines[bar]) ?? [0, 4, 4];
  return ((4 * ticksPerBeat) / low) * (low === 8 && top > 3 && top % 3 === 0 ? 3 : 1);
}

// The bar line nearest to a tick, as a number of bars from the start.
export function lineNear(piece, tick) {
  const bar = Math.min(barAt(piece, tick), barCount(piece) - 1);
  return tick - piece.lines[bar] > piece.lines[bar + 1] - tick ? bar + 1 : bar;
}

// A piece that has grown: of each column, how many rows stay, and what follows them.
export function grown(piece, { notes, ...columns }) {
  const flat = new Int32Array((notes.keep + notes.add.length) * WIDTH);
  flat.set(piece.notes.subarray(0, notes.keep * WIDTH));
  notes.add.forEach((row, index) => flat.set(row, (notes.keep + index) * WIDTH));
  const next = { ...piece, notes: flat };
  for (const name of ["tracks", "tempos", "chords", "meters", "lines"])
    next[name] = [...piece[name].slice(0, columns[name].keep), ...columns[name].add];
  return next;
}

// A bar line for each bar, also for bars that the piece does not have yet.
export function linesFor(piece, bars) {
  const lines = piece.lines.slice(0, bars + 1);
  const last =
    piece.lines.length > 1 ? piece.lines.at(-1) - piece.lines.at(-2) : 4 * piece.ticksPerBeat;
  while (lines.length < bars + 1) lines.push(lines.at(-1) + last);
  return lines;
}

export const withBars = (piece, bars) => ({ ...piece, lines: linesFor(piece, bars) });

// A piece of which the tempos, chords and metres, rows that begin with a tick, are changed in one way.
export const withColumns = (piece, change) => ({
  ...piece,
  tempos: change(piece.tempos),
  chords: change(piece.chords),
  meters: change(piece.meters),
});

// The first bars alone; what is held past them ends there.
export function trimmed(piece, bars) {
  const lines = linesFor(piece, bars),
    end = lines[bars];
  const rows = rowsOf(piece).filter((row) => row[0] < end);
  for (const row of rows) row[1] = Math.min(row[1], end - row[0]);
  const early = (column) => column.filter(([tick]) => tick < end);
  return withColumns({ ...withRows(piece, rows), lines }, early);
}

// Without the bars first … stop − 1: what follows moves up.
export function without(piece, first, stop) {
  const from = piece.lines[first],
    to = piece.lines[stop],
    length = to - from;
  const rows = [];
  for (const row of rowsOf(piece)) {
    if (row[0] >= to) rows.push([row[0] - length, ...row.slice(1)]);
    else if (row[0] < from) rows.push([row[0], Math.min(row[1], from - row[0]), ...row.slice(2)]);
  }
  const later = piece.lines.slice(stop).map((line) => line - length),
    lines = [...piece.lines.slice(0, first), ...later];
  return withColumns({ ...withRows(piece, rows), lines }, (column) => shifted(column, from, to));
}

// Rows that begin with a tick, without those in a gap; the last before its end is in force behind it.
function shifted(rows, from, to) {
  const before = rows.filter(([tick]) => tick < from),
    after = rows.filter(([tick]) => tick >= to);
  const held = rows.filter(([tick]) => tick < to).at(-1);
  const first = held && held[0] >= from && after[0]?.[0] !== to ? [[to, ...held.slice(1)]] : [];
  const later = [...first, ...after].map(([tick, ...more]) => [tick - (to - from), ...more]);
  return [...before, ...later];
}

// What was written of a piece, by itself: from its first new bar on, with the tempo and metre in force there.
export function excerptFrom(piece, { first, stop }) {
  const to = stop >= barCount(piece) ? Infinity : piece.lines[stop],
    early = (rows) => rows.filter(([tick]) => tick < to);
  const begun = withColumns(withRows(piece, early(rowsOf(piece))), early);
  return without({ ...begun, lines: piece.lines.slice(0, stop + 1) }, 0, first);
}

// Whether a note lies in what was written: bars first … stop − 1, of some tracks or of all.
export function inRegion(region, lines, onset, track) {
  if (!region) return false;
  const { first, stop, tracks } = region,
    bars = lines.length - 1;
  if (onset < lines[Math.min(first, bars)]) return false;
  if (stop < bars && onset >= lines[stop]) return false;
  return !tracks || tracks.includes(track);
}

// What of a region is left without the bars first … stop − 1; null where that is nothing.
export function regionWithout(region, first, stop) {
  const at = (bar) => Math.min(bar, Math.max(first, bar - (stop - first))),
    made = region && { ...region, first: at(region.first), stop: at(region.stop) };
  return made && made.first < made.stop ? made : null;
}

// The bars around what was written: those before it and behind it that lead in and out; null where that is everything.
export function aroundNew({ region, piece }) {
  const bars = barCount(piece),
    open = region?.stop >= bars;
  if (!region || region.tracks || (open && !region.first)) return null;
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

// Four empty bars in 4/4 for a piano, to write on.
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
