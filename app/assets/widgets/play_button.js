// The play button of a card, with the time; only one piece plays at a time.
import { Clock, clockTime } from "../music/clock.js";
import { endTick } from "../music/piece.js";
import { mark } from "./icons.js";
import { action, make, rename } from "./parts.js";

// Show on a button whether a piece plays or waits for notes, and what a click does.
export function showPlay(button, { player }, entry, [play, pause]) {
  const on = player.playing && player.entry?.id === entry?.id,
    sign = on ? (player.waiting ? "wait" : "pause") : "play";
  button.disabled = !entry || (!entry.piece.notes.length && entry.state !== "running");
  if (button.dataset.sign !== sign) button.innerHTML = mark(sign);
  button.dataset.sign = sign;
  rename(button, on ? pause : play);
}

export function playButton(app, entryOf) {
  const button = action("", () => app.play(entryOf()), "mg-play"),
    time = make("span", "mg-time"),
    box = make("div", "mg-player", [button, time]);
  let length = 0,
    of = null,
    shown = "";
  function show() {
    const entry = entryOf(),
      { player } = app,
      own = entry && player.entry?.id === entry.id;
    showPlay(button, app, entry, ["Play", "Pause"]);
    if (entry && of !== entry.piece) {
      of = entry.piece;
      length = new Clock(of).seconds(endTick(of));
    }
    const tempo = app.desk.settings.tempo,
      text = length ? `${clockTime(own ? player.seconds : 0)} / ${clockTime(length / tempo)}` : "";
    if (text !== shown) time.textContent = shown = text;
  }
  return Object.assign(box, { show });
}
