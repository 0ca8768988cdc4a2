// The plan of a piece: its curves and letters, the goals, and storing it.
import { canShow, settingsOf } from "../../../../app/assets/desk/file.js";
import { Desk } from "../../../../app/assets/desk/state.js";
import {
  askedOf,
  heightOf,
  planOf,
  valueAt,
  valueLabel,
} from "../../../../app/assets/music/plan.js";
import { planAsked, planShown } from "../../../../app/assets/widgets/plan_view.js";
import { equal, near, ok, piece } from "./check.js";

// A bar of four rising notes.
const bar = (number, pitch) =>
  [0, 12, 24, 36].map((tick, step) => [48 * number + tick, 12, pitch + step, 80, 0]);

// A piece of phrases, each of which is a bar from its pitch, repeated four times.
const phrases = (...pitches) =>
  piece(
    pitches.flatMap((pitch, place) => [0, 1, 2, 3].flatMap((n) => bar(4 * place + n, pitch))),
    {
      bars: 4 * pitches.length,
    },
  );

const entry = (id, song, more = {}) => ({
  id,
  kind: "file",
  title: id,
  state: "done",
  piece: song,
  model: "ensemble",
  chosen: 4,
  ...more,
});

// A stand-in for the app, as far as the plan needs it.
function desked(can = true) {
  const desk = new Desk();
  desk.show(entry("song", phrases(60, 64)), "opening a file");
  desk.set({ plan: true, bars: 2 });
  return { desk, model: { lacks: can ? {} : { plan: "it cannot" } } };
}

export const tests = {
  "a plan has the density, register and loudness of each bar"() {
    const song = piece([
      [0, 12, 60, 80, 0],
      [0, 12, 72, 80, 0],
      [0, 12, 72, 80, 0], // the same note twice
      [24, 12, 64, 16, 0],
      [48, 12, 36, 100, 2],
    ], { bars: 3, tracks: 3 }); // prettier-ignore
    const { density, register, loudness } = planOf(song);
    equal(
      [density, register],
      [
        [3 / 4, 1 / 4, 0],
        [68, null, null],
      ],
    );
    near(loudness[0], (84 + 84 + 20) / 3);
    equal(loudness.slice(1), [100, null]);
    equal(planOf(piece([[0, 12, 60, 72, 0]])).loudness[0], null); // a piece without dynamics
    equal(planOf(piece([])).letters, [""]);
  },
  "returning phrases have the same letter"() {
    equal(planOf(phrases(60, 60, 67, 60)).letters, ["A", "A", "B", "A"]);
    const nearly = phrases(60, 60);
    nearly.notes[5 * 16 + 2] += 1; // one note of many
    equal(planOf(nearly).letters, ["A", "A"]);
    equal(planOf({ ...phrases(60, 60), notes: phrases(60, 60).notes.slice(0, 5 * 16) }).letters, [
      "A",
      "",
    ]);
  },
  "heights and values convert both ways"() {
    for (const [curve, value] of [
      ["density", 3.5],
      ["register", 67],
      ["loudness", 80],
    ])
      equal(valueAt(curve, heightOf(curve, value)), value);
    equal([valueAt("density", -1), valueAt("register", 2)], [0, 90]);
    equal(valueLabel("register", 67), "highest notes around G4");
    equal(
      [valueLabel("density", 1), valueLabel("loudness", 80)],
      ["1 note per beat", "loudness 80 (mf)"],
    );
  },
  "goals apply only to the bars that are written"() {
    const app = desked();
    app.desk.bend({ 3: { density: 1 }, 5: { density: 6, register: 72 }, 6: { loudness: 90 } });
    equal(planAsked(app, {}), { density: [null, 6], register: [null, 72] });
    equal(planAsked(app, { kind: "infill", first: 6, last: 7 }), {
      density: [6, null],
      register: [72, null],
      loudness: [null, 90],
    });
    equal(
      [
        planAsked(app, { kind: "infill", first: 1, last: 2 }),
        planAsked(app, { kind: "accompany" }),
      ],
      [null, null],
    );
    app.desk.set({ plan: false }); // a hidden plan sets no goals
    equal(planAsked(app, {}), null);
    equal(askedOf({}, 0, 4), null);
    const other = desked(false);
    other.desk.bend({ 4: { density: 1 } });
    equal(planAsked(other, {}), null);
  },
  "the plan can be edited for the bars after the prompt and for selected ones"() {
    const app = desked(),
      roll = { range: { first: 0, stop: 1 } };
    const { next, isOpen, lines } = planShown(app, app.desk.current, roll);
    equal([next, lines.length], [{ first: 4, stop: 6 }, 9]);
    equal([0, 1, 3, 4, 5, 6].map(isOpen), [true, false, false, true, true, false]);
    app.desk.choose(8);
    equal(planShown(app, app.desk.current, roll).lines.length, 11); // includes bars to be written
  },
  "a plan belongs to its piece, survives edits, and can be undone"() {
    const { desk } = desked(),
      goals = { 4: { density: 2 } };
    desk.bend({ 4: { density: 1 } });
    desk.bend(goals);
    desk.show(
      entry("by hand", phrases(60, 64), { kind: "edit", parent: "song" }),
      "adding a note",
    );
    equal(desk.goals, goals);
    desk.show(entry("another", phrases(60)), "opening a file");
    equal(desk.goals, {});
    desk.undo();
    equal(desk.goals, goals);
    desk.undo();
    desk.undo(); // consecutive changes are one step
    equal(desk.goals, {});
  },
  "a project stores a plan, and a damaged one is refused"() {
    const { desk } = desked();
    desk.bend({ 4: { density: 2 } });
    const plain = (open) => ({
      desk: { ...desk.plain(), open },
      entries: [...desk.entries.values()].map((one) => ({
        ...one,
        piece: { ...one.piece, notes: [...one.piece.notes] },
      })),
    });
    ok(canShow(plain(desk.open)));
    for (const bars of [{ 4: { density: "x" } }, { 4: { speed: 2 } }, { x: { density: 2 } }, null])
      ok(!canShow(plain({ ...desk.open, goals: { of: "song", bars } })), JSON.stringify(bars));
    equal(settingsOf({ plan: true, curve: "speed" }, { plan: false, curve: "density" }), {
      plan: true,
      curve: "density",
    });
  },
};
