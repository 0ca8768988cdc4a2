// What was written of a piece, by itself: from its first new bar on, with the tempo and metre in force there.
import { rowsOf, withRows } from "./piece.js";

const inForce = (rows, from, to) => {
  const before = rows.filter(([tick]) => tick <= from).at(-1), inside = rows.filter(([tick]) => tick > from && tick < to);
  return [...(before ? [[0, ...before.slice(1)]] : []), ...inside.map(([tick, ...more]) => [tick - from, ...more])];
};

export function excerptFrom(piece, region) {
  const from = piece.lines[region.first], last = region.stop >= piece.lines.length - 1, to = last ? Infinity : piece.lines[region.stop];
  const rows = rowsOf(piece).filter((row) => row[0] >= from && row[0] < to).map((row) => [row[0] - from, ...row.slice(1)]);
  const lines = piece.lines.slice(region.first, region.stop + 1).map((line) => line - from);
  const columns = Object.fromEntries(["tempos", "chords", "meters"].map((name) => [name, inForce(piece[name], from, to)]));
  return { ...withRows({ ...piece, ...columns }, rows), lines };
}
