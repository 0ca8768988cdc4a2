// The mixer: mute, solo, volume and instrument of each track, and a button to have its part written again.
import { FULL, silentOf, tracksWithNotes } from "../music/heard.js";
import { able, action, fold, make, onFields, options, rename } from "./parts.js";

const ALONE = "There is no other part with notes; select bars to rewrite them.";

export function mixer(app) {
  // Silent tracks are named on the closed fold, too, so that nobody wonders why nothing sounds.
  const silent = make("span"),
    list = make("div", "mg-tracks"),
    box = fold([make("span", "", "Tracks"), silent], "mg-mixer", [list]);
  const { desk } = app;
  let shown = "";

  function show() {
    const entry = desk.current;
    box.hidden = !entry?.piece.tracks.length;
    if (box.hidden) return;
    const key = JSON.stringify(entry.piece.tracks);
    if (key !== shown) {
      shown = key;
      const { tracks } = entry.piece,
        longest = Math.max(...tracks.map(({ name }) => name.length));
      list.style.setProperty("--longest", `${longest + 2}ch`);
      list.replaceChildren(...tracks.map((track, index) => trackLine(app, track, index)));
    }
    for (const line of list.children) line.show();
    const words = silentOf(entry.piece, desk.mixOf(entry));
    silent.textContent = words && ` · ${words}`;
  }
  return Object.assign(box, { show });
}

function trackLine(app, track, index) {
  const { desk } = app;
  const usual = { mute: false, solo: false, volume: FULL, program: track.program };
  const mixOn = () => ({ ...usual, ...desk.mixOf(desk.current)[index] });
  const change = (more) => desk.remix(desk.current, index, more);

  function toggle(name, letter, words) {
    const button = action(letter, () => change({ [name]: !mixOn()[name] }), "mg-icon");
    rename(button, `${words} ${track.name}`);
    return button;
  }

  const name = make("span", "mg-track-name", track.name, { title: track.name });
  const mute = toggle("mute", "M", "Mute"),
    solo = toggle("solo", "S", "Solo");
  const bounds = { type: "range", name: "volume", min: 0, max: 127 },
    volume = make("input", "", "", { ...bounds, ariaLabel: `Volume of ${track.name}` }),
    names = track.drum ? ["Drum kit"] : app.facts.instruments,
    chosen = { name: "program", ariaLabel: `Instrument of ${track.name}`, disabled: track.drum },
    kind = make("select", "", options([...names.entries()]), chosen);
  const begin = () =>
    app.composer.start({ kind: "accompany", parts: app.partsOf(desk.current.piece, [index]) });
  const write = action("Rewrite this part", begin, "mg-chip mg-write");
  const line = make("div", "mg-track", [name, mute, solo, volume, kind, write]);
  onFields(line, (name, value) => change({ [name]: Number(value) }));
  name.style.borderColor = `var(--mg-given-${index % 3})`;
  line.show = () => {
    const mix = mixOn(),
      { lacks } = app.model,
      { piece } = desk.current;
    mute.ariaPressed = mix.mute;
    solo.ariaPressed = mix.solo;
    volume.value = mix.volume;
    if (!track.drum) kind.value = mix.program;
    able(
      write,
      `Write ${track.name} again; the other parts stay as they are.`,
      lacks.accompany ?? false,
      !tracksWithNotes(piece).some((one) => one !== index) && ALONE,
      app.composer.why,
    );
  };
  return line;
}
