// The line at the end of the prompt: dragged, or moved by keys.
import { barCount, lineNear } from "../music/piece.js";
import { onDrag } from "./drag.js";

const STEPS = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -4, PageUp: 4 };

export function dragPrompt(roll) {
  const { line } = roll;
  const pick = (bars) => {
    const within = Math.min(barCount(roll.piece), Math.max(1, bars));
    if (within === roll.bars) return;
    roll.choose(within);
    roll.acts.choose?.(within);
  };
  onDrag(roll, line, (event) => {
    event.preventDefault();
    line.focus();
    return { move: (moved) => pick(lineNear(roll.piece, roll.tickAt(moved))) };
  });
  line.addEventListener("keydown", (event) => {
    const ends = { Home: 1, End: barCount(roll.piece) };
    const to = ends[event.key] ?? roll.bars + STEPS[event.key];
    if (Number.isNaN(to)) return;
    event.preventDefault();
    event.stopPropagation();
    pick(to);
  });
}
