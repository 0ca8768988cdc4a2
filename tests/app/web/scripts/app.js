// The actions of the page, with stand-ins for the requests and the player.
import { App } from "../../../../app/assets/page/app.js";
import { Desk } from "../../../../app/assets/desk/state.js";
import { Requests } from "../../../../app/assets/page/requests.js";
import { shortcuts } from "../../../../app/assets/page/shortcuts.js";
import { progressOf } from "../../../../app/assets/page/dock.js";
import { nextNumber, titleOf } from "../../../../app/assets/page/compose.js";
import { equal, ok, piece } from "./check.js";

const bars = (count) => piece([[0, 12, 60, 80, 0]], { bars: count });

// An app with a song on the stage; `compose` adds two running takes of it.
function working() {
  const player = { playing: false, entry: null, tick: 0, load: (entry) => (player.entry = entry), update: (entry) => (player.entry = entry), pause: () => {}, unload: () => {}, play: () => (player.playing = true), seek: (tick) => (player.tick = tick), setLoop: (ticks) => (player.round = ticks) };
  const app = new App({ facts: { models: [{ name: "m" }], sampling: [], examples: [] }, desk: new Desk(), requests: {}, player }), stopped = [];
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

// A stand-in for an element that matches the selector `name`; `seen` is whether its focus is visible.
function element(name) {
  const one = { seen: false, blurred: false, blur: () => (one.blurred = true) };
  one.matches = (query) => (query === ":focus-visible" ? one.seen : query.split(", ").includes(name));
  one.closest = (query) => (one.matches(query) ? one : null);
  return one;
}

// An app that records what shortcuts make it do.
function listening() {
  const hears = {}, done = [], before = globalThis.addEventListener, tell = (what) => () => done.push(what);
  const app = { undo: tell("undo"), redo: tell("redo"), play: (entry) => done.push(`play ${entry}`), desk: { current: "song" }, player: { entry: {}, play: tell("play") }, toggle: App.prototype.toggle };
  globalThis.addEventListener = (name, act) => (hears[name] = act);
  shortcuts(app);
  globalThis.addEventListener = before;
  const key = (name, target, more = {}) => hears.keydown({ key: name, target, preventDefault() {}, ...more });
  return { app, hears, done, key };
}

export const tests = {
  "undo stops a composition only if it undoes all its takes"() {
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
  "an edit of a take that is still being written has the bars so far"() {
    const { app, desk, entry } = working(), region = { first: 1, stop: 16, tracks: null };
    desk.show(entry("take", { kind: "take", how: "continue", parent: "song", state: "running", piece: bars(16), bars: 16, now: 100, region }), "opening from the history");
    app.edit(piece([[0, 12, 61, 80, 0]], { bars: 16 }), "moving notes");
    const { state, chosen, piece: { lines }, region: left } = desk.current;
    equal([state, chosen, lines.length, left.stop], ["done", 3, 4, 3]);
  },
  async "a cancelled opening is not waited for"() {
    const { app, desk, entry } = working(), asked = [];
    app.models.set("m", { name: "m", lacks: {} });
    app.requests = { open: () => new Promise(() => {}), async *write(given) { asked.push(given.id); } };
    desk.show(entry("other"), "opening a file");
    app.openExample("of a slow network");
    app.undo();
    await app.composer.start({ kind: "continue" });
    equal(asked, ["song"]);
  },
  "undo of an earlier step does not stop a queued composition"() {
    const { app, desk, stopped } = working();
    app.edit(bars(3), "deleting bars");
    app.composer.run = { id: "run", ids: null };
    app.undo();
    equal([desk.open.current, stopped], ["song", []]);
  },
  "what is opened is said again once the program is loaded"() {
    const { app } = working();
    app.facts.examples.push({ name: "c", title: "Piano in C" });
    app.requests = { open: () => new Promise(() => {}) };
    app.openExample("c");
    const said = ["Starting…", ""].map((words) => (app.loaded(words), app.words));
    app.supersede();
    app.loaded("");
    equal([...said, app.words], ["Starting…", "Reading Piano in C…", ""]);
  },
  async "an opening superseded by another is dropped, and a request waits for the piece being opened"() {
    const { app, desk } = working(), opened = { piece: piece([]), title: "Example", model: "m", bars: 0, chosen: 0, notices: [], remarks: [] }, asked = [];
    let come;
    app.models.set("m", { name: "m", lacks: {} });
    app.requests = { open: () => new Promise((done) => (come = () => done(opened))), async *write(given, ask) { asked.push([given, ask.promptBars]); } };
    const first = app.openExample("example");
    app.openGrid();
    come();
    await first;
    equal([desk.current.title, desk.listed.length], ["My piece", 2]);
    const second = app.openExample("example"), writes = app.composer.start({ kind: "continue" });
    equal(asked, []);
    come();
    await Promise.all([second, writes]);
    equal([desk.current.kind, asked], ["example", [[null, 0]]]);
  },
  async "a change of model applies to the piece being opened, not the one before it"() {
    const { app, desk } = working(), comes = [], asked = [];
    app.models.set("n", { name: "n", language: "other" });
    app.requests = { open: (what) => (asked.push([what.model, what.entry?.fileName]), new Promise((done) => comes.push(() => done({ piece: bars(4), title: "next", file: "AAAA", model: what.model, bars: 4, chosen: 4, notices: [], remarks: [] })))) };
    const opens = app.openExample("next"), changes = app.changeModel("n");
    equal(asked.length, 1);
    comes[0]();
    await opens;
    await new Promise((rested) => setTimeout(rested));
    comes[1]();
    await changes;
    equal([desk.current.title, desk.current.model, asked[1]], ["next", "n", ["n", "next.mid"]]);
  },
  "a lost request to stop can be sent again, and a request whose takes are deleted is stopped"() {
    const { app, stopped, compose } = working(), { stop } = Object.getPrototypeOf(app.composer);
    compose();
    app.remove("run 0");
    equal(stopped, []);
    app.remove("run 1");
    equal(stopped, ["run"]);
    let sent = 0;
    app.requests.stop = () => ((sent += 1), sent === 1 ? Promise.reject(new Error("lost")) : Promise.resolve());
    stop.call(app.composer);
    stop.call(app.composer);
    equal(sent, 1);
    return new Promise((rested) => setTimeout(rested)).then(() => {
      stop.call(app.composer);
      equal([sent, app.composer.run.stopped], [2, true]);
    });
  },
  async "a request that is stopped before its first note leaves no take, and says so at once"() {
    const { app, desk, player } = working(), region = { first: 4, stop: 8, tracks: null }, seen = [];
    delete app.composer.stop;
    app.models.set("m", { name: "m", lacks: {} });
    app.changed = () => seen.push(app.composer.run?.stopped);
    player.pause = () => (player.playing = false);
    const before = JSON.stringify([desk.open, desk.past]), views = (fresh) => [0, 1].map((number) => ({ number, region, piece: bars(8), new: fresh[number] }));
    let fresh = [0, 0];
    app.requests = {
      stop: async () => {},
      async *write() {
        yield { state: "running", takes: views([0, 0]) };
        app.play(desk.takes[0]);
        app.composer.stop();
        equal(seen.at(-1), true);
        yield { state: "stopped", seconds: 4, takes: views(fresh) };
      },
    };
    await app.composer.start({ kind: "continue" });
    equal([JSON.stringify([desk.open, desk.past]), app.words], [before, "Stopped after 4 s, before the first note."]);
    equal([player.playing, player.entry.id], [false, "song"]);
    fresh = [0, 3];
    await app.composer.start({ kind: "continue" });
    equal([desk.takes.map(({ number }) => number), app.words], [[1], "Stopped after 4 s; the notes so far are kept."]);
    app.requests.write = async function* () { app.composer.stop(); throw Object.assign(new Error(), { name: "AbortError" }); };
    await app.composer.start({ kind: "continue" });
    equal(app.words, "Stopped before the first note.");
  },
  async "a given piece is read before its first new note"() {
    const { app, desk } = working(), said = [], now = (composer) => said.push(progressOf(composer.run));
    app.models.set("m", { name: "m", lacks: {} });
    app.requests = { async *write() { now(app.composer); Object.assign(app.composer.run, { bar: 1, bars: 8 }); now(app.composer); app.composer.run.stopped = true; now(app.composer); } };
    await app.composer.start({ kind: "continue" });
    app.openNothing();
    await app.composer.start({ kind: "continue" });
    equal(said, ["Reading the piece…", "Composing bar 1 of 8", "Stopping…", "Waiting for the first notes…", "Composing bar 1 of 8", "Stopping…"]);
  },
  "progress is that of all takes, of which one may be written after another, and never goes back"() {
    const { app, desk, entry } = working(), region = { first: 0, stop: 4, tracks: null }, run = { ids: ["a", "b"], part: 0 };
    for (const id of run.ids) desk.put(entry(id, { kind: "take", region }));
    const at = (...now) => (app.composer.measure(run, { takes: now.map((tick, number) => ({ number, now: tick })) }), `${run.part} ${progressOf(run)}`);
    equal([at(0, 0), at(96, 0), at(48, 0), at(192, 96), at(192, 192)], ["0 Composing bar 1 of 4", "0.25 Composing bar 2 of 4", "0.25 Composing bar 2 of 4", "0.75 Composing bar 4 of 4", "1 Composing bar 4 of 4"]);
  },
  "the new part of a take follows deleted bars"() {
    const { app, desk, entry } = working(), region = { first: 2, stop: 4, tracks: null };
    desk.put(entry("take", { kind: "take", how: "continue", parent: "song", region, provenance: { prompt_bars: [1, 2] } }));
    app.bars("take", "delete", { first: 0, stop: 1 });
    const { current } = desk;
    equal([current.parent, current.piece.lines.length - 1, current.region, current.provenance], ["take", 3, { first: 1, stop: 3, tracks: null }, { prompt_bars: null, edited: true, written_bars: null }]);
    app.bars(current.id, "cut", { first: 0, stop: 2 });
    equal([desk.current.piece.lines.length - 1, desk.current.region, app.words], [2, { first: 1, stop: 2, tracks: null }, "Deleted bar 3; Undo brings it back."]);
    app.undo();
    app.undo();
    app.undo();
    equal(desk.open.current, "song");
  },
  "a take is played from its first visible bar, or its first new one while it grows, and its bars can be looped"() {
    const { app, desk, player, entry } = working(), region = { first: 2, stop: 4, tracks: null };
    desk.begin([entry("take", { kind: "take", how: "continue", parent: "song", region, run: "run", number: 0 })]);
    app.play(desk.entries.get("take"));
    equal([player.entry.id, player.playing, player.tick], ["take", true, 48]);
    Object.assign(player, { playing: false, tick: 0 });
    desk.begin([entry("new", { kind: "take", how: "continue", parent: "song", region, run: "next", number: 1, state: "running" })]);
    app.play(desk.entries.get("new"));
    equal([player.entry.id, player.tick], ["new", 96]);
    player.load(desk.entries.get("take"));
    app.loop("take", { first: 1, stop: 9 });
    equal(player.round, [48, 192]);
  },
  "playback follows undo, and continues while something else is opened or composed"() {
    const { app, desk, player, compose, entry } = working();
    player.playing = true;
    app.edit(bars(3), "deleting bars");
    for (const [go, count] of [["undo", 4], ["redo", 3]]) {
      app[go]();
      equal([player.entry.id, player.entry.piece.lines.length - 1], [desk.open.current, count]);
    }
    const { id } = player.entry;
    compose();
    desk.show(entry("other"), "opening a file");
    app.follow();
    equal(player.entry.id, id);
    player.playing = false;
    app.follow();
    equal(player.entry.id, "other");
  },
  async "a take read by another model no longer belongs to its request"() {
    const { app, desk, compose } = working(), opened = { piece: bars(4), title: "a", model: "n", bars: 4, chosen: 4, notices: [], remarks: [] };
    app.requests = { open: async () => opened };
    app.models.set("n", { name: "n", language: "other" });
    compose();
    app.use("run 0");
    desk.remix(desk.current, 0, { mute: true });
    const { title } = desk.current, steps = desk.past.length;
    await app.changeModel("n");
    const { current } = desk;
    equal([current.kind, current.model, current.parent, current.act, current.run], ["file", "n", "run 0", "read with n", undefined]);
    equal([current.title, desk.mixOf(current), desk.past.length], [title, [{ mute: true }], steps + 1]);
    app.models.set("same", { name: "same", language: "other" });
    await app.changeModel("same");
    equal([desk.current.id, app.model.name], [current.id, "same"]);
    equal(nextNumber(desk.listed, desk.entries.get("song")), 2);
    equal([titleOf(desk.entries.get("song"), 2), titleOf({ title: "song, variation 2" }, 0), titleOf(null, 0)], ["song, take 3", "song, variation 2.1", "Take 1"]);
  },
  async "a dropped folder is reported, and a large file is not read"() {
    const { app } = working();
    await app.openFile({ name: "My songs", size: 1, arrayBuffer: async () => { throw new Error(); } });
    ok(/“My songs” cannot be read: it is a folder/.test(app.trouble), app.trouble);
    app.openFile({ name: "a.mid", size: (1 << 20) + 1 });
    ok(/larger than the limit of 1 MB/.test(app.trouble), app.trouble);
  },
  async "typed chords fill the bars from the first one on, up to the end of the piece"() {
    const { app, desk } = working(), filled = [];
    app.requests = { chords: async (text) => ({ bars: text.split(" | ").map((name) => [[`${name}_M`, ""]]), said: `read ${text}` }) };
    await app.typeChords({ first: 1, stop: 2 }, "F | G", (range) => filled.push(range));
    equal([desk.current.piece.chords.filter(([tick]) => tick % 48 === 0), filled, app.words], [[[48, "F_M", 0, ""], [96, "G_M", 0, ""]], [{ first: 1, stop: 3 }], "read F | G"]);
    const { id } = desk.current;
    await app.typeChords({ first: 3, stop: 4 }, "F | G", (range) => filled.push(range));
    equal([desk.current.id, filled.length, app.trouble], [id, 1, "There are chords for 2 bars, but only 1 bar from bar 4 on."]);
  },
  async "unsupported options are not sent, and only one request runs at a time"() {
    const { app, desk, entry } = working(), asked = [];
    app.models.set("m", { name: "m", lacks: { chords: "none" } });
    app.requests = { async *write(given, ask) { asked.push([given.id, given.file, ask.kind, ask.model, ask.chords]); } };
    desk.show(entry("file", { file: new Uint8Array(3) }), "opening a file");
    desk.set({ chords: "C | G" });
    await app.composer.start({ kind: "infill", first: 1, last: 1 });
    await app.composer.start({ kind: "continue" });
    equal(asked, ["infill", "continue"].map((kind) => ["file", new Uint8Array(3), kind, "m", ""]));
    app.requests = { async *write() { await app.composer.start({ kind: "continue" }); } };
    await app.composer.start({ kind: "continue" });
    ok(/press Stop first/.test(app.trouble), app.trouble);
  },
  async "the pace is that of continuations, which decides how many are drawn for each take"() {
    const { app, desk, entry } = working(), draws = [], region = { first: 4, stop: 8, tracks: null };
    Object.assign(app, { trade: { on: false }, facts: { ...app.facts, usuallyDrawn: 2, mostDrawn: 8 } });
    app.models.set("m", { name: "m", lacks: {} });
    let seconds = 0;
    app.requests = {
      async *write(given, { kind, draw }) {
        draws.push(draw);
        const take = { number: 0, region: kind === "continue" ? region : { ...region, first: 0, tracks: [1] }, piece: bars(8) };
        yield { state: "running", takes: [take] };
        yield { state: "done", seconds, takes: [take] };
      },
    };
    desk.show(entry("long", { piece: bars(4) }), "opening a file");
    desk.set({ variations: 1 });
    // Four bars last 8 s; three times as fast as they play must be left.
    for (const [kind, time, said] of [["accompany", 0.1, "8 bars"], ["continue", 1, "4 bars"], ["accompany", 0.1, "8 bars"], ["continue", 0, "4 bars"]]) {
      seconds = time;
      desk.step("opening again", { current: "long", takes: [] });
      await app.composer.start({ kind });
      equal([app.trouble, app.words], ["", `${said} in ${time} s.`]);
    }
    equal([draws, app.composer.pace > 100], [[2, 2, 5, 5], true]); // 2 × 8 s in 1 s
  },
  async "an idea is sent only for a new piece and to a model that supports it"() {
    const { app, desk, entry } = working(), asked = [];
    app.models.set("m", { name: "m", idea: null, lacks: {} });
    app.models.set("any", { name: "any", idea: { style: [] }, lacks: {} });
    app.requests = { async *write(given, ask) { asked.push(ask.idea); } };
    desk.set({ idea: { key: "C major" } });
    for (const [isNew, model] of [[false, "any"], [true, "any"], [true, "m"]]) {
      desk.show(entry("old"), "opening");
      if (isNew) app.openNothing();
      desk.step("choosing a model", { model });
      await app.composer.start({ kind: "continue" });
    }
    equal(asked, [null, { key: "C major" }, null]);
  },
  async "new music is written into the kept file, and a take says if that was impossible"() {
    const { app, desk, entry } = working(), asked = [], region = { first: 0, stop: 4, tracks: null };
    const view = { state: "running", takes: [{ number: 0, region, piece: { ...bars(4), notes: [...bars(4).notes] } }] }, kept = Object.assign(new Uint8Array(4), { toBase64: () => "AAAA" });
    const statuses = [200, 409, 200, 200], words = () => `${JSON.stringify({ ...view, detail: "no" })}\n`;
    app.models.set("m", { name: "m", lacks: {} });
    app.requests = new Requests({ lost: "lost", ask: async (what, wanted) => (asked.push(wanted.kept), new Response(words(), { status: statuses.shift() })) });
    const song = { file: new Uint8Array(4), fileName: "a.mid", reading: 1, keptReading: 2, keeps: true, kept }, found = [];
    for (const more of [song, song, { ...song, kept: { ...kept, length: 1e8 } }]) {
      desk.show(entry(`${found.length}`, more), "opening a file");
      await app.composer.start({ kind: "continue" });
      found.push([desk.takes[0].keeps, desk.takes[0].lost]);
    }
    const sent = { file: "AAAA", reading: 2, read: 1 };
    equal(asked, [sent, sent, null, null]);
    equal(found, [[true, false], [false, true], [false, true]]);
  },
  async "space plays after a click, presses buttons focused by key, and Ctrl+Z is left to text fields"() {
    const { app, hears, done, key } = listening(), button = element("button"), field = element("input[type=text]");
    hears.focusin({ target: button }); // by a click
    key(" ", button);
    equal([done.splice(0), button.blurred], [["play"], true]);
    button.seen = true; // focused by the Tab key
    hears.focusin({ target: button });
    key(" ", button);
    key("z", field, { ctrlKey: true });
    equal(done.splice(0), []);
    key(" ", element("body"));
    app.player.entry = null;
    key(" ", element("body"));
    for (const more of [{}, { shiftKey: true }]) key("Z", button, { ctrlKey: true, ...more });
    key("y", button, { metaKey: true });
    equal(done.splice(0), ["play", "play song", "undo", "redo", "redo"]);
  },
};
