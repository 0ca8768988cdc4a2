// The plan on a roll: a lane at the bottom with curves of density, register and loudness and the letters of the form. The
// chosen curve can be edited over the bars to be written.
import { barAt, barCount } from "../music/piece.js";
import { CURVES, PHRASE, heightOf, planOf, sectionsOf, valueAt } from "../music/plan.js";

const LETTERS = 18; // pixels of height of the letters
const CURVED = 62; // pixels of height of the curves
const EDGE = 6; // pixels of margin above and below the curves
const LANE = LETTERS + CURVED;
const DASHES = { solid: [], dashed: [6, 3], dotted: [2, 3] };

export const laneOf = (roll) => (roll.plan ? LANE : 0);

// The bar lines, including those of bars to be written.
export const linesOf = (roll) => roll.plan?.lines ?? roll.piece.lines;

// The number of bars with a plan: of a take that is being written, the finished ones.
const knownOf = ({ roll, piece }) => roll.plan.known ?? barCount(piece);

const heightIn = (curve, value, bottom) =>
  bottom - EDGE - heightOf(curve, value) * (CURVED - 2 * EDGE);

// The points of a curve, null for bars without a value.
function pointsOf({ roll, x, height }, curve, values, first, stop) {
  const lines = linesOf(roll);
  const points = [];
  for (let bar = first; bar < stop; bar++) {
    const middle = (x(lines[bar]) + x(lines[bar + 1])) / 2,
      value = values[bar] ?? null;
    points.push(value === null ? null : [middle, heightIn(curve, value, height)]);
  }
  return points;
}

function stroke(pen, points) {
  pen.beginPath();
  let before = null;
  for (const point of points) {
    if (point && before) pen.lineTo(...point);
    else if (point) pen.moveTo(...point);
    before = point;
  }
  pen.stroke();
}

function dot(pen, colour, [x, y], radius) {
  pen.fillStyle = colour;
  pen.beginPath();
  pen.arc(x, y, radius, 0, 7);
  pen.fill();
}

function paintCurve(on, curve, shown, first, stop) {
  const { pen, ink, roll } = on;
  const { goals, curve: chosen } = roll.plan;
  const strong = chosen === curve;
  const colour = ink[CURVES[curve].colour];
  pen.strokeStyle = colour;
  pen.lineWidth = strong ? 2.5 : 1.5;
  const points = pointsOf(on, curve, shown[curve], first, Math.min(stop, knownOf(on)));
  pen.setLineDash(DASHES[CURVES[curve].line]);
  stroke(pen, points);
  pen.setLineDash([]);
  for (const point of points.filter(Boolean)) dot(pen, colour, point, strong ? 2.5 : 1.5);
  const asked = Array.from({ length: stop }, (_, bar) => goals[bar]?.[curve]);
  for (const point of pointsOf(on, curve, asked, first, stop).filter(Boolean)) {
    const radius = strong ? 5.5 : 4; // of a ring
    dot(pen, colour, point, radius);
    dot(pen, ink.ground, point, radius - 2);
  }
}

// Paint the letter of each section in a box over its bars.
function paintLetters({ pen, ink, roll, x, height, gutter }, letters, known) {
  const top = height - LANE + 2;
  const lines = linesOf(roll);
  for (const { letter, first, stop } of sectionsOf(letters, roll.plan.asked)) {
    if (first >= known) continue;
    const from = x(lines[first]),
      to = x(lines[Math.min(stop, known)]);
    if (!letter || to - from < 10) continue;
    pen.fillStyle = ink.line;
    pen.beginPath();
    pen.roundRect(from + 1, top, to - from - 2, LETTERS - 3, 3);
    pen.fill();
    pen.fillStyle = ink.ink;
    const middle = (Math.max(from, gutter) + to) / 2 - pen.measureText(letter).width / 2;
    pen.fillText(letter, middle, top + LETTERS / 2 - 1);
  }
}

// Shade the bars that Continue will write.
function paintNext({ pen, ink, roll, x, top, height }) {
  const { next } = roll.plan;
  if (!next) return;
  const lines = linesOf(roll);
  const [from, to] = [next.first, next.stop].map((bar) => x(lines[bar]));
  pen.fillStyle = ink["new-0"];
  pen.globalAlpha = 0.09;
  pen.fillRect(from, top, to - from, height - top);
  pen.globalAlpha = 1;
}

export function paintPlan(on) {
  const { pen, ink, roll, piece, x, from, to, gutter, width, height } = on;
  if (!roll.plan) return;
  const lines = linesOf(roll);
  const first = Math.max(0, barAt({ lines }, from) - 1);
  const stop = Math.min(lines.length - 1, barAt({ lines }, to) + 2);
  const shown = planOf(piece);
  pen.fillStyle = ink.ground;
  pen.fillRect(gutter, height - LANE, width, LANE);
  paintNext(on);
  pen.fillStyle = ink["line-strong"];
  pen.fillRect(gutter, height - LANE - 1, width, 1);
  pen.fillStyle = ink.line;
  for (let bar = first; bar <= stop; bar++)
    if (x(lines[1]) - x(0) > 8 || bar % PHRASE === 0)
      pen.fillRect(Math.round(x(lines[bar])), height - CURVED, 1, CURVED);
  paintLetters(on, shown.letters, knownOf(on));
  const isChosen = (curve) => curve === roll.plan.curve,
    order = Object.keys(CURVES).sort((a, b) => isChosen(a) - isChosen(b)); // the chosen one on top
  for (const curve of order) paintCurve(on, curve, shown, first, stop);
  pen.lineWidth = 1;
}

// Paint the labels at the left edge of the lane.
export function paintPlanNames({ pen, ink, roll, height }) {
  if (!roll.plan) return;
  pen.fillStyle = ink.faint;
  pen.fillText("Form", 4, height - LANE + LETTERS / 2 + 1);
  pen.fillText("Plan", 4, height - CURVED / 2);
}

// Edit the chosen curve: a press sets the goal of a bar, a drag those of all bars that it crosses. Null if the bar cannot be
// edited.
export function bending(roll, event) {
  let last = null;
  const barOf = (at) => {
    const lines = linesOf(roll);
    return Math.min(lines.length - 2, barAt({ lines }, roll.tickAt(at)));
  };
  const { view } = roll,
    footOf = () => view.getBoundingClientRect().top + view.clientTop + view.clientHeight;
  const move = (at) => {
    const bar = barOf(at),
      way = Math.sign(bar - (last ?? bar)),
      bars = [bar]; // and those that a fast drag skipped
    for (let over = bar - way; way && over !== last; over -= way) bars.unshift(over);
    const value = valueAt(roll.plan.curve, (footOf() - EDGE - at.clientY) / (CURVED - 2 * EDGE));
    roll.acts.bend(bars.filter(roll.plan.isOpen), value);
    last = bar;
  };
  if (event.clientY < footOf() - CURVED || !roll.acts.bend) return null; // on the letters of the form
  if (!roll.plan.isOpen(barOf(event))) return null;
  move(event);
  return { move };
}
