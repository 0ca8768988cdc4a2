// What the cards of the piece and of each take have: a roll with a bar for what is chosen on it, a star, buttons to play and
// to save, a place for errors.
import { mixOf } from "../desk/mix.js";
import { isHeard } from "../music/heard.js";
import { Roll } from "../roll/roll.js";
import { alarm, icon, make, rename } from "./parts.js";
import { playButton } from "./play_button.js";
import { rangeBar } from "./range_bar.js";
import { alongMenu, grip } from "./save_menu.js";

export const HIGH = "clamp(240px, 34vh, 380px)"; // of the piece, and of a take by itself

// The parts of a card, and `show`, which takes an entry with how its roll shows it. `what` it is stands on the grip; `acts`
// are those that the roll has besides the usual ones.
export function cardParts(app, entryOf, what, { acts = {}, ...options }) {
  const { desk, player } = app;
  const rolls = make("div");
  const roll = new Roll(rolls, {
    ...options,
    acts: {
      seek: (tick) => (player.load(entryOf()), player.seek(tick)),
      play: () => app.play(entryOf()),
      step: (by) => app.stepBars(entryOf(), by),
      range: (range) => bar.show(range),
      bar: () => app.barOf(entryOf()),
      ...acts,
    },
  });
  roll.muted = (track) => !isHeard(mixOf(desk, desk.current), track);
  const bar = rangeBar(app, roll, entryOf),
    play = playButton(app, entryOf),
    star = starButton(desk, () => entryOf().id),
    said = alarm(),
    menu = alongMenu(app, entryOf, said.say);
  function show(entry, shown) {
    roll.loop = player.loopOf(entry);
    roll.show(entry, shown);
    bar.show(roll.range); // which may be gone; and what can be done with it changes when composing ends
    star.show();
    play.show();
  }
  const facts = make("span", "mg-facts");
  return { facts, said, star, rolls, roll, bar, play, menu, handle: grip(entryOf, what), show };
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
