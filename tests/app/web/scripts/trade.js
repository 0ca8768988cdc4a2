// Trading bars: joining turns into the piece, and recording from a bar line.
import { rowsOf } from "../../../../app/assets/music/piece.js";
import { Recorder } from "../../../../app/assets/sound/recorder.js";
import { accompanied, answerAt, withLate } from "../../../../app/assets/sound/trade.js";
import { equal, ok, piece } from "./check.js";

// A recorder without a page, started on a piece at 60 BPM.
function recording(song, more) {
  const clicks = [];
  const synth = { loaded: true, now: () => 0, wake() {}, click: (...click) => clicks.push(click) };
  const player = { synth, touch() {}, release() {} };
  const before = globalThis.addEventListener;
  globalThis.addEventListener = () => {};
  const recorder = new Recorder(player, () => {});
  globalThis.addEventListener = before;
  recorder.start({ ...song, tempos: [[0, 60]] }, 1, more);
  return { recorder, clicks };
}

const now = () => performance.now() / 1000;

export const tests = {
  "a recording is shown with its bars and a cursor"() {
    const song = piece([[0, 12, 60, 80, 0]], { bars: 2 });
    const turn = recording(song, { bar: 2, at: now() + 1, bars: 4 }).recorder;
    equal([turn.tick, turn.shown({ piece: song }).piece.lines.length], [96, 7]); // during the count-in
    turn.begun = now() - 1.5; // a beat and a half after the start
    ok(Math.abs(turn.tick - 96 - 18) < 1);
    const open = recording(song, { bar: 2, at: now() - 5 }).recorder; // beyond the first recorded bar
    equal(open.shown({ piece: song }).piece.lines, [0, 48, 96, 144, 192]);
    for (const one of [turn, open]) one.stop();
    equal([turn.tick, turn.shown({ piece: song }).piece], [null, song]);
  },
  "the other parts repeat their last bars under a turn"() {
    const drums = [0, 48, 96].map((tick) => [tick, 60, 36 + tick / 48, 80, 0]); // prettier-ignore
    const song = piece([...drums, [96, 12, 72, 88, 1]], { bars: 3, tracks: 2 });
    const under = accompanied(song, 3, 2, 1);
    equal(under.lines, [0, 48, 96, 144, 192, 240]);
    equal(rowsOf(under).slice(4), [
      [144, 60, 37, 80, 0],
      [192, 48, 38, 80, 0],
    ]);
    equal(rowsOf(accompanied(song, 1, 2, 1)).length, 6); // only as many bars as exist
    equal(accompanied(song, 0, 2, 1), null);
    equal(accompanied(piece([[0, 12, 60, 80, 0]]), 1, 2, 0), null);
  },
  "notes played after the request are in the piece, too"() {
    const asked = piece([[0, 12, 60, 88, 1]], { tracks: 2 });
    const whole = piece([[0, 9, 60, 88, 1], [36, 6, 64, 88, 1]], { tracks: 2 }); // prettier-ignore
    const take = {
      ...piece([[0, 24, 60, 88, 0], [192, 24, 67, 80, 0]]), // prettier-ignore
      ticksPerBeat: 24,
      tracks: [{ name: "Track 1", drum: false }],
    };
    const made = withLate(take, asked, whole);
    equal(rowsOf(made), [
      [0, 24, 60, 88, 0],
      [72, 12, 64, 88, 0],
      [192, 24, 67, 80, 0],
    ]);
    ok(withLate(take, asked, asked) === take);
  },
  "silent bars at the end of a turn stay before the answer"() {
    const take = { ...piece([[0, 60, 60, 88, 0], [48, 12, 67, 80, 0]], { bars: 3 }), chords: [[0, "C_M"], [48, "G_M"]] }; // prettier-ignore
    const made = answerAt(take, 1, 2);
    equal(made.lines, [0, 48, 96, 144, 192]);
    equal(rowsOf(made), [
      [0, 60, 60, 88, 0],
      [96, 12, 67, 80, 0],
    ]);
    equal(made.chords, [
      [0, "C_M"],
      [96, "G_M"],
    ]);
    ok(answerAt(take, 2, 2) === take);
  },
  "a turn can start at a bar and a time, without count-in"() {
    const { recorder, clicks } = recording(piece([[0, 12, 60, 80, 0]]), { bar: 2, at: now() - 1 });
    equal(clicks.length, 0); // a count-in would have clicked
    recorder.press(62, 88);
    const held = rowsOf(recorder.soFar(recorder.begun + 3));
    equal(held, [
      [0, 12, 60, 80, 0],
      [96 + 12, 24, 62, 88, 0],
    ]);
    ok(recorder.on);
    equal(rowsOf(recorder.stop())[1].slice(2), [62, 88, 0]);
  },
  "a key held at the start is recorded from there"() {
    const { recorder } = recording(piece([]), { at: now() + 60 });
    recorder.stop();
    recorder.press(62, 88);
    recorder.start(piece([], { tempos: [[0, 60]] }), 1, { bar: 0, at: now() - 2 });
    const [[onset, length]] = rowsOf(recorder.soFar(recorder.begun + 3));
    recorder.stop();
    equal([onset, length], [24, 12]);
  },
};
