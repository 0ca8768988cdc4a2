// The actions for the bars selected on a roll.
import { barCount, noteCount } from "../music/piece.js";
import { able, action, barsLabel, icon, make, passFocus } from "./parts.js";

const ACTS = {
  rewrite: "Rewrite",
  continue: "Continue from here",
  end: "Cut after this",
  loop: "Loop",
  delete: "Delete",
};
const BUSY = "The model is composing; press Stop first.";
const GROWING = "This take is still being written; press Stop or wait until it ends.";

// Label each action with what it would do to the bars, or why it is not possible.
function showActs(acts, { model, composer }, { piece, state }, { first, stop }) {
  // While a take is being written, its bars can be neither cut nor deleted.
  const busy = composer.busy && BUSY,
    growing = state === "running" && GROWING,
    empty = !noteCount(piece) && "There are no notes to work from yet.",
    last = stop >= barCount(piece) && "The piece already ends here.",
    all = last && !first && "These are all the bars of the piece; open another piece instead.";
  const { infill: lacks = false } = model.lacks,
    bars = barsLabel({ first, stop });
  able(acts.rewrite, `Rewrite ${bars}; everything else stays as it is`, lacks, empty, busy);
  able(acts.continue, `Continue after bar ${stop}`, busy);
  able(acts.end, `End the piece after bar ${stop}`, growing, last);
  able(acts.delete, `Delete ${bars}; later bars move forward`, growing, all);
}

export function rangeBar(app, roll, entryOf) {
  const words = make("span", "mg-range-words");
  const leave = () => (passFocus(box, roll.canvas), roll.select(null));
  function press(name) {
    const { range } = roll;
    if (name !== "loop") leave();
    app.bars(entryOf().id, name, range);
  }
  const acts = {};
  for (const [name, text] of Object.entries(ACTS)) acts[name] = action(text, () => press(name));
  acts.rewrite.classList.add("mg-new");
  const clear = icon("close", "Clear selection", leave),
    within = [words, ...Object.values(acts), clear],
    box = make("div", "mg-range-bar", within, { hidden: true, role: "group" });

  function show(range) {
    box.hidden = !range;
    if (!range) return;
    const bars = barsLabel(range);
    words.textContent = bars[0].toUpperCase() + bars.slice(1);
    box.ariaLabel = `Actions for ${bars}`;
    showActs(acts, app, entryOf(), range);
  }
  return Object.assign(box, { show });
}
