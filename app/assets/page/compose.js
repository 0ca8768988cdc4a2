// Requests for music: streams the notes of the takes to the desk as they are written.
import { bytesFrom } from "../desk/file.js";
import { interrupted, isUnbegun, newId } from "../desk/state.js";
import { chordsAfter } from "../music/chords.js";
import { Clock } from "../music/clock.js";
import { listed } from "../music/naming.js";
import { barCount, grown, inKeyOf, pieceOf, restBefore } from "../music/piece.js";
import { count } from "../widgets/parts.js";
import { planAsked } from "../widgets/plan_view.js";

const BUSY = "The model is composing; press Stop first.";
const SPARE = 3; // times as fast as it plays, music must still be written to choose among more
const SILENT = "before the first note.";
const STILL_MS = 300; // without changes before the prompt is read ahead
const STOPS = { stopped: "", late: " at the time limit", bound: " at the model’s maximum length" };

const TAKE = /(^|, )(take|variation) [\d.]+$/i; // "variation": in projects of earlier versions

// The title of a take; numbers count from 0.
export function titleOf(parent, number) {
  if (!parent) return `Take ${number + 1}`;
  if (TAKE.test(parent.title)) return `${parent.title}.${number + 1}`;
  return `${parent.title}, take ${number + 1}`;
}

// The next free number among the takes of a piece.
export function nextNumber(entries, parent) {
  const isTake = (one) => one.kind === "take" && one.parent === (parent?.id ?? null);
  return 1 + Math.max(-1, ...entries.filter(isTake).map((one) => one.number));
}

// What takes have new, in words: 8 bars, or 2 takes of 8 bars.
function written(takes) {
  const all = new Set(takes.map(({ region: { first, stop } }) => stop - first)),
    lengths = [...all].sort((a, b) => a - b),
    bars = listed([...lengths.slice(0, -1), count(lengths.at(-1), "bar")]);
  return takes.length > 1 ? `${takes.length} takes of ${bars}` : bars;
}

// Whether a finished take has nothing new; chords alone have no notes.
const isSilent = ({ new: fresh, region: { tracks } }) => fresh === 0 && tracks?.length !== 0;

export class Composer {
  constructor(app) {
    this.app = app;
    this.run = null;
    this.ahead = null;
    this.pace = null; // seconds of music a second, of all that are drawn together
  }

  get busy() {
    return Boolean(this.run);
  }

  // Why nothing can be asked for now, or false.
  get why() {
    return this.busy && BUSY;
  }

  // What the button that asks for music says.
  get verb() {
    const { current, past } = this.app.desk,
      begins = !current?.piece.notes.length && (current || past.length);
    return begins ? "Generate" : "Continue";
  }

  // The request that the settings describe.
  ask(what) {
    const { settings, open, current } = this.app.desk,
      { name: model, lacks } = this.app.model,
      { bars, variations, draw, ends, chords, form, seed } = settings;
    const drawn = this.app.facts.sampling.map(({ name }) => [name, settings[name]]);
    return {
      model,
      title: current?.title ?? "",
      bars,
      variations,
      draw: draw || this.#affordable(variations),
      sampling: { ...Object.fromEntries(drawn), seed },
      ends: ends && !lacks.ends,
      chords: lacks.chords || what.kind !== "continue" ? "" : chords || this.#chordsAfter(bars),
      form: lacks.plan || what.kind !== "continue" ? "" : form,
      keepsChords: true,
      promptBars: current ? open.chosen : null,
      idea: this.app.begins ? settings.idea : null,
      rest: current ? restBefore(current.piece) : 0,
      plan: planAsked(this.app, what),
      ...what,
    };
  }

  // How many can be drawn for each take in the time that there is.
  #affordable(takes) {
    const { usuallyDrawn, mostDrawn } = this.app.facts;
    if (this.pace === null) return usuallyDrawn;
    return Math.max(1, Math.min(mostDrawn, Math.floor(this.pace / (SPARE * takes))));
  }

  // Take the pace of a continuation, since a part or chords alone take less time.
  #paced(run, seconds) {
    const { piece, region } = this.entry(run, 0),
      clock = new Clock(piece),
      [from, to] = [region.first, region.stop].map((bar) => clock.seconds(piece.lines[bar]));
    this.pace = ((to - from) * run.ids.length * run.draw) / Math.max(0.1, seconds);
  }

  // The given chords of the bars to be written again.
  #chordsAfter(bars) {
    const { current, open } = this.app.desk;
    return current ? chordsAfter(current.piece, open.chosen, bars) : "";
  }

  // Have the prompt read before Continue is pressed, so that the first note comes at once.
  readAhead() {
    clearTimeout(this.ahead);
    this.ahead = setTimeout(() => {
      const { given } = this;
      if (this.busy || !given) return;
      this.app.requests.readAhead(given, this.ask({ kind: "continue" })).catch(() => {}); // it will be read with the request
    }, STILL_MS);
  }

  // The piece to send, or null if it has no notes.
  get given() {
    const { current } = this.app.desk;
    return current?.piece.notes.length ? current : null;
  }

  // Continue, or stop what is being written.
  press() {
    return this.busy ? this.stop() : this.start({ kind: "continue" });
  }

  async start(what) {
    const { app } = this,
      { desk } = app;
    // A request made while a piece is being opened is for that piece.
    if ((await app.underWay) === false) return; // the error is shown already
    if (this.busy) return app.fail(this.why);
    app.say("");
    if (desk.settings.newSeed) desk.set({ seed: Math.floor(Math.random() * 1e6) });
    const parent = desk.current,
      ask = this.ask(what);
    const run = (this.run = {
      id: newId(),
      stopping: new AbortController(),
      ids: null,
      settled: new Set(),
      draw: ask.draw,
      reads: Boolean(this.given),
      part: 0,
    });
    app.changed();
    try {
      for await (const view of app.requests.write(this.given, ask, run.id, run.stopping.signal))
        this.take(run, view, ask, parent);
    } catch (error) {
      if (error.name !== "AbortError") app.fail(error.message);
      else if (!app.words) app.say(`Stopped ${SILENT}`);
      this.leave(run);
    } finally {
      this.run = null;
      app.changed();
    }
  }

  take(run, view, ask, parent) {
    if (!view.takes.length) return; // nothing new
    if (!run.ids) return this.begin(run, view, ask, parent);
    if (view.state === "running") return this.grow(run, view);
    for (const take of view.takes) this.finish(run, take, view.state);
    if (view.state === "done" && ask.kind === "continue") this.#paced(run, view.seconds);
    const silent = view.state === "stopped" ? view.takes.filter(isSilent) : [],
      isAll = silent.length === view.takes.length;
    this.app.withdraw(silent.map(({ number }) => run.ids[number]));
    const isHere = this.app.desk.takes.some(({ id }) => run.ids.includes(id)),
      remarks = new Set(view.takes.flatMap((take) => take.remarks ?? [])),
      ending =
        view.state === "done"
          ? [`${written(view.takes)} in ${view.seconds} s.`, ...remarks].join(" ")
          : `Stopped${STOPS[view.state]} after ${view.seconds} s${isAll ? `, ${SILENT}` : "; the notes so far are kept."}`;
    if (!this.app.trade?.on) this.app.say(isHere || isAll ? ending : `${ending} See the history.`);
  }

  begin(run, view, ask, parent) {
    const first = nextNumber(this.app.desk.listed, parent);
    run.ids = view.takes.map(() => newId());
    // Whether the new notes are written into the file that was opened.
    const keeps = parent?.keeps && view.keeps;
    const entries = view.takes.map(({ number, region, piece: plain }) => {
      const piece = inKeyOf(parent?.piece, pieceOf(plain)),
        place = first + number;
      return {
        ...this.app.blank("take", titleOf(parent, place)),
        id: run.ids[number],
        parent: parent?.id ?? null,
        how: ask.kind,
        run: run.id,
        number: place,
        piece,
        region,
        model: ask.model,
        state: "running",
        seed: ask.sampling.seed,
        goals: ask.plan ? this.app.desk.goals : null,
        form: ask.form || ask.idea?.form || "",
        keeps: Boolean(keeps),
        lost: Boolean((parent?.keeps || parent?.lost) && !keeps),
        now: piece.lines[Math.min(region.first, barCount(piece))],
      };
    });
    this.app.desk.begin(entries);
  }

  entry(run, number) {
    return this.app.desk.entries.get(run.ids[number]);
  }

  grow(run, view) {
    for (const change of view.takes) {
      const entry = this.entry(run, change.number);
      this.#put({ ...entry, piece: grown(entry.piece, change), now: change.now });
      this.#settle(run, change.number, entry);
    }
    this.measure(run, view);
    this.app.changed();
  }

  // Keep a take whose new notes have been heard: what one has begun to like does not change.
  #settle(run, number, { id, piece, region }) {
    const { player, requests } = this.app,
      isHeard =
        player.playing && player.entry?.id === id && player.tick > piece.lines[region.first];
    if (!isHeard || run.draw < 2 || run.settled.has(number)) return;
    run.settled.add(number);
    requests.settle(run.id, number).catch(() => run.settled.delete(number));
  }

  // Measure the progress of all takes together, as some may be written after others: the fraction done, and the bar. It
  // stays where it is while a take goes on from another draw, which may be behind.
  measure(run, view) {
    const parts = view.takes.map(({ number, now }) => {
      const { piece, region } = this.entry(run, number),
        from = piece.lines[region.first],
        to = piece.lines[Math.min(region.stop, barCount(piece))];
      run.bars = region.stop - region.first;
      return (now - from) / Math.max(1, to - from);
    });
    const mean = parts.reduce((sum, part) => sum + part, 0) / Math.max(1, parts.length);
    run.part = Math.max(run.part, Math.min(1, mean));
    run.bar = Math.min(run.bars, 1 + Math.floor(run.part * run.bars));
  }

  finish(run, take, state) {
    const entry = this.entry(run, take.number),
      piece = inKeyOf(entry.piece, pieceOf(take.piece));
    const { kept = null, notKept = null } = take,
      bytes = bytesFrom(kept?.data);
    this.#put({
      ...entry,
      piece,
      state,
      ...(notKept && { keeps: false, lost: entry.keeps || entry.lost }),
      kept: kept && !kept.same ? bytes : null,
      keptReading: kept?.reading,
      reading: take.reading,
      region: take.region,
      now: undefined,
      file: kept?.same ? bytes : bytesFrom(take.midi),
      fileName: `${entry.title}${kept?.same ? kept.ending : ".mid"}`,
      provenance: take.provenance,
      seed: take.seed,
      chosen: barCount(piece),
    });
  }

  // Store a newer state of an entry, also in the player if it plays there.
  #put(entry) {
    this.app.player.update(entry);
    this.app.desk.put(entry);
  }

  // Keep what was written before the request failed.
  leave(run) {
    const left = (run.ids ?? []).map((id) => interrupted(this.app.desk.entries.get(id)));
    for (const entry of left) if (entry.reached) this.#put(entry);
    this.app.withdraw(left.filter(isUnbegun).map(({ id }) => id));
  }

  stop() {
    const { run } = this;
    if (!run || run.stopped) return;
    const tell = (on) => ((run.stopped = on), this.app.changed());
    tell(true);
    if (run.ids)
      this.app.requests.stop(run.id).catch(() => tell(false)); // so that Stop can be pressed again
    else run.stopping.abort(); // still queued
  }
}
