// The bar at the bottom: what plays, where it is, and how: loop, metronome, tempo, transposition.
import { clockTime } from "../music/clock.js";
import { barAt } from "../music/piece.js";
import { icon, make, rename } from "../widgets/parts.js";

export function dockPart(app) {
  const { desk, player } = app,
    box = make("section", "mg-dock", "", { id: "mg-dock", ariaLabel: "Player" });
  const play = make("button", "mg-play", "", { type: "button", id: "mg-dock-play" });
  play.addEventListener("click", () =>
    player.entry ? player.toggle() : desk.current && app.play(desk.current),
  );
  const start = icon("start", "To the start", () => player.seek(player.transport.loop?.[0] ?? 0));
  const title = make("span", "mg-dock-title"),
    time = make("span", "mg-dock-time"),
    clock = make("span", "mg-dock-clock"),
    place = make("span");
  time.append(clock, place);
  const loop = icon(
    "loop",
    "Loop",
    () =>
      player.transport.loop
        ? app.loop(player.entry.id, null)
        : app.loop(player.entry.id, wholeOf()),
    "mg-icon mg-loop",
  );
  const clicks = icon(
    "clicks",
    "Metronome",
    () => desk.set({ metronome: !desk.settings.metronome }),
    "mg-icon mg-clicks",
  );
  const fresh = icon(
    "seam",
    "Hear only what is new",
    () => desk.set({ onlyNew: !desk.settings.onlyNew }),
    "mg-icon mg-only-new",
  );
  const wholeOf = () => ({
    first:
      player.entry.region?.first && player.entry.region.first < player.entry.piece.lines.length - 1
        ? player.entry.region.first
        : 0,
    stop: player.entry.piece.lines.length - 1,
  });
  const tempo = dial(
    "mg-tempo",
    "Tempo",
    { min: 50, max: 200, step: 5 },
    (to) => desk.set({ tempo: to / 100 }),
    (to) => `${to} %`,
  );
  const tune = dial(
    "mg-transpose",
    "Transpose",
    { min: -12, max: 12, step: 1 },
    (to) => desk.set({ transpose: to }),
    (to) => (to > 0 ? `+${to}` : `${to}`),
  );
  const more = make("span", "mg-dock-more"),
    unfold = icon(
      "unfold",
      "Loop, metronome, tempo, transposition",
      () => {
        unfold.setAttribute("aria-expanded", String(box.classList.toggle("mg-tall")));
      },
      "mg-icon mg-unfold",
    );
  unfold.setAttribute("aria-expanded", "false");
  more.append(fresh, loop, clicks, tempo, tune);
  box.append(play, start, time, title, unfold, more);

  function show() {
    const { entry } = player,
      on = player.playing,
      { settings } = desk;
    play.disabled = !(entry ?? desk.current)?.piece.notes.length && entry?.state !== "running";
    play.classList.toggle("mg-on", on);
    play.classList.toggle("mg-waits", Boolean(on && player.waiting));
    rename(play, on ? "Pause what plays" : "Play what is loaded");
    title.textContent = entry ? entry.title : "";
    clicks.setAttribute("aria-pressed", String(settings.metronome));
    fresh.setAttribute("aria-pressed", String(settings.onlyNew));
    loop.setAttribute("aria-pressed", String(Boolean(player.transport.loop)));
    loop.disabled = !entry?.piece.notes.length;
    tempo.show(Math.round(settings.tempo * 100));
    tune.show(settings.transpose);
    box.classList.toggle("mg-by-file", !player.direct);
    move();
  }
  function move() {
    const { entry } = player;
    if (!entry || entry.kind === "nothing") return time.classList.add("mg-silent");
    time.classList.remove("mg-silent");
    const bars = entry.piece.lines.length - 1,
      bar = Math.min(bars, barAt(entry.piece, player.tick) + 1);
    const told = [clockTime(player.seconds), `bar ${bar} of ${bars}`];
    [clock, place].forEach((one, i) => one.textContent === told[i] || (one.textContent = told[i]));
  }
  return Object.assign(box, { show, move });
}

function dial(id, label, bounds, act, said) {
  const box = make("label", "mg-dial", "", { id }),
    name = make("span", "mg-dial-name", label),
    words = make("output", "mg-dial-said");
  const range = make("input", "", "", { type: "range", ...bounds });
  range.setAttribute("aria-label", label);
  range.addEventListener("input", () => act(Number(range.value)));
  range.addEventListener("dblclick", () => act(bounds.min < 0 ? 0 : 100));
  box.append(name, range, words);
  return Object.assign(box, {
    show: (to) => {
      range.value = to;
      words.textContent = said(to);
      range.setAttribute("aria-valuetext", said(to));
      range.style.setProperty(
        "--part",
        `${(100 * (to - bounds.min)) / (bounds.max - bounds.min)}%`,
      );
    },
  });
}
