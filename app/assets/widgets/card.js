// The parts common to the cards of the piece and the takes: roll, actions for selected bars, star, Play, Save, errors.
import { mixOf } from "../desk/mix.js";
import { isHeard } from "../music/heard.js";
import { Roll } from "../roll/roll.js";
import { alarm, icon, make, rename } from "./parts.js";
import { playButton } from "./play_button.js";
import { rangeBar } from "./range_bar.js";
import { saveMenu } from "./save_menu.js";

export const HIGH = "clamp(240px, 34vh, 380px)"; // of the piece, and of a single take

// The parts of a card. `show` takes an entry and how its roll shows it; `acts` are additional actions of the roll.
export function cardParts(app, entryOf, { acts = {}, ...options }) {
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
    menu = saveMenu(app, entryOf, said.say);
  function show(entry, shown) {
    roll.loop = player.loopOf(entry);
    roll.show(entry, shown);
    bar.show(roll.range); // the selection may be gone, and its actions change when composing ends
    star.show();
    play.show();
  }
  const facts = make("span", "mg-facts");
  return { facts, said, star, rolls, roll, bar, play, menu, show };
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
