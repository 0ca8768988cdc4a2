// The piano roll: a piece with a cursor, zoom and scrolling, selectable bars and a draggable end of the prompt. The canvas
// is as wide as the view, and paint.js repaints it on scrolling.
import { barAt, barCount, inRegion, noteCount } from "../music/piece.js";
import { planOf } from "../music/plan.js";
import { FLAG, GUTTER, paint, placeLanes, rulerOf, topOf } from "./paint.js";
import { laneOf, linesOf } from "./plan.js";
import { listenForDrags } from "./range.js";
import { below } from "./velocity.js";

const LEAST = 2,
  MOST = 160; // pixels per beat; zooming stops at LEAST, but "Fit" may go below

// The time axis shared by rolls shown together: zoom and scroll position.
export class Axis {
  constructor() {
    this.zoom = null; // pixels per beat; null fits the piece
    this.left = 0;
    this.rolls = new Set();
    this.held = false; // the user is dragging
  }

  scrolled(roll) {
    const left = roll.view.scrollLeft;
    if (Math.abs(left - this.left) < 1) return;
    this.left = left;
    for (const other of this.rolls) if (other !== roll) other.view.scrollLeft = left;
  }

  to(left) {
    this.left = Math.max(0, left);
    for (const roll of this.rolls) roll.view.scrollLeft = this.left;
  }

  // Zoom by a factor around the middle of the view; null fits the piece.
  scale(factor, roll) {
    const before = roll.beatWidth,
      middle = (roll.view.scrollLeft + roll.inner / 2) / before;
    this.zoom =
      factor === null ? null : Math.min(MOST, Math.max(Math.min(LEAST, before), before * factor));
    for (const one of this.rolls) one.layout();
    this.to(middle * roll.beatWidth - roll.inner / 2);
  }
}

export class Roll {
  // `acts`: seek(tick), play(), range({first, stop} or null), choose(bars), bend(bars, value), chord(), hand (of note_editing.js)
  constructor({ label, height, axis = new Axis(), acts = {}, prompt = false }) {
    Object.assign(this, { label, axis, acts, isPrompt: prompt });
    this.view = document.createElement("div");
    this.view.className = "mg-roll";
    this.view.innerHTML =
      '<div class="mg-wide"><canvas></canvas><div class="mg-cursor" hidden></div></div>';
    this.wide = this.view.firstChild;
    [this.canvas, this.cursor] = this.wide.children;
    this.canvas.tabIndex = 0;
    this.canvas.role = "application";
    this.canvas.ariaRoleDescription = "piano roll";
    this.piece = this.region = this.range = null;
    this.picked = new Set(); // the selected tracks; all if there are none
    this.plan = null; // the plan to show: {curve, goals, lines, next, isOpen(bar)}
    this.lanes = this.laid = [];
    this.high = height;
    this.gutter = GUTTER;
    this.bars = 0;
    this.played = null; // the tick that is heard
    axis.rolls.add(this);
    this.view.addEventListener("scroll", () => (axis.scrolled(this), this.draw()));
    this.sized = new ResizeObserver(() => this.layout());
    this.sized.observe(this.view);
    this.view.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    listenForDrags(this);
  }

  close() {
    this.axis.rolls.delete(this);
    this.sized.disconnect();
  }

  // `lanes`: those shared by all rolls; `seen`: the bars to show, null for all.
  show(entry, { lanes, bars = null, seen = null, plan = null } = {}) {
    const { piece } = entry,
      isEdit = entry.kind === "edit" && entry.parent === this.id,
      stays = this.id === entry.id || (isEdit && String(piece.lines) === String(this.piece.lines));
    this.plan = plan;
    if (!stays || this.range?.stop > barCount(piece)) this.range = null; // the selected bars no longer exist
    if (!this.range) this.picked.clear();
    this.id = entry.id;
    this.piece = piece;
    this.region = entry.region ?? null;
    this.lanes = lanes;
    this.high = this.height; // adds room for the lanes and the plan
    this.seen = seen;
    if (bars !== null) this.bars = bars;
    const form = plan && planOf(piece).letters.filter(Boolean).join(" ");
    const words = [
      `${this.label}: ${noteCount(piece)} notes in ${barCount(piece)} bars.`,
      form && `Form: ${form}.`,
      "Space plays, the left and right arrows move by bars or select bars with Shift, and T selects tracks.",
    ];
    this.canvas.ariaLabel = words.filter(Boolean).join(" ");
    this.layout();
  }

  get given() {
    if (this.isPrompt) return this.bars;
    const { region } = this,
      open = region && !region.tracks && region.stop >= barCount(this.piece);
    return open ? region.first : 0;
  }

  isNew(onset, track) {
    return inRegion(this.region, this.piece.lines, onset, track);
  }

  choose(bars) {
    this.bars = bars;
    this.draw();
  }

  // The height of the notes in CSS units, which many lanes and the lane of the plan increase.
  set high(height) {
    this.height = height;
    this.view.style.height = `calc(max(${height}, ${60 + 26 * this.lanes.length}px) + ${below(this)}px)`;
  }

  // The width of the notes in pixels.
  get inner() {
    return Math.max(1, this.view.clientWidth - this.gutter);
  }

  get beats() {
    return ((this.piece && linesOf(this).at(-1)) ?? 48) / (this.piece?.ticksPerBeat ?? 12);
  }

  // The first and the last visible tick.
  get begin() {
    return this.seen ? this.piece.lines[Math.min(this.seen.first, barCount(this.piece))] : 0;
  }

  get end() {
    return this.piece.lines[Math.min(this.seen?.stop ?? Infinity, barCount(this.piece))];
  }

  get shownBeats() {
    return this.seen ? (this.end - this.begin) / this.piece.ticksPerBeat : this.beats;
  }

  get beatWidth() {
    return this.axis.zoom ?? Math.min(MOST, this.inner / Math.max(1, this.shownBeats));
  }

  x(tick) {
    return this.gutter + ((tick - this.begin) / this.piece.ticksPerBeat) * this.beatWidth;
  }

  tickAt(event) {
    const { view } = this,
      left = view.getBoundingClientRect().left + view.clientLeft + this.gutter,
      x = event.clientX - left + view.scrollLeft;
    return Math.max(0, this.begin + (x / this.beatWidth) * this.piece.ticksPerBeat);
  }

  // The height of a pointer below the top of the view.
  yAt(event) {
    return event.clientY - this.view.getBoundingClientRect().top - this.view.clientTop;
  }

  // The part of the roll under a pointer: end of the prompt, ruler, chords, plan, head of a track, or a pitch of a lane.
  placeAt(event) {
    const y = this.yAt(event),
      high = this.view.clientHeight,
      foot = high - below(this);
    if (y > foot) return { part: y > high - laneOf(this) ? "plan" : "velocity" };
    if (this.isPrompt && this.bars && this.isNearEnd(event, y)) return { part: "end" };
    if (y < topOf(this))
      return { part: this.acts.chord && y >= rulerOf(this) ? "chords" : "ruler" };
    this.laid = placeLanes(this.lanes, topOf(this), foot);
    const lane = this.laid.find((one) => y < one.bottom + 5) ?? this.laid.at(-1);
    if (!lane) return { part: "ruler" };
    const isHead = event.clientX - this.view.getBoundingClientRect().left < this.gutter;
    if (isHead && this.laid.length > 1) return { part: "track", lane };
    return { part: "notes", lane, pitch: this.pitchIn(lane, event) };
  }

  // Whether a pointer is near enough to the end of the prompt to drag it: on its flag or, by touch with less accuracy, its line.
  isNearEnd(event, y) {
    const end = this.x(this.piece.lines[Math.min(this.bars, barCount(this.piece))]),
      reach = y < FLAG ? 90 : event.pointerType === "mouse" ? 8 : 22;
    return Math.abs(this.x(this.tickAt(event)) - end) <= reach;
  }

  // The pitch of a lane at the height of a pointer, clamped to the lane.
  pitchIn(lane, event) {
    const y = this.yAt(event);
    return lane.at(Math.min(lane.rows - 1, Math.max(0, Math.floor((y - lane.top) / lane.step))));
  }

  moveCursor(tick, follow = false) {
    this.played = tick;
    if (!this.placeCursor()) return;
    const x = this.x(tick),
      from = this.axis.left + this.gutter,
      width = this.inner;
    if (follow && !this.axis.held && (x < from || x > from + width * 0.92))
      this.axis.to(x - this.gutter - width * 0.1);
  }

  // Place the cursor; returns whether it is visible.
  placeCursor() {
    const { played: tick } = this;
    this.cursor.hidden = tick === null || !this.piece || tick < this.begin || tick > this.end;
    if (this.cursor.hidden) return false;
    this.cursor.style.transform = `translateX(${this.x(tick)}px)`;
    return true;
  }

  scale(factor) {
    this.axis.scale(factor, this);
  }

  wheel(event) {
    if (!event.ctrlKey) return;
    event.preventDefault();
    this.scale(event.deltaY < 0 ? 1.2 : 1 / 1.2);
  }

  layout() {
    if (!this.piece || !this.view.clientWidth) return;
    this.wide.style.width = `${Math.max(this.view.clientWidth, Math.ceil(this.gutter + this.shownBeats * this.beatWidth))}px`;
    const ratio = window.devicePixelRatio || 1,
      { canvas, view } = this,
      width = Math.round(view.clientWidth * ratio),
      height = Math.round(view.clientHeight * ratio);
    if (canvas.width !== width || canvas.height !== height)
      Object.assign(canvas, { width, height });
    canvas.style.width = `${view.clientWidth}px`;
    canvas.style.height = `${view.clientHeight}px`;
    if (Math.abs(view.scrollLeft - this.axis.left) > 1) view.scrollLeft = this.axis.left;
    this.placeCursor();
    this.draw();
  }

  select(range) {
    this.range = range;
    if (!range) this.picked.clear();
    this.draw();
    this.acts.range?.(this.range);
  }

  // Select a track, or no longer; without selected bars, in all of them.
  pick(track) {
    const { picked } = this;
    if (!picked.delete(track)) picked.add(track);
    const all = { first: 0, stop: barCount(this.piece) };
    this.select(picked.size || this.isPart ? (this.range ?? all) : null);
  }

  // Whether not all bars are selected.
  get isPart() {
    return Boolean(this.range && (this.range.first || this.range.stop < barCount(this.piece)));
  }

  // Select the track after the last selected one, alone.
  pickNext() {
    const order = this.laid.map(({ index }) => index),
      [last] = [...this.picked].slice(-1),
      next = order[(order.indexOf(last) + 1) % order.length];
    if (order.length < 2) return;
    this.picked.clear();
    this.pick(next);
  }

  key(event) {
    if (this.acts.hand?.key(event)) return event.preventDefault();
    const act = {
      " ": () => this.acts.play?.(),
      ArrowLeft: () => this.step(-1, event),
      ArrowRight: () => this.step(1, event),
      Home: () => this.acts.seek?.(0),
      Escape: () => this.range && this.select(null),
      t: () => this.pickNext(),
    }[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  // Move the cursor by bars, or with Shift the end of the selection.
  step(by, event) {
    const { piece } = this,
      bars = barCount(piece),
      tick = this.played ?? this.begin;
    if (!event.shiftKey) {
      const bar = by > 0 ? barAt(piece, tick + 1) + 1 : barAt(piece, tick - 1),
        line = piece.lines[Math.min(bars, bar)];
      this.moveCursor(line);
      return this.acts.seek?.(line);
    }
    const at = Math.min(bars - 1, barAt(piece, tick)),
      { first, stop } = this.range ?? { first: at, stop: at };
    this.select({ first, stop: Math.min(bars, Math.max(first + 1, stop + by)) });
  }

  draw() {
    if (!this.piece || !this.canvas.width || this.asked) return;
    this.asked = requestAnimationFrame(() => {
      this.asked = null;
      if (this.view.isConnected) paint(this);
    });
  }
}
