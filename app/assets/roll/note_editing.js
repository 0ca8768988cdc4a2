// Editing notes: with the pointer, draw, select, move, resize at the right edge, select more with Shift; by keys, all of it. Each
// edit gives a new piece.
import * as edits from "../music/edits.js";
import { WIDTH, rowsOf, withRows } from "../music/piece.js";

const EDGE = 6; // pixels at the end of a note that resize it; at most a third of the note, so that it can be moved
const doing = (words, edit, ...by) => ({
  words,
  edit: (piece, chosen) => edit(piece, chosen, ...by),
});
const DELETE = doing("deleting notes", edits.removed);
const shift = (ticks, steps) => doing("moving notes", edits.moved, ticks, steps);
const longer = (ticks) => doing("changing note lengths", edits.lengthened, ticks);
const shade = (by) => doing("changing velocities", edits.louder, by);
const quantise = (grid) => doing("quantising notes", edits.quantisedTo, grid);
// What keys do to the chosen notes; `much` with Shift, `other` with Alt.
const KEYS = {
  Delete: () => DELETE,
  Backspace: () => DELETE,
  ArrowUp: (grid, much, other) => (other ? shade(5) : shift(0, much ? 12 : 1)),
  ArrowDown: (grid, much, other) => (other ? shade(-5) : shift(0, much ? -12 : -1)),
  ArrowLeft: (grid, much) => (much ? longer(-grid) : shift(-grid, 0)),
  ArrowRight: (grid, much) => (much ? longer(grid) : shift(grid, 0)),
  q: quantise,
  Q: (grid) => quantise((4 * grid) / 3),
};

export class Hand {
  // `acts`: edit(piece, words), touch(pitch, track), chose()
  constructor(roll, acts) {
    Object.assign(this, { roll, acts, on: false, moving: null });
    roll.chosenNotes = new Set();
  }

  get chosen() {
    return this.roll.chosenNotes;
  }

  switch(on) {
    this.on = on;
    this.chosen.clear();
    this.roll.canvas.classList.toggle("mg-hand", on);
    this.show();
  }

  // Show which notes are chosen.
  show() {
    this.roll.draw();
    this.acts.chose?.();
  }

  row(index) {
    return Array.from(this.roll.piece.notes.subarray(index * WIDTH, index * WIDTH + WIDTH));
  }

  at(tick, pitch, track) {
    const { notes } = this.roll.piece;
    for (let i = notes.length - WIDTH; i >= 0; i -= WIDTH) {
      const isSame = notes[i + 4] === track && notes[i + 2] === pitch;
      if (isSame && notes[i] <= tick && tick < notes[i] + notes[i + 1]) return i / WIDTH;
    }
    return -1;
  }

  // The note under a finger, which is wider than a row; drums have notes close together.
  near({ clientX }, pitch, lane) {
    const { roll } = this,
      pitches = lane.drum ? [pitch] : [pitch, pitch + 1, pitch - 1],
      xs = [clientX, clientX - EDGE, clientX + EDGE],
      places = pitches.flatMap((one) => xs.map((x) => [roll.tickAt({ clientX: x }), one]));
    const found = places.map(([tick, one]) => this.at(tick, one, lane.index));
    return found.find((index) => index >= 0) ?? -1;
  }

  // The handlers of a drag, {move(event), end()}, or nothing if the press draws a note.
  down(event, { pitch, lane }) {
    const { roll } = this,
      tick = roll.tickAt(event),
      index =
        event.pointerType === "touch"
          ? this.near(event, pitch, lane)
          : this.at(tick, pitch, lane.index);
    if (index < 0 && event.shiftKey) return this.#marquee(event);
    this.acts.touch?.(index < 0 ? pitch : this.row(index)[2], lane.index);
    if (index < 0) return void this.draw(tick, pitch, lane);
    if (!this.chosen.has(index)) {
      if (!event.shiftKey) this.chosen.clear();
      this.chosen.add(index);
    }
    const edge = this.atEdge(index, tick),
      chosen = [...this.chosen];
    this.moving = { tick, pitch, lane, edge, before: roll.piece, chosen };
    this.show();
    return { move: (to) => this.move(to), end: () => this.up() };
  }

  atEdge(index, tick) {
    const { roll } = this,
      [onset, duration] = this.row(index),
      end = roll.x(onset + duration);
    return end - roll.x(tick) < Math.min(EDGE, (end - roll.x(onset)) / 3);
  }

  // Whether a drag from here would resize a note.
  resizes(event, { part, pitch, lane }) {
    if (!this.on || part !== "notes") return false;
    const tick = this.roll.tickAt(event),
      index = this.at(tick, pitch, lane.index);
    return index >= 0 && this.atEdge(index, tick);
  }

  draw(tick, pitch, lane) {
    const { roll } = this,
      grid = edits.gridOf(roll.piece),
      onset = Math.floor(tick / grid) * grid;
    const piece = edits.drawn(roll.piece, onset, lane.drum ? grid : 4 * grid, pitch, lane.index);
    if (piece === roll.piece) return; // past the end of the piece
    const before = new Set(rowsOf(roll.piece).map(String)),
      added = rowsOf(piece).filter((row) => !before.has(String(row)));
    this.acts.edit(piece, "adding a note");
    this.choose(added);
  }

  // The pitch is always read on the lane where the drag began, even if the pointer leaves it.
  move(event) {
    const { moving, roll } = this,
      steps = roll.pitchIn(moving.lane, event) - moving.pitch;
    const ticks = edits.toGrid(roll.piece, roll.tickAt(event) - moving.tick);
    if (ticks === moving.ticks && steps === moving.steps) return;
    Object.assign(moving, { ticks, steps, act: moving.edge ? longer(ticks) : shift(ticks, steps) });
    roll.piece = moving.act.edit(moving.before, moving.chosen); // a preview until the drag ends
    this.chosen.clear();
    roll.draw();
  }

  up() {
    const { act, before, chosen } = this.moving;
    this.moving = null;
    if (!act) return;
    this.roll.piece = before;
    this.apply(act, chosen);
  }

  // Edit the chosen notes, which stay chosen; without an effect, it is not a step.
  apply({ edit, words }, chosen) {
    const { piece } = this.roll,
      made = edit(piece, chosen),
      rows = chosen.map((index) => this.row(index)),
      alone = withRows(piece, rows);
    if (made !== piece) this.acts.edit(made, words);
    this.choose(rowsOf(edit(alone, [...chosen.keys()])));
  }

  // Delete the chosen notes.
  remove() {
    this.apply(DELETE, [...this.chosen]);
  }

  // Set velocities, by the indices of notes.
  shade(velocities) {
    const { chosen, roll } = this,
      made = edits.shaded(roll.piece, velocities);
    if (made !== roll.piece) this.acts.edit(made, "changing velocities");
    roll.chosenNotes = chosen; // whose order stays
    this.show();
  }

  choose(rows) {
    const indices = rows.map((row) => edits.indexOf(this.roll.piece, row));
    this.roll.chosenNotes = new Set(indices.filter((index) => index >= 0));
    this.show();
  }

  // The handlers of a drag that chooses the notes of all lanes between two corners.
  #marquee(begun) {
    const { roll } = this,
      lanes = new Map(roll.laid.map((lane) => [lane.index, lane])),
      from = [roll.tickAt(begun), roll.yAt(begun)];
    const move = (event) => {
      const to = [roll.tickAt(event), roll.yAt(event)],
        [[left, right], [top, bottom]] = [0, 1].map((n) => [from[n], to[n]].sort((a, b) => a - b));
      const isIn = ([onset, , pitch, , track]) => {
        const { top: high, step, row } = lanes.get(track) ?? {},
          y = high + row?.(pitch) * step; // of its upper edge
        return onset >= left && onset <= right && y <= bottom && y + step >= top;
      };
      this.choose(rowsOf(roll.piece).filter(isIn));
    };
    return { move };
  }

  // Select all, copy, cut and paste at the cursor; returns whether the key was one of these.
  #command(key) {
    const { roll, chosen } = this,
      { piece } = roll;
    if (key === "a") this.choose(rowsOf(piece));
    else if (["c", "x"].includes(key) && chosen.size) {
      this.copied = [...chosen].map((index) => this.row(index));
      if (key === "x") this.remove();
    } else if (key === "v" && this.copied) {
      const rows = edits.pasted(piece, this.copied, edits.toGrid(piece, roll.played ?? 0));
      if (rows.length)
        this.acts.edit(withRows(piece, [...rowsOf(piece), ...rows]), "pasting notes");
      this.choose(rows);
    } else return false;
    return true;
  }

  // Handle the keys of note editing; returns whether the key was one.
  key(event) {
    const { key, shiftKey, altKey } = event,
      { chosen } = this;
    if (!this.on) return false;
    if (event.ctrlKey || event.metaKey) return this.#command(key.toLowerCase());
    if (!chosen.size || !(KEYS[key] || key === "Escape")) return false;
    if (key === "Escape") this.choose([]);
    else this.apply(KEYS[key](edits.gridOf(this.roll.piece), shiftKey, altKey), [...chosen]);
    return true;
  }
}
