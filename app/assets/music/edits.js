// Edits of notes: move, lengthen, delete, draw, record. If nothing changes, they return the piece itself. What they do to the
// file of the piece is a list of changes, as in tokenization/changes.py.
import { BEND, SUSTAIN, rowsOf, withRows } from "./piece.js";

const within = (value, low, high) => Math.min(high, Math.max(low, value));
const VELOCITY = 84;

// The piece with `change` applied to the rows of the chosen notes, and these before and after it as `pairs`; if they stay
// as they are, the piece itself.
function changed(piece, chosen, change) {
  const rows = rowsOf(piece),
    pairs = chosen.map((index) => [rows[index], change(rows[index], index)]);
  if (pairs.every(([before, after]) => String(before) === String(after))) return piece;
  chosen.forEach((index, place) => (rows[index] = pairs[place][1]));
  return { ...withRows(piece, rows), pairs };
}

// The rows that one piece lacks of another, each as often.
function lacking(piece, other) {
  const left = Map.groupBy(rowsOf(piece), String);
  return rowsOf(other).filter((row) => !left.get(String(row))?.pop());
}

// The changes of the file that turn a piece into an edited one; null if they differ in more than notes and bars.
export function changesBetween(piece, { pairs, ...made }) {
  const isSame = (name) => JSON.stringify(piece[name]) === JSON.stringify(made[name]);
  if (!["tracks", "tempos", "chords", "meters", "ticksPerBeat"].every(isSame)) return null;
  const gone = lacking(made, piece).map((row) => [row, null]),
    come = lacking(piece, made).map((row) => [null, row]);
  return [{ change: "notes", rows: pairs ?? [...gone, ...come] }, ...moves(piece, made)];
}

// The changes that add the controllers that a piece lacks of another.
function moves({ controls: before = [] }, { controls = [] }) {
  const known = new Set(before.map(String)),
    tracks = Map.groupBy(
      controls.filter((row) => !known.has(String(row))),
      ([, , , track]) => track,
    );
  return [...tracks].map(([track, rows]) => ({
    ...{ change: "controllers", track },
    events: rows.map((row) => row.slice(0, 3)),
  }));
}

// A list of changes with more; those of a note that was changed before become one.
export function joined(changes, more) {
  const [last, first] = [changes.at(-1), more[0]];
  if (last?.change !== "notes" || first?.change !== "notes") return [...changes, ...more];
  const rows = [...last.rows],
    places = Map.groupBy(rows.keys(), (place) => String(rows[place][1]));
  for (const [before, after] of first.rows) {
    const place = before ? places.get(String(before))?.pop() : undefined;
    if (place !== undefined) rows[place] = [rows[place][0], after];
    else rows.push([before, after]);
  }
  const left = rows.filter(([before, after]) => String(before) !== String(after));
  return [...changes.slice(0, -1), { change: "notes", rows: left }, ...more.slice(1)];
}

// Move the notes with the indices `chosen` together, none of them past the edges of the piece.
export function moved(piece, chosen, ticks, steps) {
  const rows = rowsOf(piece),
    moving = chosen.map((index) => rows[index]);
  if (!moving.length) return piece;
  const onsets = moving.map((row) => row[0]),
    pitches = moving.map((row) => row[2]);
  const end = piece.lines.at(-1) - 1,
    by = within(ticks, -Math.min(...onsets), end - Math.max(...onsets)),
    up = within(steps, -Math.min(...pitches), 127 - Math.max(...pitches));
  const shift = ([onset, length, pitch, ...more]) => [onset + by, length, pitch + up, ...more];
  return changed(piece, chosen, shift);
}

export function lengthened(piece, chosen, ticks) {
  const least = gridOf(piece),
    end = piece.lines.at(-1);
  // Notes end with the piece, but longer ones are not shortened to it.
  const made = ([onset, length]) =>
    within(length + ticks, Math.min(least, length), Math.max(length, end - onset));
  return changed(piece, chosen, (row) => row.with(1, made(row)));
}

export function removed(piece, chosen) {
  const some = new Set(chosen),
    rows = rowsOf(piece).filter((_, index) => !some.has(index));
  return withRows(piece, rows);
}

export function drawn(piece, onset, duration, pitch, track) {
  const left = piece.lines.at(-1) - onset; // to the end of the piece
  if (onset < 0 || left <= 0 || pitch < 0 || pitch > 127) return piece;
  const row = [onset, Math.min(duration, left), pitch, VELOCITY, track];
  return withRows(piece, [...rowsOf(piece), row]);
}

export const louder = (piece, chosen, by) =>
  changed(piece, chosen, (row) => row.with(3, within(row[3] + by, 1, 127)));

// With other velocities, given by the indices of notes.
export const shaded = (piece, velocities) =>
  changed(piece, [...velocities.keys()], (row, index) =>
    row.with(3, within(velocities.get(index), 1, 127)),
  );

// Onsets on a grid, whose steps may be fractions of ticks, and before the end of the piece.
export function quantisedTo(piece, chosen, grid) {
  const last = Math.floor((piece.lines.at(-1) - 1) / grid),
    near = ([onset]) => Math.round(Math.min(last, Math.round(onset / grid)) * grid);
  return changed(piece, chosen, (row) => row.with(0, near(row)));
}

// Copied rows, the first of them at a tick, without those past the end of the piece.
export function pasted(piece, copied, tick) {
  const first = Math.min(...copied.map(([onset]) => onset)),
    end = piece.lines.at(-1);
  return copied
    .map((row) => row.with(0, row[0] - first + tick))
    .filter(([onset, , , , track]) => onset < end && track < piece.tracks.length)
    .map((row) => row.with(1, Math.min(row[1], end - row[0])));
}

// The grid of editing and recording, in ticks: a part of a beat, which the user chooses.
let partsOfBeat = 4;
export const setGrid = (parts) => (partsOfBeat = parts);
export const gridOf = (piece) => Math.max(1, Math.round(piece.ticksPerBeat / partsOfBeat));
export const toGrid = (piece, tick) => Math.round(tick / gridOf(piece)) * gridOf(piece);

// The index of a row among the sorted notes.
export function indexOf(piece, row) {
  return rowsOf(piece).findIndex((one) => one.every((value, place) => value === row[place]));
}

// Add moves of controllers, [seconds, controller, value], up to a time at which all are at rest again.
export function withControls(piece, moves, until, { tempo, track, start }) {
  const rows = [],
    before = new Map(moves.filter(([at]) => at <= 0).map(([, ...move]) => move));
  const add = (seconds, controller, value) => {
    const tick = start + (seconds * tempo * piece.ticksPerBeat) / 60;
    rows.push([Math.round(100 * tick) / 100, controller, value, track]);
  };
  for (const [controller, value] of before) if (value) add(0, controller, value);
  for (const move of moves) if (move[0] > 0 && move[0] < until) add(...move);
  for (const one of [SUSTAIN, BEND]) {
    const last = rows.findLast(([, controller]) => controller === one);
    if (last?.[2]) add(until, one, 0);
  }
  if (!rows.length) return piece;
  const inTime = (a, b) => a[0] - b[0];
  return { ...piece, controls: [...(piece.controls ?? []), ...rows].sort(inTime) };
}

// Add played notes, [seconds on, seconds off, pitch, velocity], quantised to the grid at a tempo.
export function quantised(piece, played, tempo, track, start = 0) {
  const ticks = (seconds) => toGrid(piece, (seconds * tempo * piece.ticksPerBeat) / 60);
  const rows = played.map(([on, off, pitch, velocity]) => {
    const onset = Math.max(0, ticks(on));
    return [start + onset, Math.max(gridOf(piece), ticks(off) - onset), pitch, velocity, track];
  });
  return withRows(piece, [...rowsOf(piece), ...rows]);
}
