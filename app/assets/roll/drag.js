// A drag over a roll, from a press to where it is let go. At the edge of what is seen, or past it, it moves what is seen:
// the further, the faster.
const NEAR = 18; // pixels within the edge that do so
const SLOW = 3,
  STEEP = 0.35,
  FAST = 60; // pixels a frame: at the edge, more by each pixel past it, and at most

// How far past the edges of what is seen a pointer is, in pixels; 0 for a place between them.
function past({ view, gutter }, event) {
  const x = event.clientX - view.getBoundingClientRect().left - view.clientLeft;
  const from = gutter + NEAR;
  return x < from ? x - from : Math.max(0, x - (view.clientWidth - NEAR));
}

// `begin` takes a press, and gives what the drag does: {move(event), end(event)}; nothing for a press that is no drag's.
export function onDrag(roll, element, begin) {
  let acts = null,
    last = null, // where the pointer is
    isInside = false, // one that begins next to an edge may be on its way from there: it has to come back, or to go past
    frame = null;

  function scroll() {
    frame = null;
    const { view, axis } = roll,
      far = acts ? past(roll, last) : 0;
    if (!far || !(isInside || Math.abs(far) > NEAR)) return;
    const by = Math.sign(far) * Math.min(FAST, SLOW + STEEP * Math.abs(far)),
      to = Math.min(view.scrollWidth - view.clientWidth, Math.max(0, view.scrollLeft + by));
    if (to === view.scrollLeft) return;
    axis.to(to);
    acts.move(last);
    frame = requestAnimationFrame(scroll);
  }

  function end(event) {
    const { end: ended } = acts ?? {};
    acts = null;
    isInside = roll.axis.held = false;
    ended?.(event);
  }

  element.addEventListener("pointerdown", (event) => {
    acts = roll.piece && !event.button ? begin(event) : null;
    if (acts) element.setPointerCapture(event.pointerId);
  });
  element.addEventListener("pointermove", (event) => {
    if (!acts) return;
    last = event;
    isInside ||= !past(roll, event);
    roll.axis.held = true; // what plays does not lead away from under a hand
    acts.move(event);
    frame ??= requestAnimationFrame(scroll);
  });
  element.addEventListener("pointerup", end);
  element.addEventListener("pointercancel", end);
}
