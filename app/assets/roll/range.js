// Bars chosen by dragging over a roll, or over its ruler with a finger; a press without a drag goes there.
import { barAt, barCount } from "../music/piece.js";
import { EdgeScroll } from "./edge.js";

const SLOP = 6; // pixels a press may move and still be one

export function dragRange(roll) {
  const { canvas } = roll;
  let begun = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (!roll.piece || event.button) return;
    const place = roll.placeAt(event);
    canvas.focus({ preventScroll: true });
    if (roll.acts.hand?.on && place.part === "notes") return roll.acts.hand.down(event, place);
    if (event.pointerType === "touch" && place.part !== "ruler") return; // a finger on the notes scrolls
    begun = {
      x: event.clientX,
      tick: roll.tickAt(event),
      place,
      touch: event.pointerType === "touch",
    };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const { hand } = roll.acts;
    if (!begun && !hand?.moving) return hand?.on && roll.piece && hand.hover(event);
    if (begun && !begun.moved && Math.abs(event.clientX - begun.x) < SLOP) return;
    if (begun) begun.moved = true;
    drag(event);
    edge.at(event);
  });
  const drag = (event) => {
    if (roll.acts.hand?.moving) return roll.acts.hand.move(event);
    const tick = roll.tickAt(event),
      [from, to] = [begun.tick, tick].sort((a, b) => a - b);
    const first = barAt(roll.piece, from),
      stop = Math.max(first + 1, Math.min(barCount(roll.piece), barAt(roll.piece, to) + 1));
    if (first >= barCount(roll.piece)) return;
    if (roll.range?.first !== first || roll.range?.stop !== stop) roll.select({ first, stop });
  };
  const edge = new EdgeScroll(roll, drag);
  const over = (event) => {
    edge.stop();
    if (roll.acts.hand?.moving) return roll.acts.hand.up(event);
    const was = begun;
    begun = null;
    if (was && !was.moved && event.type === "pointerup") press(event);
  };
  const press = (event) => {
    if (roll.range) roll.select(null);
    roll.acts.seek?.(Math.min(roll.tickAt(event), roll.piece.lines.at(-1)));
  };
  canvas.addEventListener("pointerup", over);
  canvas.addEventListener("pointercancel", over);
  listenForTaps(roll, press);
}

function listenForTaps(roll, press) {
  const { canvas } = roll;
  canvas.addEventListener(
    "click",
    (event) =>
      event.pointerType === "touch" &&
      !roll.acts.hand?.on &&
      roll.placeAt(event).part !== "ruler" &&
      press(event),
  );
  canvas.addEventListener("dblclick", (event) => {
    const { part } = roll.placeAt(event);
    if (part === "chords" || part === "ruler")
      roll.acts.chord?.(Math.min(barCount(roll.piece) - 1, barAt(roll.piece, roll.tickAt(event))));
  });
  // A finger on the ruler chooses; elsewhere it scrolls.
  canvas.addEventListener(
    "touchstart",
    (event) => {
      const touch = event.touches[0];
      const { part } = roll.placeAt(touch),
        bends = part === "plan" && roll.acts.bend;
      if (part === "ruler" || bends || roll.acts.hand?.on) event.preventDefault();
    },
    { passive: false },
  );
}
