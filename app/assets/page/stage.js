// The stage: the piece to work on, what was made of it in reading, and how it gets there.
import { toldOf } from "../music/chords.js";
import { barCount, noteCount } from "../music/piece.js";
import { Hand } from "../roll/note_editing.js";
import { Roll } from "../roll/roll.js";
import { alongMenu, grip } from "../widgets/save_menu.js";
import { mixer } from "../widgets/mixer.js";
import {
  action,
  alarm,
  count,
  icon,
  make,
  passFocus,
  rename,
  withMark,
  zoomButtons,
} from "../widgets/parts.js";
import { playButton } from "../widgets/play_button.js";
import { planShown, planView } from "../widgets/plan_view.js";
import { playIn } from "../widgets/play_in.js";
import { rangeBar } from "../widgets/range_bar.js";
import { ScoreView } from "../widgets/score_view.js";
import { ideaPart } from "./idea.js";
import { splitTitle } from "./titles.js";

const OF_ROLL = "mg-chip mg-of-roll"; // what the score takes the place of
const KINDS = ".mid,.midi,.kar,audio/midi,.mxl,.musicxml,.xml,.abc,.musicgen";
const HIGH = "clamp(240px, 34vh, 380px)",
  HIGHER = "clamp(340px, 52vh, 600px)"; // where notes are drawn, they are to be hit

export function stagePart(app, lanesNow) {
  const { desk, player, facts: page } = app,
    entryOf = () => desk.current;
  const card = make("section", "mg-card mg-stage", "", { ariaLabel: "Your piece" });
  const head = make("div", "mg-head"),
    title = make("h2", "", "…"),
    facts = make("span", "mg-facts");
  const handle = grip(entryOf, "piece");
  const star = icon("star", "Star", () => desk.star(desk.open.current), "mg-icon mg-star");
  const picker = make("input", "mg-file", "", {
    type: "file",
    accept: KINDS,
    id: "mg-file",
    ariaLabel: "Open a file",
  });
  picker.addEventListener("change", () => (app.openFile(picker.files[0]), (picker.value = "")));
  const open = make("label", "mg-chip mg-open", "Open…", { htmlFor: "mg-file" });
  const hands = make("span", "mg-hands"),
    said = alarm(),
    notices = make("ul", "mg-notices");
  hands.append(star, picker, open);
  head.append(handle, title, facts, hands);

  const rolls = make("div", "mg-of-roll"),
    foot = make("div", "mg-foot"),
    chips = make("div", "mg-chips");
  const roll = new Roll(rolls, {
    label: "Piano roll of your piece",
    height: HIGH,
    prompt: true,
    acts: {
      choose: (bars) => desk.choose(bars),
      seek: (tick) => (player.load(entryOf()), player.seek(tick)),
      play: () => app.play(entryOf()),
      step: (by) => app.stepBars(entryOf(), by),
      range: (range) => bar.show(range),
      bar: () => app.barOf(entryOf()),
      bend: (bars, value) => plan.bend(bars, value),
      chord: (at) => (roll.select({ first: at, stop: at + 1 }), bar.typeChord()),
    },
  });
  const mix = mixer(app);
  app.stageRoll = roll.canvas;
  roll.muted = app.isMuted = (track) => mix.isMuted(track);
  const hand = (roll.acts.hand = new Hand(roll, {
    edit: (piece, label, as) => (app.edit(piece, label, {}, as), show()),
    touch: (pitch, track) => player.touch(pitch, { track }),
  }));
  const bar = rangeBar(app, roll, entryOf),
    play = playButton(app, entryOf);
  const pencil = action("", () => (switchHand(!hand.on), desk.tell("drawing")), OF_ROLL);
  withMark(pencil, "pencil", "Edit notes");
  const menu = alongMenu(app, entryOf, said.say);
  const link = action("", async () => {
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
  withMark(link, "link", "Copy link");
  const hint = make("span", "mg-hint"),
    played = playIn(app),
    idea = ideaPart(app);
  hint.setAttribute("role", "status");
  const actions = make("span", "mg-actions");
  actions.append(pencil, menu, link);
  const score = new ScoreView(app, () => (switchHand(false), desk.tell("score"))),
    zoom = zoomButtons({ scale: (factor) => (score.on ? score : roll).scale(factor) }),
    plan = planView(app, roll, (text) => tell(text));
  zoom.append(score.toggle, score.print, plan.toggle);
  foot.append(play, zoom, hint, make("span", "mg-space"), actions);
  const chip = (name, text, act, more) => {
    const made = action(text, act, "mg-chip", more);
    made.dataset.example = name;
    return made;
  };
  const group = (name, made) => {
    const box = make("span", "mg-chip-group");
    box.append(make("span", "mg-chips-name", name), ...made);
    chips.append(box);
  };
  // A group says what its pieces are, so their chips need not; a screen reader hears the whole title.
  for (const [language, name] of [
    ["remi", "try a piano"],
    ["groove", "a trio"],
  ])
    group(
      name,
      page.examples
        .filter((one) => one.language === language)
        .map(({ name: example, title: text }) =>
          chip(example, text.replace(/^Piano | trio$/, ""), () => app.openExample(example), {
            ariaLabel: text,
          }),
        ),
    );
  group("or begin", [
    chip("nothing", "New idea", () => app.openNothing()),
    chip("grid", "Blank piece", () => app.openGrid()),
  ]);
  const remarks = make("details", "mg-remarks"),
    list = make("ul");
  remarks.append(make("summary"), list);
  const folds = make("div", "mg-folds");
  // On a phone, examples make way for the takes of what was chosen: there they are one fold among others.
  const examples = make("details", "mg-examples"),
    small = matchMedia("(max-width: 640px)");
  const fold = () => (examples.open = !small.matches || !desk.open.takes.length);
  examples.append(make("summary", "", "Examples"), chips);
  small.addEventListener("change", fold);
  fold();
  folds.append(mix, played, remarks, examples);
  card.append(head, said, notices, idea, rolls, score.box, plan.row, bar, foot, folds);

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
    pencil.setAttribute("aria-pressed", String(on));
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

  let noted = null,
    hadTakes = desk.open.takes.length;
  function showNotices(entry) {
    if (noted === entry) return;
    noted = entry;
    if (toldOf(entry.piece)) tell(toldOf(entry.piece)); // C9 is C7 here
    passFocus(notices, roll.canvas);
    notices.replaceChildren(
      ...(entry.notices ?? []).map(({ text, model }) => {
        const line = make("li", "", text);
        if (model && app.models.has(model))
          line.append(action(`Open with ${model}`, () => app.changeModel(model)));
        return line;
      }),
    );
    notices.hidden = !entry.notices?.length;
    const more = (entry.remarks ?? []).filter(
      (text) => !entry.notices?.some((one) => one.text === text),
    );
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
    const takes = desk.open.takes.length;
    if (!takes !== !hadTakes) fold((hadTakes = takes));
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
    star.setAttribute("aria-pressed", String(desk.stars.has(entry.id)));
    rename(star, desk.stars.has(entry.id) ? "Starred; remove the star" : "Star");
    showNotices(entry);
    for (const chip of chips.querySelectorAll("[data-example]"))
      chip.setAttribute(
        "aria-pressed",
        String(chip.dataset.example === (entry.kind === "nothing" ? "nothing" : entry.example)),
      );
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
