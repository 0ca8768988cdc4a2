// When which note sounds: a player's clock over a piece that may still be growing. It knows no audio: `out` takes
// what is to be sent to a synthesizer, `now` tells its time; tests drive it by themselves.
import { Clock } from "../music/clock.js";
import { isHeard } from "../music/heard.js";
import { WIDTH, barAt, beatOf, endTick, firstFrom } from "../music/piece.js";

const TAIL = 0.4; // seconds after the last note, in which it dies away
const LEAD = 0.04; // before the first note of a start, so that it is not cut
const DRUMS = 9; // a channel
const PITCHED = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14];
export const CLICKS = { first: [76, 110], other: [77, 80] };

export const noMix = (track) => ({
  mute: false,
  solo: false,
  volume: 100,
  program: track?.program ?? 0,
});

export class Transport {
  constructor({ now, out, changed = () => {} }) {
    Object.assign(this, { now, out, changed });
    this.playing = this.waiting = this.metronome = false;
    this.tempo = 1;
    this.transpose = 0;
    this.loop = null; // [from, to] in ticks
    this.mix = []; // of each track
    this.at = 0; // the tick to begin from
    this.active = new Map(); // notes that sound: key → {channel, pitch, end, track}
    this.anchors = []; // {time, seconds, tempo}: where in the piece it is at a time of the synthesizer, and how fast
    this.piece = null;
  }

  // Take another piece; where it still grows, `frontier` is the tick up to which it is known. What plays goes on in
  // it at the same beat; what goes round goes round there, if there is as much of it and its bars are `related`.
  load(piece, frontier = Infinity, related = true) {
    const scale = piece.ticksPerBeat / (this.piece ?? piece).ticksPerBeat,
      end = piece.lines.at(-1),
      loop = this.loop?.map((tick) => tick * scale);
    this.at = Math.min(this.tick * scale, end);
    this.loop = related && loop?.[1] <= end ? loop : null;
    if (this.playing && !this.waiting) return this.#change(piece, frontier, scale);
    this.#take(piece, frontier);
    if (this.playing) this.#restart(this.at);
  }

  // Without a gap: what has been sent is heard to its end, and goes on there in the other piece, whose notes that are
  // held by then sound at once; those that both have are not struck again.
  #change(piece, frontier, scale, keep = true) {
    const time = Math.max(this.now(), this.#time(this.anchors.at(-1), this.sent)),
      { at } = this,
      tracks = JSON.stringify(this.piece.tracks);
    this.sent = Math.min(this.sent * scale, piece.lines.at(-1));
    this.#take(piece, frontier);
    const same = keep && scale === 1 && tracks === JSON.stringify(piece.tracks);
    for (const [key, note] of [...this.active]) {
      const end = same ? this.#endOf(key) : 0;
      if (end > this.sent) note.end = end;
      else this.#off(key, time);
    }
    this.anchors = [this.#anchor(this.now(), at), this.#anchor(time, this.sent)];
    const { notes } = piece,
      until = firstFrom(notes, this.sent);
    for (let i = 0; i < until; i += WIDTH)
      if (notes[i] + notes[i + 1] > this.sent && !piece.tracks[notes[i + 4]].drum)
        this.#on(i, time);
  }

  // The same piece, which has grown, or was changed a little while it sounds. What goes round ends with it at the
  // latest, and begins again where more than that was sent already.
  grow(piece, frontier = Infinity) {
    const place = this.tick,
      waited = this.waiting,
      end = piece.lines.at(-1);
    const retimed = this.playing && !waited && String(piece.tempos) !== String(this.piece.tempos);
    const time = retimed ? Math.max(this.now(), this.#time(this.anchors.at(-1), this.sent)) : 0;
    const around = this.#turn < Infinity;
    if (this.loop)
      this.loop = this.loop[0] < end ? [this.loop[0], Math.min(this.loop[1], end)] : null;
    this.#take(piece, frontier);
    if (this.playing && around && this.sent >= this.loop?.[1]) return this.#restart(this.loop[0]);
    // Of its other tempos, the tick that is heard and the one that was sent up to have other seconds.
    if (retimed) this.anchors = [this.#anchor(this.now(), place), this.#anchor(time, this.sent)];
    for (const [key, note] of this.active) note.end = this.#endOf(key) ?? note.end;
    if (waited && (frontier > place + piece.ticksPerBeat || this.#turn <= frontier))
      this.#restart(place);
  }

  #take(piece, frontier) {
    this.piece = piece;
    this.clock = new Clock(piece);
    this.frontier = frontier;
    this.end = Math.max(endTick(piece), Number.isFinite(frontier) ? frontier : 0);
    this.#voices();
  }

  #voices() {
    const free = [...PITCHED];
    this.channels = this.piece.tracks.map((track) => (track.drum ? DRUMS : (free.shift() ?? 0)));
    this.piece.tracks.forEach((track, index) => this.#voice(index));
  }

  #voice(index) {
    const track = this.piece.tracks[index],
      mix = { ...noMix(track), ...this.mix[index] },
      channel = this.channels[index];
    const said = `${track.drum ? "drum" : mix.program} ${mix.volume}`;
    this.said ??= {};
    if (this.said[channel] === said) return;
    this.said[channel] = said;
    if (!track.drum) this.out.program(channel, mix.program);
    this.out.volume(channel, mix.volume);
  }

  // Where it is, in ticks: what is heard now, not what has been sent already.
  get tick() {
    if (!this.playing || !this.anchors.length) return this.at;
    const now = this.now();
    const anchor = this.anchors.findLast((one) => one.time <= now) ?? this.anchors[0];
    const tick = this.waiting ? this.clock.tick(anchor.seconds) : this.#reached(anchor, now);
    return Math.min(tick, Math.max(this.end, this.at), this.#turn);
  }

  // The tick at which it goes round; what begins after a loop does not.
  get #turn() {
    return this.sent < this.loop?.[1] ? this.loop[1] : Infinity;
  }

  play() {
    if (this.playing || !this.piece) return;
    if (this.at >= this.end && !Number.isFinite(this.frontier))
      this.at = this.loop ? this.loop[0] : 0;
    this.playing = true;
    this.#restart(this.at);
    this.changed("play");
  }

  pause() {
    if (!this.playing) return;
    this.at = this.tick;
    this.playing = this.waiting = false;
    this.#silence();
    this.changed("pause");
  }

  seek(tick) {
    this.at = Math.max(0, Math.min(tick, this.piece?.lines.at(-1) ?? 0));
    if (this.playing) this.#restart(this.at);
    this.changed("seek");
  }

  #restart(tick) {
    this.#silence();
    this.waiting = false;
    this.at = tick;
    this.sent = tick;
    this.anchors = [this.#anchor(this.now() + LEAD, tick)];
    this.pump(0.1);
  }

  setTempo(tempo) {
    if (tempo === this.tempo) return;
    this.tempo = tempo;
    if (!this.playing) return;
    // What has been sent is heard as it was sent, which may be up to the end of a loop and on from its start.
    const time = this.#time(this.anchors.at(-1), this.sent);
    const before = this.anchors.filter((one) => one.time < time).slice(-3);
    this.anchors = [...before, this.#anchor(time, this.sent)];
  }

  setTranspose(steps) {
    if (steps === this.transpose) return;
    const at = this.tick;
    this.transpose = steps;
    if (this.playing && !this.waiting)
      Object.assign(this, { at }).#change(this.piece, this.frontier, 1, false);
  }

  setLoop(loop) {
    this.loop = loop;
    const outside = (tick) => tick < loop[0] || tick >= loop[1];
    if (this.playing && loop && (outside(this.tick) || outside(this.sent))) this.#restart(loop[0]);
    else if (loop && !this.playing) this.at = loop[0];
    this.changed("loop");
  }

  // Mute, solo, volume and instrument of each track: heard at once.
  setMix(mix) {
    this.mix = mix;
    if (!this.piece) return;
    this.#voices();
    for (const [key, note] of [...this.active])
      if (!isHeard(this.mix, note.track)) this.#off(key, this.now());
  }

  // Send what is due within the next seconds. Called often.
  pump(ahead) {
    if (!this.playing) return;
    const horizon = this.now() + ahead;
    for (let turns = 0; turns < 64; turns++) {
      const anchor = this.anchors.at(-1);
      const reach = this.#reached(anchor, horizon);
      const stop = this.#turn;
      const to = Math.min(reach, stop, this.frontier);
      this.#send(this.sent, to, anchor);
      this.sent = Math.max(this.sent, to);
      if (to !== stop || reach < stop) break;
      this.#around(anchor);
    }
    this.#await();
    this.#finish();
  }

  // The tick at a time, and the time of a tick, from an anchor on.
  #reached({ time, seconds, tempo }, at) {
    return this.clock.tick(seconds + Math.max(0, at - time) * tempo);
  }

  #time(anchor, tick) {
    return anchor.time + (this.clock.seconds(tick) - anchor.seconds) / anchor.tempo;
  }

  #anchor(time, tick) {
    return { time, seconds: this.clock.seconds(tick), tempo: this.tempo };
  }

  #around(anchor) {
    const time = this.#time(anchor, this.loop[1]);
    this.#silence(time - 0.002);
    this.anchors = [...this.anchors.slice(-3), this.#anchor(time, this.loop[0])];
    this.sent = this.loop[0];
  }

  // At the end of what is known, wait for more, unless a loop goes round there.
  #await() {
    const grows = Number.isFinite(this.frontier) && this.#turn > this.frontier;
    if (this.waiting || !grows || this.tick < this.frontier - 1) return;
    this.at = this.frontier;
    this.#silence();
    this.anchors = [this.#anchor(this.now(), this.frontier)];
    this.waiting = true;
    this.changed("waiting");
  }

  #finish() {
    if (Number.isFinite(this.frontier) || this.#turn < Infinity) return;
    const anchor = this.anchors.at(-1);
    if (this.now() < this.#time(anchor, this.end) + TAIL) return;
    this.playing = false;
    this.#silence();
    this.at = 0;
    this.changed("ended");
  }

  #send(from, to, anchor) {
    const { notes } = this.piece;
    for (const [key, note] of [...this.active])
      if (note.end <= to) this.#off(key, this.#time(anchor, note.end));
    for (let i = firstFrom(notes, from); i < notes.length && notes[i] < to; i += WIDTH) {
      const key = this.#on(i, this.#time(anchor, notes[i])),
        end = notes[i] + notes[i + 1];
      if (key && end <= to) this.#off(key, this.#time(anchor, end));
    }
    if (this.metronome) this.#click(from, to, anchor);
  }

  // Let a note sound, of which its place in the array is given, unless it does already.
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

  #click(from, to, anchor) {
    const { piece } = this,
      { lines } = piece;
    for (let bar = barAt(piece, Math.max(0, from)); lines[bar + 1] && lines[bar] < to; bar++) {
      const end = Math.min(lines[bar + 1], to),
        beat = beatOf(piece, bar);
      for (let tick = lines[bar]; tick < end; tick += beat) {
        const sound = CLICKS[tick === lines[bar] ? "first" : "other"];
        if (tick >= from) this.out.click(...sound, this.#time(anchor, tick));
      }
    }
  }

  #off(key, time) {
    const note = this.active.get(key);
    this.active.delete(key);
    this.out.off(note.channel, note.pitch, Math.max(time, note.time + 0.02));
  }

  #silence(time = this.now()) {
    for (const key of [...this.active.keys()]) this.#off(key, time);
  }

  // When a note that sounds ends, as far as is known now.
  #endOf(key) {
    const [onset, pitch, track] = key.split(" ").map(Number),
      { notes } = this.piece;
    for (let i = firstFrom(notes, onset); i < notes.length && notes[i] === onset; i += WIDTH)
      if (notes[i + 2] === pitch && notes[i + 4] === track) return onset + notes[i + 1];
    return null;
  }
}
