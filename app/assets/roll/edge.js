// A drag to the edge of a roll, or past it, moves what is seen: the further, the faster.
const NEAR = 18; // pixels within the edge that do so
const SLOW = 3,
  STEEP = 0.35,
  FAST = 60; // pixels a frame: at the edge, more by each pixel past it, and at most

// How far past the edges of what is seen a pointer is, in pixels; 0 for a place between them.
function past(roll, event) {
  const left = roll.view.getBoundingClientRect().left + roll.view.clientLeft,
    x = event.clientX - left;
  const from = roll.gutter + NEAR,
    to = roll.view.clientWidth - NEAR;
  return x < from ? x - from : Math.max(0, x - to);
}

// `drag` is told of the pointer again wherever the roll has gone on under it. A drag goes on as long as `at` is told of it,
// until `stop`. One that begins next to an edge may be on its way from there: it has to come back, or to go past.
export class EdgeScroll {
  constructor(roll, drag) {
    Object.assign(this, { roll, drag, event: null, going: false, left: false });
  }

  at(event) {
    this.event = event;
    this.left ||= !past(this.roll, event);
    this.roll.axis.held = true; // what plays does not lead away from under a hand
    if (!this.going && this.by) this.#go();
  }

  stop() {
    this.event = null;
    this.left = this.roll.axis.held = false;
  }

  // By how many pixels the next frame moves it.
  get by() {
    const far = this.event ? past(this.roll, this.event) : 0,
      meant = this.left || Math.abs(far) > NEAR;
    return far && meant ? Math.sign(far) * Math.min(FAST, SLOW + STEEP * Math.abs(far)) : 0;
  }

  #go() {
    this.going = true;
    requestAnimationFrame(() => {
      this.going = false;
      const {
          roll: { view, axis },
          event,
          by,
        } = this,
        most = Math.max(0, view.scrollWidth - view.clientWidth);
      const to = Math.min(most, Math.max(0, view.scrollLeft + by));
      if (!event || to === view.scrollLeft) return;
      axis.to(to);
      this.drag(event);
      this.#go();
    });
  }
}
