// MIDI ports: pieces play on the musician's own synthesizer, in time with another program by MIDI clock.
import { BEND } from "../music/piece.js";

const [CLOCK, START, CONTINUE, STOP, POSITION] = [0xf8, 0xfa, 0xfb, 0xfc, 0xf2];
const PER_BEAT = 24, // clocks
  CENTRE = 8192; // of a pitch bend
const HEARD = 48; // clocks that determine the tempo
const [LOOK, AHEAD] = [25, 0.1]; // milliseconds between looks, and seconds that clocks are sent before their time
const LATE = 0.04; // seconds off the clock, from which the player moves
const [DRUMS, FIRST, OTHER] = [9, 76, 77]; // the channel of the count-in, and its pitches

export class Ports {
  output = null;
  clock = "none"; // or "send" or "follow"
  latency = 0; // milliseconds by which the other program sounds later
  countIn = false;
  guest = null; // what plays in time with the followed clock instead of the whole piece, and is stopped with it

  constructor(player) {
    this.player = player;
    this.out = {
      on: (channel, pitch, velocity, at) => this.send([0x90 | channel, pitch, velocity], at),
      off: (channel, pitch, at) => this.send([0x80 | channel, pitch, 0], at),
      program: (channel, program) => this.send([0xc0 | channel, program]),
      volume: (channel, volume) => this.send([0xb0 | channel, 7, volume]),
      control: (channel, controller, value, at) =>
        this.send(
          controller === BEND
            ? [0xe0 | channel, (value + CENTRE) & 127, (value + CENTRE) >> 7]
            : [0xb0 | channel, controller, value],
          at,
        ),
    };
    player.lead = () => this.countIn && this.clock !== "follow" && this.#countIn();
    player.watch((what) => this.clock === "send" && this.#told(what));
  }

  async open() {
    this.access ??= await navigator.requestMIDIAccess();
    for (const input of this.access.inputs.values())
      input.addEventListener("midimessage", (message) => this.#receive(message));
  }

  // Play on a port, by its id, or in the browser.
  play(id) {
    const { player } = this;
    player.pause();
    this.output = this.access?.outputs.get(id) ?? null;
    Object.assign(player, { out: this.output ? this.out : player.synth, voices: {} });
    if (player.entry) player.update(player.entry);
  }

  // Send a message at a time of the player's clock, which advances in steps: the least difference of the last ones counts.
  send(bytes, at = this.player.now()) {
    const shift = performance.now() - 1000 * this.player.now();
    this.shift = Math.abs(shift - this.shift) < 50 ? Math.min(shift, this.shift + 0.01) : shift;
    this.output?.send(bytes, Math.max(performance.now(), 1000 * at + this.shift - this.latency));
  }

  #told(what) {
    if (!["play", "seek", "pause", "ended"].includes(what)) return;
    if (this.running) this.send([STOP]);
    clearTimeout(this.timer);
    const { at, piece, anchors, playing } = this.player;
    this.running = playing;
    if (!playing) return;
    const place = Math.round((4 * at) / piece.ticksPerBeat);
    if (place) this.send([POSITION, place & 127, place >> 7], anchors[0].time);
    this.send([place ? CONTINUE : START], anchors[0].time);
    this.next = at;
    this.#pump();
  }

  #pump() {
    const { anchors, clock, piece, now, tick } = this.player,
      { time, seconds, tempo } = anchors.at(-1);
    if (tick < this.next - piece.ticksPerBeat) return this.#told("seek"); // a loop
    const timeOf = (tick) => time + (clock.seconds(tick) - seconds) / tempo;
    for (; timeOf(this.next) < now() + AHEAD; this.next += piece.ticksPerBeat / PER_BEAT)
      this.send([CLOCK], timeOf(this.next));
    this.timer = setTimeout(() => this.#pump(), LOOK);
  }

  // One bar of clicks before the first note.
  #countIn() {
    const { at, clock, out, tempo, now, piece } = this.player,
      bar = piece.lines.findLastIndex((line) => line <= at),
      beats = Math.round((piece.lines[bar + 1] - piece.lines[bar]) / piece.ticksPerBeat) || 4,
      beat = piece.ticksPerBeat / clock.part("tick", at).ticksPerSecond / tempo;
    for (let n = 0; n < beats; n++) {
      out.on(DRUMS, n ? OTHER : FIRST, 100, now() + n * beat);
      out.off(DRUMS, n ? OTHER : FIRST, now() + n * beat + 0.05);
    }
    return new Promise((done) => setTimeout(done, 1000 * beats * beat));
  }

  #receive({ data: [status, low, high], timeStamp }) {
    const { player } = this;
    if (this.clock !== "follow" || !player.piece) return;
    if (status === POSITION) this.from = (low | (high << 7)) / 4;
    if (status === START) this.from = 0;
    if (status === START || status === CONTINUE) this.times = [];
    if (status === STOP) player.pause();
    if (status === STOP) this.times = null;
    if (status === STOP) this.guest?.stop();
    if (status === CLOCK && this.times) this.#follow(timeStamp);
  }

  // The beat that the other program has reached, and the milliseconds of one; null until they are known.
  get reached() {
    const { times } = this,
      count = (times?.length ?? 0) - 1,
      span = Math.min(count, HEARD);
    if (count < PER_BEAT / 4) return null;
    const beat = (PER_BEAT / span) * (times[count] - times[count - span]);
    const now = count / PER_BEAT + (performance.now() - times[count]) / beat;
    return { beats: this.from + now, beat };
  }

  // The time in seconds at which the other program reaches a beat.
  timeOf(beats) {
    const { beats: now, beat } = this.reached;
    return (performance.now() + (beats - now) * beat) / 1000;
  }

  // From now on, a tick of the piece that is played is a beat of the other program.
  align(tick, beats) {
    this.aligned = { tick, beats };
  }

  // The tick at which the player should be.
  get wanted() {
    const { reached, aligned, player } = this;
    return (
      aligned.tick +
      (reached.beats - aligned.beats + this.latency / reached.beat) * player.piece.ticksPerBeat
    );
  }

  // Play at the tempo and the place of the clocks since the start.
  #follow(at) {
    const { player, times } = this,
      { ticksPerBeat } = player.piece,
      count = times.push(at) - 1;
    this.from ??= 0;
    if (!count && !this.guest) {
      this.align(0, 0);
      player.seek(this.from * ticksPerBeat);
      return void player.play();
    }
    const { reached } = this;
    if (!reached) return;
    const perSecond = player.clock.part("tick", player.tick).ticksPerSecond;
    player.setTempo((1000 * ticksPerBeat) / perSecond / reached.beat);
    if (count % (PER_BEAT / 2) || !player.playing || !this.aligned) return;
    const wanted = this.wanted;
    if (Math.abs(player.tick - wanted) / ticksPerBeat > (1000 * LATE) / reached.beat)
      player.seek(wanted);
  }
}
