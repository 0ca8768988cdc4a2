// The time axis of rolls that are seen together: one zoom and one place to scroll to for all of them.
export const LEAST = 2,
  MOST = 160; // pixels a beat; by hand none goes below LEAST, but a long piece that fits

export class Axis {
  constructor() {
    this.zoom = null; // pixels a beat; null fits the piece
    this.left = 0;
    this.rolls = new Set();
    this.touched = false; // a hand has moved it
    this.held = false; // a hand is at it
  }

  join(roll) {
    this.rolls.add(roll);
    return () => this.rolls.delete(roll);
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

  reset() {
    this.zoom = null;
    this.touched = false;
    this.to(0);
  }

  // By a factor around the middle of what is seen, or null to fit.
  scale(factor, roll) {
    const before = roll.beatWidth,
      middle = (roll.view.scrollLeft + roll.inner / 2) / before;
    this.zoom =
      factor === null ? null : Math.min(MOST, Math.max(Math.min(LEAST, before), before * factor));
    this.touched = factor !== null;
    for (const one of this.rolls) one.layout();
    this.to(middle * roll.beatWidth - roll.inner / 2);
  }
}
