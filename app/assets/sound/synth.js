// The synthesizer: an audio worklet that plays a soundfont, both from this server. Without TLS, a page on another machine
// has no worklets; then the server renders audio files.
import { BEND } from "../music/piece.js";

const VOLUME = 7,
  CENTRE = 8192; // of a pitch bend
export const GAIN = 1.6;
export const LIMIT = { threshold: -6, knee: 6, ratio: 12, attack: 0.002, release: 0.1 };
const GZIP = 0x1f; // the first byte of a compressed file
const HEARD = 12; // messages that determine the lag

export const canSound = () => Boolean(window.isSecureContext && window.AudioWorkletNode);

// A folder of static files has it compressed.
export async function soundfontOf(address) {
  const answer = await fetch(`${address}/soundfont.sf2`);
  if (!answer.ok) throw new Error("The soundfont is missing.");
  const file = await answer.blob(),
    [first] = await file.slice(0, 1).bytes();
  if (first !== GZIP) return file.arrayBuffer();
  return new Response(file.stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

export class Synth {
  // `ready` resolves to whether notes can be played; `start` begins loading.
  constructor(address) {
    this.address = address;
    this.ready = new Promise((done) => (this.loading = done));
  }

  start() {
    if (this.begun) return;
    this.begun = true;
    this.loading(canSound() ? this.#load().catch(() => false) : false);
  }

  async #load() {
    this.context = new AudioContext({ latencyHint: "interactive" });
    const [{ WorkletSynthesizer }, font] = await Promise.all([
      import("../vendor/spessasynth/synthesizer.js"),
      soundfontOf(this.address),
      this.context.audioWorklet.addModule(`${this.address}/vendor/spessasynth/processor.js`),
    ]);
    this.synth = new WorkletSynthesizer(this.context);
    this.#keepTime();
    this.gain = new GainNode(this.context, { gain: GAIN });
    const limit = new DynamicsCompressorNode(this.context, LIMIT);
    this.synth.connect(this.gain);
    this.gain.connect(limit).connect(this.context.destination);
    this.output = limit;
    await this.synth.soundBankManager.addSoundBank(font, "main");
    await this.synth.isReady;
    this.synth.midiChannels[15]?.setDrums(true); // the metronome's
    this.loaded = true;
    return true;
  }

  // The worklet counts its own samples, so its clock falls behind the context's when the audio thread stalls, as while
  // reading the soundfont. The lag is the least delay of the last messages, which carry the worklet's time.
  #keepTime() {
    const delays = [];
    this.lag = 0;
    this.synth.worklet.port.addEventListener("message", ({ data }) => {
      if (typeof data?.currentTime !== "number") return;
      delays.push(this.context.currentTime - data.currentTime);
      if (delays.length > HEARD) delays.shift();
      this.lag = Math.max(0, Math.min(...delays));
    });
  }

  // Browsers start audio only after a user gesture.
  wake() {
    if (this.context?.state === "suspended") return this.context.resume();
  }

  now = () => (this.loaded ? this.context.currentTime : performance.now() / 1000);
  on(channel, pitch, velocity, time) {
    if (this.loaded) this.synth.noteOn(channel, pitch, velocity, { time: time - this.lag });
  }
  off(channel, pitch, time) {
    if (this.loaded) this.synth.noteOff(channel, pitch, { time: time - this.lag });
  }
  click(pitch, velocity, time) {
    this.on(15, pitch, velocity, time);
    this.off(15, pitch, time + 0.05);
  }
  // Before the soundfont is loaded, a channel would be left without an instrument.
  program(channel, program) {
    if (this.loaded) this.synth.programChange(channel, program);
  }
  volume(channel, volume) {
    if (this.loaded) this.synth.controllerChange(channel, VOLUME, volume);
  }
  control(channel, controller, value, time) {
    if (!this.loaded) return;
    const at = { time: time - this.lag };
    if (controller === BEND) this.synth.pitchWheel(channel, value + CENTRE, at);
    else this.synth.controllerChange(channel, controller, value, at);
  }
}
