// The menus "Add part" and "Harmonise": parts to write to those of the piece, as takes.
import { tracksWithNotes } from "../music/heard.js";
import { able, action, check, field, make, menu, suggest, write } from "./parts.js";

// The names for the server, where a plus adds a part even if the piece has one like it, and for the page.
const USUAL = [
  ["drums", "Drums"],
  ["+bass", "Bass"],
  ["chords", "Chord symbols"],
  ["+strings", "Strings"],
  ["+piano", "Piano"],
  ["+guitar", "Guitar"],
];
const HARMONIES = [
  ["chords", "Chord symbols"],
  ["+piano", "A part for piano"],
  ["+nylon guitar", "A part for guitar"],
];
const OTHERS = "Other chord symbols"; // than those of a piece in which all are given
const NONE = "There are no notes to write parts to yet.";
const ONLY_DRUMS = "There are only drums, which have no chords.";
const DRUMS = "The piece has drums; “Tracks” rewrites them.";
const ABOUT = "Each take has all chosen parts; the others stay as they are.";

// A menu whose button says why it is not possible; `lack` gives one more reason for a piece, or false.
function jobMenu(app, name, title, items, lack = () => false) {
  const box = menu(name, items, "mg-jobs"),
    [button] = box.children;
  const show = () => {
    const { current } = app.desk,
      empty = !current?.piece.notes.length && NONE,
      reasons = [empty, !empty && lack(current.piece), app.composer.why];
    able(button, title, app.model.lacks.accompany ?? false, ...reasons);
    button.popoverTargetElement = button.ariaDisabled === "true" ? null : box.list;
  };
  return Object.assign(box, { show });
}

const drumsOf = (piece) => tracksWithNotes(piece).filter((index) => piece.tracks[index].drum);

// A field for any other instrument, with the list of all; `add` takes its name once it is typed or chosen.
function otherField(app, add) {
  const { instruments } = app.facts,
    hint = { placeholder: "Flute, Banjo, …" },
    box = field("other-part", "Any other instrument", "input", hint);
  suggest(box, instruments);
  // Returns false for a name that is no instrument.
  function take() {
    const { value } = box.input,
      typed = value.trim().toLowerCase(),
      named = (test) => typed && instruments.find((name) => test(name.toLowerCase()));
    const found = named((name) => name === typed) ?? named((name) => name.includes(typed));
    if (typed && !found) return (app.fail(`There is no instrument “${value}”.`), false);
    if (found) add(found);
    box.input.value = "";
    return true;
  }
  return Object.assign(box, { take });
}

export function addMenu(app) {
  const chosen = make("div", "mg-jobs-parts"),
    boxes = () => [...chosen.querySelectorAll("input")],
    add = ([value, text], checked = false) =>
      chosen.append(check(`part-${boxes().length}`, text, { value, checked }));
  for (const one of USUAL) add(one);
  const other = otherField(app, (name) => add([`+${name}`, name], true));
  const begin = () => {
    if (!other.take()) return;
    const parts = boxes().filter((one) => one.checked);
    box.list.hidePopover();
    app.composer.start({ kind: "accompany", parts: parts.map((one) => one.value) });
    for (const one of parts) one.checked = false;
  };
  const go = action("Write", begin, "mg-chip mg-new"),
    words = make("p", "mg-menu-words", ABOUT),
    title = "Write more parts to those of the piece",
    box = jobMenu(app, "Add part", title, [words, chosen, other, go]),
    { show: base } = box;

  function show() {
    base();
    const { piece } = app.desk.current ?? {},
      hasDrums = Boolean(piece && drumsOf(piece).length),
      [drums] = boxes();
    drums.disabled = hasDrums;
    write(words, hasDrums ? `${ABOUT} ${DRUMS}` : ABOUT);
    if (hasDrums) drums.checked = false;
    const isChosen = other.input.value || boxes().some((one) => one.checked);
    able(go, "Write takes with these parts", !isChosen && "Choose a part.");
  }
  chosen.addEventListener("change", show);
  other.addEventListener("input", show);
  // A press elsewhere in the menu ends the typing; a row added before its release would move what is pressed.
  const typed = () => (other.take(), show());
  let pressed = false;
  box.list.addEventListener("mousedown", () => (pressed = true));
  addEventListener("mouseup", () => (pressed = false));
  other.addEventListener("change", () => {
    if (!pressed) return typed();
    addEventListener("mouseup", () => setTimeout(typed), { once: true });
  });
  return Object.assign(box, { show });
}

// Chord symbols keep to those that are given, unless all are.
export function harmoniseMenu(app) {
  const areGiven = () => {
    const { chords } = app.desk.current.piece;
    return chords.length > 0 && !chords.some(([, , isGuess]) => isGuess);
  };
  const begin = (part) =>
    app.composer.start({ kind: "accompany", parts: [part], keepsChords: !areGiven() });
  const items = HARMONIES.map(([part, text]) => action(text, () => begin(part), "mg-item")),
    lack = (piece) => drumsOf(piece).length === tracksWithNotes(piece).length && ONLY_DRUMS,
    box = jobMenu(app, "Harmonise", "Write chords to the piece", items, lack);
  box.list.addEventListener(
    "beforetoggle",
    () => (items[0].textContent = areGiven() ? OTHERS : HARMONIES[0][1]),
  );
  return box;
}
