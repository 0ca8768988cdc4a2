// Trading bars: the user and the model play the same number of bars in turn, all in one piece. The answer is requested one
// beat before the bar line, and starts as soon as its first beat is written.
import { isMidi } from "../desk/file.js";
import {
  barAt,
  barCount,
  beatOf,
  lineNear,
  linesFor,
  rowsOf,
  withBars,
  withColumns,
  withRows,
} from "../music/piece.js";

const KEYS = "A W S E D F T G Y H U J K";
const LOOK = 20; // milliseconds between checks of the clock
const EARLY = 0.03; // seconds before the end of an answer at which the next turn is prepared

const OTHER = "Trading has ended because another piece was opened.";
const WAITS = "Start the other program: your turn begins at its next bar.";
const SILENT = "Nothing was played.";
const NO_SOUND =
  "Trading bars requires sound in the browser, which is not available over this connection.";
const UNDER = "under"; // the id of the accompaniment of the user's turn
const SOON = 0.15; // seconds before a turn in time with a clock at which it is prepared
const TOLERATED = 0.25; // beats by which an answer in time with a clock can begin late
const AHEAD = 0.04; // seconds that the player needs to start
const TRIES = 3; // requests for an answer with notes

const clock = () => performance.now() / 1000;
const keyOf = ([onset, , pitch, , track]) => `${onset} ${pitch} ${track}`;

const isSilent = ({ piece, region }) =>
  !rowsOf(piece).some(([onset]) => onset >= piece.lines[region.first]);

// Move the answer of a take to a bar: if the last bars of a turn were silent, the model has continued from the bar after the
// last note, so bars of rest are inserted before its notes.
export function answerAt(piece, first, bar) {
  if (first >= bar) return piece;
  const from = piece.lines[first];
  const rest = linesFor({ ...piece, lines: piece.lines.slice(0, first + 1) }, bar);
  const by = rest[bar] - from;
  const later = (rows) => rows.map(([tick, ...more]) => [tick < from ? tick : tick + by, ...more]);
  const lines = [...rest, ...piece.lines.slice(first + 1).map((line) => line + by)];
  return withColumns({ ...withRows(piece, later(rowsOf(piece))), lines }, later);
}

// A piece in which the other parts repeat their last bars under the turn that begins at `bar`; null without notes.
export function accompanied(piece, bar, bars, track) {
  const lines = linesFor(piece, bar + bars);
  const from = lines[Math.max(0, bar - bars)];
  const [begin, end] = [lines[bar], lines[bar + bars]];
  const isOther = ([onset, , , , part]) => part !== track && onset >= from && onset < begin;
  const before = rowsOf(piece).filter(isOther);
  const again = [];
  for (let by = begin - from; before.length && by < end - from; by += begin - from)
    for (const [onset, length, ...more] of before)
      if (onset + by < end) again.push([onset + by, Math.min(length, end - onset - by), ...more]);
  return again.length ? withRows({ ...piece, lines }, [...rowsOf(piece), ...again]) : null;
}

// A take with the notes that were played after it was requested, on its own grid and tracks.
export function withLate(take, asked, whole) {
  const known = new Set(rowsOf(asked).map(keyOf));
  const by = take.ticksPerBeat / whole.ticksPerBeat;
  const pitched = take.tracks.findIndex((one) => !one.drum);
  const late = rowsOf(whole).filter((row) => !known.has(keyOf(row)));
  const rows = late.map(([onset, length, pitch, velocity, track]) => {
    const named = take.tracks.findIndex(({ name }) => name === whole.tracks[track].name);
    const to = named < 0 ? Math.max(0, pitched) : named;
    return [Math.round(onset * by), Math.max(1, Math.round(length * by)), pitch, velocity, to];
  });
  return rows.length ? withRows(take, [...rowsOf(take), ...rows]) : take;
}

// Records turns: one until it is stopped, or several in turn with the model.
export class Trade {
  constructor(app, recorder) {
    const say = (words) => app.say(words);
    Object.assign(this, { app, recorder, turn: null, leader: null, say });
  }

  get on() {
    return this.turn !== null;
  }

  // Record without answers: over the bars that are looped, again and again; or over those from the one that playback has
  // reached; else after them. What is there plays along.
  record() {
    const { app, recorder } = this,
      { desk, player } = app;
    this.#openPiece();
    this.turn = "alone";
    const { id, piece } = desk.current,
      isHere = player.entry?.id === id,
      after = recorder.barAfter(piece),
      reached = isHere && player.tick > 0 ? barAt(piece, player.tick) : after,
      loop = isHere && player.loop?.map((tick) => lineNear(piece, tick)),
      bar = loop ? loop[0] : Math.min(reached, after),
      isOver = loop || bar < after;
    this.onto = id;
    recorder.start(piece, desk.settings.tempo, { bar });
    if (isOver) {
      player.seek(piece.lines[bar]);
      this.begins = setTimeout(() => player.play(), 1000 * (recorder.begun - clock()));
    }
    const over = isOver ? ` over the piece, from bar ${bar + 1} on` : "",
      looped = loop?.[1] > bar + 1 ? `bars ${bar + 1} to ${loop[1]}` : `bar ${bar + 1}`,
      again = loop ? `; each pass of ${looped} is added` : "";
    this.say(`One bar of count-in, then play${again || over}; press Done to finish.`);
    if (loop) this.#passes(piece, ...loop);
  }

  // Add what was played in each pass of a loop to the piece, where it is heard from the next one on.
  async #passes(piece, bar, stop) {
    const { app, recorder } = this,
      seconds =
        ((piece.lines[stop] - piece.lines[bar]) * 60) / (recorder.tempo * piece.ticksPerBeat);
    for (;;) {
      await this.#until(() => recorder.now() >= seconds);
      if (app.desk.open.current !== this.onto) return this.stop();
      const made = recorder.pass(seconds);
      if (made) this.onto = app.edit(made, "recording", { title: this.title }).id;
      recorder.again(app.desk.current.piece, seconds);
    }
  }

  async start(bars) {
    const { app, recorder } = this;
    const { player } = app;
    if (app.composer.why) return this.say(app.composer.why);
    this.turn = "begins";
    if (!recorder.devices.length) recorder.useKeys(true);
    this.#openPiece();
    player.synth.start();
    await player.synth.wake();
    if (!(await player.synth.ready)) return this.stop(NO_SOUND);
    if (!this.on) return;
    this.bars = bars;
    const bar = recorder.barAfter(app.desk.current.piece);
    this.leader = app.ports?.clock === "follow" ? app.ports : null;
    if (this.leader) await this.#startOfClock(bar);
    this.#trade(bar);
  }

  // Wait for the clock of another program, which is followed: the first turn begins at its next bar.
  async #startOfClock(bar) {
    const { leader } = this,
      { piece } = this.app.desk.current;
    leader.guest = this;
    if (!leader.reached) this.say(WAITS);
    await this.#until(() => leader.reached);
    const lines = linesFor(piece, bar + 1),
      beats = (lines[bar + 1] - lines[bar]) / piece.ticksPerBeat;
    this.beat = beats * Math.ceil((leader.reached.beats + 1) / beats); // where the turn begins
    await this.#until(() => clock() >= leader.timeOf(this.beat) - SOON); // the tempo is known better then
  }

  #openPiece() {
    const { app, recorder } = this,
      { desk, player } = app;
    if (!desk.current) app.openGrid();
    player.pause();
    const { file, title } = desk.current;
    recorder.folds = Boolean(file) && !isMidi(file);
    this.title = title; // kept for the piece through all turns
  }

  // Stop in any turn; what was played and the answer so far stay in the piece.
  stop(words = "") {
    const { app, recorder, turn } = this,
      isTheirs = turn === "theirs";
    clearTimeout(this.timer);
    clearTimeout(this.begins);
    this.turn = null;
    if (this.leader) this.leader.guest = this.leader.aligned = null;
    this.leader = null;
    if (turn === "asked" || isTheirs) app.composer.stop();
    if (isTheirs || turn === "alone" || app.player.entry?.id === UNDER) app.player.pause();
    const take = isTheirs ? this.#take : null;
    const unheard = isTheirs && !take ? this.whole : null; // its answer has not begun
    const whole = recorder.on ? recorder.stop() : unheard;
    if (take && app.desk.open.current === take.parent) this.#join(take);
    if (whole) {
      if (app.desk.open.current !== this.onto) app.recall(this.onto);
      const label = turn === "alone" ? "recording" : "trading bars";
      app.edit(whole, label, { chosen: barCount(whole), title: this.title });
    }
    if (app.player.entry?.id === UNDER) app.follow();
    this.say(turn === "alone" && !whole ? SILENT : words);
  }

  // The take of the last request.
  get #take() {
    return this.app.desk.takes.find((take) => take.parent === this.onto);
  }

  // Take turns from a bar on, the first after a count-in.
  async #trade(bar) {
    const { app, recorder } = this;
    const { player, desk } = app;
    for (let at = null; ; at = this.end) {
      this.#playUser(bar, at);
      await this.#until(() => clock() >= this.#timeOf(bar + this.bars) - this.early);
      if (desk.open.current !== this.onto) return this.stop(OTHER);
      const played = recorder.soFar(this.line);
      if (!played) return this.stop(SILENT);
      this.#ask(played);
      await this.#until(() => clock() >= this.#timeOf(this.stopBar));
      this.whole = recorder.stop();
      this.turn = "theirs";
      await this.#until(() => this.#isReady());
      const begun = this.#take;
      if (!begun) return this.stop(); // the error is shown already
      if (this.leader) await this.#nextLine(this.#beatsTo(this.stopBar));
      this.#playAnswer(begun);
      await this.#until(this.#endOf(begun.id));
      const take = desk.entries.get(begun.id);
      if (!take || player.entry?.id !== take.id || take.state === "stopped") return this.stop();
      if (desk.current?.id !== take.parent) return this.stop(OTHER);
      bar = this.#join(take);
      if (this.leader) await this.#nextLine(this.next - this.beat);
    }
  }

  // Some beats later in the followed program, or if that is past, at its next bar line.
  async #nextLine(beats) {
    const { leader, lines, stopBar, perBeat } = this,
      length = (lines[stopBar] - lines[stopBar - 1]) / perBeat,
      late = leader.reached.beats - this.beat - beats;
    this.beat += beats + (late > TOLERATED ? length * Math.ceil(late / length) : 0);
    await this.#until(() => clock() >= leader.timeOf(this.beat) - AHEAD);
  }

  #beatsTo(bar) {
    return (this.lines[bar] - this.lines[this.stopBar - this.bars]) / this.perBeat;
  }

  // The time in seconds of a bar line from the beginning of the user's turn on.
  #timeOf(bar) {
    const beats = this.#beatsTo(bar);
    if (this.leader?.reached) return this.leader.timeOf(this.beat + beats);
    return this.recorder.begun + (60 * beats) / this.recorder.tempo;
  }

  // Start the user's turn at a bar, at a time in seconds or after a count-in.
  #playUser(bar, at) {
    const { recorder, app, bars } = this;
    const { current } = app.desk;
    const under = accompanied(current.piece, bar, bars, recorder.track);
    const piece = under ?? current.piece;
    this.turn = "mine";
    this.onto = current.id;
    Object.assign(this, { lines: linesFor(piece, bar + bars), perBeat: piece.ticksPerBeat });
    this.stopBar = bar + bars;
    const { leader } = this,
      more = leader && { at: leader.timeOf(this.beat), tempo: 60000 / leader.reached.beat };
    leader?.align(this.lines[bar], this.beat);
    recorder.start(piece, app.desk.settings.tempo, { bar, at, bars, ...more });
    if (under) this.#accompany({ ...current, id: UNDER, parent: current.id, piece }, bar);
    this.line = this.#timeOf(this.stopBar);
    this.early =
      (60 * beatOf({ ...piece, lines: this.lines }, this.stopBar - 1)) /
      (recorder.tempo * piece.ticksPerBeat);
    const isFirst = at === null,
      counted = isFirst && !leader ? "One bar of count-in. " : "",
      keys = recorder.keys && isFirst ? ` Play on the keys ${KEYS}.` : "";
    this.say(`${counted}Your turn: bars ${bar + 1} to ${bar + bars}.${keys}`);
  }

  // Play the other parts under the user's turn: following the answer, or after the count-in.
  #accompany(entry, bar) {
    const { player } = this.app;
    const goesOn = player.playing;
    player.load(entry);
    const begin = () => {
      if (player.entry?.id !== UNDER) return;
      player.seek(entry.piece.lines[bar]);
      player.play();
    };
    if (!goesOn) setTimeout(begin, 1000 * (this.recorder.begun - AHEAD - clock()));
  }

  // Request the answer to what has been played so far.
  #ask(played) {
    const { app, stopBar, title } = this;
    this.asked = withBars(played, stopBar);
    this.onto = app.edit(this.asked, "trading bars", { chosen: stopBar, title }).id;
    this.tries = 0;
    this.#request();
    this.turn = "asked";
  }

  #request() {
    const { app, bars, stopBar } = this;
    const free = { ends: false, chords: "", plan: null, variations: 1, draw: 1, bars };
    this.tries += 1;
    app.composer.start({ kind: "continue", ...free, promptBars: stopBar });
  }

  // Whether the first beat of the answer is written, or none will be. A silent answer is requested again.
  #isReady() {
    const take = this.#take;
    if (take && !isSilent(take)) {
      const { state, now, piece, region } = take;
      return state !== "running" || now >= piece.lines[region.first] + piece.ticksPerBeat;
    }
    if (this.app.composer.busy) return false;
    if (take?.state !== "done" || this.tries === TRIES) return true;
    this.#request();
    return false;
  }

  #playAnswer(take) {
    const { player } = this.app,
      start = take.piece.lines[take.region.first];
    this.say(`The model’s turn: bars ${this.stopBar + 1} to ${this.stopBar + this.bars}.`);
    this.leader?.align(start, this.beat);
    player.load(take, { at: start });
    player.seek(this.leader?.wanted ?? start);
    player.play();
  }

  // A test of whether the answer is over; it may pause for notes that are still being written.
  #endOf(id) {
    const { player, desk } = this.app;
    const { synth } = player;
    let begun = false;
    return () => {
      const take = desk.entries.get(id);
      const anchor = player.anchors.at(-1);
      if (!take || player.entry?.id !== id) return true; // another piece was opened
      if (player.waiting || !(begun || player.playing)) return false;
      const offset = clock() - synth.now();
      begun = true;
      const { lines, ticksPerBeat } = take.piece,
        left = player.clock.seconds(lines[take.region.stop]) - anchor.seconds,
        beats = (lines[take.region.stop] - lines[take.region.first]) / ticksPerBeat;
      this.end = this.leader?.reached
        ? this.leader.timeOf(this.beat + beats)
        : anchor.time + left / anchor.tempo + offset;
      this.next = this.beat + beats;
      return take.state !== "running" && clock() >= this.end - EARLY;
    };
  }

  // Make the take, with all that was played, the piece; returns its number of bars.
  #join(take) {
    const { app } = this;
    const { piece, region } = take;
    const rest = Math.max(0, this.stopBar - region.first);
    const made = withLate(answerAt(piece, region.first, this.stopBar), this.asked, this.whole);
    const [first, stop] = [region.first + rest, region.stop + rest];
    app.use(take.id, "trading bars", region.stop);
    const more = { chosen: stop, title: this.title, region: { ...region, first, stop } };
    app.edit(made, "trading bars", more);
    return stop;
  }

  // Wait until something is so; for ever if the trade is stopped.
  #until(isSo) {
    return new Promise((done) => {
      const look = () => {
        if (isSo()) done();
        else this.timer = setTimeout(look, LOOK);
      };
      look();
    });
  }
}
