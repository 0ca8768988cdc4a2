// The timing of notes: with mutes, tempo, transposition and loops, also while the piece grows.
import { without } from "../../../../app/assets/music/piece.js";
import { Transport } from "../../../../app/assets/sound/transport.js";
import { equal, near, ok, piece } from "./check.js";

function rig(given, more = {}) {
  const sent = [], clock = { now: 10 }, log = (kind) => (...values) => sent.push([kind, ...values]);
  const out = { on: log("on"), off: log("off"), program: log("program"), volume: log("volume"), click: log("click") }, told = [];
  const player = new Transport({ now: () => clock.now, out });
  player.watch((what) => told.push(what));
  Object.assign(player, more);
  player.load(given);
  const run = (seconds) => {
    for (let left = seconds; left > 1e-9; left -= 0.025) {
      clock.now += 0.025;
      player.pump(0.12);
    }
  };
  return { player, sent, run, clock, told, ons: () => sent.filter(([kind]) => kind === "on"), offs: () => sent.filter(([kind]) => kind === "off") };
}

// Four quarters at 120 BPM: half a second each.
const quarters = () => piece([0, 1, 2, 3].map((n) => [12 * n, 12, 60 + n, 80, 0]));

export const tests = {
  "notes start and end on time, and playback stops after the last"() {
    const { player, run, ons, offs, told } = rig(quarters());
    player.play();
    run(3);
    equal(ons().map((one) => one[2]), [60, 61, 62, 63]);
    const [first] = ons();
    ons().forEach((one, n) => near(one[4] - first[4], 0.5 * n));
    offs().forEach((one, n) => near(one[3] - first[4], 0.5 * (n + 1)));
    equal([player.playing, told.at(-1), player.tick], [false, "ended", 0]);
  },
  "seeking skips earlier notes"() {
    const { player, run, ons } = rig(quarters());
    player.seek(24);
    player.play();
    run(1.4);
    equal(ons().map((one) => one[2]), [62, 63]);
  },
  "the tempo changes at once without repeating notes"() {
    const { player, run, ons } = rig(quarters());
    player.play();
    run(0.6);
    player.setTempo(2);
    run(2);
    equal(ons().map((one) => one[2]), [60, 61, 62, 63]);
    ok(ons()[3][4] - ons()[2][4] < 0.3, "quarters last a quarter of a second");
  },
  "a tempo change near the end of a loop keeps the loop"() {
    for (const begun of [0.85, 0.9, 0.95, 0.975]) {
      const { player, run, ons } = rig(quarters());
      player.setLoop([12, 36]);
      player.play();
      run(begun);
      const before = player.tick;
      for (const tempo of [1.2, 1.25]) player.setTempo(tempo); // a slider being dragged
      near(player.tick, before);
      run(2);
      const gaps = ons().slice(1).map((one, n) => one[4] - ons()[n][4]);
      equal(ons().slice(0, 6).map((one) => one[2]), [61, 62, 61, 62, 61, 62]);
      gaps.slice(0, 3).forEach((gap) => ok(gap > 0.399 && gap < 0.501, `${gap} s from one quarter to the next`));
      gaps.slice(3).forEach((gap) => near(gap, 0.4));
      ok(player.tick >= 12 && player.tick < 36);
    }
  },
  "transposition moves all notes except drums"() {
    const { player, run, ons } = rig(piece([[0, 12, 60, 80, 0], [0, 12, 36, 80, 2]], { tracks: 3 }), { transpose: 5 });
    player.play();
    run(0.5);
    equal(ons().map((one) => [one[1], one[2]]), [[0, 65], [9, 36]]);
  },
  "a loop repeats without a gap"() {
    const { player, run, ons } = rig(quarters());
    player.setLoop([12, 36]);
    player.play();
    run(3.2);
    equal(ons().slice(0, 6).map((one) => one[2]), [61, 62, 61, 62, 61, 62]);
    ons().slice(1).forEach((one, n) => near(one[4] - ons()[n][4], 0.5, 1e-6));
    ok(player.tick >= 12 && player.tick < 36);
  },
  "mute, solo and volume take effect at once"() {
    const { player, run, sent, ons } = rig(piece([0, 1, 2, 3].flatMap((n) => [[12 * n, 48, 60, 80, 0], [12 * n, 48, 70, 80, 1]]), { tracks: 2 }));
    player.play();
    run(0.2);
    const before = sent.length;
    player.setMix([{ mute: true }, { volume: 40 }]);
    ok(sent.slice(before).some(([kind, channel]) => kind === "off" && channel === 0), "what sounded is ended");
    ok(sent.slice(before).some(([kind, channel, to]) => kind === "volume" && channel === 1 && to === 40));
    const heard = ons().length;
    run(1);
    ok(ons().slice(heard).every((one) => one[1] === 1));
    player.setMix([{ solo: true }]);
    const then = ons().length;
    run(0.5);
    ok(ons().slice(then).every((one) => one[1] === 0));
  },
  "playback waits at the end of the notes so far and continues with more"() {
    const { player, run, ons, told } = rig(piece([[0, 12, 60, 80, 0], [12, 1, 61, 80, 0]]));
    player.grow(player.piece, 12);
    player.play();
    run(2);
    equal([ons().length, player.waiting, player.playing, told.at(-1)], [1, true, true, "waiting"]);
    player.grow(quarters(), 36);
    ok(!player.waiting);
    run(0.9);
    equal(ons().map((one) => one[2]), [60, 61, 62]);
    player.grow(quarters(), Infinity);
    run(3);
    equal([ons().length, player.playing], [4, false]);
  },
  "a loop repeats as soon as its end is written"() {
    for (const late of [false, true]) {
      const { player, run, ons, told } = rig(quarters());
      player.grow(quarters(), late ? 30 : 36);
      player.setLoop([12, 36]);
      player.play();
      run(1);
      if (late) equal([player.waiting, ons().length], [true, 2]);
      player.grow(quarters(), 36);
      run(2.2);
      equal([player.waiting, told.filter((what) => what === "waiting").length], [false, Number(late)]);
      equal(ons().slice(0, 5).map((one) => one[2]), [61, 62, 61, 62, 61]);
      ok(player.tick >= 12 && player.tick < 36);
    }
  },
  "bars that arrive in time leave no gap"() {
    const bars = (n) => piece(Array.from({ length: 4 * n }, (_, i) => [12 * i, 12, 60 + (i % 12), 80, 0]), { bars: 8 });
    const { player, run, ons } = rig(bars(2));
    player.grow(bars(2), 96);
    player.play();
    for (let n = 3; n <= 8; n++) {
      run(1.9);
      player.grow(bars(n), n === 8 ? Infinity : 48 * n);
    }
    run(6);
    equal(ons().length, 32);
    ons().slice(1).forEach((one, n) => near(one[4] - ons()[n][4], 0.5, 0.001));
  },
  "a sounding note that grows ends at its new end"() {
    const { player, run, offs, ons } = rig(piece([[0, 6, 60, 80, 0], [36, 12, 61, 80, 0]]));
    player.play();
    run(0.1);
    player.grow(piece([[0, 24, 60, 80, 0], [36, 12, 61, 80, 0]]));
    run(1.5);
    near(offs()[0][3] - ons()[0][4], 1);
  },
  "playback continues in another take at the same beat"() {
    const { player, run, ons } = rig(quarters()), other = piece([0, 1, 2, 3].map((n) => [24 * n, 24, 80 + n, 80, 0]));
    player.play();
    run(0.8);
    player.load({ ...other, ticksPerBeat: 24, lines: other.lines.map((line) => 2 * line) });
    near(player.tick / 24, 1.5, 0.15);
    run(0.8);
    equal(ons().at(-1)[2], 83);
  },
  "a loop ends when another piece is opened"() {
    const { player, run, told } = rig(quarters());
    player.setLoop([12, 36]);
    player.load(quarters());
    equal(player.loop, null);
    player.play();
    run(3);
    equal(told.at(-1), "ended");
  },
  "playback started after a loop ends with the piece"() {
    const { player, run, told } = rig(quarters());
    player.setLoop([12, 24]);
    player.seek(36);
    player.play();
    run(2);
    equal([player.playing, told.at(-1)], [false, "ended"]);
  },
  "a loop set before the sent position restarts at once"() {
    const bars = () => piece(Array.from({ length: 16 }, (_, n) => [12 * n, 12, 60 + n, 80, 0]));
    for (const cut of [false, true]) {
      const { player, run, ons } = rig(bars());
      if (cut) player.setLoop([0, 96]);
      player.play();
      run(1.95);
      const heard = ons().length;
      ok(player.tick < 48 && player.sent > 48, `${player.tick} is heard, ${player.sent} was sent`);
      if (cut) player.grow({ ...bars(), lines: [0, 48] });
      else player.setLoop([0, 48]);
      run(3);
      equal([player.loop, ons().slice(heard, heard + 6).map((one) => one[2])], [[0, 48], [60, 61, 62, 63, 60, 61]]);
      ok(player.playing && player.tick < 48);
    }
  },
  "playback started after a loop ends with the piece, even if it is cut"() {
    const { player, run, told } = rig(piece([[0, 12, 60, 80, 0], [132, 12, 62, 80, 0]]));
    player.setLoop([12, 24]);
    player.seek(60);
    player.play();
    run(1);
    player.grow(piece([[0, 12, 60, 80, 0], [84, 12, 62, 80, 0]], { bars: 2 }));
    run(3);
    equal([player.loop, told.at(-1)], [[12, 24], "ended"]);
  },
  "the position does not pass the end of a loop"() {
    const song = (tempo) => ({ ...piece(Array.from({ length: 16 }, (_, n) => [12 * n, 12, 60 + n, 80, 0])), tempos: [[0, tempo]] });
    const changes = [(player, n) => player.setTranspose(n), (player, n) => player.grow(song(121 + n))];
    for (const change of changes) {
      const { player, run, clock } = rig(song(120));
      player.setLoop([0, 48]);
      player.play();
      run(1.975);
      ok(player.tick > 46 && player.sent < 12, `${player.tick} is heard, ${player.sent} was sent`);
      for (let n = 1; n < 12; n++) {
        change(player, n);
        clock.now += 0.01;
        ok(player.tick <= 48, `${player.tick} in a loop to 48`);
      }
      run(0.5);
      ok(player.tick > 2 && player.tick < 24, `${player.tick} after it went round`);
    }
  },
  "a loop keeps its place in a piece with coarser ticks"() {
    const fine = { ...quarters(), ticksPerBeat: 24, lines: [0, 96, 192] }, { player, run } = rig(fine);
    player.setLoop([0, 96]);
    player.play();
    run(1.975);
    const before = player.tick;
    player.load(quarters());
    near(player.at, before / 2);
  },
  "a loop is cut with its piece"() {
    const { player } = rig(quarters());
    player.setLoop([24, 192]);
    player.grow({ ...quarters(), lines: [0, 48] });
    equal(player.loop, [24, 48]);
    player.grow({ ...quarters(), lines: [0, 24] });
    equal(player.loop, null);
  },
  "deleting and restoring bars of another tempo keeps position and timing"() {
    const rows = Array.from({ length: 64 }, (_, n) => [12 * n, 12, 40 + n, 80, 0]), whole = piece(rows, { bars: 16, tempos: [[0, 60], [192, 120]] });
    const { player, run, ons, clock } = rig(whole), others = [without(whole, 0, 2), whole];
    player.seek(5 * 48);
    player.play();
    run(1);
    for (const other of others) {
      const before = player.tick, heard = ons().length;
      player.grow(other);
      near(player.tick, before);
      run(2);
      const later = ons().slice(heard);
      ok(later.length >= 3 && later.length <= 5, `${later.length} quarters in two seconds`);
      ok(later.every((one) => one[4] > clock.now - 2.1), "none is late");
    }
  },
  "recorded controllers are played, and at rest when playback stops"() {
    const moves = [];
    let time = 0;
    const out = { on() {}, off() {}, program() {}, volume() {}, control: (...move) => moves.push(move) };
    const transport = new Transport({ now: () => time, out });
    const controls = [[0, 64, 127, 0], [24, 128, 500, 0], [36, 128, 0, 0], [40, 64, 0, 0]];
    transport.load({ ...piece([[0, 48, 60, 80, 0]]), controls });
    transport.seek(12);
    transport.play();
    time = 0.7;
    transport.pump(0.1);
    equal(moves.map(([channel, controller, value]) => [channel, controller, value]), [[0, 64, 127], [0, 128, 500]]);
    transport.pause();
    equal(moves.slice(2).map((move) => move.slice(0, 3)), [[0, 64, 0], [0, 128, 0]]);
  },
};
