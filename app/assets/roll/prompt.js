// The line where the prompt ends: dragged, or moved by keys.
import { barCount, lineNear } from "../music/piece.js";
import { EdgeScroll } from "./edge.js";

export function dragPrompt(roll) {
  const { line: end } = roll;
  const pick = (bars) => {
    const within = Math.min(barCount(roll.piece), Math.max(1, bars));
    if (within === roll.bars) return;
    roll.choose(within);
    roll.acts.choose?.(within);
  };
  const drag = (event) => pick(lineNear(roll.piece, roll.tickAt(event))),
    edge = new EdgeScroll(roll, drag);
  end.addEventListener("pointerdown", (event) => {
    end.setPointerCapture(event.pointerId);
    end.onpointermove = (moved) => (drag(moved), edge.at(moved));
    event.preventDefault();
    end.focus();
  });
  for (const over of ["pointerup", "pointercancel"])
    end.addEventListener(over, () => ((end.onpointermove = null), edge.stop()));
  end.addEventListener("keydown", (event) => {
    const step = {
      ArrowLeft: -1,
      ArrowDown: -1,
      ArrowRight: 1,
      ArrowUp: 1,
      PageDown: -4,
      PageUp: 4,
    }[event.key];
    const to =
      event.key === "Home"
        ? 1
        : event.key === "End"
          ? barCount(roll.piece)
          : step && roll.bars + step;
    if (!to) return;
    event.preventDefault();
    event.stopPropagation();
    pick(to);
  });
}
