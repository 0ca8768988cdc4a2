// A hand on the notes: drawn, moved, made longer at their right edge, deleted; with the keys too. What comes of it is
// given on as a new piece.
import { drawn, gridOf, indexOf, lengthened, moved, removed, toGrid } from "../music/edits.js";
import { WIDTH } from "../music/piece.js";

const EDGE = 6; // pixels at a note's end that lengthen it

export class Hand {
  // `acts`: edit(piece, words), touch(pitch, track)
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
    this.roll.draw();
  }

  row(index) {
    return Array.from(this.roll.piece.notes.subarray(index * WIDTH, index * WIDTH + WIDTH));
  }

  at(tick, pitch, track) {
    const { notes } = this.roll.piece;
    for (let i = notes.length - WIDTH; i >= 0; i -= WIDTH)
      if (notes[i + 4] === track && notes[i + 2] === pitch && notes[i] <= tick && tick < notes[i] + notes[i + 1]) return i / WIDTH;
    return -1;
  }

  down(event, { pitch, lane }) {
    const { roll } = this, tick = roll.tickAt(event), index = this.at(tick, pitch, lane.index);
    roll.canvas.setPointerCapture(event.pointerId);
    this.acts.touch?.(pitch, lane.index);
    if (index < 0) return this.draw(tick, pitch, lane);
    if (!this.chosen.has(index)) {
      if (!event.shiftKey) this.chosen.clear();
      this.chosen.add(index);
    }
    const row = this.row(index), edge = Math.abs(roll.x(row[0] + row[1]) - roll.x(tick)) < EDGE;
    this.moving = { tick, pitch, lane, edge, before: roll.piece, rows: [...this.chosen].map((one) => this.row(one)), chosen: [...this.chosen] };
    roll.draw();
  }

  draw(tick, pitch, lane) {
    const { roll } = this, grid = gridOf(roll.piece), onset = Math.floor(tick / grid) * grid;
    const piece = drawn(roll.piece, onset, lane.drum ? grid : 4 * grid, pitch, lane.index);
    this.acts.edit(piece, "drawing a note");
    this.choose([[onset, lane.drum ? grid : 4 * grid, pitch, 84, lane.index]]);
  }

  move(event) {
    const { moving, roll } = this, { pitch } = roll.placeAt(event);
    const ticks = toGrid(roll.piece, roll.tickAt(event) - moving.tick), steps = pitch === undefined ? 0 : pitch - moving.pitch;
    if (ticks === moving.ticks && steps === moving.steps) return;
    Object.assign(moving, { ticks, steps });
    moving.piece = moving.edge ? lengthened(moving.before, moving.chosen, ticks) : moved(moving.before, moving.chosen, ticks, steps);
    roll.piece = moving.piece; // seen at once, kept when the hand lets go
    this.chosen.clear();
    roll.draw();
  }

  up() {
    const { moving, roll } = this;
    this.moving = null;
    if (!moving.piece || moving.piece === moving.before) return;
    roll.piece = moving.before;
    this.acts.edit(moving.piece, moving.edge ? "changing a length" : "moving notes");
    const grown = moving.rows.map((row) => (moving.edge ? [row[0], row[1] + moving.ticks, ...row.slice(2)] : [row[0] + moving.ticks, row[1], row[2] + moving.steps, ...row.slice(3)]));
    this.choose(grown);
  }

  choose(rows) {
    this.roll.chosenNotes = new Set(rows.map((row) => indexOf(this.roll.piece, row)).filter((index) => index >= 0));
    this.roll.draw();
  }

  // Of the keys, those that mean notes while some are chosen; says whether it took one.
  key(event) {
    if (!this.on || event.ctrlKey || event.metaKey) return false;
    if (event.key === "Tab") return false;
    if (event.key === "n" || event.key === "N") return this.next(event.shiftKey ? -1 : 1);
    if (!this.chosen.size) return false;
    const grid = gridOf(this.roll.piece), chosen = [...this.chosen], { piece } = this.roll;
    const acts = {
      Delete: () => [removed(piece, chosen), "deleting notes", 0, 0], Backspace: () => [removed(piece, chosen), "deleting notes", 0, 0],
      ArrowUp: () => [moved(piece, chosen, 0, event.shiftKey ? 12 : 1), "moving notes"], ArrowDown: () => [moved(piece, chosen, 0, event.shiftKey ? -12 : -1), "moving notes"],
      ArrowLeft: () => event.shiftKey ? [lengthened(piece, chosen, -grid), "changing a length"] : [moved(piece, chosen, -grid, 0), "moving notes"],
      ArrowRight: () => event.shiftKey ? [lengthened(piece, chosen, grid), "changing a length"] : [moved(piece, chosen, grid, 0), "moving notes"],
      Escape: () => null,
    };
    if (!acts[event.key]) return false;
    const rows = chosen.map((index) => this.row(index)), made = acts[event.key]();
    this.chosen.clear();
    if (!made) return this.roll.draw(), true;
    this.acts.edit(...made);
    const by = { ArrowUp: [0, 0, event.shiftKey ? 12 : 1], ArrowDown: [0, 0, event.shiftKey ? -12 : -1], ArrowLeft: event.shiftKey ? [0, -grid, 0] : [-grid, 0, 0], ArrowRight: event.shiftKey ? [0, grid, 0] : [grid, 0, 0] }[event.key];
    if (by) this.choose(rows.map((row) => [row[0] + by[0], row[1] + by[1], row[2] + by[2], row[3], row[4]]));
    return true;
  }

  // The next note, for those who work without a mouse.
  next(by) {
    const count = this.roll.piece.notes.length / WIDTH;
    if (!count) return true;
    const at = this.chosen.size ? [...this.chosen][0] : by > 0 ? -1 : count, to = (at + by + count) % count, row = this.row(to);
    this.roll.chosenNotes = new Set([to]);
    this.acts.touch?.(row[2], row[4]);
    this.roll.acts.seek?.(row[0]);
    this.roll.draw();
    return true;
  }
}
