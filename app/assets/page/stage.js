// The stage: the piece to work on, the notes on its import, and the ways to open one.
import { barCount, noteCount } from "../music/piece.js";
import { Hand } from "../roll/note_editing.js";
import { HIGH, cardParts, zoomButtons } from "../widgets/card.js";
import { mixer } from "../widgets/mixer.js";
import { action, count, filePicker, fold, make, marked, passFocus } from "../widgets/parts.js";
import { planShown, planView } from "../widgets/plan_view.js";
import { playIn } from "../widgets/play_in.js";
import { ScoreView } from "../widgets/score_view.js";
import { ideaPart } from "./idea.js";

const KINDS = ".mid,.midi,.kar,audio/midi,.mxl,.musicxml,.xml,.abc,.musicgen";
const HIGHER = "clamp(340px, 52vh, 600px)"; // while editing, so that notes are easier to hit
const TOLD_SECONDS = 4;

const isBlank = (entry) => entry?.kind === "nothing";

function titleLine() {
  const title = make("h2", "", "…");
  const show = (text) => (title.textContent = title.title = text);
  return Object.assign(title, { show });
}

// A hint on what to do here, replaced for a while by what `tell` is given. `usual` returns the hint.
function hintLine(usual) {
  const hint = make("span", "mg-hint", "", { role: "status" });
  let timer = null;
  function show() {
    if (timer === null && hint.textContent !== usual()) hint.textContent = usual();
  }
  function tell(text) {
    hint.textContent = text;
    hint.classList.add("mg-told");
    clearTimeout(timer);
    timer = setTimeout(() => {
      hint.classList.remove("mg-told");
      timer = null;
      show();
    }, 1000 * TOLD_SECONDS);
  }
  return Object.assign(hint, { show, tell });
}

// The notes on the import: changes above the roll, other remarks in a fold below it.
function readingNotes(roll) {
  const notices = make("ul", "mg-notices"),
    list = make("ul"),
    remarks = fold("", "mg-remarks", [list]);
  let noted = null;
  function show(entry) {
    if (noted === entry) return;
    noted = entry;
    const { notices: changes = [], remarks: more = [] } = entry ?? {};
    passFocus(notices, roll.canvas);
    notices.replaceChildren(...changes.map(({ text }) => make("li", "", text)));
    notices.hidden = !changes.length;
    remarks.hidden = !more.length;
    const name = make("span", "mg-wordy", "Import notes: ");
    remarks.firstChild.replaceChildren(name, count(more.length, "remark"));
    list.replaceChildren(...more.map((text) => make("li", "", text)));
  }
  return { notices, remarks, show };
}

// The button that switches note editing; `changed` is called after each edit.
function pencilFor(app, roll, changed) {
  const edit = (piece, label) => (app.edit(piece, label), changed());
  const touch = (pitch, track) => app.player.touch(pitch, { track });
  const hand = (roll.acts.hand = new Hand(roll, { edit, touch }));
  const turn = () => (pencil.switch(!hand.on), app.desk.tell("drawing")),
    pencil = marked("pencil", "Edit notes", turn, "mg-chip mg-of-roll");
  pencil.switch = (on) => {
    hand.switch(on);
    app.drawing = on;
    roll.high = on ? HIGHER : HIGH;
    pencil.ariaPressed = on;
    if (on) roll.select(null);
  };
  pencil.switch(false);
  return pencil;
}

// The parts of the stage that the cards of takes lack, by name.
function stageParts(app, card, show) {
  const { desk } = app,
    { roll } = card;
  const usual = () => {
    if (app.drawing) return "click to add, drag to move, drag the right edge to resize";
    if (app.begins) return "the model chooses whatever is set to Any";
    if (isBlank(desk.current)) return "";
    return parts.score.on ? "click a bar to go there" : "drag to select bars";
  };
  const hint = hintLine(usual),
    { tell } = hint,
    parts = { hint, title: titleLine(), idea: ideaPart(app), mix: mixer(app), played: playIn(app) };
  parts.pencil = pencilFor(app, roll, show);
  parts.score = new ScoreView(app, () => (parts.pencil.switch(false), desk.tell("score")));
  parts.plan = planView(app, roll, tell);
  parts.read = readingNotes(roll);
  parts.examples = examplesFold(app);
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
    { facts, said, star, rolls, roll, bar, play, menu } = card,
    parts = stageParts(app, card, () => show()),
    { hint, title, idea, mix, played, pencil, score, plan, read, examples, zoom } = parts;
  rolls.classList.add("mg-of-roll");
  app.stageRoll = roll.canvas;
  const picker = filePicker(app, KINDS, { id: "mg-file", ariaLabel: "Open a file" }),
    open = make("label", "mg-chip mg-open", "Open…", { htmlFor: picker.id }),
    hands = make("span", "mg-hands", [star, picker, open]),
    head = make("div", "mg-head", [title, facts, hands]),
    actions = make("span", "mg-actions", [pencil, menu]),
    foot = make("div", "mg-foot", [play, zoom, hint, actions]),
    folds = make("div", "mg-folds", [mix, played, read.remarks, examples]);
  const within = [head, said, read.notices, idea, rolls, score.box, plan.row, bar, foot, folds],
    box = make("section", "mg-card mg-stage", within, { ariaLabel: "Your piece" });

  function show() {
    const entry = desk.current;
    for (const part of [foot, played, star]) part.hidden = !entry;
    for (const part of [facts, rolls, play, zoom]) part.hidden = !entry || app.begins; // nothing to see or hear yet
    for (const part of [idea, plan, score, mix]) part.show();
    examples.show(entry);
    read.show(entry);
    if (entry) return showPiece(entry);
    bar.show(null);
    title.show(desk.past.length ? "Nothing is open" : "…"); // at the start, a piece is being opened
  }

  function showPiece(entry) {
    const bars = barCount(entry.piece),
      notes = count(noteCount(entry.piece), "note");
    title.show(entry.title);
    if (isBlank(entry) && app.drawing) pencil.switch(false); // nothing to draw on
    hint.show();
    facts.textContent = isBlank(entry)
      ? "the model starts from scratch"
      : `${count(bars, "bar")} · ${notes}`;
    if (roll.id !== entry.id) roll.chosenNotes = new Set();
    card.show(app.recorder.shown(entry), {
      lanes: lanesNow(),
      bars: isBlank(entry) ? 0 : Math.min(desk.open.chosen, bars),
      plan: planShown(app, entry, roll),
    });
    pencil.hidden = menu.hidden = isBlank(entry);
    played.show();
  }
  return Object.assign(box, {
    show,
    roll,
    score,
    play,
    fail: said.say,
    wait: (words) => (words ? title.show(words) : show()),
    tell: hint.tell,
  });
}

// The example pieces. On a phone they are in a fold, closed while there are takes.
function examplesFold(app) {
  const { desk, facts } = app;
  const chip = (name, text, act, more) => {
    const made = action(text, act, "mg-chip", more);
    made.dataset.example = name;
    return made;
  };
  // Chips are labelled without what the name of their group says; screen readers get the whole title.
  const examplesOf = (kind) =>
    facts.examples
      .filter(({ name }) => name.startsWith(kind))
      .map(({ name, title: ariaLabel }) => {
        const short = ariaLabel.replace(/^Piano | trio$/, "");
        return chip(name, short, () => app.openExample(name), { ariaLabel });
      });
  const nothing = chip("nothing", "New idea", () => app.openNothing()),
    grid = chip("grid", "Blank piece", () => app.openGrid());
  const group = (name, chips) =>
    make("span", "mg-chip-group", [make("span", "mg-chips-name", name), ...chips]);
  const pianos = group("try piano", examplesOf("piano")),
    trios = group("or a trio", examplesOf("trio")),
    groups = make("div", "mg-chips", [pianos, trios, group("or start", [nothing, grid])]),
    box = fold("Examples", "mg-examples", [groups]);
  const small = matchMedia("(max-width: 640px)");
  const unfold = () => (box.open = !small.matches || !desk.open.takes.length);
  small.addEventListener("change", unfold);
  let hadTakes = null;
  function show(entry) {
    const hasTakes = desk.open.takes.length > 0;
    if (hasTakes !== hadTakes) unfold((hadTakes = hasTakes));
    const open = entry?.kind === "nothing" ? "nothing" : entry?.example;
    for (const one of box.querySelectorAll("[data-example]"))
      one.ariaPressed = one.dataset.example === open;
  }
  return Object.assign(box, { show });
}
