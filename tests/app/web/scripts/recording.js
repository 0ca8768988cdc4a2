// Recording: keys, the pedal and bends, and passes of a loop.
import { changesBetween } from "../../../../app/assets/music/edits.js";
import { rowsOf } from "../../../../app/assets/music/piece.js";
import { Recorder } from "../../../../app/assets/sound/recorder.js";
import { equal, near, ok, piece } from "./check.js";

// A recorder with a player that records the notes it is given.
function playing() {
  const hears = {}, heard = [], before = globalThis.addEventListener;
  const player = { touch: (pitch, { velocity }) => heard.push(["on", pitch, velocity]), release: (pitch) => heard.push(["off", pitch]), synth: { loaded: false, wake() {} } };
  globalThis.addEventListener = (name, act) => (hears[name] = act);
  const recorder = new Recorder(player, () => {});
  globalThis.addEventListener = before;
  const key = (kind, name, more) => hears[kind]({ key: name, code: name, target: {}, preventDefault() {}, ...more });
  return { recorder, heard, key };
}

export const tests = {
  "a played key sounds at once and ends on release, whatever has changed"() {
    const { recorder, heard, key } = playing();
    recorder.useKeys(true);
    key("keydown", "a");
    key("keydown", "x"); // an octave up while the note sounds
    key("keyup", "a");
    key("keydown", "d");
    key("keyup", "d", { target: { matches: () => true } }); // in a text field, where keys do not play
    key("keydown", "d", { target: { matches: () => true } });
    equal(heard, [["on", 60, 88], ["off", 60], ["on", 76, 88], ["off", 76]]);
    recorder.message([0x91, 64, 99]);
    recorder.message([0x91, 64, 0]);
    recorder.message([0xb1, 64, 127]); // the pedal holds the next key
    recorder.message([0x91, 65, 99]);
    recorder.message([0x81, 65, 0]);
    ok(recorder.sustained.has(65) && heard.at(-1)[0] === "on");
    recorder.message([0xb1, 64, 0]);
    ok(!recorder.sustained.has(65));
    equal(heard.splice(-2), [["on", 65, 99], ["off", 65]]);
    equal(heard.slice(4), [["on", 64, 99], ["off", 64]]);
  },
  "the pedal and bends are recorded as such, or fold into the notes of a score"() {
    for (const folds of [false, true]) {
      const { recorder } = playing(), song = piece([], { bars: 1 });
      const later = (seconds) => (recorder.begun -= seconds); // 120 beats a minute
      Object.assign(recorder, { folds });
      recorder.message([0xb0, 64, 127]); // before the start
      recorder.start(song, 1, { at: performance.now() / 1000 });
      recorder.message([0x90, 60, 99]);
      later(0.25);
      recorder.message([0x80, 60, 0]);
      recorder.message([0xe0, 0, 80]);
      later(0.75);
      recorder.message([0xb0, 64, 0]);
      recorder.message([0x90, 62, 99]);
      later(0.5);
      const made = recorder.stop(), lengths = rowsOf(made).map(([, length]) => length);
      equal(lengths, folds ? [24, 12] : [6, 12]);
      const rounded = made.controls?.map(([tick, ...move]) => [Math.round(tick), ...move]);
      equal(rounded, folds ? undefined : [[0, 64, 127, 0], [6, 128, 2048, 0], [24, 64, 0, 0], [36, 128, 0, 0]]);
      const [, ...moves] = changesBetween(song, made);
      equal(moves.map(({ change, track, events }) => [change, track, events.length]), folds ? [] : [["controllers", 0, 4]]);
    }
  },
  "passes of a loop are added, with early keys to the next one"() {
    const { recorder } = playing(), song = piece([], { bars: 1 });
    recorder.start(song, 1, { at: performance.now() / 1000 });
    recorder.message([0x90, 60, 99]); // held beyond the pass
    recorder.begun -= 1.95;
    recorder.message([0x90, 64, 99]); // 50 ms before the next pass
    const made = recorder.pass(2);
    equal(rowsOf(made), [[0, 48, 60, 99, 0]]);
    recorder.again(made, 2);
    recorder.begun -= 0.55;
    recorder.message([0x80, 60, 0]);
    recorder.message([0x80, 64, 0]);
    equal(rowsOf(recorder.stop()), [[0, 48, 60, 99, 0], [0, 12, 64, 99, 0]]);
  },
  "a recording is quantised after the last note, in its part"() {
    const { recorder } = playing(), song = piece([[0, 12, 60, 80, 0]], { bars: 1, tracks: 2 });
    recorder.track = 1;
    recorder.start(song, 1);
    near(recorder.begun, performance.now() / 1000 + 2, 0.1);
    recorder.message([0x90, 50, 99]);
    recorder.message([0x80, 50, 0]); // during the count-in
    recorder.begun = performance.now() / 1000 - 1; // two beats later
    recorder.message([0x90, 64, 99]);
    recorder.begun -= 0.5;
    const made = recorder.stop();
    equal([Array.from(made.notes), made.lines], [[0, 12, 60, 80, 0, 72, 12, 64, 99, 1], [0, 48, 96]]);
    recorder.start(song, 1);
    equal([recorder.stop(), recorder.on], [null, false]);
  },
};
