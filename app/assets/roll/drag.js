// Drags over a roll. At the edge of the view and beyond, a drag scrolls, faster with distance.
const NEAR = 18; // pixels inside the edge that scroll
const SLOW = 3,
  STEEP = 0.35,
  FAST = 60; // pixels per frame: at the edge, more per pixel beyond it, and at most

// How far a pointer is beyond the edges of the view, in pixels; 0 between them.
function overshoot({ view, gutter }, event) {
  const x = event.clientX - view.getBoundingClientRect().left - view.clientLeft;
  const from = gutter + NEAR;
  return x < from ? x - from : Math.max(0, x - (view.clientWidth - NEAR));
}

// `begin` is given a press and returns the handlers of the drag, {move(event), end(event)}, or nothing to ignore it.
export function onDrag(roll, element, begin) {
  let acts = null,
    last = null, // where the pointer is
    isInside = false, // a drag that starts at an edge scrolls only after it has been inside or gone far beyond
    frame = null;

  function scroll() {
    frame = null;
    const { view, axis } = roll,
      far = acts ? overshoot(roll, last) : 0;
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
    isInside ||= !overshoot(roll, event);
    roll.axis.held = true; // so that playback does not scroll the view during the drag
    acts.move(event);
    frame ??= requestAnimationFrame(scroll);
  });
  element.addEventListener("pointerup", end);
  element.addEventListener("pointercancel", end);
}
