// The desk: nothing is lost, and every step can be undone and redone.
import { Desk, interrupted, isUnbegun } from "../../../../app/assets/desk/state.js";
import { readDesk, writeDesk } from "../../../../app/assets/desk/file.js";
import { equal, ok, piece, throws } from "./check.js";

let made = 0;
const entry = (more = {}) => ({ id: `e${made++}`, parent: null, kind: "file", title: "song", made: 1, state: "done", piece: piece([[0, 12, 60, 80, 0]]), bars: 4, chosen: 2, model: "m", file: new Uint8Array([1, 2, 255]), ...more });

function worked() {
  const desk = new Desk(), song = entry(), takes = [0, 1].map((number) => entry({ parent: song.id, kind: "take", run: "r", number, bars: 8, region: { first: 2, stop: 4, tracks: null } }));
  desk.show(song, "opening a file");
  desk.choose(3);
  desk.begin(takes);
  return { desk, song, takes };
}

export const tests = {
  "opening, choosing, composing, editing and deleting are undone and redone"() {
    const { desk, song, takes } = worked(), states = [JSON.stringify(desk.open)], ids = takes.map(({ id }) => id);
    desk.show(entry({ parent: song.id, kind: "edit" }), "moving notes");
    states.push(JSON.stringify(desk.open));
    desk.remove(takes[0].id);
    states.push(JSON.stringify(desk.open));
    for (const state of states.slice(0, -1).reverse()) {
      ok(desk.undo());
      equal({ ...desk.open, listed: [...desk.open.listed].sort() }, ((open) => ({ ...open, listed: open.listed.sort() }))(JSON.parse(state)));
    }
    desk.undo();
    equal(desk.takes, []);
    equal(desk.open.chosen, 3);
    desk.undo();
    equal(desk.open.chosen, 2);
    desk.undo();
    equal([desk.current, desk.undo()], [null, null]);
    equal([...desk.open.listed].sort(), [song.id, ...ids].sort()); // undo loses nothing
    for (let i = 0; i < 5; i++) ok(desk.redo());
    equal(JSON.stringify(desk.open), states[2]);
    equal(desk.redo(), null);
  },
  "the defaults of sampling are the server's"() {
    equal(["temperature", "top_p", "top_k", "min_p", "recall"].filter((name) => name in new Desk().settings), []);
  },
  "dragging the end of the prompt is one step"() {
    const { desk } = worked(), steps = desk.past.length;
    for (const bars of [4, 5, 6, 7]) desk.choose(bars);
    equal(desk.past.length, steps + 1);
    desk.undo();
    equal(desk.open.chosen, 3);
  },
  "a step after undo clears redo"() {
    const { desk } = worked();
    desk.undo();
    desk.choose(4);
    equal(desk.redo(), null);
  },
  "undone takes stay in the history"() {
    const { desk, song, takes } = worked(), edit = entry({ parent: song.id, kind: "edit" });
    desk.undo();
    desk.show(edit, "adding a note");
    desk.undo();
    const other = entry();
    desk.show(other, "opening another");
    equal(desk.redo(), null);
    equal(desk.open.listed, [song.id, ...takes.map(({ id }) => id), other.id]);
    desk.remove(takes[0].id);
    equal(desk.open.listed, [song.id, takes[1].id, other.id]);
    desk.undo();
    ok(desk.open.listed.includes(takes[0].id));
    desk.redo();
    ok(!desk.open.listed.includes(takes[0].id));
    desk.recall(takes[1].id);
    desk.remove(song.id);
    desk.remove(takes[1].id); // its parent is deleted already
    equal(desk.open.current, other.id);
  },
  "after a deletion, the next piece has its own model and prompt"() {
    const { desk, song } = worked(), other = entry({ model: "another", chosen: 4 });
    desk.show(other, "opening another");
    desk.remove(other.id);
    equal([desk.open.model, desk.open.chosen, desk.takes], ["m", 2, []]); // those of the last take
    desk.show(entry({ parent: song.id, kind: "edit", model: "another" }), "edit");
    desk.remove(desk.current.id);
    equal([desk.current.id, desk.open.model, desk.open.chosen], [song.id, "m", 2]);
  },
  "takes of a piece that is not open go into the history"() {
    const { desk, song } = worked(), other = entry(), late = entry({ parent: song.id, kind: "take", run: "late", number: 2 });
    desk.show(other, "opening another");
    desk.begin([late]);
    equal([desk.current.id, desk.takes, desk.open.listed.includes(late.id)], [other.id, [], true]);
    desk.recall(song.id);
    equal(desk.takes.map(({ id }) => id), [late.id]);
  },
  "consecutive edits are one entry of the history, unless starred"() {
    const { desk, song } = worked(), one = entry({ parent: song.id, kind: "edit" });
    desk.show(one, "edit");
    const two = entry({ parent: one.id, kind: "edit" });
    desk.show(two, "edit");
    ok(!desk.open.listed.includes(one.id) && desk.open.listed.includes(two.id));
    desk.star(two.id);
    desk.show(entry({ parent: two.id, kind: "edit" }), "edit");
    ok(desk.open.listed.includes(two.id));
  },
  "takes that stayed empty are taken back with their step, or without later ones; opened and starred ones stay"() {
    const { desk, song, takes } = worked(), states = [JSON.stringify(desk.open)], begin = (number) => entry({ parent: song.id, kind: "take", run: "late", number }), steps = desk.past.length;
    const [one, two, three] = [2, 3, 4].map(begin), ids = [one.id, two.id];
    desk.begin([one, two]);
    desk.withdraw(ids);
    equal([JSON.stringify(desk.open), desk.past.length], [states[0], steps]);
    desk.begin([one, two, three]);
    desk.choose(1);
    desk.star(two.id);
    desk.withdraw(ids);
    equal([desk.open.takes, desk.open.listed], [[two.id, three.id], [song.id, ...takes.map(({ id }) => id), two.id, three.id]]);
    desk.undo();
    equal([desk.open.chosen, desk.open.takes], [3, [two.id, three.id]]);
    desk.recall(three.id);
    desk.withdraw([three.id]);
    equal(desk.current.id, three.id);
  },
  "opening a piece from the history restores its takes"() {
    const { desk, song, takes } = worked();
    desk.show(entry(), "opening another");
    equal(desk.takes, []);
    desk.recall(song.id);
    equal(desk.takes.map((one) => one.id), takes.map((one) => one.id));
  },
  "two hundred takes stay in the history, with all entries of undo"() {
    const { desk, song } = worked();
    for (let i = 0; i < 100; i++) desk.begin([0, 1].map((number) => entry({ parent: song.id, kind: "take", run: `run ${i}`, number })));
    equal(desk.listed.length, 203);
    const again = new Desk(JSON.parse(JSON.stringify(desk.plain())), [...desk.entries.values()]);
    equal(again.open, desk.open);
    ok([...again.needed].every((id) => again.entries.has(id)));
    ok(again.undo());
  },
  "an interrupted take is kept as written so far"() {
    const left = interrupted(entry({ state: "running", now: 50, region: { first: 1, stop: 4, tracks: null } }));
    equal([left.state, left.chosen, left.piece.lines.length, left.region.stop, left.reached], ["stopped", 2, 3, 2, { bars: 1, of: 3 }]);
    equal(interrupted(entry()).state, "done");
    const restored = interrupted(entry({ state: "running", how: "infill", now: 50, region: { first: 1, stop: 3, tracks: null } }));
    equal([restored.state, restored.chosen, restored.piece.lines.length, restored.region.stop], ["stopped", 4, 5, 3]); // later bars stay
    const at = (now) => interrupted(entry({ state: "running", now, region: { first: 2, stop: 4, tracks: null } }));
    equal([at(96), at(97), entry()].map(isUnbegun), [true, false, false]);
  },
  "a desk is saved as a file and read again; a truncated file is refused"() {
    const { desk, song } = worked();
    desk.star(song.id);
    desk.set({ tempo: 1.5, temperature: 0.7 }); // a default of the page, and one of the server
    const text = writeDesk(desk), again = readDesk(text, "a.musicgen", { ...desk.settings, tempo: 1, temperature: 1 });
    equal(again.open, desk.open);
    equal([...again.stars], [song.id]);
    equal(again.settings, desk.settings);
    equal(Array.from(again.entries.get(song.id).file), [1, 2, 255]);
    equal(Array.from(again.current.piece.notes), Array.from(song.piece.notes));
    ok(again.id !== desk.id);
    throws(() => readDesk(text.slice(0, -9), "a.musicgen"), /is not a complete musicgen project file/);
    throws(() => readDesk('{"format": "another"}', "b.musicgen"), /“b.musicgen” is not a complete musicgen project file/);
    throws(() => readDesk(text.replace('"lines":[0,', '"lines":["x",'), "c.musicgen"), /musicgen project file/);
  },
  "a damaged project is refused, and invalid settings are dropped"() {
    const text = writeDesk(worked().desk), before = new Desk().settings, many = (count, one) => Array(count).fill(one);
    const changed = (change) => {
      const found = JSON.parse(text);
      change(found, found.desk.open, found.entries[0], found.entries[0].piece);
      return JSON.stringify(found);
    };
    const changes = [
      (found) => (found.entries = {}), (found) => (found.entries[0] = null), (found) => (found.desk.stars = 7),
      (_, open) => (open.current = "nobody"), (_, open) => (open.takes = 5), (_, open) => (open.listed = [null]),
      (_, open) => (open.chosen = -1), (_, open) => (open.model = { a: 1 }), (_, __, entry) => (entry.state = "running"),
      (_, __, entry) => (entry.region = { first: "x" }), (_, __, entry) => (entry.file = "§"), (_, __, entry) => (entry.title = 1),
      (_, __, ___, piece) => (piece.tracks = [null]), (_, __, ___, piece) => (piece.tracks[0].program = 128),
      (_, __, ___, piece) => (piece.notes[4] = 9), (_, __, ___, piece) => (piece.notes[2] = 128), (_, __, ___, piece) => (piece.notes[0] = 2 ** 40),
      (_, __, ___, piece) => (piece.lines = [0, 0]), (_, __, ___, piece) => (piece.lines = [48, 0]), (_, __, ___, piece) => (piece.tempos = []),
      (_, __, ___, piece) => (piece.tempos = [[0, 0]]), (_, __, ___, piece) => (piece.tempos = [null]), (_, __, ___, piece) => (piece.chords = [[0, {}]]),
      (_, __, ___, piece) => (piece.meters = [[0, "a", 4]]), (_, __, ___, piece) => (piece.ticksPerBeat = "many"),
      (_, __, ___, piece) => (piece.lines = [0, 2 ** 31 - 1]), (_, __, ___, piece) => (piece.lines = Array.from({ length: 2000 }, (_, bar) => bar * 12000)),
      (_, __, ___, piece) => (piece.tempos = many(2e5, [0, 120])), (_, __, ___, piece) => (piece.ticksPerBeat = 1e-9), (_, __, ___, piece) => (piece.meters = [[0, 4, 2 ** 30]]),
      ...[{ notices: 7 }, { notices: [null] }, { remarks: "said" }, { remarks: [{}] },
        { parent: {} }, { how: [] }, { act: 3 }, { now: [] }, { model: [] }, { fileName: {} },
        { region: { first: 0, stop: 1, tracks: [9] } }, { region: { first: 0, stop: 1, tracks: "x" } }, { region: { first: 2, stop: 2 } }, { title: "a".repeat(1e5) }, { number: 2.5 }, { notices: many(1000, { text: "" }) }].map((odd) => (_, __, entry) => Object.assign(entry, odd)),
    ];
    for (const change of changes) throws(() => readDesk(changed(change), "a.musicgen", before), /musicgen project file/);
    const take = (entry) => entry.kind === "take";
    const refused = [
      (_, __, ___, piece) => (piece.tracks = many(20000, piece.tracks[0])),
      (_, __, ___, piece) => (piece.notes = many(600000, 0)), (_, open) => (open.takes = many(3000, open.takes[0])),
      (found) => (found.entries = found.entries.flatMap((one) => (take(one) ? many(40, one) : [one]))), (_, open) => (open.listed = many(20000, "a")),
      (found) => delete found.entries.find(take).region, (_, open, entry) => (open.takes = [entry.id]),
      (found) => (found.entries.find(take).how = "accompany"),
    ];
    for (const change of refused) throws(() => readDesk(changed(change), "a.musicgen", before), /musicgen project file/);
    equal(readDesk(changed((_, open) => (open.current = null)), "a.musicgen", before).current, null);
    const odd = readDesk(changed((found) => Object.assign(found.desk, { past: 7, settings: { tempo: "fast", mix: [7], bars: null, seed: 3 } })), "a.musicgen", before);
    for (const idea of [7, null, { parts: "flute" }, { tempo: "fast" }, { key: ["C"] }])
      equal(readDesk(changed((found) => (found.desk.settings.idea = idea)), "a.musicgen", before).settings.idea, {});
    equal([odd.settings.tempo, odd.settings.mix, odd.settings.bars, odd.settings.seed, odd.past], [1, {}, 16, 3, []]);
    equal(readDesk(changed((found) => (found.desk.settings.tempo = 0)), "a.musicgen", before).settings.tempo, 1); // playback would stand still
    for (const [name, value] of Object.entries({ bars: 1e9, variations: 1e9, draw: 9, seed: 1e300, transpose: 1e9, chords: "C | ".repeat(1e4), mix: { a: many(1e4, null) } }))
      equal(readDesk(changed((found) => (found.desk.settings[name] = value)), "a.musicgen", before).settings[name], before[name]);
  },
  "a mix is shared by a piece, its takes and its edits; a newly opened piece has none"() {
    const { desk, song, takes } = worked(), edit = entry({ parent: takes[1].id, kind: "edit" });
    desk.show(edit, "moving notes");
    desk.remix(takes[0], 0, { mute: true });
    desk.remix(edit, 0, { volume: 90 });
    for (const one of [song, ...takes, edit]) equal(desk.mixOf(one), [{ mute: true, volume: 90 }]);
    const other = entry();
    desk.show(other, "opening another");
    equal(desk.mixOf(other), []);
    desk.remix(other, 0, { solo: true });
    equal([desk.mixOf(song), desk.mixOf(other), desk.mixOf(null)], [[{ mute: true, volume: 90 }], [{ solo: true }], []]);
    const again = readDesk(writeDesk(desk), "a.musicgen", { ...new Desk().settings, mix: { here: [null] } });
    equal([again.mixOf(edit), again.mixOf(other), again.settings.mix.here], [[{ mute: true, volume: 90 }], [{ solo: true }], [null]]);
  },
  "a changed instrument is undone, redone and saved; what is muted meanwhile stays"() {
    const { desk, song, takes } = worked(), steps = desk.past.length, mixed = (one = desk) => [one.mixOf(song)[0].program, one.mixOf(song)[0].mute];
    desk.settings.mix = { [[song.id, ...song.piece.tracks.map(({ name }) => name)].join(" ")]: [{ program: 7 }] }; // of a desk of an earlier version
    desk.remix(song, 0, { program: 73 });
    desk.remix(takes[0], 0, { mute: true });
    equal([mixed(), desk.past.length, desk.undoes], [[73, true], steps + 1, "changing an instrument"]);
    equal(mixed(readDesk(writeDesk(desk), "a.musicgen", new Desk().settings)), [73, true]);
    desk.undo();
    equal(mixed(), [7, true]);
    desk.remix(song, 0, { mute: false });
    desk.redo();
    equal(mixed(), [73, false]);
    throws(() => readDesk(writeDesk(desk).replace('"0":73', '"0":173'), "a.musicgen", new Desk().settings), /musicgen project file/);
  },
  "a piece read by another model keeps its mix if the tracks are the same"() {
    const { desk, song } = worked(), parent = song.id, heard = desk.put(entry({ parent })), other = desk.put(entry({ parent, piece: piece([], { tracks: 3 }) }));
    desk.remix(song, 0, { mute: true });
    equal([desk.mixOf(heard), desk.mixOf(other)], [[{ mute: true }], []]);
  },
};
