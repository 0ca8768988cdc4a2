// Pieces: editing, trimming, chords, names by key, notation, MIDI; and rolls under pointers and keys.
import { chordLine, chordsAfter, hasGuess, withChords, withLocks } from "../../../../app/assets/music/chords.js";
import { Clock } from "../../../../app/assets/music/clock.js";
import { changesBetween, drawn, gridOf, joined, lengthened, louder, moved, quantised, quantisedTo, removed, setGrid } from "../../../../app/assets/music/edits.js";
import { felt } from "../../../../app/assets/music/feel.js";
import { changesHeard, changesOf, isHeard, silentOf } from "../../../../app/assets/music/heard.js";
import { chordSign, noteName } from "../../../../app/assets/music/keys.js";
import { aroundNew, barAt, beatOf, countIn, excerptFrom, grown, inRegion, lineNear, regionWithout, restBefore, rowsOf, trimmed, without } from "../../../../app/assets/music/piece.js";
import { Hand } from "../../../../app/assets/roll/note_editing.js";
import { listenForDrags } from "../../../../app/assets/roll/range.js";
import { Axis, Roll } from "../../../../app/assets/roll/roll.js";
import { shading } from "../../../../app/assets/roll/velocity.js";
import { lanesOf } from "../../../../app/assets/roll/scale.js";
import { equal, near, ok, piece } from "./check.js";

const four = () => piece([0, 1, 2, 3].map((bar) => [48 * bar, 60, 60 + bar, 80, 0]));

// A roll without a page, with 24 pixels per beat and note editing; `at` is a pointer at a tick and a pitch of a lane, `off`
// pixels to the right.
function handled(song) {
  const view = { clientLeft: 0, clientTop: 0, clientWidth: 846, clientHeight: 400, scrollLeft: 0, getBoundingClientRect: () => ({ left: 0, top: 0 }) };
  const roll = Object.assign(Object.create(Roll.prototype), {
    piece: song, lanes: lanesOf([song]), axis: Object.assign(new Axis(), { zoom: 24 }), gutter: 46, view, region: null, acts: {}, laid: [],
    canvas: { classList: { toggle() {} } },
  });
  roll.placeAt({ clientX: 0, clientY: 200 });
  const hand = new Hand(roll, { edit: (made) => (roll.piece = made) });
  hand.switch(true);
  const at = (tick, pitch, track, off = 0) => {
    const lane = roll.laid.find((one) => one.index === track);
    return { pointerId: 1, clientX: roll.x(tick) + off, clientY: lane.top + (lane.row(pitch) + 0.5) * lane.step };
  };
  const drag = (from, ...along) => (hand.down(from, roll.placeAt(from)), along.forEach((to) => hand.move(to)), hand.up());
  return { roll, hand, at, drag };
}

// A roll of many bars without a page; `hears` are the listeners of its elements.
function longRoll(bars) {
  const { roll } = handled(piece([[0, 12, 60, 80, 0]], { bars }));
  const element = (hears = {}) => ({ hears, addEventListener: (name, act) => (hears[name] = act), setPointerCapture() {}, focus() {}, classList: { toggle() {} } });
  const act = { select: (range) => (roll.range = range), choose: (now) => (roll.bars = now), layout() {} };
  Object.assign(roll, act, { canvas: element(), bars: 1, acts: {} });
  Object.defineProperty(roll.view, "scrollWidth", { get: () => Math.max(846, roll.gutter + roll.beats * roll.beatWidth) });
  roll.axis.rolls.add(roll);
  return roll;
}

export const tests = {
  "a drag selects bars, and moves the end of the prompt"() {
    const roll = longRoll(590), at = (clientX) => ({ clientX, clientY: 200, button: 0, pointerType: "mouse", pointerId: 1, type: "pointerup", preventDefault() {} });
    listenForDrags(roll);
    roll.canvas.hears.pointerdown(at(300));
    roll.canvas.hears.pointermove(at(700));
    ok(roll.axis.held);
    roll.canvas.hears.pointerup(at(700));
    equal([roll.range, roll.axis.held], [{ first: 2, stop: 7 }, false]);
    Object.assign(roll, { isPrompt: true, bars: 2 });
    roll.canvas.hears.pointerdown(at(roll.x(96) + 5));
    roll.canvas.hears.pointermove(at(900));
    equal(roll.bars, 9);
  },
  "a long piece fits the view, and zooming has limits"() {
    const roll = longRoll(590), zoomed = (factor) => (roll.axis.scale(factor, roll), roll.beatWidth), fit = 800 / 2360;
    near(zoomed(null), fit);
    near(zoomed(2), 2 * fit);
    near(zoomed(null), fit);
    near(zoomed(0.5), fit); // already all of it
    near(zoomed(100), 100 * fit);
    near(zoomed(0.01), 2);
  },
  "a short note is moved by its middle and resized by its last third"() {
    const song = piece([[12, 3, 60, 80, 0]]), held = (tick) => {
      const { at, drag, roll } = handled(song); // a note of six pixels
      drag(at(tick, 60, 0), at(tick + 6, 60, 0));
      return rowsOf(roll.piece)[0].slice(0, 2);
    };
    equal([held(13), held(13.7), held(14.5)], [[18, 3], [18, 3], [12, 9]]);
    const { at, drag, roll, hand } = handled(song), still = at(13, 60, 0);
    drag(still, { ...still, clientX: still.clientX + 1 }); // a press is never quite still
    equal([roll.piece === song, hand.chosen.size], [true, 1]);
  },
  "a note dragged past its lane is clamped to it"() {
    const song = piece([[12, 24, 48, 80, 0], [12, 24, 84, 80, 1]], { tracks: 2 }), dragged = (track, height) => {
      const { at, drag, roll } = handled(song), pitch = track ? 84 : 48;
      drag(at(24, pitch, track), { ...at(24, pitch, track), clientY: height });
      const { low, high } = roll.laid[track];
      return [rowsOf(roll.piece).find((row) => row[4] === track)[2], low, high];
    };
    for (const track of [0, 1]) {
      const [[above, , high], [below, low]] = [dragged(track, -50), dragged(track, 999)];
      equal([above, below], [high, low]);
    }
    const [pitch, , high] = dragged(1, 12); // over the ruler
    equal(pitch, high);
  },
  "the cursor shows where a drag resizes a note"() {
    const { at, roll, hand } = handled(piece([[0, 24, 60, 80, 0]])), shows = (...place) => hand.resizes(at(...place), roll.placeAt(at(...place)));
    equal([shows(12, 60, 0), shows(24, 60, 0, -3), shows(24, 60, 0, -7), shows(24, 61, 0, -3)], [false, true, false, false]);
    hand.switch(false);
    ok(!shows(24, 60, 0, -3));
  },
  "trimming cuts held notes"() {
    const cut = trimmed(four(), 2);
    equal(rowsOf(cut), [[0, 60, 60, 80, 0], [48, 48, 61, 80, 0]]);
    equal(cut.lines, [0, 48, 96]);
  },
  "deleting bars moves later notes, tempos and chords up"() {
    const song = { ...four(), tempos: [[0, 120], [60, 90]], chords: [[0, "C_M"], [96, "G_M"]] }, cut = without(song, 1, 2);
    equal(rowsOf(cut).map((row) => [row[0], row[2]]), [[0, 60], [48, 62], [96, 63]]);
    equal([cut.lines, cut.tempos, cut.chords], [[0, 48, 96, 144], [[0, 120], [48, 90]], [[0, "C_M"], [48, "G_M"]]]);
  },
  "a region follows deleted bars"() {
    const left = (first, stop) => regionWithout({ first: 4, stop: 12, tracks: null }, first, stop), within = (first, stop) => ({ first, stop, tracks: null });
    equal([left(0, 2), left(3, 6), left(10, 14), left(12, 14), left(8, Infinity)], [within(2, 10), within(3, 9), within(4, 10), within(4, 12), within(4, 8)]);
    equal([left(4, 12), left(2, Infinity), regionWithout(null, 0, 2)], [null, null, null]);
  },
  "a piece grows by updates"() {
    const next = grown(four(), {
      notes: { keep: 3, add: [[144, 12, 99, 80, 0], [150, 6, 98, 80, 0]] }, tempos: { keep: 1, add: [] }, chords: { keep: 0, add: [[0, "C_M"]] },
      meters: { keep: 1, add: [[96, 3, 4]] }, lines: { keep: 3, add: [132, 168] }, tracks: { keep: 1, add: [{ name: "New" }] },
    });
    equal([next.notes.length / 5, rowsOf(next)[3][2], next.tempos, next.chords], [5, 99, [[0, 120]], [[0, "C_M"]]]);
    equal([next.meters, next.lines], [[[0, 4, 4], [96, 3, 4]], [0, 48, 96, 132, 168]]);
    equal([next.tracks.length, next.tracks.at(-1).name], [four().tracks.slice(0, 1).length + 1, "New"]);
  },
  "the bar and the nearest line of a tick are found"() {
    equal([0, 47, 48, 191, 500].map((tick) => barAt(four(), tick)), [0, 0, 1, 3, 4]);
    equal([10, 30, 180].map((tick) => lineNear(four(), tick)), [0, 1, 4]);
  },
  "leading rests are counted as on the server"() {
    const begins = (tick) => restBefore(piece([[tick, 12, 60, 80, 0]]));
    equal([0, 46, 47, 48, 100].map(begins), [0, 0, 1, 1, 2]);
    equal(restBefore(piece([])), 0);
  },
  "the beat depends on the metre of its bar"() {
    const song = { ...four(), meters: [[0, 4, 4], [48, 12, 8], [96, 3, 8], [144, 2, 2]] };
    equal([0, 1, 2, 3].map((bar) => beatOf(song, bar)), [12, 18, 6, 24]);
    equal(beatOf({ ...four(), meters: [] }, 0), 12);
  },
  "a region has the notes of its bars and tracks"() {
    const region = { first: 2, stop: 4, tracks: null };
    equal([countIn(four(), region), countIn(four(), { first: 1, stop: 2, tracks: null }), countIn(four(), { first: 0, stop: 4, tracks: [1] })], [2, 1, 0]);
    ok(inRegion(region, four().lines, 96, 0) && !inRegion(region, four().lines, 95, 0));
    equal(rowsOf(excerptFrom(four(), region)).map((row) => row[0]), [0, 48]);
  },
  "an excerpt has the tempo, chord and metre in force at its start, and ends at its last bar"() {
    const columns = { tempos: [[0, 120], [60, 90], [150, 80]], chords: [[0, "C_M"], [48, "G_7"], [96, "A_m"]], meters: [[0, 4, 4], [96, 3, 4], [192, 2, 4]] };
    const song = { ...four(), ...columns }, of = (first, stop) => excerptFrom(song, { first, stop, tracks: null });
    const plain = (made) => [rowsOf(made).map((row) => row.slice(0, 3)), made.lines, made.tempos, made.chords, made.meters];
    equal(plain(of(1, 3)), [[[0, 60, 61], [48, 48, 62]], [0, 48, 96], [[0, 120], [12, 90]], [[0, "G_7"], [48, "A_m"]], [[0, 4, 4], [48, 3, 4]]]);
    equal(plain(of(3, 9)), [[[0, 48, 63]], [0, 48], [[0, 90], [6, 80]], [[0, "A_m"]], [[0, 3, 4]]]);
    equal(plain(of(0, 1)), [[[0, 48, 60]], [0, 48], [[0, 120]], [[0, "C_M"]], [[0, 4, 4]]]);
  },
  "notes move together and stay within the piece"() {
    equal(rowsOf(moved(four(), [0, 1], -24, 2)).map((row) => [row[0], row[2]]), [[0, 62], [48, 63], [96, 62], [144, 63]]);
    equal(rowsOf(moved(four(), [3], 24, 100))[3].slice(0, 3), [168, 60, 127]);
    equal(rowsOf(lengthened(four(), [1], -58))[1][1], 3);
    equal(rowsOf(removed(four(), [0, 2])).map((row) => row[2]), [61, 63]);
    equal(rowsOf(drawn(four(), 6, 12, 72, 0))[1], [6, 12, 72, 84, 0]);
    equal(drawn(four(), 999, 12, 72, 0), four());
  },
  "notes are neither drawn nor lengthened past the end of the piece"() {
    const last = (made) => rowsOf(made).at(-1).slice(0, 2), end = piece([[0, 12, 60, 80, 0], [180, 6, 60, 80, 0]]);
    equal([last(drawn(end, 186, 12, 72, 0)), last(lengthened(end, [0, 1], 12)), rowsOf(lengthened(end, [0, 1], 12))[0][1]], [[186, 6], [180, 12], 24]);
    const past = four(); // its last note is held past it
    equal([lengthened(past, [3], 3) === past, last(lengthened(past, [3], -3))], [true, [144, 57]]);
  },
  "an edit without effect returns the piece itself"() {
    const song = four(), short = lengthened(song, [0], -99);
    ok(moved(song, [0, 1], -24, 0) === song && moved(song, [2], 0, 0) === song && lengthened(short, [0], -3) === short);
    const loud = louder(song, [0, 1], 99);
    ok(louder(loud, [0, 1], 5) === loud && loud !== song && quantisedTo(song, [0, 1], 3) === song);
  },
  "notes are quantised to whole ticks before the end of the piece"() {
    const grids = [3, 4, 8].map((parts) => (setGrid(parts), gridOf(four())));
    setGrid(4);
    equal(grids, [4, 3, 2]);
    const song = piece([[5, 1, 60, 80, 0], [190, 2, 60, 80, 0]]);
    equal(rowsOf(quantisedTo(song, [0, 1], 6.4)).map((row) => row[0]), [6, 186]);
  },
  "played notes are quantised at the tempo"() {
    const played = quantised(piece([]), [[0.02, 0.48, 60, 90], [0.51, 0.53, 64, 70]], 120, 0, 48);
    equal(rowsOf(played), [[48, 12, 60, 90, 0], [60, 3, 64, 70, 0]]);
  },
  "notes and chords are named according to the key"() {
    equal([10, 3, 6].map((pitch) => noteName(pitch, 1)), ["B♭", "E♭", "F♯"]);
    equal([6, 11].map((pitch) => noteName(pitch, -5)), ["G♭", "C♭"]);
    equal([8, 10].map((pitch) => noteName(pitch, 6)), ["G♯", "A♯"]);
    equal(["A#_M", "D#_m7", "G_sus4", "N_N", "B_/o7", "verse", "C_M/E", "F#_o"].map((text) => chordSign(text, 0)), ["B♭", "E♭m7", "Gsus4", "", "Bø7", "verse", "C/E", "F♯°"]);
  },
  "chords of bars are text, change with their file, and are locked"() {
    const song = { ...four(), centre: 0, chords: [[0, "C_M", 1], [48, "F_M", 1], [72, "G_7", 1], [144, "A_m", 1]] };
    equal([chordLine(song, { first: 0, stop: 4 }), chordLine(song, { first: 2, stop: 3 }), hasGuess(song, { first: 2, stop: 3 })], ["C | F G7 |  | Am", "G7", false]);
    const { piece: typed, changes } = withChords(song, { first: 1, stop: 3 }, [[["F_M", ""], ["G_7", ""]], [["D_7", "D7♭9/A"], ["N_N", ""]]]);
    equal(typed.chords, [[0, "C_M", 1], [48, "F_M", 1], [72, "G_7", 1], [96, "D_7", 0, "D7♭9/A"], [120, "N_N", 0, ""], [144, "A_m", 1]]);
    equal(changes, [{ change: "chords", ticks: [0, 48, 72, 96, 120, 144], symbols: ["C", "F", "G7", "D7♭9/A", "N.C.", "Am"], guesses: [1, 1, 1, 0, 0, 1] }]);
    equal([chordsAfter(typed, 2, 8), chordsAfter(typed, 3, 8), chordsAfter(typed, 4, 8), chordsAfter(song, 1, 8)], ["D7♭9/A N.C. | Am", "", "", ""]);
    const locked = withLocks(song, { first: 0, stop: 4 }, true);
    equal([hasGuess(locked.piece, { first: 0, stop: 4 }), hasGuess(withLocks(locked.piece, { first: 1, stop: 2 }, false).piece, { first: 1, stop: 2 })], [false, true]);
    const own = withChords(locked.piece, { first: 1, stop: 2 }, [[["E_m", ""]]]); // a file with its own chords changes there alone
    equal(own.changes, [{ change: "chords", start: 48, stop: 96, ticks: [48], symbols: ["Em"], guesses: [0] }]);
    equal(own.piece.chords, [[0, "C_M", 0, undefined], [48, "E_m", 0, ""], [96, "G_7", 0, undefined], [144, "A_m", 0, undefined]]);
  },
  "seconds and ticks convert across tempo changes"() {
    const clock = new Clock({ tempos: [[0, 120], [24, 60], [48, 240]], ticksPerBeat: 12 });
    equal([0, 24, 48, 60].map((tick) => clock.seconds(tick)), [0, 1, 3, 3.25]);
    for (const tick of [5, 30, 70]) near(clock.tick(clock.seconds(tick)), tick);
  },
  "lanes of several takes span the pitches of all"() {
    const lanes = lanesOf([piece([[0, 1, 60, 80, 0], [2, 1, 72, 80, 0]]), piece([[0, 1, 80, 80, 0]])]);
    equal([lanes.length, lanes[0].low <= 60, lanes[0].high >= 80, lanes[0].at(lanes[0].row(70))], [1, true, true, 70]);
  },
  "each drum that is played has a row, and an empty kit has rows to draw on"() {
    const drums = { name: "Drums", program: 0, drum: true }, kit = (rows) => ({ ...piece(rows), tracks: [drums] });
    const [lane] = lanesOf([kit([[0, 1, 36, 80, 0], [3, 1, 38, 80, 0]]), kit([[0, 1, 49, 80, 0]])]);
    equal([lane.rows, lane.label(lane.at(0)), lane.at(lane.row(36))], [3, "Crash", 36]);
    const [empty] = lanesOf([kit([])]);
    ok([36, 38, 42].every((pitch) => empty.row(pitch) >= 0));
    ok(lanesOf([kit([[0, 1, 36, 80, 0]])], { drawing: true })[0].row(42) >= 0);
  },
  "new bars are shown after one bar, infilled ones with two on each side"() {
    const long = { ...piece([]), lines: Array.from({ length: 17 }, (_, bar) => 48 * bar) }, seen = (first, stop, tracks = null) => aroundNew({ piece: long, region: { first, stop, tracks } });
    equal([seen(8, 16), seen(4, 6), seen(0, 16), seen(0, 16, [1]), aroundNew({ piece: long, region: null })], [{ first: 7, stop: 16 }, { first: 2, stop: 8 }, null, null, null]);
  },
  "silent tracks are named"() {
    const song = piece([[0, 12, 60, 80, 0], [0, 12, 36, 80, 2]], { tracks: 3 });
    equal([[], [{ mute: true }], [null, { solo: true, volume: 80 }], [null, null, { volume: 0 }], [{ mute: true }, null, { mute: true }]].map((mix) => silentOf(song, mix)),
      ["", "Track 0 muted", "all tracks muted", "Track 2 muted", "all tracks muted"]);
    equal([0, 1].map((index) => isHeard([{ mute: true, solo: true }, { solo: true }], index)), [false, true]);
  },
  "a piece as heard has the transposition, tempo, tracks, instruments and volumes of playback"() {
    const song = { ...piece([[0, 12, 60, 80, 0], [0, 12, 126, 80, 0], [0, 12, 36, 80, 2], [12, 12, 40, 80, 1]], { tracks: 3 }), chords: [[0, "A#_m7/F"], [12, "N_N"], [24, "verse"]] };
    const plain = { mix: [], tempo: 1, transpose: 0 }, played = { mix: [{ program: 42, volume: 80 }, { mute: true }], tempo: 0.5, transpose: 3 };
    equal([changesOf(song, plain), changesOf(song, { ...plain, mix: [{ program: 0, volume: 100, mute: false }] })], [[], []]);
    equal(changesOf(song, played), ["transposed by +3", "at 50 % of the tempo", "Track 1 muted", "changed instruments", "changed volumes"]);
    equal(changesOf(song, { ...plain, transpose: -2, mix: [{ program: 7, mute: true }] }), ["transposed by −2", "Track 0 muted"]);
    equal(changesHeard(song, plain), []);
    equal(changesHeard(song, played), [{ change: "program", track: 0, program: 42 }, { change: "volume", track: 0, volume: 80 }, { change: "drop", tracks: [1] }, { change: "transpose", semitones: 3 }, { change: "tempo", times: 0.5 }]);
  },
  "notes are played with swing, and humanised in the same way each time"() {
    const song = piece([[0, 6, 60, 80, 0], [6, 6, 62, 80, 0], [18, 6, 64, 80, 0], [48, 48, 60, 126, 1]], { tracks: 2 });
    equal([felt(song), felt(song, { swing: 50, humanise: 0 })].map((one) => one === song), [true, true]);
    const swings = felt(song, { swing: 75 }), times = rowsOf(swings).map((row) => row.slice(0, 2));
    equal(times, [[0, 9], [9, 3], [21, 3], [48, 48]]);
    equal(rowsOf(felt({ ...song, meters: [[0, 6, 8]] }, { swing: 75 })), rowsOf(song));
    const human = felt(song, { humanise: 100 }), rows = rowsOf(human);
    ok(String(human.notes) === String(felt(song, { humanise: 100 }).notes) && rows.every((row, n) => Math.abs(row[0] - rowsOf(song)[n][0]) < 0.8 && row[0] >= 0 && row[3] < 128));
    ok(rows.some((row) => row[0] % 1) && new Set(rows.map((row) => row[3])).size > 2);
    const setting = { mix: [], tempo: 1, transpose: 0, swing: 75, humanise: 0 };
    equal(changesOf(song, setting), ["with 75 % swing"]);
    equal(changesHeard(song, setting)[0].rows.slice(1), [[[6, 6, 62, 80, 0], [9, 3, 62, 80, 0]], [[18, 6, 64, 80, 0], [21, 3, 64, 80, 0]]]);
  },
  "keys move, lengthen, shade, quantise, copy and paste the chosen notes"() {
    const { roll, hand, at } = handled(piece([[0, 12, 60, 80, 0], [13, 12, 62, 80, 0]])), rows = () => rowsOf(roll.piece);
    const key = (name, more = {}) => hand.key({ key: name, ...more });
    equal([key("ArrowUp"), key("a", { ctrlKey: true }), hand.chosen.size], [false, true, 2]);
    equal([key("ArrowUp"), key("ArrowUp", { altKey: true }), key("ArrowRight", { shiftKey: true })], [true, true, true]);
    equal(rows(), [[0, 15, 61, 85, 0], [13, 15, 63, 85, 0]]);
    key("q");
    equal(rows(), [[0, 15, 61, 85, 0], [12, 15, 63, 85, 0]]);
    roll.played = 96;
    equal([key("c", { ctrlKey: true }), key("v", { metaKey: true }), key("b", { ctrlKey: true })], [true, true, false]);
    equal(rows().slice(2), [[96, 15, 61, 85, 0], [108, 15, 63, 85, 0]]);
    equal([key("Escape"), hand.chosen.size], [true, 0]);
    const from = { ...at(94, 60, 0), shiftKey: true }, drag = hand.down(from, roll.placeAt(from));
    drag.move(at(120, 63, 0));
    equal(hand.chosen.size, 2);
    const both = handled(piece([[0, 12, 60, 80, 0], [0, 12, 72, 80, 1], [96, 12, 60, 80, 1]], { tracks: 2 })), { roll: two } = both;
    both.hand.down({ ...both.at(0, 60, 0, 1), clientX: two.gutter - 9, clientY: 1, shiftKey: true }, { pitch: 99, lane: two.laid[0] }).move(both.at(48, 60, 1));
    equal([...both.hand.chosen], [0, 1]); // of several lanes
    key("x", { ctrlKey: true });
    equal(rows().length, 2);
    roll.played = 190; // past the end, notes are cut
    key("v", { ctrlKey: true });
    equal(rows().slice(2), [[189, 3, 61, 85, 0]]);
  },
  "a drag in the lane of velocities sets those of the notes that it crosses, or of the chosen ones among them"() {
    const { roll, hand } = handled(piece([[0, 12, 60, 80, 0], [24, 12, 62, 80, 0], [96, 12, 64, 80, 0]])), loud = () => rowsOf(roll.piece).map((row) => row[3]);
    roll.acts.hand = hand;
    const at = (tick, clientY) => ({ clientX: roll.x(tick), clientY }), before = roll.piece;
    equal(roll.placeAt(at(12, 380)).part, "velocity");
    const drag = shading(roll, at(0, 372)); // the middle
    drag.move(at(30, 340)); // above it
    equal(loud(), [127, 127, 80]);
    drag.end();
    hand.choose(rowsOf(roll.piece).slice(1, 2));
    shading(roll, at(24, 372)).end();
    equal([loud(), [...hand.chosen], rowsOf(before)[0][3]], [[127, 64, 80], [1], 80]);
    const still = roll.piece;
    shading(roll, at(60, 372)).end(); // no note is there
    ok(roll.piece === still);
  },
  "edits are changes of the rows that they were made of, and later ones are joined to them"() {
    const song = piece([[0, 12, 60, 80, 0], [12, 12, 62, 80, 0]]), up = moved(song, [0], 12, 2);
    equal(changesBetween(song, up), [{ change: "notes", rows: [[[0, 12, 60, 80, 0], [12, 12, 62, 80, 0]]] }]);
    const more = changesBetween(up, drawn(up, 24, 6, 70, 0));
    equal(more, [{ change: "notes", rows: [[null, [24, 6, 70, 84, 0]]] }]);
    equal(changesBetween(song, removed(song, [1])), [{ change: "notes", rows: [[[12, 12, 62, 80, 0], null]] }]);
    equal(changesBetween(song, { ...song, tempos: [[0, 90]] }), null);
    equal(joined(changesBetween(song, up), more)[0].rows.length, 2);
    const back = joined(changesBetween(song, up), [{ change: "notes", rows: [[[12, 12, 62, 80, 0], [0, 12, 60, 80, 0]]] }]);
    equal(back, [{ change: "notes", rows: [] }]);
    const cut = { change: "cut", start: 0, stop: 48 };
    equal(joined([cut], more), [cut, ...more]);
  },
};
