// The bar at the bottom: the message, the player, and the button that starts and stops the model.
import { clockTime } from "../music/clock.js";
import { barAt, barCount } from "../music/piece.js";
import {
  action,
  check,
  count,
  icon,
  make,
  menu,
  onFields,
  slider,
  write,
} from "../widgets/parts.js";
import { midiMenu } from "./midi.js";
import { canSound } from "../sound/synth.js";
import { showPlay } from "../widgets/card.js";
import { tempoAt } from "../widgets/signs.js";

// Show on a button what is heard at other pitches than those written.
function showTransposition(button, by) {
  const steps = Math.abs(by);
  write(button, by ? `Playback ${by < 0 ? "−" : "+"}${steps}` : "Playback");
  button.title = by ? `Plays ${count(steps, "semitone")} ${by < 0 ? "lower" : "higher"}` : "";
}

// The menu of how it is played: loop, tempo, transposition and feel.
function playbackMenu(app) {
  const { desk, player } = app;
  const loop = check("loop", "Loop"),
    tempo = slider("tempo", "Tempo (BPM)", 20, 400),
    transpose = slider("transpose", "Transpose", -12, 12),
    swing = slider("swing", "Swing (%)", 50, 75),
    humanise = slider("humanise", "Humanise (%)", 0, 100),
    box = menu("Playback", [loop, tempo, transpose, swing, humanise], "mg-playback");
  const [button] = box.children,
    usual = () => (player.entry ? tempoAt(player.entry.piece, 0).tempo : 120);
  onFields(box, (name, value) => {
    if (name === "tempo") return desk.set({ tempo: value / usual() });
    if (name !== "loop") return desk.set({ [name]: value });
    return app.loop(player.entry.id, value ? loopedBars(player.entry) : null);
  });
  function show() {
    loop.show(Boolean(player.loop));
    loop.input.disabled = !player.entry?.piece.notes.length;
    tempo.bound(usual() / 2, usual() * 2);
    tempo.show(Math.round(usual() * desk.settings.tempo));
    transpose.show(desk.settings.transpose);
    showTransposition(button, desk.settings.transpose);
    swing.show(desk.settings.swing);
    humanise.show(desk.settings.humanise);
    box.hidden = !canSound(); // a file from the server plays as it is
  }
  return Object.assign(box, { show });
}

// The bars that Loop repeats: from the first new bar to the end, or the whole piece.
function loopedBars({ region, piece }) {
  const stop = barCount(piece);
  return { first: region?.first < stop ? region.first : 0, stop };
}

const STOPPING = "Stopping…";

// How far a request is. A given piece is read before the first note, which takes a while if it is long.
export function progressOf({ stopped, bar, bars, reads }) {
  if (stopped) return STOPPING;
  if (bars) return `Composing bar ${bar} of ${bars}`;
  return reads ? "Reading the piece…" : "Waiting for the first notes…";
}

// What was said last, or how far the model is; and errors.
function messages(app) {
  const bar = make("progress", "mg-progress", "", { ariaLabel: "Progress" }),
    said = make("p", "", "", { role: "status" }),
    alarm = make("p", "mg-alarm", "", { role: "alert" });
  function show() {
    const { run } = app.composer;
    bar.hidden = !run;
    if (run?.bars) bar.value = Math.min(0.999, run.part);
    else bar.removeAttribute("value"); // it only moves
    write(said, app.words || (run ? progressOf(run) : ""));
    write(alarm, app.trouble);
  }
  return Object.assign(make("div", "mg-messages", [bar, said, alarm]), { show });
}

// The button Continue, which stops a request while one runs.
function goButton({ composer }) {
  const more = { id: "mg-go", title: "Ctrl+Enter", ariaKeyShortcuts: "Control+Enter" },
    go = action("", () => composer.press(), "mg-chip mg-go", more);
  function show() {
    const stop = composer.run?.stopped ? STOPPING : "Stop";
    write(go, composer.busy ? stop : composer.verb);
    go.classList.toggle("mg-halt", composer.busy);
  }
  return Object.assign(go, { show });
}

export function dockPart(app) {
  const { desk, player } = app;
  const play = action("", () => app.toggle(), "mg-icon mg-play", { id: "mg-dock-play" });
  const rewind = () => player.seek(player.loop?.[0] ?? 0);
  const start = icon("start", "Go to start", rewind, "mg-icon mg-start");
  const title = make("span", "mg-dock-title"),
    time = make("span", "mg-dock-time");
  const said = messages(app),
    playback = playbackMenu(app),
    midi = midiMenu(app),
    go = goButton(app);
  const within = [said, play, start, time, title, player.audio, playback, midi, go],
    box = make("section", "mg-dock", within, { id: "mg-dock", ariaLabel: "Player" });

  function show() {
    const { entry } = player;
    showPlay(play, app, entry ?? desk.current);
    title.textContent = entry ? entry.title : "";
    for (const part of [said, playback, go]) part.show();
    move();
  }
  function move() {
    const { entry } = player;
    if (!entry) return void (time.textContent = "");
    const bars = barCount(entry.piece),
      bar = Math.min(bars, barAt(entry.piece, player.tick) + 1),
      seconds = [player.tick, player.end].map((tick) => player.clock.seconds(tick) / player.tempo);
    write(time, `${seconds.map(clockTime).join(" / ")} · bar ${bar} of ${bars}`);
  }
  return Object.assign(box, { show, move });
}
