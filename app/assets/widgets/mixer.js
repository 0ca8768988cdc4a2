// The tracks of what lies on the desk: mute, solo, volume, instrument; and a part to be written to the others.
import { mixOf, remix } from "../desk/mix.js";
import { isHeard, silentOf } from "../music/heard.js";
import { noMix } from "../sound/transport.js";
import { able, action, isAble, make, rename } from "./parts.js";
import { INSTRUMENTS } from "./instruments.js";

export function mixer(app) {
  const box = make("details", "mg-mixer"),
    list = make("div", "mg-tracks"),
    why = make("p", "mg-why");
  // What is not heard is told on the fold, too: a piece that is silent for a mute in there would be a riddle.
  const summary = make("summary"),
    silent = make("span", "mg-silent-tracks");
  summary.append(make("span", "", "Tracks"), silent);
  box.append(summary, list, why);
  const { desk } = app;
  let shown = "";

  function show() {
    const entry = desk.current;
    box.hidden = !entry?.piece.tracks.length;
    if (box.hidden) return;
    const key = JSON.stringify([entry.piece.tracks, app.model.language]);
    if (key !== shown) {
      shown = key;
      list.replaceChildren(
        ...entry.piece.tracks.map((track, index) => trackLine(app, track, index, why)),
      );
    }
    for (const line of list.children) line.show();
    silent.textContent = silentOf(entry.piece, mixOf(desk, entry));
    why.textContent = "";
  }
  return Object.assign(box, {
    show,
    isMuted: (index) => !isHeard(mixOf(desk, desk.current), index),
  });
}

// A track: mute, solo, volume, instrument, and a part to rewrite; what that lacks is said in `why`.
function trackLine(app, track, index, why) {
  const { desk } = app;
  const mixOn = () => ({ ...noMix(track), ...mixOf(desk, desk.current)[index] });
  const change = (more) => remix(desk, desk.current, index, more);

  function toggle(name, letter, words) {
    const button = action(letter, () => change({ [name]: !mixOn()[name] }), `mg-toggle mg-${name}`);
    rename(button, `${words} ${track.name}`);
    return button;
  }

  const line = make("div", "mg-track"),
    name = make("span", "mg-track-name", track.name);
  line.dataset.colour = index % 3;
  const mute = toggle("mute", "M", "Mute"),
    solo = toggle("solo", "S", "Solo:");
  const volume = make("input", "mg-volume", "", {
    type: "range",
    min: 0,
    max: 127,
    step: 1,
    ariaLabel: `Volume of ${track.name}`,
  });
  volume.addEventListener("input", () => change({ volume: Number(volume.value) }));
  const kind = instrumentChoice(track);
  kind.addEventListener("change", () => change({ program: Number(kind.value) }));
  const write = action(
    "Write a new part",
    () => {
      why.textContent = isAble(write) ? "" : write.title;
      if (isAble(write))
        app.composer.start({ kind: "accompany", parts: [track.name.toLowerCase()] });
    },
    "mg-chip mg-write",
  );
  line.append(name, mute, solo, volume, kind, write);
  line.show = () => {
    const mix = mixOn(),
      { parts, by, why: reason } = app.model.accompany,
      part = track.name.toLowerCase();
    mute.setAttribute("aria-pressed", String(mix.mute));
    solo.setAttribute("aria-pressed", String(mix.solo));
    volume.value = mix.volume;
    volume.style.setProperty("--part", `${(100 * mix.volume) / 127}%`);
    if (!track.drum) kind.value = mix.program;
    const can = parts.includes(part),
      given = desk.current?.piece.notes.length > 0;
    able(
      write,
      can && given && !app.composer.busy,
      can
        ? given
          ? "Something is being composed; press Stop first."
          : "There is nothing yet to write to."
        : reason,
      `Write a new ${part} part to the others, which stay note for note. ${by ? reason : ""}`.trim(),
    );
  };
  return line;
}

function instrumentChoice(track) {
  const kind = make("select", "mg-select", "", { ariaLabel: `Instrument of ${track.name}` });
  if (track.drum) kind.append(make("option", "", "Drum kit"));
  else
    INSTRUMENTS.forEach((text, program) =>
      kind.append(make("option", "", text, { value: program })),
    );
  kind.disabled = track.drum;
  return kind;
}
