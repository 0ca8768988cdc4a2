// The player: plays one piece at a time, by the synthesizer or as a file from the server.
import { Watched } from "../desk/watched.js";
import { Clock } from "../music/clock.js";
import { Synth, canSound } from "./synth.js";
import { Transport } from "./transport.js";

const PUMP = 25; // milliseconds
const AHEAD = 0.12,
  AHEAD_HIDDEN = 1.6; // seconds; browsers run timers of hidden pages once a second

export class Player extends Watched {
  // `soundOf` fetches the WAV of an entry if there is no synthesizer; `failed` is called with an error message.
  constructor(address, { soundOf, failed }) {
    super();
    this.synth = new Synth(address);
    Object.assign(this, { soundOf, failed });
    this.entry = null;
    this.held = new Set(); // keys held down, as "track pitch"
    this.transport = new Transport({
      now: this.synth.now,
      out: this.synth,
      changed: (what) => this.tell(what),
    });
    this.direct = canSound();
    this.synth.ready.then((can) => this.#settle(can));
    if (this.direct)
      for (const event of ["pointerdown", "keydown"])
        addEventListener(event, () => this.synth.wake(), { capture: true });
    document.addEventListener("visibilitychange", () => this.#pump());
  }

  start() {
    this.synth.start();
  }

  #settle(can) {
    this.direct = can;
    if (can && this.entry) {
      this.transport.voices = {};
      this.transport.grow(this.entry.piece, this.#frontier(this.entry));
    }
    if (!can) this.#useFile();
    this.tell("ready");
  }

  #useFile() {
    this.audio = new Audio();
    this.audio.preload = "none";
    for (const event of ["playing", "pause", "ended", "waiting"])
      this.audio.addEventListener(event, () => this.tell(event));
  }

  #frontier(entry) {
    return entry.state === "running" ? (entry.now ?? 0) : Infinity;
  }

  // Load a piece. If another one plays, playback continues in this one at the same beat.
  async load(entry, { at = null } = {}) {
    if (this.entry?.id === entry.id) return this.update(entry);
    const goesOn = Boolean(this.audio && (this.playing || this.asked));
    if (this.audio) this.pause();
    this.entry = entry;
    this.transport.load(entry.piece, this.#frontier(entry));
    if (at !== null) this.seek(at);
    this.tell("load");
    if (goesOn) await this.play();
  }

  unload() {
    this.pause();
    this.entry = null;
    this.tell("load");
  }

  // Update the loaded piece, which has grown, or replace it by an edit of it.
  update(entry, instead = entry.id) {
    if (this.entry?.id !== instead) return;
    this.entry = entry;
    this.transport.grow(entry.piece, this.#frontier(entry));
  }

  // The loop in ticks, if the entry is loaded and has one.
  loopOf(entry) {
    return this.entry?.id === entry.id ? this.transport.loop : null;
  }

  get playing() {
    return this.audio ? !this.audio.paused : this.transport.playing;
  }

  get waiting() {
    return this.audio
      ? !this.audio.paused && this.audio.readyState < 3
      : this.transport.waiting || (this.transport.playing && !this.synth.loaded);
  }

  get tick() {
    return this.audio && this.entry
      ? new Clock(this.entry.piece).tick(this.audio.currentTime)
      : this.transport.tick;
  }

  get seconds() {
    return this.entry ? this.transport.clock.seconds(this.tick) / this.transport.tempo : 0;
  }

  async play() {
    if (!this.entry?.piece.notes.length && this.entry?.state !== "running") return;
    if (this.audio) return this.#playFile();
    const asked = (this.asked = {});
    this.start();
    await this.synth.wake();
    const direct = await this.synth.ready;
    if (asked !== this.asked) return;
    if (!direct) return this.#playFile();
    this.transport.play();
    this.#pump();
  }

  pause() {
    this.asked = null;
    if (this.audio?.readyState && this.entry) this.transport.at = this.audio.ended ? 0 : this.tick; // the position for the next file
    this.audio?.pause();
    this.transport.pause();
  }

  async #playFile() {
    const { entry } = this,
      asked = (this.asked = {});
    if (this.coming?.entry !== entry) this.coming = { entry, sound: this.soundOf(entry) };
    try {
      if (this.fetched !== entry.piece) {
        this.tell("waiting");
        const sound = await this.coming.sound;
        if (asked !== this.asked) return; // paused or replaced meanwhile
        if (this.audio.src) URL.revokeObjectURL(this.audio.src);
        this.audio.src = URL.createObjectURL(sound);
        this.fetched = entry.piece;
        this.audio.currentTime = this.transport.clock.seconds(this.transport.at);
      }
      await this.audio.play();
    } catch (error) {
      this.coming = null;
      if (asked === this.asked) this.failed(error.message);
    }
    if (asked === this.asked) this.asked = null;
  }

  seek(tick) {
    this.transport.seek(tick);
    if (this.audio?.readyState) this.audio.currentTime = this.transport.clock.seconds(tick);
    this.tell("seek");
  }

  #pump() {
    clearTimeout(this.timer);
    if (!this.transport.playing) return;
    this.transport.pump(document.hidden ? AHEAD_HIDDEN : AHEAD);
    this.timer = setTimeout(() => this.#pump(), PUMP);
  }

  // Apply the settings of the desk.
  adjust({ tempo, transpose, mix }) {
    this.transport.setTempo(tempo);
    this.transport.setTranspose(transpose);
    this.transport.setMix(mix);
  }

  loop(range) {
    this.transport.setLoop(range);
  }

  // Play a single note; with `seconds` 0, until it is released.
  async touch(pitch, { track = null, velocity = 84, seconds = 0.25 } = {}) {
    if (!this.synth.loaded) return;
    const key = `${track} ${pitch}`;
    if (!seconds) this.held.add(key);
    await this.synth.wake();
    if (!seconds && !this.held.has(key)) return; // released before the audio started
    const channel = this.#channelOf(track),
      now = this.synth.now();
    this.synth.on(channel, pitch, velocity, now);
    if (seconds) this.synth.off(channel, pitch, now + seconds);
  }

  release(pitch, track = null) {
    this.held.delete(`${track} ${pitch}`);
    if (this.synth.loaded) this.synth.off(this.#channelOf(track), pitch, this.synth.now());
  }

  // The channel of a track, by default 0.
  #channelOf(track) {
    return this.transport.channels?.[track] ?? 0;
  }
}
