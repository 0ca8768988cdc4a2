// The velocities of the notes that are edited, in a lane below them: a drag sets those of the chosen notes, or of all.
import { shaded } from "../music/edits.js";
import { WIDTH, firstFrom } from "../music/piece.js";
import { laneOf } from "./plan.js";

const HIGH = 56,
  EDGE = 5,
  NEAR = 4; // pixels: of height, margin, and from a pointer to a note

const velocitiesOf = (roll) => (roll.acts.hand?.on ? HIGH : 0);

// The height of the lanes below the notes.
export const below = (roll) => laneOf(roll) + velocitiesOf(roll);

// Call `act` with the index and the numbers of each note of the lane that begins between two ticks.
function eachNote({ piece: { notes }, chosenNotes }, from, to, act) {
  for (let i = firstFrom(notes, from); i < notes.length && notes[i] <= to; i += WIDTH)
    if (!chosenNotes.size || chosenNotes.has(i / WIDTH))
      act(i / WIDTH, notes.subarray(i, i + WIDTH));
}

export function paintVelocities({ pen, ink, roll, x, from, to, gutter, width, height }) {
  if (!velocitiesOf(roll)) return;
  const foot = height - laneOf(roll);
  pen.fillStyle = ink.ground;
  pen.fillRect(gutter, foot - HIGH, width, HIGH);
  pen.fillStyle = ink["line-strong"];
  pen.fillRect(gutter, foot - HIGH, width, 1);
  eachNote(roll, from, to, (_, [onset, , , velocity, track]) => {
    const tall = EDGE + (velocity / 127) * (HIGH - 2 * EDGE);
    pen.fillStyle = ink[`${roll.isNew(onset, track) ? "new" : "given"}-${track % 3}`];
    pen.fillRect(x(onset), foot - tall, 2, tall);
    pen.fillRect(x(onset) - 1, foot - tall, 5, 4);
  });
}

export function paintVelocityName({ pen, ink, roll, height }) {
  if (!velocitiesOf(roll)) return;
  pen.fillStyle = ink.faint;
  pen.fillText("Velocity", 4, height - laneOf(roll) - HIGH / 2);
}

// The handlers of a drag that sets velocities.
export function shading(roll, begun) {
  const { piece: before, view } = roll,
    reach = (NEAR * before.ticksPerBeat) / roll.beatWidth,
    foot = view.clientHeight - laneOf(roll) - EDGE,
    loud = new Map(); // by index
  let last = roll.tickAt(begun);
  const move = (event) => {
    const tick = roll.tickAt(event),
      velocity = Math.round((127 * (foot - roll.yAt(event))) / (HIGH - 2 * EDGE));
    const set = (index) => loud.set(index, velocity);
    eachNote(roll, Math.min(last, tick) - reach, Math.max(last, tick) + reach, set);
    last = tick;
    roll.piece = shaded(before, loud); // a preview until the drag ends
    roll.draw();
  };
  move(begun);
  return { move, end: () => ((roll.piece = before), roll.acts.hand.shade(loud)) };
}
