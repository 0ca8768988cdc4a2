// What can be done with the bars that are chosen on a roll.
import { barCount, noteCount } from "../music/piece.js";
import { able, action, barsSaid, icon, isAble, make, passFocus } from "./parts.js";

const ACTS = {
  anew: "Rewrite",
  on: "Continue from here",
  end: "Cut after this",
  loop: "Loop",
  delete: "Delete",
  chord: "Set chord",
};
const BUSY = "The model is composing; press Stop first.";
const GROWING = "This take is still being written; press Stop or wait until it ends.";

// Say of each act what it does with the bars, or why it cannot be done.
function showActs(acts, { model, composer }, { piece, state }, { first, stop }, bars) {
  // Of bars that are yet to come nothing can be kept, and they have their place already.
  const busy = composer.busy && BUSY,
    growing = state === "running" && GROWING,
    empty = !noteCount(piece) && "There are no notes to work from yet.",
    last = stop >= barCount(piece) && "The piece already ends here.";
  const { infill: lacks = false } = model.lacks;
  able(acts.anew, `Rewrite ${bars}; everything else stays as it is`, lacks, empty, busy);
  able(acts.on, `Continue after bar ${stop}`, busy);
  able(acts.end, `End the piece after bar ${stop}`, growing, last);
  able(acts.delete, `Delete ${bars}; later bars move up`, growing);
  able(acts.chord, "", growing);
  acts.chord.parentElement.hidden = stop - first > 1;
}

function chordField() {
  return make("input", "mg-chord", "", {
    type: "text",
    placeholder: "Am7",
    ariaLabel: "Chord for this bar",
    maxLength: 12,
    spellcheck: false,
  });
}

export function rangeBar(app, roll, entryOf) {
  const words = make("span", "mg-range-words"),
    why = make("span", "mg-why"),
    typed = chordField();
  const leave = () => (passFocus(box, roll.canvas), roll.select(null));
  function press(name) {
    why.textContent = isAble(acts[name]) ? "" : acts[name].title;
    if (why.textContent) return;
    const { range } = roll,
      from = document.activeElement;
    if (name !== "loop") leave();
    try {
      app.bars(entryOf().id, name, range, typed.value);
    } catch (error) {
      roll.select(range); // to be tried again
      from.focus();
      app.fail(error.message);
    }
  }
  const acts = {};
  for (const [name, text] of Object.entries(ACTS)) acts[name] = action(text, () => press(name));
  acts.anew.classList.add("mg-new");
  typed.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    press("chord");
  });
  const { chord: set, ...others } = acts,
    chord = make("span", "mg-chord-box", [typed, set]),
    clear = icon("close", "Clear selection", leave),
    within = [words, ...Object.values(others), chord, clear, why],
    box = make("div", "mg-range-bar", within, { hidden: true, role: "group" });

  function show(range) {
    box.hidden = !range;
    if (!range) return;
    const bars = barsSaid(range);
    if (words.textContent.toLowerCase() !== bars) why.textContent = "";
    words.textContent = bars[0].toUpperCase() + bars.slice(1);
    box.ariaLabel = `Actions for ${bars}`;
    showActs(acts, app, entryOf(), range, bars);
    // Why something cannot be done stays until it can: a take that is being written is shown again with every note.
    if (!Object.values(acts).some((one) => !isAble(one) && one.title === why.textContent))
      why.textContent = "";
  }
  return Object.assign(box, { show, typeChord: () => (typed.focus(), typed.select()) });
}
