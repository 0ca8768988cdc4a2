// The button that plays a piece, with its time; every card has one, and one piece plays at a time.
import { Clock, clockTime } from "../music/clock.js";
import { endTick } from "../music/piece.js";
import { make, rename } from "./parts.js";

export function playButton(app, entryOf) {
  const box = make("div", "mg-player"),
    button = make("button", "mg-play", "", { type: "button" }),
    time = make("span", "mg-time");
  box.append(button, time);
  button.addEventListener("click", () => {
    const entry = entryOf();
    if (entry) app.play(entry);
  });
  let length = 0,
    of = null,
    said = "";
  function show() {
    const entry = entryOf(),
      { player } = app,
      own = entry && player.entry?.id === entry.id,
      on = own && player.playing;
    button.disabled = !entry || (!entry.piece.notes.length && entry.state !== "running");
    button.classList.toggle("mg-on", Boolean(on));
    button.classList.toggle("mg-waits", Boolean(on && player.waiting));
    rename(button, on ? "Pause" : "Play");
    if (entry && of !== entry.piece) {
      of = entry.piece;
      length = new Clock(of).seconds(endTick(of));
    }
    const tempo = app.desk.settings.tempo,
      text = length ? `${clockTime(own ? player.seconds : 0)} / ${clockTime(length / tempo)}` : "";
    if (text !== said) time.textContent = said = text;
  }
  return Object.assign(box, { show });
}
