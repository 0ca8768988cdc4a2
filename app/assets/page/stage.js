// The stage: the piece to work on, the notes on its import, and the ways to open one.
import { barCount, noteCount } from "../music/piece.js";
import { Hand } from "../roll/note_editing.js";
import { addMenu, harmoniseMenu } from "../widgets/add_parts.js";
import { cardParts, zoomButtons } from "../widgets/card.js";
import { mixer } from "../widgets/mixer.js";
import {
  able,
  action,
  byTouch,
  count,
  fold,
  make,
  marked,
  menu,
  options,
  write,
} from "../widgets/parts.js";
import { planShown, planView } from "../widgets/plan_view.js";
import { signsMenu } from "../widgets/signs.js";
import { playIn } from "../widgets/play_in.js";
import { ScoreView } from "../widgets/score_view.js";
import { ideaPart } from "./idea.js";

const KINDS = ".mid,.midi,.kar,audio/midi,.mxl,.musicxml,.xml,.abc,.musicgen";
const HOW =
  "Click to add a note; drag a note to move it, or its right edge to resize it; drag with Shift to select. " +
  "Delete, Ctrl+A, C, X, V; arrows move notes, with Shift by octaves or in length, with Alt in velocity, as in the lane below; Q quantises.";
const HOW_BY_TOUCH =
  "Tap to add a note, or a note to select it; drag it to move it, or its right edge to resize it. " +
  "The bin deletes the selected note; the lane below has velocities.";
const SELECT = "drag to select bars",
  SELECT_BY_TOUCH = "Tap or drag over bar numbers to select bars.";
const NO_NOTES = "Select a note to delete it.";
const GRIDS = [
  [2, "1/8"],
  [3, "1/8 triplet"],
  [4, "1/16"],
  [6, "1/16 triplet"],
  [8, "1/32"],
];
const HIGH = "clamp(240px, 34vh, 380px)";
const HIGHER = "clamp(340px, 52vh, 600px)"; // while editing, so that notes are easier to hit

// The notes on the import, in a fold that is open if something was changed.
function readingNotes() {
  const list = make("ul"),
    box = fold("About your file", "mg-remarks", [list]);
  let noted = null;
  function show(entry) {
    const { notices = [], remarks = [] } = entry ?? {};
    if (noted === notices) return; // as after an edit
    noted = notices;
    list.replaceChildren(
      ...notices.map(({ text }) => make("li", "mg-note", text)),
      ...remarks.map((text) => make("li", "", text)),
    );
    box.hidden = !list.children.length;
    box.open = notices.length > 0;
  }
  return Object.assign(box, { show });
}

// The buttons that switch note editing and delete the selected notes; `changed` is called after each edit.
function pencilFor(app, roll, changed) {
  const edit = (piece, label) => (app.edit(piece, label), changed());
  const touch = (pitch, track) => app.player.touch(pitch, { track });
  const chose = () => able(bin, "Delete the selected notes", !roll.chosenNotes.size && NO_NOTES),
    bin = marked("bin", "Delete notes", () => hand.remove(), "mg-chip mg-of-roll");
  const hand = (roll.acts.hand = new Hand(roll, { edit, touch, chose }));
  bin.show = () => ((bin.hidden = !app.drawing), chose());
  const turn = () => (pencil.switch(!hand.on), app.changed()),
    pencil = marked("pencil", "Edit notes", turn, "mg-chip mg-of-roll");
  pencil.switch = (on) => {
    hand.switch(on);
    app.drawing = on;
    roll.high = on ? HIGHER : HIGH;
    pencil.ariaPressed = on;
    const words = byTouch() ? HOW_BY_TOUCH : HOW;
    if (on) (roll.select(null), app.say(words));
    else if (app.words === words) app.say("");
    if (on && byTouch()) roll.view.scrollIntoView(); // by touch, it no longer scrolls to the buttons below
  };
  pencil.switch(false);
  return { pencil, bin };
}

// The grid of the notes that are drawn, moved, quantised and recorded.
function gridField(app) {
  const { desk } = app,
    of = { name: "grid", ariaLabel: "Grid", title: "The grid for notes" },
    field = make("select", "", options(GRIDS), of);
  field.addEventListener("change", () => desk.set({ grid: Number(field.value) }));
  function show() {
    field.hidden = !app.drawing;
    field.value = desk.settings.grid;
  }
  return Object.assign(field, { show });
}

// The button that opens a file of any kind, and its file input.
function filePicker(app) {
  const of = { type: "file", accept: KINDS, id: "mg-file", ariaLabel: "Open a file", hidden: true },
    picker = (app.picker = make("input", "", "", of));
  picker.addEventListener("change", () => (app.openFile(picker.files[0]), (picker.value = "")));
  return [picker, action("Open…", () => picker.click(), "mg-chip mg-open")];
}

// The menu of what can be opened besides files.
function newMenu(app) {
  const item = (name, text, act) => {
    const made = action(text, act, "mg-item");
    made.dataset.example = name;
    return made;
  };
  const examples = app.facts.examples.map(({ name, title }) =>
    item(name, title, () => app.openExample(name)),
  );
  const items = [
    item("nothing", "New idea", () => app.openNothing()),
    item("grid", "Blank piece", () => app.openGrid()),
    make("p", "mg-menu-words", "Examples"),
    ...examples,
  ];
  return menu("New", items, "mg-new-menu");
}

// The parts of the stage that the cards of takes lack, by name.
function stageParts(app, { roll }, show) {
  const { desk } = app;
  const title = make("h2", "", "…"),
    hint = make("span", "mg-hint", SELECT),
    parts = { hint, title, idea: ideaPart(app), mix: mixer(app), played: playIn(app) };
  parts.signs = signsMenu(app, roll);
  Object.assign(parts, pencilFor(app, roll, show));
  parts.grid = gridField(app);
  parts.score = new ScoreView(app, () => (parts.pencil.switch(false), app.changed()));
  parts.plan = planView(app, roll);
  parts.read = readingNotes();
  parts.zoom = zoomButtons({
    scale: (factor) => (parts.score.on ? parts.score : roll).scale(factor),
  });
  parts.zoom.append(parts.score.toggle, parts.plan.toggle);
  Object.assign(roll.acts, {
    choose: (bars) => desk.choose(bars),
    bend: (bars, value) => parts.plan.bend(bars, value),
  });
  return parts;
}

export function stagePart(app, lanesNow) {
  const { desk } = app;
  const options = { label: "Piano roll of your piece", height: HIGH, prompt: true },
    card = cardParts(app, () => desk.current, options),
    { facts, star, roll, bar, play, menu: save } = card,
    parts = stageParts(app, card, () => show()),
    { hint, title, signs, idea, mix, played, pencil, bin, grid, score, plan, read, zoom } = parts;
  roll.view.classList.add("mg-of-roll");
  app.stageRoll = roll.canvas;
  const hands = make("span", "mg-hands", [star, newMenu(app), ...filePicker(app)]),
    head = make("div", "mg-head", [title, signs, facts, hands]),
    jobs = [addMenu(app), harmoniseMenu(app)],
    actions = make("span", "mg-actions", [grid, bin, ...jobs, pencil, save]),
    foot = make("div", "mg-foot", [play, zoom, hint, actions]),
    folds = make("div", "mg-folds", [mix, played, read]);
  const within = [head, idea, roll.view, score.box, plan.row, bar, foot, folds],
    box = make("section", "mg-card mg-stage", within, { ariaLabel: "Your piece" });

  function show() {
    const entry = desk.current,
      opens = !entry && !desk.past.length && app.underWay; // the first piece
    for (const part of [facts, star, foot]) part.hidden = !entry;
    for (const part of [signs, idea, plan, score, mix, played, grid, ...jobs]) part.show();
    read.show(entry);
    roll.view.hidden = !entry && !opens;
    if (opens) idea.hidden = true;
    title.textContent = title.title = entry?.title ?? (desk.past.length ? "New idea" : "…");
    if (entry) return showPiece(entry);
    bar.show(null);
    if (app.drawing) pencil.switch(false); // nothing to draw on
  }

  function showPiece(entry) {
    const bars = barCount(entry.piece);
    hint.hidden = app.drawing || score.on;
    write(hint, byTouch() ? SELECT_BY_TOUCH : SELECT);
    facts.textContent = `${count(bars, "bar")} · ${count(noteCount(entry.piece), "note")}`;
    if (roll.id !== entry.id) roll.chosenNotes = new Set();
    bin.show();
    card.show(app.recorder.shown(entry), {
      lanes: lanesNow(),
      bars: Math.min(desk.open.chosen, bars),
      plan: planShown(app, entry, roll),
    });
  }
  return Object.assign(box, { show, roll, score });
}
