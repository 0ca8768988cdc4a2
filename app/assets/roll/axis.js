// The time axis shared by rolls shown together: zoom and scroll position.
export const LEAST = 2,
  MOST = 160; // pixels per beat; zooming stops at LEAST, but "Fit" may go below

export class Axis {
  constructor() {
    this.zoom = null; // pixels per beat; null fits the piece
    this.left = 0;
    this.rolls = new Set();
    this.held = false; // the user is dragging
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
