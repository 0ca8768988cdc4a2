// The actions of the page: its parts call them, and watch the desk for changes.
import { ENDING, bytesFrom, bytesOf, readDesk, writeDesk } from "../desk/file.js";
import { interrupted, newId, soFar } from "../desk/state.js";
import { hasLocked, withChords, withLocks } from "../music/chords.js";
import { changesBetween, joined } from "../music/edits.js";
import { partOf } from "../music/naming.js";
import {
  aroundNew,
  barCount,
  cutOf,
  emptyPiece,
  inKeyOf,
  pieceOf,
  regionWithout,
  withMetre,
  without,
} from "../music/piece.js";
import { Composer } from "./compose.js";
import { barsLabel, count, download, fileName } from "../widgets/parts.js";
import { asKept } from "../widgets/save_menu.js";

const MOST_BYTES = 1 << 20;

// What an entry loses with the file that it was made of.
const withoutFile = ({ keeps, lost }) => ({
  ...{ file: null, kept: null, edits: null, reading: null, keeps: false },
  lost: Boolean(keeps || lost),
});

// The provenance of an edited piece, whose written bars may have moved.
const editedFrom = (made) =>
  made && { ...made, edited: true, prompt_bars: null, written_bars: null };

export class App {
  constructor({ facts, desk, requests, player }) {
    Object.assign(this, { facts, desk, requests, player });
    requests.notKept = (words) => this.say(words);
    this.composer = new Composer(this);
    this.models = new Map(facts.models.map((model) => [model.name, model]));
    this.underWay = null; // the promise of what is being opened
    this.doing = ""; // the words shown meanwhile
    this.words = this.trouble = ""; // the message at the bottom of the page, or the error in its place
    this.changed = () => {}; // shows the new state
  }

  say(words) {
    Object.assign(this, { words, trouble: "" });
    this.changed();
  }

  fail(trouble) {
    Object.assign(this, { words: "", trouble });
    this.changed();
  }

  // Say how far the program is loaded, and then what it opens.
  loaded(words) {
    this.say(words || (this.underWay ? this.doing : ""));
  }

  get model() {
    return this.models.get(this.desk.open.model) ?? this.facts.models[0];
  }

  // Whether the next request starts a new piece with a model that accepts an idea for it.
  get begins() {
    return Boolean(this.model.idea) && !this.desk.current;
  }

  // Run an action that is requested; a later one supersedes it.
  attempt(words, act) {
    const work = this.#attempt(words, act, () => this.underWay === work);
    return (this.underWay = work);
  }

  async #attempt(words, act, isLatest) {
    this.say((this.doing = words));
    try {
      const done = await act();
      if (!isLatest()) return;
      this.say("");
      done();
    } catch (error) {
      if (isLatest()) return (this.fail(error.message), false);
    } finally {
      if (isLatest()) this.underWay = null;
    }
  }

  // Ignore the result of whatever is still being opened.
  supersede() {
    this.underWay = null;
    this.say("");
  }

  openFile(file) {
    if (!file) return;
    if (file.name.toLowerCase().endsWith(ENDING)) return this.openDesk(file);
    if (file.size > MOST_BYTES)
      return this.fail(`“${file.name}” is larger than the limit of 1 MB.`);
    const { name } = file;
    return this.attempt(`Reading ${name}…`, async () => {
      const bytes = await bytesOf(file);
      const more = { kind: "file", file: bytes, fileName: name };
      return this.#open({ bytes, name }, more, "opening a file");
    });
  }

  openExample(example) {
    const more = { kind: "example", example, fileName: `${example}.mid` };
    const { title } = this.facts.examples.find(({ name }) => name === example) ?? {};
    return this.attempt(title ? `Reading ${title}…` : "", () =>
      this.#open({ example }, more, "opening an example"),
    );
  }

  openNothing() {
    this.supersede();
    this.leave();
    this.desk.step("starting a new idea", { current: null, takes: [], chosen: 0 });
    this.follow();
  }

  // A blank piece to draw on or to play along to.
  openGrid() {
    this.supersede();
    this.leave();
    const piece = emptyPiece(),
      more = { piece, chosen: barCount(piece), model: this.model.name };
    this.desk.show({ ...this.blank("edit", "My piece"), ...more }, "starting a blank piece");
    this.follow();
  }

  // Request that something is opened; returns a function that shows it. `more` adds to the entry what the answer omits.
  async #open(ask, more, label) {
    const { made, piece, file, isPlain, ...told } = await this.requests.open({
      model: this.model.name,
      ...ask,
    });
    const entry = {
      ...this.blank(more.kind, told.title),
      ...told,
      piece: inKeyOf(ask.entry?.piece, pieceOf(piece)),
      provenance: made ?? null,
      seed: made?.seed,
      keeps: Boolean(more.file ?? file) && !/\.abc$/i.test(more.fileName ?? ""),
      ...more,
      ...(isPlain && { keeps: false, lost: Boolean(more.keeps || more.lost) }),
      file: bytesFrom(file) ?? more.file,
    };
    return () => {
      if (!more.act) this.leave();
      this.desk.show(entry, label);
      this.follow();
    };
  }

  // Leave a piece for another one: playback stops, and what was set for that piece alone is not kept for the next.
  leave() {
    this.player.pause();
    const asWritten = { tempo: 1, transpose: 0, swing: 50, humanise: 0 };
    this.desk.set({ ends: false, chords: "", form: "", ...asWritten });
  }

  blank(kind, title) {
    const empty = { parent: null, notices: [], remarks: [], region: null };
    return { ...empty, id: newId(), kind, title, made: Date.now(), state: "done" };
  }

  // Choose another model; if its language differs, the piece is read again, with all edits.
  async changeModel(model) {
    while (this.underWay) await this.underWay;
    const { current } = this.desk,
      entry = current && asKept(current),
      label = "changing the model";
    this.say("");
    if (!entry?.piece.notes.length || this.models.get(model).language === this.model.language)
      return this.desk.step(label, { model });
    const { id: parent, title, file, fileName, keeps, lost } = entry;
    const act = `read with ${model}`,
      more = { kind: "file", act, title, file, fileName, parent, keeps, lost };
    return this.attempt("", () => this.#open({ entry, model }, more, label));
  }

  // Load the piece on the stage into the player, unless something plays.
  follow() {
    const { player, desk } = this;
    if (player.playing) return;
    if (desk.current) player.load(desk.current, { at: 0 });
    else player.unload();
  }

  undo() {
    if (this.desk.cameLast(this.composer.run?.ids ?? [])) this.composer.stop();
    this.travel(() => this.desk.undo());
  }

  redo() {
    this.travel(() => this.desk.redo());
  }

  // Undo or redo; if an edit of the piece that plays comes or goes, playback continues in the result.
  travel(go) {
    this.supersede();
    const before = this.desk.current;
    go();
    const now = this.desk.current,
      ids = [before?.id, now?.id];
    if ([before, now].some((one) => one?.kind === "edit" && ids.includes(one.parent)))
      this.player.update(now, before.id);
    this.follow();
  }

  // Show an edited piece on the stage; of one still being written, only the bars so far.
  edit(made, label, { changes = null, ...more } = {}) {
    this.say("");
    const before = interrupted(this.desk.current),
      piece = { ...soFar(this.desk.current, made), pairs: undefined },
      bars = barCount(piece),
      done = changes ?? changesBetween(before.piece, made),
      isKept = before.file && before.reading && done;
    const entry = {
      ...before,
      id: newId(),
      parent: before.id,
      kind: "edit",
      made: Date.now(),
      state: "done",
      piece,
      ...(isKept ? { edits: joined(before.edits ?? [], done) } : withoutFile(before)),
      example: null,
      chosen: Math.min(this.desk.open.chosen || bars, bars),
      model: this.model.name,
      act: label,
      provenance: editedFrom(before.provenance),
      ...more,
    };
    const playing = this.player.entry?.id === before.id;
    this.desk.show(entry, label);
    if (playing) this.player.update(entry, before.id);
    this.follow();
    return entry;
  }

  // Open an entry of the history.
  recall(id) {
    this.supersede();
    this.desk.recall(id);
    this.follow();
  }

  // Delete an entry from the history; if it plays, playback stops.
  remove(id) {
    this.say("");
    if (this.player.entry?.id === id) this.player.pause();
    this.desk.remove(id);
    const { run } = this.composer,
      { listed } = this.desk.open;
    if (run?.ids && !run.ids.some((one) => listed.includes(one))) this.composer.stop(); // all its takes are deleted
    this.follow();
  }

  // Take back takes without notes; if one plays, playback stops.
  withdraw(ids) {
    this.desk.withdraw(ids);
    const { entry } = this.player;
    if (!ids.includes(entry?.id) || this.desk.needed.has(entry.id)) return;
    this.player.pause();
    this.follow();
  }

  // Move a take to the stage to work on it there.
  use(id, label = "continuing from a take", chosen = null) {
    const entry = this.desk.entries.get(id);
    this.supersede();
    chosen ??= barCount(entry.piece);
    this.desk.step(label, { current: id, takes: [], chosen, model: entry.model });
    if (!this.player.playing) this.player.load(entry);
  }

  // Some tracks of a piece in a request.
  partsOf(piece, tracks) {
    return tracks.map((track) => partOf(piece, track, this.facts.instruments));
  }

  // Apply an action to the selected bars of the piece or of a take.
  bars(id, act, { first, stop }, tracks = []) {
    this.say("");
    if (act === "loop") return this.loop(id, { first, stop });
    const { piece, region } = this.desk.entries.get(id);
    if (this.desk.open.current !== id) this.use(id);
    const parts = this.partsOf(piece, tracks);
    if (act === "rewrite")
      return this.composer.start({ kind: "infill", first: first + 1, last: stop, parts });
    if (act === "continue") {
      this.desk.choose(stop);
      return this.composer.start({ kind: "continue" });
    }
    const [from, to] = act === "cut" ? [stop, barCount(piece)] : [first, stop],
      changes = [cutOf(piece, from, to)],
      label = barsLabel({ first: from, stop: to });
    this.edit(without(piece, from, to), "deleting bars", {
      changes,
      region: regionWithout(region, from, to),
    });
    this.say(`Deleted ${label}; Undo brings ${to - from > 1 ? "them" : "it"} back.`);
  }

  // Write typed chords over some bars and as many after them as are typed, as the models take them; `filled` is called with
  // these bars. An empty text unlocks those that they have.
  typeChords({ first, stop }, text, filled = () => {}) {
    if (/^[\s|]*$/.test(text)) return this.#freeChords({ first, stop }, filled);
    return this.attempt("", async () => {
      const { bars, said } = await this.requests.chords(text, first + 1),
        range = { first, stop: Math.max(stop, first + bars.length) },
        left = barCount(this.desk.current.piece) - first;
      if (bars.length > left)
        throw new Error(
          `There are chords for ${bars.length} bars, but only ${count(left, "bar")} from bar ${first + 1} on.`,
        );
      return () => {
        this.#chords(withChords(this.desk.current.piece, range, bars));
        this.say(said);
        filled(range);
      };
    });
  }

  #freeChords(range, filled) {
    const { piece } = this.desk.current,
      bars = barsLabel(range),
      freed = `The chords of ${bars} are unlocked: what is written may have others.`;
    this.lockChords(range, false);
    this.say(hasLocked(piece, range) ? freed : `No chords of ${bars} are locked.`);
    filled(range);
  }

  lockChords(range, isLocked) {
    this.#chords(withLocks(this.desk.current.piece, range, isLocked));
  }

  // Set the tempo, in quarter notes a minute, from a tick on; at the start, all tempos of the piece change with it.
  setTempo(bpm, start) {
    const { piece } = this.desk.current,
      [[, first], ...others] = piece.tempos,
      scales = !start && others.length > 0;
    const tempos = scales
      ? piece.tempos.map(([tick, tempo]) => [tick, (tempo * bpm) / first])
      : [...piece.tempos.filter(([tick]) => tick < start), [start, bpm]];
    const change = scales ? { times: bpm / first } : { bpm, start };
    const changes = [{ change: "tempo", ...change }];
    this.edit({ ...piece, tempos }, "changing the tempo", { changes });
  }

  setKey(fifths, minor) {
    const piece = { ...this.desk.current.piece, key: [fifths, Number(minor), 0] },
      changes = [{ change: "key", fifths, minor: Boolean(minor) }];
    this.edit({ ...piece, centre: fifths + (minor ? 3 : 2) }, "changing the key", { changes });
  }

  // Set the metre from a tick on; the piece is read again, since its bars are others. What reading it notes is said.
  setMetre(beats, unit, start) {
    const entry = asKept(this.desk.current),
      { piece, id: parent, origin, title, file, fileName, keeps, lost } = entry,
      label = "changing the time signature",
      more = [{ change: "metre", beats, unit, start }];
    if (!piece.notes.length) return this.edit(withMetre(piece, beats, unit), label);
    const kept = { kind: "edit", act: label, parent, origin, title, file, fileName, keeps, lost };
    return this.attempt("", async () => {
      const show = await this.#open({ entry, more }, kept, label),
        known = new Set(entry.notices?.map(({ text }) => text));
      return () => {
        show();
        const fresh = this.desk.current.notices.filter(({ text }) => !known.has(text));
        this.say(fresh.map(({ text }) => text).join(" "));
      };
    });
  }

  #chords({ piece, changes }) {
    const isSame = JSON.stringify(piece.chords) === JSON.stringify(this.desk.current.piece.chords);
    if (!isSame) this.edit(piece, "changing chords", { changes });
  }

  loop(id, range) {
    const entry = this.desk.entries.get(id);
    if (!entry) return; // the accompaniment of a trade is no entry
    const { lines } = entry.piece;
    this.player.load(entry);
    this.player.setLoop(
      range && [lines[range.first], lines[Math.min(range.stop, lines.length - 1)]],
    );
    if (range && !this.player.playing) this.player.play();
  }

  // Play a piece from the current position; a take not before its first visible bar, or its first new one while it grows.
  play(entry) {
    const { player } = this;
    if (player.entry?.id === entry.id && player.playing) return player.pause();
    player.load(entry);
    const isTake = this.desk.open.takes.includes(entry.id),
      { state, region, piece } = entry,
      first = state === "running" ? region.first : aroundNew(entry)?.first,
      lead = piece.lines[(isTake && first) || 0];
    if (player.tick < lead) player.seek(lead);
    return player.playing ? undefined : player.play();
  }

  // Toggle playback of the loaded piece, or of the one on the stage.
  toggle() {
    const { player, desk } = this;
    if (player.playing) player.pause();
    else if (player.entry) player.play();
    else if (desk.current) this.play(desk.current);
  }

  saveDesk() {
    const name = fileName(this.desk.current?.title ?? "desk");
    download(writeDesk(this.desk), `${name}${ENDING}`, "application/json");
  }

  openDesk(file) {
    return this.attempt("", async () => {
      const text = new TextDecoder().decode(await bytesOf(file)),
        found = readDesk(text, file.name, this.desk.settings);
      return () => this.#add(found);
    });
  }

  #add({ entries, stars, open, settings }) {
    const { desk } = this;
    this.composer.stop();
    for (const [id, entry] of entries) desk.put(desk.entries.get(id) ?? entry); // existing entries stay as they are
    for (const star of stars) desk.stars.add(star);
    const listed = [...new Set([...desk.open.listed, ...open.listed])];
    const programs = { ...desk.open.programs, ...open.programs }; // of the pieces already here, too
    desk.step("opening a project", { ...open, listed, programs });
    desk.set(settings);
    this.follow();
  }
}
