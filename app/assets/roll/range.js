// Dispatches presses on a roll: moving the end of the prompt, editing notes, editing the plan, selecting tracks at their heads,
// or selecting bars, by touch only on the ruler. A press without a drag seeks, on the chords lets them be typed, and on the
// ruler, by touch, selects a bar.
import { barAt, barCount, lineNear } from "../music/piece.js";
import { RULER, rulerOf } from "./paint.js";
import { bending } from "./plan.js";
import { shading } from "./velocity.js";

const SLOP = 6; // pixels that a pointer may move without dragging

// Playback does not scroll the view during a drag.
export function listenForDrags(roll) {
  const { canvas } = roll;
  let acts = null; // the handlers of the drag: {move(event), end(event)}

  function end(event) {
    acts?.end?.(event);
    acts = null;
    roll.axis.held = false;
  }

  canvas.addEventListener("pointerdown", (event) => {
    acts = roll.piece && !event.button ? dragOf(roll, event) : null;
    if (acts) canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!acts) return void canvas.classList.toggle("mg-resizes", resizes(roll, event));
    roll.axis.held = true;
    acts.move(event);
  });
  canvas.addEventListener("pointerup", end);
  canvas.addEventListener("pointercancel", end);
  listenForTaps(roll);
}

// Whether a drag from here would move the end of the prompt or of a note.
function resizes(roll, event) {
  if (!roll.piece) return false;
  const place = roll.placeAt(event);
  return place.part === "end" || Boolean(roll.acts.hand?.resizes(event, place));
}

// The handlers of a drag that begins with a press, or nothing if it is none.
function dragOf(roll, event) {
  const { hand } = roll.acts,
    place = roll.placeAt(event);
  roll.canvas.focus({ preventScroll: true });
  if (place.part === "end") return movingEnd(roll, event);
  if (hand?.on && place.part === "notes") return hand.down(event, place);
  if (place.part === "velocity") return shading(roll, event);
  if (place.part === "track" && event.pointerType !== "touch") return picking(roll, place.lane);
  const bends = place.part === "plan" && bending(roll, event);
  if (bends) return bends;
  const scrolls = event.pointerType === "touch" && !["ruler", "chords"].includes(place.part);
  return scrolls ? null : choosing(roll, event);
}

// Select a track at its head, and those over which the pointer is dragged.
function picking(roll, lane) {
  const over = new Set();
  function reach({ index }) {
    if (!over.has(index)) roll.pick(index);
    over.add(index);
  }
  return {
    move: (event) => reach(roll.placeAt(event).lane ?? lane),
    end: (event) => event.type === "pointerup" && reach(lane),
  };
}

// Move the end of the prompt; next to it, a touch without a drag is one of the ruler.
function movingEnd(roll, begun) {
  const drag = choosing(roll, begun);
  let moved = false;
  return {
    move: (event) => ((moved ||= isDrag(begun, event)), moved && moveEnd(roll, event)),
    end: (event) => moved || !isOnNumber(roll, event) || drag.end(event),
  };
}

// A slider of the settings does the same by keys.
function moveEnd(roll, event) {
  const bars = Math.max(1, lineNear(roll.piece, roll.tickAt(event)));
  if (bars === roll.bars) return;
  roll.choose(bars);
  roll.acts.choose?.(bars);
}

const isDrag = (begun, { clientX }) => Math.abs(clientX - begun.clientX) >= SLOP;

// Whether a touch is on a number of the ruler.
function isOnNumber(roll, event) {
  const y = roll.yAt(event),
    ruler = rulerOf(roll);
  return event.pointerType === "touch" && y >= ruler - RULER && y < ruler;
}

function choosing(roll, begun) {
  const from = roll.tickAt(begun);
  let moved = false;
  return {
    move(event) {
      moved ||= isDrag(begun, event);
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
  if (isOnNumber(roll, event)) return pressNumber(roll, event);
  if (roll.placeAt(event).part === "chords") return pressChord(roll, event);
  if (roll.range) roll.select(null);
  roll.acts.seek?.(Math.min(roll.tickAt(event), roll.piece.lines.at(-1)));
}

const barUnder = (roll, event) =>
  Math.min(barCount(roll.piece) - 1, barAt(roll.piece, roll.tickAt(event)));

// Select a bar, or no longer.
function pressNumber(roll, event) {
  const first = barUnder(roll, event),
    { range } = roll,
    isSelected = range && first >= range.first && first < range.stop;
  roll.select(isSelected ? null : { first, stop: first + 1 });
}

// Select the bar of a chord, or keep the selected bars around it, to type its chords.
function pressChord(roll, event) {
  const first = barUnder(roll, event),
    { range } = roll;
  if (!range || first < range.first || first >= range.stop) roll.select({ first, stop: first + 1 });
  roll.acts.chord();
}

function listenForTaps(roll) {
  const { canvas } = roll,
    partOf = (event) => roll.placeAt(event).part;
  canvas.addEventListener("click", (event) => {
    const taps = event.pointerType === "touch" && !roll.acts.hand?.on,
      { part, lane } = roll.placeAt(event);
    if (taps && part === "track") roll.pick(lane.index);
    else if (taps && !["ruler", "chords", "end"].includes(part)) press(roll, event);
  });
  // By touch, a drag on the ruler selects and elsewhere scrolls.
  const drags = (event) => {
    const part = partOf(event.touches[0]),
      bends = part === "plan" && roll.acts.bend;
    if (["ruler", "chords", "end"].includes(part) || bends || roll.acts.hand?.on)
      event.preventDefault();
  };
  canvas.addEventListener("touchstart", drags, { passive: false });
}
