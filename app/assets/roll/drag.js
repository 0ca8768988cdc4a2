// Drags over a roll, during which playback does not scroll the view.

// `begin` is given a press and returns the handlers of the drag, {move(event), end(event)}, or nothing to ignore it.
export function onDrag(roll, element, begin) {
  let acts = null;

  function end(event) {
    acts?.end?.(event);
    acts = null;
    roll.axis.held = false;
  }

  element.addEventListener("pointerdown", (event) => {
    acts = roll.piece && !event.button ? begin(event) : null;
    if (acts) element.setPointerCapture(event.pointerId);
  });
  element.addEventListener("pointermove", (event) => {
    if (!acts) return;
    roll.axis.held = true;
    acts.move(event);
  });
  element.addEventListener("pointerup", end);
  element.addEventListener("pointercancel", end);
}
