// The parts common to the cards of the piece and the takes: roll, actions for selected bars, star, Play, Save.
import { chordLine, hasGuess } from "../music/chords.js";
import { isHeard, tracksWithNotes } from "../music/heard.js";
import { namesOf } from "../music/naming.js";
import { barCount, noteCount } from "../music/piece.js";
import { Roll } from "../roll/roll.js";
import { able, action, barsLabel, count, icon, make, mark, passFocus, rename } from "./parts.js";
import { saveMenu } from "./save_menu.js";

const ACTS = {
  rewrite: "Rewrite",
  continue: "Continue from here",
  cut: "Cut after these bars",
  loop: "Loop",
  delete: "Delete",
};
const GROWING = "This take is still being written; press Stop or wait until it ends.";

// The parts of a card. `show` takes an entry and how its roll shows it.
export function cardParts(app, entryOf, { name = "", ...options }) {
  const { desk, player } = app;
  const acts = {
    seek: (tick) => (player.load(entryOf()), player.seek(tick)),
    play: () => app.play(entryOf()),
    range: (range) => bar.show(range),
  };
  if (options.prompt) acts.chord = () => bar.typed.focus();
  const roll = new Roll({ ...options, acts });
  roll.muted = (track) => !isHeard(desk.mixOf(desk.current), track);
  const bar = rangeBar(app, roll, entryOf),
    play = action("", () => app.play(entryOf()), `${name ? "mg-chip" : "mg-icon"} mg-play`),
    star = starButton(desk, () => entryOf().id),
    menu = saveMenu(app, entryOf);
  function show(entry, shown) {
    roll.loop = player.entry?.id === entry.id ? player.loop : null;
    roll.show(entry, shown);
    bar.show(roll.range); // the selection may be gone, and its actions change when composing ends
    star.show();
    showPlay(play, app, entryOf(), name);
  }
  const facts = make("span", "mg-facts");
  return { facts, star, roll, bar, play, menu, show };
}

// Label each action with what it would do to the bars, or why it is not possible.
function showActs(acts, { model, composer }, { piece, state }, { first, stop }, picked) {
  // While a take is being written, its bars can be neither cut nor deleted.
  const busy = composer.why,
    growing = state === "running" && GROWING,
    empty = !noteCount(piece) && "There are no notes to work from yet.",
    last = stop >= barCount(piece) && "The piece already ends here.",
    all = last && !first && "These are all the bars of the piece; open another piece instead.";
  const { infill: lacks = false } = model.lacks,
    bars = barsLabel({ first, stop }),
    what = picked.length ? `${namesOf(piece, picked)} in ${bars}` : bars;
  able(acts.rewrite, `Rewrite ${what}; everything else stays as it is`, lacks, empty, busy);
  acts.rewrite.textContent =
    ACTS.rewrite + (picked.length ? ` ${count(picked.length, "track")}` : "");
  // The others act on all tracks.
  for (const one of ["continue", "cut", "delete"]) acts[one].hidden = picked.length > 0;
  able(acts.continue, `Continue after bar ${stop}`, busy);
  acts.cut.textContent = stop - first > 1 ? ACTS.cut : "Cut after this bar";
  able(acts.cut, `Delete all after bar ${stop}`, growing, last);
  able(acts.delete, `Delete ${bars}; later bars move forward`, growing, all);
}

// The actions for the bars selected on a roll.
function rangeBar(app, roll, entryOf) {
  const words = make("span", "mg-range-words");
  const leave = () => (passFocus(box, roll.canvas), roll.select(null));
  function press(name) {
    const { range } = roll,
      picked = [...roll.picked];
    if (name !== "loop") leave();
    app.bars(entryOf().id, name, range, picked);
  }
  const acts = {};
  for (const [name, text] of Object.entries(ACTS)) acts[name] = action(text, () => press(name));
  acts.rewrite.classList.add("mg-new");
  const clear = icon("close", "Clear selection", leave),
    tracks = make("span", "mg-picks"),
    chords = chordField(app, roll, entryOf),
    within = [words, tracks, ...Object.values(acts), chords, clear],
    box = make("div", "mg-range-bar", within, { hidden: true, role: "group" });

  // Buttons that select the tracks with notes; the heads of the lanes do the same.
  let offered = "";
  function offer({ piece }) {
    const used = tracksWithNotes(piece),
      key = JSON.stringify(used.map((index) => [index, piece.tracks[index].name]));
    tracks.hidden = used.length < 2;
    if (key !== offered)
      tracks.replaceChildren(
        ...used.map((index) => {
          const button = action(piece.tracks[index].name, () => roll.pick(index));
          button.dataset.track = index;
          return button;
        }),
      );
    offered = key;
    for (const one of tracks.children) one.ariaPressed = roll.picked.has(Number(one.dataset.track));
  }

  function show(range) {
    box.hidden = !range;
    if (!range) return;
    offer(entryOf());
    const bars = barsLabel(range);
    words.textContent = bars[0].toUpperCase() + bars.slice(1);
    box.ariaLabel = `Actions for ${bars}`;
    showActs(acts, app, entryOf(), range, [...roll.picked]);
    chords.show(range);
  }
  return Object.assign(box, { show, typed: chords.input });
}

// The chords of the selected bars of the piece: what is typed replaces them and is locked; for more bars, the selection grows.
function chordField(app, roll, entryOf) {
  const more = { type: "text", spellcheck: false, maxLength: 400, placeholder: "Am | F C" },
    input = make("input", "mg-chords", "", more),
    lock = action("", () => app.lockChords(roll.range, hasGuess(entryOf().piece, roll.range))),
    box = make("span", "mg-pair", [input, lock]);
  // An emptied field unlocks when it is left; the press on the button that leaves it would lock again.
  lock.addEventListener(
    "pointerdown",
    () => (input.value ||= chordLine(entryOf().piece, roll.range)),
  );
  let typed = null; // the bars for which the text is not stored: what cannot be read stays, to be mended
  const filled = (range) => {
    passFocus(box, roll.canvas);
    if (roll.range === typed) roll.select(range); // no others have been selected since
    typed = null;
  };
  input.addEventListener("change", () => {
    typed = roll.range;
    app.typeChords(typed, input.value, filled);
  });
  function show(range) {
    const { piece } = entryOf(),
      bars = barsLabel(range);
    box.hidden = !roll.isPrompt || roll.picked.size > 0 || Boolean(app.model.lacks.chords);
    if (document.activeElement !== input && typed !== range) input.value = chordLine(piece, range);
    input.ariaLabel = `Chords of ${bars}`;
    const guess = hasGuess(piece, range);
    lock.textContent = guess ? "Lock chords" : "Unlock chords";
    const locks = `Keep the chords of ${bars} in all that is written`,
      none = !chordLine(piece, range) && "There are no chords here yet; type them.";
    able(lock, guess ? locks : `Let the chords of ${bars} be written anew`, none);
  }
  return Object.assign(box, { show, input });
}

// Show on a button whether a piece plays or waits for notes, and what a click does; in words if the piece has a name.
export function showPlay(button, { player }, entry, name = "") {
  const on = player.playing && player.entry?.id === entry?.id,
    sign = on ? (player.waiting ? "wait" : "pause") : "play";
  button.disabled = !entry || (!entry.piece.notes.length && entry.state !== "running");
  const word = on ? "Pause" : "Play";
  if (button.dataset.sign !== sign) button.innerHTML = mark(sign) + (name && word);
  button.dataset.sign = sign;
  rename(button, name ? `${word} ${name}` : word);
}

function starButton(desk, idOf) {
  const button = icon("star", "Star", () => desk.star(idOf()), "mg-icon mg-star");
  const show = () => {
    button.ariaPressed = desk.stars.has(idOf());
    rename(button, desk.stars.has(idOf()) ? "Remove the star" : "Star");
  };
  return Object.assign(button, { show });
}

export function zoomButtons(roll) {
  const zooms = [
    ["less", "Zoom out", 1 / 1.4],
    ["more", "Zoom in", 1.4],
    ["fit", "Fit", null],
  ];
  const buttons = zooms.map(([sign, name, factor]) => icon(sign, name, () => roll.scale(factor)));
  return make("span", "mg-zoom", buttons);
}
