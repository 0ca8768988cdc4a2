// What the cards of the piece and of each take have: a roll with a bar for what is chosen on it, and a star.
import { mixOf } from "../desk/mix.js";
import { isHeard } from "../music/heard.js";
import { Roll } from "../roll/roll.js";
import { icon, make, rename } from "./parts.js";
import { rangeBar } from "./range_bar.js";

export const HIGH = "clamp(240px, 34vh, 380px)"; // of the piece, and of a take by itself

// The roll in its box; `acts` are those that it has besides the usual ones.
export function rollPart(app, entryOf, { acts = {}, ...options }) {
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
  const bar = rangeBar(app, roll, entryOf);
  return { rolls, roll, bar };
}

export function starButton(desk, idOf) {
  const button = icon("star", "Star", () => desk.star(idOf()), "mg-icon mg-star");
  const show = () => {
    button.ariaPressed = desk.stars.has(idOf());
    rename(button, desk.stars.has(idOf()) ? "Starred; remove the star" : "Star");
  };
  return Object.assign(button, { show });
}
