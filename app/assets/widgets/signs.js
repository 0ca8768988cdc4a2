// Tempo, key and metre in the head of the piece, and the menu that sets them.
import { keyName } from "../music/keys.js";
import { barAt, barCount, beatOf } from "../music/piece.js";
import { action, choice, field, make, menu, onFields, suggest } from "./parts.js";

const TEMPO = { type: "number", min: 20, max: 400, step: 1 };
const METRES = ["4/4", "3/4", "2/4", "6/8", "2/2", "9/8", "12/8", "3/8", "6/4", "5/4", "7/8"];
const ABOUT = "The key is used in what is written if most notes fit it.";
const PAUSE = 2500,
  SETTLED = 900; // milliseconds between taps that begin anew, and after the last one
const KEYS = [0, 1].flatMap((minor) =>
  Array.from({ length: 15 }, (_, place) => place - 7).map((fifths) => [
    `${fifths} ${minor}`,
    keyName(fifths, minor),
  ]),
);

// The tempo at a tick in beats of the metre, and their length in quarter notes.
export function tempoAt(piece, tick) {
  const bar = Math.min(barCount(piece) - 1, barAt(piece, tick)),
    beat = beatOf(piece, bar) / piece.ticksPerBeat,
    [, tempo] = piece.tempos.findLast(([at]) => at <= tick) ?? piece.tempos[0] ?? [0, 120];
  return { tempo: Math.round(tempo / beat), beat };
}

const metreAt = ({ meters }, tick) => {
  const [, top, low] = meters.findLast(([at]) => at <= tick) ?? [0, 4, 4];
  return `${top}/${low}`;
};

// Calls `done` with the tempo of some taps, once they have stopped.
function taps(done) {
  let times = [],
    waits = 0;
  return () => {
    const now = performance.now();
    times = now - times.at(-1) < PAUSE ? [...times.slice(-8), now] : [now];
    clearTimeout(waits);
    if (times.length < 3) return;
    const beats = times.length - 1,
      tempo = Math.round((60000 * beats) / (times.at(-1) - times[0]));
    waits = setTimeout(() => done(tempo), SETTLED);
  };
}

// Set what a field says from a tick on.
function setSign(app, at, name, value) {
  const { piece } = app.desk.current;
  if (name === "key") return app.setKey(...value.split(" ").map(Number));
  if (name === "metre") {
    const [, beats, unit] = /^\s*(\d{1,2})\s*\/\s*(1|2|4|8|16|32)\s*$/.exec(value) ?? [];
    if (!(beats > 0)) return app.fail(`“${value}” is no time signature; write one such as 3/4.`);
    return app.setMetre(Number(beats), Number(unit), at);
  }
  const { min, max } = TEMPO,
    beats = Number(value);
  if (!(beats >= min && beats <= max))
    return app.fail(`The tempo is ${value || "empty"}; it must be from ${min} to ${max} BPM.`);
  return app.setTempo(beats * tempoAt(piece, at).beat, at);
}

export function signsMenu(app, roll) {
  const { desk } = app,
    tempo = field("bpm", "Tempo (BPM)", "input", TEMPO),
    tap = action(
      "Tap",
      taps((beats) => set("bpm", beats)),
    ),
    key = choice("key", "Key", KEYS),
    metre = field("metre", "Time signature", "input", { type: "text", maxLength: 5 }),
    from = make("p", "mg-menu-words"),
    within = [make("div", "mg-row", [tempo, tap]), key, metre, from],
    box = menu("", [...within, make("p", "mg-menu-words", ABOUT)], "mg-signs"),
    [button] = box.children;
  suggest(metre, METRES);

  // Where the signs are set: at the selected bars, else at the beat that playback has reached.
  function here() {
    const { piece } = desk.current;
    if (roll.range) return piece.lines[roll.range.first];
    const tick = app.player.entry?.id === desk.current.id ? app.player.tick : 0,
      bar = Math.min(barCount(piece) - 1, barAt(piece, tick)),
      beat = beatOf(piece, bar);
    return piece.lines[bar] + Math.round((tick - piece.lines[bar]) / beat) * beat;
  }

  const set = (name, value) => setSign(app, here(), name, value);
  onFields(box, set);

  function show() {
    const entry = desk.current;
    box.hidden = !entry || entry.state === "running";
    if (box.hidden) return;
    const { piece } = entry,
      at = here(),
      bar = Math.min(barCount(piece) - 1, barAt(piece, at)),
      beat = (at - piece.lines[bar]) / beatOf(piece, bar) + 1,
      { tempo: beats } = tempoAt(piece, at),
      [fifths, minor, isGuess] = piece.key ?? [];
    const named = fifths === undefined ? "" : keyName(fifths, minor) + (isGuess ? "?" : "");
    button.textContent = [`${beats} BPM`, named, metreAt(piece, at)].filter(Boolean).join(" · ");
    button.ariaLabel = `Tempo, key and metre: ${button.textContent}`;
    tempo.show(beats);
    key.fill(isGuess ? [["", `${keyName(fifths, minor)} (guessed)`], ...KEYS] : KEYS);
    key.show(isGuess ? "" : `${fifths} ${minor}`);
    key.hidden = !named;
    metre.show(metreAt(piece, at));
    const place = beat > 1 ? `bar ${bar + 1}, beat ${beat}` : `bar ${bar + 1}`;
    from.textContent = `Tempo and time signature are set from ${place} on; select bars, or play, to set them elsewhere.`;
  }
  box.list.addEventListener("beforetoggle", show);
  return Object.assign(box, { show });
}
