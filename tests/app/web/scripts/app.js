// What is done with the desk, without a page: the server and the player are stand-ins.
import { App } from "../../../../app/assets/page/app.js";
import { treeOf } from "../../../../app/assets/page/history.js";
import { Desk } from "../../../../app/assets/desk/state.js";
import { equal, piece } from "./check.js";

const bars = (count) => piece([[0, 12, 60, 80, 0]], { bars: count });

// An app with a song on its stage; `compose` puts two takes of it there, as when their first notes come.
function working() {
  const player = { playing: false, entry: null, load: (entry) => (player.entry = entry), update: () => {}, pause: () => {} };
  const app = new App({ facts: { models: [{ name: "m" }] }, desk: new Desk(), store: null, server: {}, player }), stopped = [];
  app.composer.stop = () => stopped.push(app.composer.run?.id);
  const entry = (id, more) => ({ ...app.blank("file", "song"), id, piece: bars(4), bars: 4, chosen: 4, model: "m", ...more });
  app.desk.show(entry("song"), "opening a file");
  const compose = (run = "run") => {
    const takes = [0, 1].map((number) => entry(`${run} ${number}`, { parent: app.desk.open.current, kind: "take", run, number, state: "running" }));
    app.composer.run = { id: run, ids: takes.map(({ id }) => id) };
    app.desk.begin(takes);
  };
  return { app, desk: app.desk, player, stopped, compose, entry };
}

export const tests = {
  "undo stops a composition when it takes back that one alone"() {
    const { app, desk, stopped, compose } = working();
    compose();
    app.edit(bars(3), "deleting bars");
    app.undo();
    equal([desk.open.current, desk.open.takes, stopped], ["song", ["run 0", "run 1"], []]);
    app.remove("run 0");
    app.undo();
    equal(stopped, []);
    app.undo();
    equal([desk.open.takes, stopped], [[], ["run"]]);
  },
  "nudges that are one step leave one piece, which came of what was there before them all"() {
    const { app, desk } = working(), steps = desk.past.length;
    for (const onset of [3, 6, 9]) app.edit(piece([[onset, 12, 60, 80, 0]]), "moving notes", {}, "nudge 1");
    equal([desk.past.length, desk.listed.length, desk.current.parent, desk.current.piece.notes[0]], [steps + 1, 2, "song", 9]);
    app.edit(piece([[9, 15, 60, 80, 0]]), "changing a length", {}, "nudge 2");
    app.undo();
    equal(desk.current.piece.notes[0], 9);
    app.undo();
    equal([desk.open.current, desk.past.length, desk.needed.size], ["song", steps, 3]);
    app.redo();
    equal(desk.current.piece.notes[0], 9);
  },
  "what is made by hand of a take that is still being written has the bars that there are"() {
    const { app, desk, entry } = working(), region = { first: 1, stop: 16, tracks: null };
    desk.show(entry("take", { kind: "take", how: "continue", parent: "song", state: "running", piece: bars(16), bars: 16, now: 100, region }), "going back");
    app.edit(piece([[0, 12, 61, 80, 0]], { bars: 16 }), "moving notes");
    const { state, bars: length, chosen, piece: { lines }, region: left } = desk.current;
    equal([state, length, chosen, lines.length, left.stop], ["done", 3, 3, 4, 3]);
  },
  "the history has each piece below what it came of, and those that came of each other in a circle too"() {
    const { desk, entry } = working();
    for (const [id, parent] of [["take", "song"], ["left", "right"], ["right", "left"], ["own", "own"], ["below", "gone"], ["gone", "take"]])
      desk.show(entry(id, { parent }), "opening a file");
    desk.remove("gone");
    const rows = [["song", 0], ["take", 1], ["below", 2], ["left", 0], ["right", 1], ["own", 0]];
    equal(treeOf(desk).map(([{ id }, depth]) => [id, depth]), rows);
  },
  async "what is no longer to be opened is not waited for"() {
    const { app, desk, entry } = working(), asked = [], can = { can: true, by: null };
    app.models.set("m", { name: "m", ends: can, chords: can, infill: can, accompany: can });
    app.server = { open: () => new Promise(() => {}), async *write(given) { asked.push(given.id); } };
    desk.show(entry("other"), "opening a file");
    app.openExample("of a slow network");
    app.undo();
    await app.composer.start({ kind: "continue" });
    equal(asked, ["song"]);
  },
  "undo of what was done before does not stop a composition that waits in line"() {
    const { app, desk, stopped } = working();
    app.edit(bars(3), "deleting bars");
    app.composer.run = { id: "run", ids: null };
    app.undo();
    equal([desk.open.current, stopped], ["song", []]);
  },
};
