// Plays and records notes from a MIDI keyboard or the computer's keys.
import { Clock } from "../music/clock.js";
import { quantised, withControls } from "../music/edits.js";
import {
  BEND,
  SUSTAIN,
  barAt,
  barCount,
  beatOf,
  endTick,
  linesFor,
  withBars,
} from "../music/piece.js";

const KEYS = ["a", "w", "s", "e", "d", "f", "t", "g", "y", "h", "u", "j", "k", "o", "l", "p"]; // white and black keys from C
const VELOCITY = 88,
  CENTRE = 8192; // of a pitch bend
const SOON = 0.1; // seconds before a pass of a loop in which keys belong to it
const CLICKS = { first: [76, 110], other: [77, 80] }; // pitch and velocity

export class Recorder {
  on = false;
  keys = false;
  octave = 5;
  track = 0;
  devices = [];
  pedal = false;
  folds = false; // whether the pedal makes notes longer, for files that have no controllers
  sustained = new Set(); // keys that were released and sound on
  down = new Map();
  pressed = new Map();
  played = [];
  moves = []; // of the pedal and the bend: seconds, controller, value

  constructor(player, changed) {
    Object.assign(this, { player, changed });
    addEventListener("keydown", (event) => this.#key(event, true));
    addEventListener("keyup", (event) => this.#key(event, false));
    addEventListener("blur", () => [...this.down.keys()].forEach((pitch) => this.release(pitch)));
  }

  // Ask for access to MIDI devices.
  async useMidi() {
    if (!navigator.requestMIDIAccess)
      throw new Error("This browser does not support MIDI keyboards; Chrome, Edge and Firefox do.");
    try {
      this.access ??= await navigator.requestMIDIAccess();
    } catch {
      throw new Error(
        "The browser blocked your keyboard: click the lock beside the address and allow MIDI.",
      );
    }
    const listen = () => {
      this.devices = [];
      for (const input of this.access.inputs.values()) {
        this.devices.push(input.name ?? "MIDI keyboard");
        input.onmidimessage = ({ data }) => this.message(data);
      }
      this.changed();
    };
    this.access.onstatechange = listen;
    listen();
    if (!this.devices.length) throw new Error("No MIDI keyboard is connected; plug one in.");
  }

  message([status, pitch, velocity]) {
    const kind = status & 0xf0;
    if (kind === 0x90 && velocity) this.press(pitch, velocity);
    else if (kind === 0x80 || kind === 0x90) this.#lift(pitch);
    else if (kind === 0xb0 && pitch === SUSTAIN) this.hold(velocity);
    else if (kind === 0xe0) this.#move(BEND, (pitch | (velocity << 7)) - CENTRE);
  }

  // A key is released, and sounds on if the pedal is held.
  #lift(pitch) {
    if (!this.pedal) return this.release(pitch);
    if (!this.folds) this.#played(pitch);
    this.sustained.add(pitch);
  }

  hold(value) {
    this.pedal = value >= 64;
    this.#move(SUSTAIN, value);
    if (!this.pedal) for (const pitch of this.sustained) this.release(pitch);
  }

  #move(controller, value) {
    if (controller === BEND) this.player.control?.(this.track, BEND, value);
    this.bend = controller === BEND ? value : this.bend;
    if (this.on) this.moves.push([this.now(), controller, value]);
  }

  useKeys(on) {
    this.keys = on;
    for (const pitch of this.pressed.values()) this.release(pitch);
    this.pressed.clear();
  }

  #key(event, down) {
    const place = event.code || event.key,
      held = this.pressed.get(place);
    if (!down && held !== undefined) {
      this.pressed.delete(place); // even if the octave or the focus has changed
      return this.release(held);
    }
    if (!down || !this.keys || event.ctrlKey || event.metaKey || event.altKey || event.repeat)
      return;
    if (event.target.matches?.("input:not([type=range]):not([type=checkbox]), select, textarea"))
      return;
    const key = event.key.toLowerCase(),
      step = KEYS.indexOf(key);
    if (key === "z" || key === "x")
      this.octave = Math.min(8, Math.max(1, this.octave + (key === "x" ? 1 : -1)));
    if (step < 0) return;
    event.preventDefault();
    const pitch = 12 * this.octave + step;
    this.pressed.set(place, pitch);
    this.press(pitch, VELOCITY);
  }

  press(pitch, velocity) {
    this.release(pitch);
    this.down.set(pitch, [this.now(), velocity]);
    this.player.touch(pitch, { track: this.track, velocity, seconds: 0 });
  }

  release(pitch) {
    const sounds = this.sustained.delete(pitch);
    if (this.#played(pitch) || sounds) this.player.release(pitch, this.track);
  }

  // Record the end of a key that is down; returns whether it was.
  #played(pitch) {
    const was = this.down.get(pitch);
    this.down.delete(pitch);
    if (was && this.on) this.played.push([was[0], this.now(), pitch, was[1]]);
    return Boolean(was);
  }

  // Seconds since the end of the count-in.
  now() {
    return performance.now() / 1000 - (this.begun ?? 0);
  }

  // The current tick while recording, which waits at the bar line during the count-in; else null.
  get tick() {
    if (!this.on) return null;
    const { piece, bar, tempo } = this;
    return linesFor(piece, bar)[bar] + (Math.max(0, this.now()) * tempo * piece.ticksPerBeat) / 60;
  }

  // The entry with the bars that are being recorded: those wanted, and more as they are reached.
  shown(entry) {
    if (!this.on) return entry;
    const { piece } = entry,
      far = withBars(piece, Math.max(this.bar + this.wanted, barCount(piece))),
      length = far.lines.at(-1) - far.lines.at(-2),
      more = Math.max(0, Math.floor((this.tick - far.lines.at(-1)) / length) + 1);
    return { ...entry, piece: withBars(far, barCount(far) + more) };
  }

  // The bar after the last note, where recording begins.
  barAfter(piece) {
    const end = endTick(piece);
    return end ? barAt(piece, end - 1) + 1 : 0;
  }

  // Record from a bar on, with the metronome: after one bar of count-in, or without one from a time `at` in seconds; at
  // the tempo of the piece, or another one in beats per minute.
  start(piece, speed, { bar = this.barAfter(piece), at = null, bars = 1, tempo = null } = {}) {
    const clock = new Clock(piece),
      end = piece.lines[Math.min(bar, piece.lines.length - 1)];
    this.piece = piece;
    this.bar = bar;
    this.wanted = bars;
    const own = clock.part("tick", end).ticksPerSecond * (60 / piece.ticksPerBeat);
    this.tempo = tempo ?? own * speed;
    const lines = linesFor(piece, bar + 1),
      ticks = beatOf({ ...piece, lines }, bar),
      beats = Math.max(1, Math.round((lines[bar + 1] - lines[bar]) / ticks));
    const beat = (60 / this.tempo) * (ticks / piece.ticksPerBeat);
    const lead = at === null ? beats : 0; // beats of count-in
    this.begun = at ?? performance.now() / 1000 + beats * beat;
    for (const note of this.down.values()) note[0] = this.now(); // keys that are already down
    this.played = [];
    this.moves = this.pedal ? [[0, SUSTAIN, 127]] : [];
    if (this.bend) this.moves.push([0, BEND, this.bend]);
    this.on = true;
    Object.assign(this, { beat, next: -lead }); // of the metronome
    const { synth } = this.player;
    const tick = () => {
      if (!this.on) return;
      const sound = CLICKS[this.next % beats === 0 ? "first" : "other"];
      if (synth.loaded) synth.click(...sound, synth.now());
      this.next += 1;
      later();
    };
    const later = () => (this.timer = setTimeout(tick, 1000 * (this.next * beat - this.now())));
    synth.wake();
    if (lead) tick();
    else later();
    this.changed();
  }

  // The piece with what was played in a pass of a loop; null if that was nothing.
  pass(seconds) {
    return this.soFar(this.begun + seconds, seconds - SOON);
  }

  // Begin another pass over a piece, after one of some seconds.
  again(piece, seconds) {
    const isNext = ([on]) => on >= seconds - SOON,
      later = ([on, off, ...more]) => [on - seconds, off - seconds, ...more];
    this.piece = piece;
    this.begun += seconds;
    this.next -= Math.round(seconds / this.beat);
    this.played = this.played.filter(isNext).map(later);
    this.moves = this.moves.map(([at, ...move]) => [at - seconds, ...move]);
    for (const note of this.down.values()) note[0] = isNext(note) ? note[0] - seconds : Infinity; // keys held since before are recorded
  }

  // Stop; returns the piece with the quantised recording, or null if nothing was played.
  stop() {
    for (const pitch of [...this.down.keys(), ...this.sustained]) this.release(pitch);
    clearTimeout(this.timer);
    const made = this.#pieceWith(this.played, this.now());
    this.on = false;
    this.begun = 0;
    this.changed();
    return made;
  }

  // The same during a recording, with held keys released at a time in seconds.
  soFar(until, before = Infinity) {
    const off = until - this.begun,
      held = [...this.down].map(([pitch, [on, velocity]]) => [on, off, pitch, velocity]);
    return this.#pieceWith(
      [...this.played, ...held].filter(([on]) => on < before),
      off,
    );
  }

  #pieceWith(all, until) {
    const played = all
      .filter(([on, off]) => off > 0 && on < until)
      .map(([on, off, ...more]) => [Math.max(0, on), Math.min(off, until), ...more]);
    if (!played.length) return null;
    const seconds = Math.max(...played.map(([, off]) => off)),
      bars = linesFor(this.piece, this.bar + 1);
    const beats = (bars[this.bar + 1] - bars[this.bar]) / this.piece.ticksPerBeat;
    const more = Math.max(1, Math.ceil((seconds * this.tempo) / 60 / beats - 0.05));
    const piece = withBars(this.piece, Math.max(barCount(this.piece), this.bar + more));
    const start = piece.lines[this.bar],
      made = quantised(piece, played, this.tempo, this.track, start);
    return this.folds
      ? made
      : withControls(made, this.moves, until, { tempo: this.tempo, track: this.track, start });
  }
}
