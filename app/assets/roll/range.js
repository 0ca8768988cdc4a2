// Dispatches presses on a roll: moving the end of the prompt, editing notes, editing the plan, or selecting bars, by touch
// only on the ruler. A press without a drag seeks.
import { barAt, barCount, lineNear } from "../music/piece.js";
import { bending } from "./plan.js";

const SLOP = 6; // pixels that a pointer may move without dragging

// A drag, during which playback does not scroll the view. `begin` is given a press and returns the handlers of the drag, {move(event), end(event)}, or nothing to ignore it.
function onDrag(roll, element, begin) {
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

// Drags the line at the end of the prompt; a slider of the settings does the same by keys.
export function dragPrompt(roll) {
  const pick = (event) => {
    const bars = Math.max(1, lineNear(roll.piece, roll.tickAt(event)));
    if (bars === roll.bars) return;
    roll.choose(bars);
    roll.acts.choose?.(bars);
  };
  onDrag(roll, roll.line, () => ({ move: pick }));
}

export function dragRange(roll) {
  const { canvas } = roll;
  onDrag(roll, canvas, (event) => {
    const { hand } = roll.acts,
      place = roll.placeAt(event);
    canvas.focus({ preventScroll: true });
    if (hand?.on && place.part === "notes") return hand.down(event, place);
    const bends = place.part === "plan" && bending(roll, event);
    if (bends) return bends;
    const scrolls = event.pointerType === "touch" && place.part !== "ruler";
    return scrolls ? null : choosing(roll, event);
  });
  listenForTaps(roll);
}

function choosing(roll, begun) {
  const from = roll.tickAt(begun);
  let moved = false;
  return {
    move(event) {
      moved ||= Math.abs(event.clientX - begun.clientX) >= SLOP;
      const [low, high] = [from, roll.tickAt(event)].sort((a, b) => a - b),
        bars = barCount(roll.piece),
        first = barAt(roll.piece, low),
        stop = Math.max(first + 1, Math.min(bars, barAt(roll.piece, high) + 1));
      if (!moved || first >= bars) return;
      if (roll.range?.first !== first || roll.range?.stop !== stop) roll.select({ first, stop });
    },
    end: (event) => moved || event.type !== "pointerup" || press(roll, event),
  };
}

function press(roll, event) {
  if (roll.range) roll.select(null);
  roll.acts.seek?.(Math.min(roll.tickAt(event), roll.piece.lines.at(-1)));
}

function listenForTaps(roll) {
  const { canvas } = roll,
    partOf = (event) => roll.placeAt(event).part;
  canvas.addEventListener("click", (event) => {
    const taps = event.pointerType === "touch" && !roll.acts.hand?.on;
    if (taps && partOf(event) !== "ruler") press(roll, event);
  });
  // By touch, a drag on the ruler selects and elsewhere scrolls.
  const drags = (event) => {
    const part = partOf(event.touches[0]),
      bends = part === "plan" && roll.acts.bend;
    if (part === "ruler" || bends || roll.acts.hand?.on) event.preventDefault();
  };
  canvas.addEventListener("touchstart", drags, { passive: false });
}
