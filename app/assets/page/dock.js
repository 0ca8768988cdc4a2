// The player at the bottom: title, position, loop, tempo, transposition.
import { clockTime } from "../music/clock.js";
import { barAt, barCount } from "../music/piece.js";
import { action, icon, make, slider } from "../widgets/parts.js";
import { showPlay } from "../widgets/play_button.js";

// A slider that a double click resets.
function dial(id, label, usual, [min, max], act, more) {
  const box = slider(id, label, min, max, act, more);
  box.classList.add("mg-dial");
  box.addEventListener("dblclick", ({ target }) => target.type === "range" && act(usual));
  return box;
}

function playbackOptions(app) {
  const { desk, player } = app;
  const around = () =>
    app.loop(player.entry.id, player.transport.loop ? null : loopedBars(player.entry));
  const loop = icon("loop", "Loop", around, "mg-icon mg-loop");
  const tempo = dial("mg-tempo", "Tempo", 100, [50, 200], (to) => desk.set({ tempo: to / 100 }), {
    step: 5,
    inWords: (to) => `${to} %`,
  });
  const sign = (to) => (to > 0 ? `+${to}` : `${to}`),
    tune = dial("mg-transpose", "Transpose", 0, [-12, 12], (to) => desk.set({ transpose: to }), {
      inWords: sign,
    });
  function show() {
    const { settings } = desk;
    loop.ariaPressed = Boolean(player.transport.loop);
    loop.disabled = !player.entry?.piece.notes.length;
    tempo.show(Math.round(settings.tempo * 100));
    tune.show(settings.transpose);
  }
  return Object.assign(make("span", "mg-dock-more", [loop, tempo, tune]), { show });
}

// The bars that Loop repeats: from the first new bar to the end, or the whole piece.
function loopedBars({ region, piece }) {
  const stop = barCount(piece);
  return { first: region?.first < stop ? region.first : 0, stop };
}

export function dockPart(app) {
  const { desk, player } = app;
  const play = action("", () => app.toggle(), "mg-play", { id: "mg-dock-play" });
  const rewind = () => player.seek(player.transport.loop?.[0] ?? 0);
  const start = icon("start", "Go to start", rewind, "mg-icon mg-start");
  const title = make("span", "mg-dock-title"),
    clock = make("span", "mg-dock-clock"),
    place = make("span"),
    time = make("span", "mg-dock-time", [clock, place]),
    more = playbackOptions(app);
  const raise = () => (unfold.ariaExpanded = box.classList.toggle("mg-tall")),
    name = "Loop, tempo, transposition",
    unfold = icon("unfold", name, raise, "mg-icon mg-unfold");
  unfold.ariaExpanded = false;
  const within = [play, start, time, title, unfold, more],
    box = make("section", "mg-dock", within, { id: "mg-dock", ariaLabel: "Player" });

  function show() {
    const { entry } = player;
    showPlay(play, app, entry ?? desk.current, ["Play the loaded piece", "Pause playback"]);
    title.textContent = entry ? entry.title : "";
    more.show();
    box.classList.toggle("mg-by-file", !player.direct);
    move();
  }
  function move() {
    const { entry } = player;
    time.classList.toggle("mg-silent", !entry || entry.kind === "nothing");
    if (!entry || entry.kind === "nothing") return;
    const bars = barCount(entry.piece),
      bar = Math.min(bars, barAt(entry.piece, player.tick) + 1);
    const texts = [clockTime(player.seconds), `bar ${bar} of ${bars}`];
    [clock, place].forEach(
      (one, i) => one.textContent === texts[i] || (one.textContent = texts[i]),
    );
  }
  return Object.assign(box, { show, move });
}
