// The mixer: mute, solo, volume and instrument of each track, and a button to have its part written again.
import { mixOf, remix } from "../desk/mix.js";
import { silentOf } from "../music/heard.js";
import { noMix } from "../sound/transport.js";
import { able, action, fold, isAble, make, options, rename } from "./parts.js";
import { INSTRUMENTS } from "./instruments.js";

export function mixer(app) {
  // Silent tracks are named on the closed fold, too, so that nobody wonders why nothing sounds.
  const silent = make("span", "mg-silent-tracks"),
    list = make("div", "mg-tracks"),
    why = make("p", "mg-why"),
    box = fold([make("span", "", "Tracks"), silent], "mg-mixer", [list, why]);
  const { desk } = app;
  let shown = "";

  function show() {
    const entry = desk.current;
    box.hidden = !entry?.piece.tracks.length;
    if (box.hidden) return;
    const key = JSON.stringify(entry.piece.tracks);
    if (key !== shown) {
      shown = key;
      const { tracks } = entry.piece;
      list.replaceChildren(...tracks.map((track, index) => trackLine(app, track, index, why)));
    }
    for (const line of list.children) line.show();
    silent.textContent = silentOf(entry.piece, mixOf(desk, entry));
    why.textContent = "";
  }
  return Object.assign(box, { show });
}

// The controls of a track; `why` shows why its part cannot be written.
function trackLine(app, track, index, why) {
  const { desk } = app;
  const mixOn = () => ({ ...noMix(track), ...mixOf(desk, desk.current)[index] });
  const change = (more) => remix(desk, desk.current, index, more);

  function toggle(name, letter, words) {
    const button = action(letter, () => change({ [name]: !mixOn()[name] }), `mg-toggle mg-${name}`);
    rename(button, `${words} ${track.name}`);
    return button;
  }

  const name = make("span", "mg-track-name", track.name);
  const mute = toggle("mute", "M", "Mute"),
    solo = toggle("solo", "S", "Solo");
  const ariaLabel = `Volume of ${track.name}`,
    volume = make("input", "mg-volume", "", {
      type: "range",
      min: 0,
      max: 127,
      step: 1,
      ariaLabel,
    });
  volume.addEventListener("input", () => change({ volume: Number(volume.value) }));
  const kind = instrumentChoice(track);
  kind.addEventListener("change", () => change({ program: Number(kind.value) }));
  const begin = () => {
    why.textContent = isAble(write) ? "" : write.title;
    if (isAble(write)) app.composer.start({ kind: "accompany", parts: [track.name.toLowerCase()] });
  };
  const write = action("Write a new part", begin, "mg-chip mg-write");
  const line = make("div", "mg-track", [name, mute, solo, volume, kind, write]);
  name.style.borderColor = `var(--mg-given-${index % 3})`;
  line.show = () => {
    const mix = mixOn(),
      { parts, lacks } = app.model,
      part = track.name.toLowerCase();
    mute.ariaPressed = mix.mute;
    solo.ariaPressed = mix.solo;
    volume.value = mix.volume;
    if (!track.drum) kind.value = mix.program;
    able(
      write,
      `Write a new ${part} part; the other parts stay as they are.`,
      !parts.includes(part) && (lacks.accompany ?? ""),
      !desk.current?.piece.notes.length && "There are no notes to accompany yet.",
      app.composer.busy && "The model is composing; press Stop first.",
    );
  };
  return line;
}

function instrumentChoice(track) {
  const names = track.drum ? ["Drum kit"] : INSTRUMENTS,
    more = { ariaLabel: `Instrument of ${track.name}`, disabled: track.drum };
  return make("select", "mg-select", options([...names.entries()]), more);
}
