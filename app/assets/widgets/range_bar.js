// What can be done with the bars that are chosen on a roll.
import { barCount, noteCount } from "../music/piece.js";
import { able, action, icon, isAble, make, passFocus } from "./parts.js";

export function rangeBar(app, roll, entryOf) {
  const words = make("span", "mg-range-words"),
    why = make("span", "mg-why");
  const acts = {};
  const add = (name, text, more) => {
    acts[name] = action(text, () => {
      why.textContent = "";
      if (!isAble(acts[name])) return (why.textContent = acts[name].title);
      const { range } = roll,
        from = document.activeElement;
      if (name !== "loop") leave();
      try {
        app.bars(entryOf().id, name, range, more?.());
      } catch (error) {
        roll.select(range); // to be tried again
        from.focus();
        app.fail(error.message);
      }
    });
    return acts[name];
  };
  const leave = () => (passFocus(box, roll.canvas), roll.select(null));
  const typed = make("input", "mg-chord", "", {
    type: "text",
    placeholder: "Am7",
    ariaLabel: "A chord for this bar",
    maxLength: 12,
    spellcheck: false,
  });
  typed.addEventListener(
    "keydown",
    (event) => event.key === "Enter" && (event.preventDefault(), acts.chord.click()),
  );
  const sets = add("chord", "Set chord", () => typed.value),
    chord = make("span", "mg-chord-box", [typed, sets]);
  const all = [
    words,
    add("anew", "Rewrite"),
    add("on", "Continue from here"),
    add("end", "Cut after this"),
    add("loop", "Loop"),
    add("delete", "Delete"),
    chord,
    icon("close", "Clear selection", leave),
    why,
  ];
  const box = make("div", "mg-range-bar", all, { hidden: true, role: "group" });
  acts.anew.classList.add("mg-new");

  function show(range) {
    box.hidden = !range;
    if (!range) return;
    const { first, stop } = range,
      { piece, state } = entryOf(),
      one = stop - first === 1,
      bars = one ? `bar ${stop}` : `bars ${first + 1}–${stop}`;
    if (words.textContent.toLowerCase() !== bars) why.textContent = "";
    words.textContent = bars[0].toUpperCase() + bars.slice(1);
    box.ariaLabel = `What to do with ${bars}`;
    // Of bars that are yet to come nothing can be kept, and they have their place already.
    const busy = app.composer.busy && "Something is being composed; press Stop first.",
      empty = !noteCount(piece) && "There are no notes yet to go by.",
      growing =
        state === "running" &&
        "This is still being written; press Stop first, or wait for its end.",
      last = stop >= barCount(piece) && "The piece ends here already.";
    const { infill: lacks = false } = app.model.lacks;
    able(acts.anew, `Rewrite ${bars}; everything else stays.`, lacks, empty, busy);
    able(acts.on, `Go on after bar ${stop}`, busy);
    able(acts.end, `The piece ends with bar ${stop}`, growing, last);
    able(acts.delete, `Take ${bars} out; what follows moves up`, growing);
    able(acts.chord, "", growing);
    // Why something cannot be done stays until it can: a take that is being written is shown again with every note.
    if (!Object.values(acts).some((one) => !isAble(one) && one.title === why.textContent))
      why.textContent = "";
    chord.hidden = !one;
  }
  return Object.assign(box, { show, typeChord: () => (typed.focus(), typed.select()) });
}
