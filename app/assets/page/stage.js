// The stage: the piece to work on, what was made of it in reading, and how it gets there.
import { toldOf } from "../music/chords.js";
import { barCount, noteCount } from "../music/piece.js";
import { Hand } from "../roll/note_editing.js";
import { HIGH, rollPart, starButton } from "../widgets/card.js";
import { alongMenu, grip } from "../widgets/save_menu.js";
import { mixer } from "../widgets/mixer.js";
import {
  action,
  alarm,
  count,
  filePicker,
  fold,
  make,
  marked,
  passFocus,
  zoomButtons,
} from "../widgets/parts.js";
import { playButton } from "../widgets/play_button.js";
import { planShown, planView } from "../widgets/plan_view.js";
import { playIn } from "../widgets/play_in.js";
import { ScoreView } from "../widgets/score_view.js";
import { ideaPart } from "./idea.js";
import { splitTitle } from "./titles.js";

const KINDS = ".mid,.midi,.kar,audio/midi,.mxl,.musicxml,.xml,.abc,.musicgen";
const HIGHER = "clamp(340px, 52vh, 600px)"; // where notes are drawn, they are to be hit

export function stagePart(app, lanesNow) {
  const { desk, player } = app,
    entryOf = () => desk.current;
  const title = make("h2", "", "…"),
    facts = make("span", "mg-facts"),
    handle = grip(entryOf, "piece"),
    star = starButton(desk, () => desk.open.current),
    picker = filePicker(app, KINDS, { id: "mg-file", ariaLabel: "Open a file" }),
    open = make("label", "mg-chip mg-open", "Open…", { htmlFor: picker.id });
  const hands = make("span", "mg-hands", [star, picker, open]),
    head = make("div", "mg-head", [handle, title, facts, hands]),
    said = alarm(),
    notices = make("ul", "mg-notices");
  const { rolls, roll, bar } = rollPart(app, entryOf, {
    label: "Piano roll of your piece",
    height: HIGH,
    prompt: true,
    acts: {
      choose: (bars) => desk.choose(bars),
      bend: (bars, value) => plan.bend(bars, value),
      chord: (at) => (roll.select({ first: at, stop: at + 1 }), bar.typeChord()),
    },
  });
  rolls.classList.add("mg-of-roll");
  const mix = mixer(app);
  app.stageRoll = roll.canvas;
  const hand = (roll.acts.hand = new Hand(roll, {
    edit: (piece, label, as) => (app.edit(piece, label, {}, as), show()),
    touch: (pitch, track) => player.touch(pitch, { track }),
  }));
  const play = playButton(app, entryOf);
  const draw = () => (switchHand(!hand.on), desk.tell("drawing")),
    pencil = marked("pencil", "Edit notes", draw, "mg-chip mg-of-roll");
  const menu = alongMenu(app, entryOf, said.say);
  const link = marked("link", "Copy link", async () => {
    try {
      const address = await app.link();
      await (navigator.clipboard?.writeText(address) ?? Promise.reject()).then(
        // there is none without TLS
        () => tell("Copied: the link opens this piece with these choices."),
        () => prompt("The link:", address),
      );
    } catch (error) {
      said.say(error.message);
    }
  });
  const hint = make("span", "mg-hint", "", { role: "status" }),
    played = playIn(app),
    idea = ideaPart(app),
    actions = make("span", "mg-actions", [pencil, menu, link]);
  const score = new ScoreView(app, () => (switchHand(false), desk.tell("score"))),
    zoom = zoomButtons({ scale: (factor) => (score.on ? score : roll).scale(factor) }),
    plan = planView(app, roll, (text) => tell(text));
  zoom.append(score.toggle, score.print, plan.toggle);
  const foot = make("div", "mg-foot", [play, zoom, hint, actions]);
  const list = make("ul"),
    remarks = fold("", "mg-remarks", [list]),
    examples = examplesFold(app),
    folds = make("div", "mg-folds", [mix, played, remarks, examples]);
  const card = make(
    "section",
    "mg-card mg-stage",
    [head, said, notices, idea, rolls, score.box, plan.row, bar, foot, folds],
    { ariaLabel: "Your piece" },
  );

  let timer;
  function tell(text) {
    hint.textContent = text;
    hint.classList.add("mg-told");
    clearTimeout(timer);
    timer = setTimeout(() => (hint.classList.remove("mg-told"), hintUsual()), 4000);
  }
  function hintUsual() {
    const blank = desk.current?.kind === "nothing",
      usual = blank ? "" : score.on ? "click a bar to go there" : "drag to select bars";
    const words = hand.on
      ? "click to add, drag to move, drag the right edge to resize"
      : app.begins
        ? "what you leave open, the model chooses"
        : usual;
    if (hint.textContent !== words) hint.textContent = words;
  }

  function switchHand(on) {
    hand.switch(on);
    app.drawing = on;
    roll.high = on ? HIGHER : HIGH;
    pencil.ariaPressed = on;
    if (on) roll.select(null);
    hintUsual();
  }
  switchHand(false);

  // However long the name of a file is, which variation this is can be read.
  function name(text) {
    const { song, variation } = splitTitle(text);
    title.replaceChildren(
      make("span", "mg-song", song),
      make("span", "mg-comma", variation && ", "),
      make("span", "mg-variation", variation),
    );
    title.title = text;
  }

  let noted = null;
  function showNotices(entry) {
    if (noted === entry) return;
    noted = entry;
    if (toldOf(entry.piece)) tell(toldOf(entry.piece)); // C9 is C7 here
    passFocus(notices, roll.canvas);
    notices.replaceChildren(...(entry.notices ?? []).map(({ text }) => make("li", "", text)));
    notices.hidden = !entry.notices?.length;
    const more = entry.remarks ?? [];
    remarks.hidden = !more.length;
    remarks.firstChild.replaceChildren(
      make("span", "mg-wordy", "Import notes: "),
      count(more.length, "remark"),
    );
    list.replaceChildren(...more.map((text) => make("li", "", text)));
  }

  function show() {
    const entry = desk.current;
    for (const part of [foot, played, star, handle]) part.hidden = !entry;
    idea.show();
    for (const part of [facts, rolls, play, zoom]) part.hidden = !entry || app.begins; // there is nothing to see or hear
    plan.show();
    score.show();
    examples.show(entry);
    if (!entry) {
      noted = null;
      notices.hidden = remarks.hidden = true;
      mix.show();
      bar.show(null);
      return name(desk.past.length ? "Nothing is open" : "…"); // at first a piece is on its way
    }
    name(entry.title);
    if (entry.kind === "nothing" && hand.on) switchHand(false); // there is nothing to draw on
    if (!hint.matches(".mg-told")) hintUsual();
    const bars = barCount(entry.piece);
    facts.textContent =
      entry.kind === "nothing"
        ? "the model begins by itself"
        : `${count(bars, "bar")} · ${count(noteCount(entry.piece), "note")}`;
    star.show();
    showNotices(entry);
    if (roll.id !== entry.id) roll.chosenNotes = new Set();
    roll.loop = player.loopOf(entry);
    roll.show(app.recorder.shown(entry), {
      lanes: lanesNow(),
      bars: entry.kind === "nothing" ? 0 : Math.min(desk.open.chosen, bars),
      plan: planShown(app, entry, roll),
    });
    pencil.hidden = menu.hidden = entry.kind === "nothing";
    bar.show(roll.range);
    for (const part of [mix, play, played]) part.show();
  }
  return Object.assign(card, {
    show,
    roll,
    score,
    play,
    fail: said.say,
    wait: (words) => (words ? name(words) : show()),
    tell,
  });
}

// Pieces to try the page with. On a phone, they make way for the takes of what was chosen: there they are one fold among
// others.
function examplesFold(app) {
  const { desk, facts } = app;
  const chip = (name, text, act, more) => {
    const made = action(text, act, "mg-chip", more);
    made.dataset.example = name;
    return made;
  };
  // A group says what its pieces are, so their chips need not; a screen reader hears the whole title.
  const examplesOf = (kind) =>
    facts.examples
      .filter(({ name }) => name.startsWith(kind))
      .map(({ name, title }) =>
        chip(name, title.replace(/^Piano | trio$/, ""), () => app.openExample(name), {
          ariaLabel: title,
        }),
      );
  const own = [
    chip("nothing", "New idea", () => app.openNothing()),
    chip("grid", "Blank piece", () => app.openGrid()),
  ];
  const groups = Object.entries({
    "try a piano": examplesOf("piano"),
    "a trio": examplesOf("trio"),
    "or begin": own,
  });
  const made = groups.map(([name, chips]) =>
    make("span", "mg-chip-group", [make("span", "mg-chips-name", name), ...chips]),
  );
  const box = fold("Examples", "mg-examples", [make("div", "mg-chips", made)]);
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
