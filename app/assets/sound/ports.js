// MIDI ports: pieces play on the musician's own synthesizer, in time with another program by MIDI clock.
const CLOCK = 0xf8,
  START = 0xfa,
  CONTINUE = 0xfb,
  STOP = 0xfc,
  POSITION = 0xf2; // in sixteenths
const PER_BEAT = 24; // clocks
const LOOK = 25; // milliseconds
const AHEAD = 0.1; // seconds that clocks are sent before their time
const HEARD = 48; // clocks that determine the tempo
const LATE = 0.04; // seconds off the clock, from which the player moves
const DRUMS = 9,
  CLICKS = [76, 77]; // pitches of the first beat and of the others

const wait = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));

export class Ports {
  output = null;
  clock = "none"; // or "send" or "follow"
  latency = 0; // milliseconds by which the other program sounds later
  countIn = false;
  times = []; // of the clocks that were received, in milliseconds

  constructor(player) {
    this.player = player;
    this.out = {
      on: (channel, pitch, velocity, at) => this.send([0x90 | channel, pitch, velocity], at),
      off: (channel, pitch, at) => this.send([0x80 | channel, pitch, 0], at),
      program: (channel, program) => this.send([0xc0 | channel, program]),
      volume: (channel, volume) => this.send([0xb0 | channel, 7, volume]),
    };
    player.lead = () => this.#countIn();
    player.watch((what) => this.#told(what));
  }

  async open() {
    this.access ??= await navigator.requestMIDIAccess();
    for (const input of this.access.inputs.values())
      input.addEventListener("midimessage", (message) => this.#receive(message));
  }

  // Play on a port, by its id, or in the browser.
  play(id) {
    this.player.pause();
    this.output = this.access?.outputs.get(id) ?? null;
    this.player.out = this.output ? this.out : this.player.synth;
    this.player.voices = {};
    if (this.player.entry) this.player.update(this.player.entry);
  }

  // Send a message at a time of the player's clock; by default, now.
  send(bytes, at = this.player.now()) {
    // The clock of the sound advances in steps, so the least difference of the last ones counts.
    const shift = performance.now() - 1000 * this.player.now();
    this.shift = Math.abs(shift - this.shift) < 50 ? Math.min(shift, this.shift + 0.01) : shift;
    this.output?.send(bytes, Math.max(performance.now(), 1000 * at + this.shift - this.latency));
  }

  // The clock that is sent.

  #told(what) {
    if (this.clock !== "send" || !["play", "seek", "pause", "ended"].includes(what)) return;
    if (this.running) this.send([STOP]);
    clearTimeout(this.timer);
    this.running = this.player.playing;
    if (this.running) this.#begin();
  }

  #begin() {
    const { at, piece, anchors } = this.player,
      sixteenths = Math.round((4 * at) / piece.ticksPerBeat);
    if (sixteenths) this.send([POSITION, sixteenths & 127, sixteenths >> 7], anchors[0].time);
    this.send([sixteenths ? CONTINUE : START], anchors[0].time);
    this.next = at;
    this.#pump();
  }

  #pump() {
    const { player } = this,
      { time, seconds, tempo } = player.anchors.at(-1);
    if (player.tick < this.next - player.piece.ticksPerBeat) return this.#told("seek"); // a loop
    const timeOf = (tick) => time + (player.clock.seconds(tick) - seconds) / tempo;
    for (
      ;
      timeOf(this.next) < player.now() + AHEAD;
      this.next += player.piece.ticksPerBeat / PER_BEAT
    )
      this.send([CLOCK], timeOf(this.next));
    this.timer = setTimeout(() => this.#pump(), LOOK);
  }

  // One bar of clicks before the first note.
  async #countIn() {
    const { player } = this,
      { ticksPerBeat, lines } = player.piece;
    if (!this.countIn || this.clock === "follow") return;
    const bar = Math.max(
        0,
        lines.findLastIndex((line) => line <= player.at),
      ),
      beats = Math.round(
        ((lines[bar + 1] ?? lines[bar] + 4 * ticksPerBeat) - lines[bar]) / ticksPerBeat,
      ),
      beat = ticksPerBeat / player.clock.part("tick", player.at).ticksPerSecond / player.tempo;
    for (let n = 0; n < beats; n++) {
      player.out.on(DRUMS, CLICKS[n ? 1 : 0], 100, player.now() + n * beat);
      player.out.off(DRUMS, CLICKS[n ? 1 : 0], player.now() + n * beat + 0.05);
    }
    await wait(beats * beat);
  }

  // The clock that is followed.

  #receive({ data: [status, low, high], timeStamp }) {
    const { player } = this;
    if (this.clock !== "follow" || status < 0xf0 || !player.piece) return;
    if (status === POSITION) this.from = ((low | (high << 7)) * player.piece.ticksPerBeat) / 4;
    if (status === START) this.from = 0;
    if (status === START || status === CONTINUE) Object.assign(this, { count: -1, times: [] });
    if (status === STOP) {
      this.count = undefined;
      player.pause();
    }
    if (status === CLOCK) this.#follow(timeStamp);
  }

  #follow(at) {
    const { player, times } = this,
      { ticksPerBeat } = player.piece;
    times.push(at);
    if (times.length > HEARD + 1) times.shift();
    if (this.count === undefined) return;
    this.count += 1;
    const tick = (this.from ?? 0) + (this.count * ticksPerBeat) / PER_BEAT,
      { ticksPerSecond } = player.clock.part("tick", tick);
    if (this.count === 0) {
      player.seek(tick);
      return void player.play();
    }
    const beat = (PER_BEAT * (at - times[0])) / 1000 / (times.length - 1);
    if (times.length > PER_BEAT / 4) player.setTempo(ticksPerBeat / ticksPerSecond / beat);
    if (this.count % (PER_BEAT / 2) || !player.playing) return;
    const wanted = tick + ((this.latency + performance.now() - at) / 1000 / beat) * ticksPerBeat;
    if (Math.abs(player.tick - wanted) / ticksPerBeat > LATE / beat) player.seek(wanted);
  }
}
