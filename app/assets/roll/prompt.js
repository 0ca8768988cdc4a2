// The line where the prompt ends: dragged, or moved by keys.
import { barCount, lineNear } from "../music/piece.js";

export function dragPrompt(roll) {
  const { line: end } = roll;
  const pick = (bars) => {
    const within = Math.min(barCount(roll.piece), Math.max(1, bars));
    if (within === roll.bars) return;
    roll.choose(within);
    roll.acts.choose?.(within);
  };
  end.addEventListener("pointerdown", (event) => {
    end.setPointerCapture(event.pointerId);
    end.onpointermove = (moved) => pick(lineNear(roll.piece, roll.tickAt(moved)));
    event.preventDefault();
    end.focus();
  });
  for (const over of ["pointerup", "pointercancel"]) end.addEventListener(over, () => (end.onpointermove = null));
  end.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -4, PageUp: 4 }[event.key];
    const to = event.key === "Home" ? 1 : event.key === "End" ? barCount(roll.piece) : step && roll.bars + step;
    if (!to) return;
    event.preventDefault();
    event.stopPropagation();
    pick(to);
  });
}
