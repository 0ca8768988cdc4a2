// Assertions and pieces for the tests of the page's scripts, in node and in the browser.
export const ok = (value, words = "is so") => {
  if (!value) throw new Error(`not: ${words}`);
};
export const equal = (found, wanted) => ok(JSON.stringify(found) === JSON.stringify(wanted), `${JSON.stringify(found)} is ${JSON.stringify(wanted)}`);
export const near = (found, wanted, by = 1e-6) => ok(Math.abs(found - wanted) <= by, `${found} is ${wanted}`);
export const throws = (act, words) => {
  try {
    act();
  } catch (error) {
    return ok(words.test(error.message), `“${error.message}” says ${words}`);
  }
  throw new Error(`nothing was thrown that says ${words}`);
};

// A piece with rows [onset, duration, pitch, velocity, track] and twelve ticks per beat.
export const piece = (rows, { bars = 4, tracks = 1, tempos = [[0, 120]] } = {}) => ({
  notes: Int32Array.from(rows.flat()), ticksPerBeat: 12, lines: Array.from({ length: bars + 1 }, (_, n) => 48 * n), centre: 1,
  tracks: Array.from({ length: tracks }, (_, n) => ({ name: `Track ${n}`, program: n, drum: n === 2 })), tempos, chords: [], meters: [[0, 4, 4]],
});
