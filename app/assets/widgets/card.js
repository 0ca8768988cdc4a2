// The parts common to the cards of the piece and the takes: roll, actions for selected bars, star, Play, Save.
import { isHeard } from "../music/heard.js";
import { Roll } from "../roll/roll.js";
import { mark } from "./icons.js";
import { action, icon, make, rename } from "./parts.js";
import { rangeBar } from "./range_bar.js";
import { saveMenu } from "./save_menu.js";

export const HIGH = "clamp(240px, 34vh, 380px)"; // of the piece, and of a single take

// The parts of a card. `show` takes an entry and how its roll shows it.
export function cardParts(app, entryOf, options) {
  const { desk, player } = app;
  const acts = {
    seek: (tick) => (player.load(entryOf()), player.seek(tick)),
    play: () => app.play(entryOf()),
    step: (by) => app.stepBars(entryOf(), by),
    range: (range) => bar.show(range),
    bar: () => app.barOf(entryOf()),
  };
  const roll = new Roll({ ...options, acts });
  roll.muted = (track) => !isHeard(desk.mixOf(desk.current), track);
  const bar = rangeBar(app, roll, entryOf),
    play = action("", () => app.play(entryOf()), "mg-play"),
    star = starButton(desk, () => entryOf().id),
    menu = saveMenu(app, entryOf);
  function show(entry, shown) {
    roll.loop = player.loopOf(entry);
    roll.show(entry, shown);
    bar.show(roll.range); // the selection may be gone, and its actions change when composing ends
    star.show();
    showPlay(play, app, entryOf(), ["Play", "Pause"]);
  }
  const facts = make("span", "mg-facts");
  return { facts, star, roll, bar, play, menu, show };
}

// Show on a button whether a piece plays or waits for notes, and what a click does.
export function showPlay(button, { player }, entry, [play, pause]) {
  const on = player.playing && player.entry?.id === entry?.id,
    sign = on ? (player.waiting ? "wait" : "pause") : "play";
  button.disabled = !entry || (!entry.piece.notes.length && entry.state !== "running");
  if (button.dataset.sign !== sign) button.innerHTML = mark(sign);
  button.dataset.sign = sign;
  rename(button, on ? pause : play);
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
