// The player: plays one piece at a time, by the synthesizer or as a file from the server.
import { felt } from "../music/feel.js";
import { Synth } from "./synth.js";
import { Transport } from "./transport.js";

const PUMP = 25; // milliseconds
const AHEAD = 0.12,
  AHEAD_HIDDEN = 1.6; // seconds; browsers run timers of hidden pages once a second

export class Player extends Transport {
  // `soundOf` fetches the WAV of an entry if there is no synthesizer; `failed` is called with an error message.
  constructor(address, { soundOf, failed }) {
    const synth = new Synth(address);
    super({ now: synth.now, out: synth });
    Object.assign(this, { synth, soundOf, failed });
    this.entry = null;
    this.feel = {};
    this.held = new Set(); // keys held down, as "track pitch"
    this.audio = Object.assign(new Audio(), { controls: true, hidden: true }); // for files
    this.synth.ready.then(() => this.#begin());
    for (const event of ["pointerdown", "keydown"])
      addEventListener(event, () => this.synth.wake(), { capture: true });
    document.addEventListener("visibilitychange", () => this.#run());
  }

  // Give the loaded synthesizer the instruments of the piece.
  #begin() {
    this.voices = {};
    if (this.entry) this.update(this.entry);
    this.tell("ready");
  }

  #frontier(entry) {
    return entry.state === "running" ? (entry.now ?? 0) : Infinity;
  }

  // Load a piece. If another one plays, playback continues in this one at the same beat.
  load(entry, { at = null } = {}) {
    if (this.entry?.id === entry.id) return this.update(entry);
    this.audio.pause();
    this.entry = entry;
    super.load(felt(entry.piece, this.feel), this.#frontier(entry));
    if (at !== null) this.seek(at);
    this.tell("load");
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
    this.grow(felt(entry.piece, this.feel), this.#frontier(entry));
  }

  setFeel({ swing, humanise }) {
    const isSame = swing === this.feel.swing && humanise === this.feel.humanise;
    this.feel = { swing, humanise };
    if (this.entry && !isSame) this.update(this.entry);
  }

  async play() {
    const { entry } = this;
    if (!entry?.piece.notes.length && entry?.state !== "running") return;
    const asked = (this.asked = {});
    this.synth.start();
    await this.synth.wake();
    const can = await this.synth.ready;
    await this.lead?.(); // what is heard before the first note
    if (asked !== this.asked) return; // paused or replaced meanwhile
    if (!can) return this.#playFile(entry);
    this.asked = null;
    super.play();
    this.#run();
  }

  pause() {
    this.asked = null;
    this.audio.pause();
    super.pause();
    this.#run();
  }

  // Without a synthesizer, the server renders the piece as a file, which has its own controls.
  async #playFile(entry) {
    try {
      const sound = await this.soundOf(entry);
      if (this.entry !== entry) return;
      URL.revokeObjectURL(this.audio.src);
      Object.assign(this.audio, { src: URL.createObjectURL(sound), hidden: false, autoplay: true });
    } catch (error) {
      this.failed(error.message);
    }
  }

  #run() {
    clearTimeout(this.timer);
    this.pump(document.hidden ? AHEAD_HIDDEN : AHEAD);
    if (this.playing) this.timer = setTimeout(() => this.#run(), PUMP);
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

  // Move a controller now.
  control(track, controller, value) {
    this.out.control?.(this.#channelOf(track), controller, value, this.now());
  }

  // The channel of a track, by default 0.
  #channelOf(track) {
    return this.channels?.[track] ?? 0;
  }
}
