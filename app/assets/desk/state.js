// The desk: all pieces and takes (entries), which of them are open, the settings, and the steps of undo. It does not need a
// page. Finished entries are immutable; a step stores what was open.

import { barAt, barCount, countIn, trimmed, withBars } from "../music/piece.js";

const MOST_STEPS = 200,
  MOST_STARRED = 8; // takes that stay in the list
const OPEN = {
  ...{ current: null, takes: [], listed: [], chosen: 0, model: "", goals: null },
  programs: {}, // the instruments that were changed: {piece: {track: program}}
};
// Settings are stored, but changing them is not a step to undo. The server gives the defaults of sampling.
const SETTINGS = {
  bars: 16,
  variations: 2,
  draw: 0, // as many as there is time for
  ends: false,
  chords: "",
  form: "",
  idea: {},
  seed: 0,
  newSeed: true,
  tempo: 1,
  transpose: 0,
  swing: 50,
  humanise: 0,
  grid: 4,
  mix: {},
  plan: false,
  curve: "density",
};

export const newId = () => crypto.getRandomValues(new Uint8Array(9)).toHex();

// Notifies watchers of changes.
export class Watched {
  watchers = [];

  watch(act) {
    this.watchers.push(act);
  }

  tell(what, more = {}) {
    for (const act of this.watchers) act(what, more);
  }
}

// The tracks are a part of the key, since they differ between languages.
const mixKey = ({ origin, id, piece }) =>
  [origin ?? id, ...piece.tracks.map(({ name }) => name)].join(" ");

export class Desk extends Watched {
  // `saved` is the result of `plain`, `entries` those that it needs.
  constructor(saved = null, entries = []) {
    super();
    this.id = saved?.id ?? newId();
    this.open = { ...OPEN, ...saved?.open };
    this.past = saved?.past ?? [];
    this.future = saved?.future ?? [];
    this.stars = new Set(saved?.stars ?? []);
    this.settings = { ...SETTINGS, ...saved?.settings };
    this.entries = new Map(entries.map((entry) => [entry.id, entry]));
  }

  // The state to store, without the entries.
  plain() {
    const { id, open, past, future, settings } = this;
    return { id, open, past, future, settings, stars: [...this.stars] };
  }

  get current() {
    return this.entries.get(this.open.current) ?? null;
  }

  get takes() {
    return this.open.takes.map((id) => this.entries.get(id)).filter(Boolean);
  }

  get listed() {
    return this.open.listed.map((id) => this.entries.get(id)).filter(Boolean);
  }

  // Add an entry, or a newer state of one that is still being written. Its origin is the piece that it was made from.
  put(entry) {
    const fresh = !this.entries.has(entry.id);
    entry.origin ??= this.entries.get(entry.parent)?.origin ?? entry.parent ?? entry.id;
    this.entries.set(entry.id, entry);
    this.tell(fresh ? "entry" : "grown", { entry });
    return entry;
  }

  // Change what is open, as a step that can be undone. Consecutive steps with the same `as` are one.
  step(label, change, as = null) {
    const before = this.open;
    this.open = { ...before, ...change };
    const joins = as !== null && this.past.at(-1)?.as === as && !this.future.length;
    if (!joins) {
      this.past.push({ label, as, open: before });
      if (this.past.length > MOST_STEPS) this.past.shift();
    }
    this.future = [];
    this.tell("step", { label, before });
  }

  undo() {
    return this.#go(this.past, this.future, "undo");
  }

  redo() {
    return this.#go(this.future, this.past, "redo");
  }

  // Pieces that were opened or composed stay in the history when their step is undone, so that the next step does not lose
  // them; edits do not. Undo restores what the step deleted, and redo deletes it again.
  #go(from, to, what) {
    const step = from.pop();
    if (!step) return null;
    const before = this.open,
      { listed } = step.open,
      back = what === "undo";
    const stays = (id) => this.stars.has(id) || this.entries.get(id)?.kind !== "edit";
    const left = before.listed.filter(back ? stays : (id) => !step.out?.includes(id)),
      out = back ? listed.filter((id) => !before.listed.includes(id)) : null;
    to.push({ label: step.label, as: null, open: before, out });
    this.open = { ...step.open, listed: [...new Set([...listed, ...left])] };
    this.tell("step", { label: step.label, before, what });
    return step.label;
  }

  get undoes() {
    return this.past.at(-1)?.label ?? null;
  }

  // Whether the last step added these entries.
  cameLast(ids) {
    const { listed } = this.past.at(-1)?.open ?? this.open;
    return ids.some((id) => this.open.listed.includes(id) && !listed.includes(id));
  }

  get redoes() {
    return this.future.at(-1)?.label ?? null;
  }

  set(change) {
    this.settings = { ...this.settings, ...change };
    this.tell("settings", { change });
  }

  // Open a new piece, without takes.
  show(entry, label) {
    this.put(entry);
    const { id: current, kind, chosen = 0, model = this.open.model } = entry,
      listed = this.#listing(entry),
      goals = kind === "edit" && this.open.goals ? { ...this.open.goals, of: current } : null;
    this.step(label, { current, takes: [], listed, chosen, model, goals });
  }

  // An edit replaces the edit before it in the history; undo still has both.
  #listing(entry) {
    const listed = this.open.listed.filter((id) => id !== entry.id);
    const before = this.entries.get(entry.parent);
    const replaced = entry.kind === "edit" && before?.kind === "edit" && !this.stars.has(before.id);
    return [...listed.filter((id) => !replaced || id !== before.id), entry.id];
  }

  // Open an entry of the history, with the takes of its last request.
  recall(id) {
    const entry = this.entries.get(id);
    if (!entry || id === this.open.current) return;
    const children = this.listed.filter((one) => one.parent === id && one.kind === "take");
    const run = children.at(-1)?.run;
    const takes = children.filter((one) => one.run === run).map((one) => one.id);
    this.step("opening from the history", { current: id, takes, ...this.#choices(entry) });
  }

  // The prompt and the model for an entry that is opened again.
  #choices(entry) {
    return {
      chosen: entry ? (entry.chosen ?? barCount(entry.piece)) : 0,
      model: entry?.model ?? this.open.model,
    };
  }

  // Add new takes below the starred ones; they go only into the history if their piece is no longer open.
  begin(entries) {
    for (const entry of entries) this.put(entry);
    const ids = entries.map((entry) => entry.id),
      starred = this.open.takes.filter((id) => this.stars.has(id)).slice(-MOST_STARRED),
      here = entries[0].parent === this.open.current;
    this.step("composing", {
      takes: here ? [...starred, ...ids] : this.open.takes,
      listed: [...this.open.listed, ...ids],
    });
  }

  // Take back takes that stayed empty, as if they had never begun; those that were opened or starred meanwhile stay.
  withdraw(ids) {
    const { open: before, past, future } = this,
      last = past.at(-1),
      left = (all) => all.filter((id) => !gone.has(id)),
      isUsed = (id) =>
        this.stars.has(id) || [this, ...past, ...future].some(({ open }) => open.current === id),
      gone = new Set(ids.filter((id) => !isUsed(id)));
    if (!gone.size) return;
    const isLast =
      this.cameLast([...gone]) && left(before.listed).join() === last.open.listed.join();
    if (isLast) this.open = past.pop().open;
    else
      for (const one of [this, ...past, ...future])
        one.open = { ...one.open, takes: left(one.open.takes), listed: left(one.open.listed) };
    this.tell("step", { label: "composing", before });
  }

  choose(bars) {
    if (bars !== this.open.chosen)
      this.step("choosing the prompt", { chosen: bars }, `choose ${this.open.current}`);
  }

  // The goals of the plan of the open piece: {bar from 0: {curve: value}}.
  get goals() {
    const { goals, current } = this.open;
    return goals?.of === current ? goals.bars : {};
  }

  bend(bars) {
    const { current } = this.open;
    this.step("changing the plan", { goals: { of: current, bars } }, `bend ${current}`);
  }

  remove(id) {
    const without = (ids) => ids.filter((one) => one !== id);
    const left = without(this.open.listed),
      { parent } = this.entries.get(id);
    const after = left.includes(parent) ? parent : (left.at(-1) ?? null),
      next = this.open.current === id ? after : this.open.current;
    const takes = this.open.current === id ? [] : without(this.open.takes);
    this.step("deleting", {
      takes,
      listed: left,
      current: next,
      ...(next !== this.open.current && this.#choices(this.entries.get(next))),
    });
  }

  star(id) {
    if (!this.stars.delete(id)) this.stars.add(id);
    this.tell("stars", { id });
  }

  // The mix of a piece: mute, solo, volume and instrument of each track, shared with all takes and edits of the piece.
  mixOf(entry) {
    if (!entry) return [];
    const key = mixKey(entry),
      mix = this.settings.mix[key] ?? [],
      programs = Object.entries(this.open.programs?.[key] ?? {});
    if (!programs.length) return mix;
    const all = [...mix];
    for (const [index, program] of programs) all[index] = { ...all[index], program };
    return Array.from(all, (one) => one ?? null);
  }

  // Change the mix of a track. Only changes are stored, since the instrument of the track itself may change. Instruments are
  // a step to undo; the others, which are used while listening, are not, and so keep what can be redone.
  remix(entry, index, { program, ...change }) {
    const key = mixKey(entry),
      { programs } = this.open;
    if (program !== undefined) {
      const own = { ...programs?.[key], [index]: program };
      this.step("changing an instrument", { programs: { ...programs, [key]: own } });
    }
    if (!Object.keys(change).length) return;
    const mix = [...(this.settings.mix[key] ?? [])];
    mix[index] = { ...mix[index], ...change };
    const all = { ...this.settings.mix, [key]: Array.from(mix, (one) => one ?? null) };
    this.set({ mix: all });
  }

  // The ids of all entries that are open, listed or starred, or that a step refers to.
  get needed() {
    const ids = new Set(this.stars),
      opens = [this, ...this.past, ...this.future].map((one) => one.open);
    for (const { current, takes, listed } of opens)
      for (const id of [current, ...takes, ...listed]) if (id) ids.add(id);
    return ids;
  }
}

// An entry whose request was interrupted, as stopped: a continuation is cut to the bars so far, rewritten bars and parts
// keep the length of the piece.
export function interrupted(entry) {
  if (entry.state !== "running") return entry;
  const { piece, region, now = 0, how } = entry,
    bars = Math.min(barCount(piece), Math.max(region.first + 1, barAt(piece, now) + 1)),
    reached = { bars: bars - region.first, of: region.stop - region.first },
    left = { ...entry, state: "stopped", reached };
  if (how && how !== "continue") return { ...left, chosen: barCount(piece) };
  return {
    ...left,
    chosen: bars,
    region: { ...region, stop: Math.min(region.stop, bars) },
    piece: withBars(piece, bars),
  };
}

// Whether an entry was interrupted before anything was written.
export const isUnbegun = ({ reached, piece, region, now = 0 }) =>
  Boolean(reached) && now <= piece.lines[region.first] && !countIn(piece, region);

// An edit of an entry that is still being written, cut to the bars so far.
export function soFar(entry, made) {
  const bars = entry.state === "running" ? barCount(interrupted(entry).piece) : Infinity;
  return bars < barCount(made) ? trimmed(made, bars) : made;
}
