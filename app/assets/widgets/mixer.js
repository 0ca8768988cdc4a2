// The tracks of what lies on the desk: mute, solo, volume, instrument; and a part to be written to the others.
import { noMix } from "../sound/transport.js";
import { able, action, isAble, make, rename } from "./parts.js";
import { INSTRUMENTS } from "./instruments.js";

export function mixer(app) {
  const box = make("details", "mg-mixer"), list = make("div", "mg-tracks"), why = make("p", "mg-why");
  box.append(make("summary", "", "Tracks"), list, why);
  const { desk } = app;
  let shown = "";

  const mixOf = (track, index) => ({ ...noMix(track), ...desk.settings.mix[app.model.family]?.[index] });

  function change(track, index, more) {
    const family = app.model.family, mix = [...(desk.settings.mix[family] ?? [])];
    mix[index] = { ...mix[index], ...more }; // no more than that: another piece has other instruments
    desk.set({ mix: { ...desk.settings.mix, [family]: Array.from(mix, (one) => one ?? null) } });
  }

  function toggle(track, index, name, letter, words) {
    const button = action(letter, () => change(track, index, { [name]: !mixOf(track, index)[name] }), `mg-toggle mg-${name}`);
    rename(button, `${words} ${track.name}`);
    return button;
  }

  function row(track, index) {
    const line = make("div", "mg-track"), name = make("span", "mg-track-name", track.name);
    line.dataset.colour = index % 3;
    const mute = toggle(track, index, "mute", "M", "Mute"), solo = toggle(track, index, "solo", "S", "Hear alone:");
    const volume = make("input", "mg-volume", "", { type: "range", min: 0, max: 127, step: 1, ariaLabel: `Volume of ${track.name}` });
    volume.addEventListener("input", () => change(track, index, { volume: Number(volume.value) }));
    const kind = make("select", "mg-select", "", { ariaLabel: `Instrument of ${track.name}` });
    if (track.drum) kind.append(make("option", "", "Drum kit"));
    else INSTRUMENTS.forEach((text, program) => kind.append(make("option", "", text, { value: program })));
    kind.disabled = track.drum;
    kind.addEventListener("change", () => change(track, index, { program: Number(kind.value) }));
    const write = action("Write to the others", () => {
      why.textContent = isAble(write) ? "" : write.title;
      if (isAble(write)) app.composer.start({ kind: "accompany", parts: [track.name.toLowerCase()] });
    }, "mg-chip mg-write");
    line.append(name, mute, solo, volume, kind, write);
    line.show = () => {
      const mix = mixOf(track, index), { parts, by, why: reason } = app.model.accompany, part = track.name.toLowerCase();
      mute.setAttribute("aria-pressed", String(mix.mute));
      solo.setAttribute("aria-pressed", String(mix.solo));
      volume.value = mix.volume;
      volume.style.setProperty("--part", `${(100 * mix.volume) / 127}%`);
      if (!track.drum) kind.value = mix.program;
      const can = parts.includes(part), given = desk.current?.piece.notes.length > 0;
      able(write, can && given && !app.composer.busy, can ? (given ? "Something is being composed; press Stop first." : "There is nothing yet to write to.") : reason, `Write a new ${part} part to the others, which stay note for note. ${by ? reason : ""}`.trim());
    };
    return line;
  }

  function show() {
    const entry = desk.current;
    box.hidden = !entry;
    if (!entry) return;
    const key = JSON.stringify([entry.piece.tracks, app.model.family]);
    if (key !== shown) {
      shown = key;
      list.replaceChildren(...entry.piece.tracks.map(row));
    }
    for (const line of list.children) line.show();
    why.textContent = "";
  }
  return Object.assign(box, { show, isMuted: (index) => {
    const mix = desk.settings.mix[app.model.family] ?? [], own = mix[index];
    return Boolean(own?.mute || (mix.some((one) => one?.solo) && !own?.solo));
  } });
}
