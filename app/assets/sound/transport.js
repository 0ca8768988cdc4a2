// Schedules the notes of a piece that may still be growing. It does not depend on audio: `out` receives the events for a
// synthesizer, and `now` returns the time of its clock.
import { Watched } from "../desk/state.js";
import { Clock } from "../music/clock.js";
import { FULL, isHeard } from "../music/heard.js";
import { WIDTH, endTick, firstFrom } from "../music/piece.js";

const TAIL = 0.4; // seconds for the last note to fade
const LEAD = 0.04; // seconds before the first note, so that its attack is not cut
const DRUMS = 9; // channel
const PITCHED = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14];

export class Transport extends Watched {
  constructor({ now, out }) {
    super();
    Object.assign(this, { now, out });
    this.playing = this.waiting = false;
    this.tempo = 1;
    this.transpose = 0;
    this.loop = null; // [from, to] in ticks
    this.mix = []; // by track
    this.at = 0; // the tick to start from
    this.moved = new Map(); // controllers off their rest: [channel, controller] as text → both
    this.active = new Map(); // sounding notes: key → {channel, pitch, end, track}
    this.anchors = []; // {time, seconds, tempo}: the position in the piece at a time of the synthesizer, and the speed
    this.piece = null;
  }

  // Load another piece, without the loop; `frontier` is the tick up to which a growing one is known. Playback continues at
  // the same beat.
  load(piece, frontier = Infinity) {
    const scale = piece.ticksPerBeat / (this.piece ?? piece).ticksPerBeat;
    this.at = Math.min(this.tick * scale, piece.lines.at(-1));
    this.loop = null;
    this.#take(piece, frontier);
    if (this.playing) this.#restart(this.at);
  }

  // Update a piece that has grown or was edited during playback. The loop is cut to its length, and restarts if playback
  // was beyond that.
  grow(piece, frontier = Infinity) {
    const place = this.tick,
      waited = this.waiting,
      end = piece.lines.at(-1);
    const retimed = this.playing && !waited && String(piece.tempos) !== String(this.piece.tempos);
    const around = this.#loopEnd < Infinity;
    if (this.loop)
      this.loop = this.loop[0] < end ? [this.loop[0], Math.min(this.loop[1], end)] : null;
    this.#take(piece, frontier);
    if (this.playing && around && this.sent >= this.loop?.[1]) return this.#restart(this.loop[0]);
    if (retimed) return this.#restart(place);
    for (const [key, note] of this.active) note.end = this.#endOf(key) ?? note.end;
    if (waited && (frontier > place + piece.ticksPerBeat || this.#loopEnd <= frontier))
      this.#restart(place);
  }

  #take(piece, frontier) {
    this.piece = piece;
    this.clock = new Clock(piece);
    this.frontier = frontier;
    this.end = Math.max(endTick(piece), Number.isFinite(frontier) ? frontier : 0);
    this.#setVoices();
  }

  #setVoices() {
    const free = [...PITCHED];
    this.channels = this.piece.tracks.map((track) => (track.drum ? DRUMS : (free.shift() ?? 0)));
    this.piece.tracks.forEach((track, index) => this.#setVoice(index));
  }

  #setVoice(index) {
    const track = this.piece.tracks[index],
      { volume, program } = { ...track, volume: FULL, ...this.mix[index] },
      channel = this.channels[index];
    const said = `${track.drum ? "drum" : program} ${volume}`;
    this.voices ??= {};
    if (this.voices[channel] === said) return;
    this.voices[channel] = said;
    if (!track.drum) this.out.program(channel, program);
    this.out.volume(channel, volume);
  }

  // The tick that is heard now, not the last one sent.
  get tick() {
    if (!this.playing || !this.anchors.length) return this.at;
    const now = this.now();
    const anchor = this.anchors.findLast((one) => one.time <= now) ?? this.anchors[0];
    const tick = this.waiting ? this.clock.tick(anchor.seconds) : this.#reached(anchor, now);
    return Math.min(tick, Math.max(this.end, this.at), this.#loopEnd);
  }

  // The tick at which the loop ends; Infinity if playback is beyond it.
  get #loopEnd() {
    return this.sent < this.loop?.[1] ? this.loop[1] : Infinity;
  }

  play() {
    if (this.playing || !this.piece) return;
    if (this.at >= this.end && !Number.isFinite(this.frontier))
      this.at = this.loop ? this.loop[0] : 0;
    this.playing = true;
    this.#restart(this.at);
    this.tell("play");
  }

  pause() {
    if (!this.playing) return;
    this.at = this.tick;
    this.playing = this.waiting = false;
    this.#silence();
    this.tell("pause");
  }

  seek(tick) {
    this.at = Math.max(0, Math.min(tick, this.piece?.lines.at(-1) ?? 0));
    if (this.playing) this.#restart(this.at);
    this.tell("seek");
  }

  #restart(tick) {
    this.#silence();
    this.waiting = false;
    this.at = tick;
    this.sent = tick;
    this.anchors = [this.#anchor(this.now() + LEAD, tick)];
    this.#chase(tick, this.anchors[0].time);
    this.pump(0.1);
  }

  setTempo(tempo) {
    if (tempo === this.tempo) return;
    this.tempo = tempo;
    if (!this.playing) return;
    // What has been sent keeps its timing, including a jump at the end of a loop.
    const time = this.#time(this.anchors.at(-1), this.sent);
    const before = this.anchors.filter((one) => one.time < time).slice(-3);
    this.anchors = [...before, this.#anchor(time, this.sent)];
  }

  setTranspose(steps) {
    if (steps === this.transpose) return;
    this.transpose = steps;
    if (this.playing && !this.waiting) this.#restart(this.tick);
  }

  setLoop(loop) {
    this.loop = loop;
    const outside = (tick) => tick < loop[0] || tick >= loop[1];
    if (this.playing && loop && (outside(this.tick) || outside(this.sent))) this.#restart(loop[0]);
    else if (loop && !this.playing) this.at = loop[0];
    this.tell("loop");
  }

  // Set mute, solo, volume and instrument of each track, with immediate effect.
  setMix(mix) {
    this.mix = mix;
    if (!this.piece) return;
    this.#setVoices();
    for (const [key, note] of [...this.active])
      if (!isHeard(this.mix, note.track)) this.#off(key, this.now());
  }

  // Send the events of the next `ahead` seconds; to be called often.
  pump(ahead) {
    if (!this.playing) return;
    const horizon = this.now() + ahead;
    for (let turns = 0; turns < 64; turns++) {
      const anchor = this.anchors.at(-1);
      const reach = this.#reached(anchor, horizon);
      const stop = this.#loopEnd;
      const to = Math.min(reach, stop, this.frontier);
      this.#send(this.sent, to, anchor);
      this.sent = Math.max(this.sent, to);
      if (to !== stop || reach < stop) break;
      this.#jumpBack(anchor);
    }
    this.#awaitNotes();
    this.#finish();
  }

  // The tick at a time, and the time of a tick, relative to an anchor.
  #reached({ time, seconds, tempo }, at) {
    return this.clock.tick(seconds + Math.max(0, at - time) * tempo);
  }

  #time(anchor, tick) {
    return anchor.time + (this.clock.seconds(tick) - anchor.seconds) / anchor.tempo;
  }

  #anchor(time, tick) {
    return { time, seconds: this.clock.seconds(tick), tempo: this.tempo };
  }

  #jumpBack(anchor) {
    const time = this.#time(anchor, this.loop[1]);
    this.#silence(time - 0.002);
    this.anchors = [...this.anchors.slice(-3), this.#anchor(time, this.loop[0])];
    this.sent = this.loop[0];
    this.#chase(this.sent, time);
  }

  // Wait at the end of what is written so far, unless a loop ends before it.
  #awaitNotes() {
    const grows = Number.isFinite(this.frontier) && this.#loopEnd > this.frontier;
    if (this.waiting || !grows || this.tick < this.frontier - 1) return;
    this.at = this.frontier;
    this.#silence();
    this.anchors = [this.#anchor(this.now(), this.frontier)];
    this.waiting = true;
    this.tell("waiting");
  }

  #finish() {
    if (Number.isFinite(this.frontier) || this.#loopEnd < Infinity) return;
    const anchor = this.anchors.at(-1);
    if (this.now() < this.#time(anchor, this.end) + TAIL) return;
    this.playing = false;
    this.#silence();
    this.at = 0;
    this.tell("ended");
  }

  // Move the recorded controllers to where they are before a tick.
  #chase(tick, time) {
    const last = new Map();
    for (const row of this.piece.controls ?? [])
      if (row[0] < tick) last.set(`${row[1]} ${row[3]}`, row);
    for (const row of last.values()) if (row[2]) this.#move(row, time);
  }

  #move([, controller, value, track], time) {
    const channel = this.channels[track];
    this.out.control?.(channel, controller, value, time);
    const key = `${channel} ${controller}`;
    if (value) this.moved.set(key, [channel, controller]);
    else this.moved.delete(key);
  }

  #send(from, to, anchor) {
    const { notes, controls = [] } = this.piece;
    for (const row of controls)
      if (row[0] >= from && row[0] < to) this.#move(row, this.#time(anchor, row[0]));
    for (const [key, note] of [...this.active])
      if (note.end <= to) this.#off(key, this.#time(anchor, note.end));
    for (let i = firstFrom(notes, from); i < notes.length && notes[i] < to; i += WIDTH) {
      const key = this.#on(i, this.#time(anchor, notes[i])),
        end = notes[i] + notes[i + 1];
      if (key && end <= to) this.#off(key, this.#time(anchor, end));
    }
  }

  // Start the note at a place in the array, unless it already sounds.
  #on(place, time) {
    const { notes, tracks } = this.piece,
      [onset, duration, pitch, velocity, track] = notes.subarray(place, place + WIDTH),
      key = `${onset} ${pitch} ${track}`;
    const sounding = tracks[track].drum ? pitch : pitch + this.transpose,
      channel = this.channels[track];
    const isAudible = isHeard(this.mix, track) && sounding >= 0 && sounding <= 127;
    if (!isAudible || this.active.has(key)) return null;
    this.out.on(channel, sounding, velocity, time);
    this.active.set(key, { channel, pitch: sounding, end: onset + duration, track, time });
    return key;
  }

  #off(key, time) {
    const note = this.active.get(key);
    this.active.delete(key);
    this.out.off(note.channel, note.pitch, Math.max(time, note.time + 0.02));
  }

  #silence(time = this.now()) {
    for (const key of [...this.active.keys()]) this.#off(key, time);
    for (const [channel, controller] of this.moved.values())
      this.out.control?.(channel, controller, 0, time);
    this.moved.clear();
  }

  // The end of a sounding note, as far as known; null if it is gone.
  #endOf(key) {
    const [onset, pitch, track] = key.split(" ").map(Number),
      { notes } = this.piece;
    for (let i = firstFrom(notes, onset); i < notes.length && notes[i] === onset; i += WIDTH)
      if (notes[i + 2] === pitch && notes[i + 4] === track) return onset + notes[i + 1];
    return null;
  }
}
