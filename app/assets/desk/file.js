// A desk as one project file, and back. A file is checked before it is opened: it may be damaged or come from a stranger, and
// is stored once opened.
import { Desk, interrupted, newId } from "./state.js";

export const ENDING = ".musicgen";
const FORMAT = "musicgen desk 1";
const MOST_BYTES = 64 << 20;

// The page shows this much without delay, and years of work need less.
const MOST_TRACKS = 64,
  MOST_NOTES = 1e5,
  MOST_SIGNS = 1e5,
  MOST_BEATS = 1e5,
  MOST_BAR_BEATS = 1024; // of a piece
const MOST_PIECES = 5e3,
  MOST_TAKES = 32,
  MOST_WORDS = 100; // takes of one request; remarks on a piece
const MOST_LETTERS = 1e4;

// Tests of values.
const isText = (value) => typeof value === "string" && value.length <= MOST_LETTERS;
const isBoolean = (value) => typeof value === "boolean";
const between = (low, high) => (value) => Number.isFinite(value) && value >= low && value <= high;
const within = (low, high) => (value) => Number.isInteger(value) && value >= low && value <= high;
const isCount = within(0, 2 ** 31 - 1);
const optional = (test) => (value) => value === undefined || value === null || test(value);
const list =
  (test, most = MOST_SIGNS) =>
  (value) =>
    Array.isArray(value) && value.length <= most && value.every((one) => test(one));
const row =
  (...tests) =>
  (value) =>
    Array.isArray(value) && tests.every((test, place) => test(value[place]));
const shape = (tests) => (value) =>
  Object(value) === value && Object.entries(tests).every(([name, test]) => test(value[name]));
// An object with any names that `named` accepts.
const table = (named, test) => (value) =>
  Object(value) === value &&
  Object.keys(value).length <= MOST_SIGNS &&
  Object.entries(value).every(([name, one]) => named(name) && test(one));
const each = (test, ...names) => Object.fromEntries(names.map((name) => [name, test]));

const hasPiece = shape({
  tracks: list(shape({ name: isText, program: within(0, 127), drum: isBoolean }), MOST_TRACKS),
  notes: list(isCount, 5 * MOST_NOTES),
  lines: list(isCount),
  ticksPerBeat: within(1, 1 << 15),
  tempos: list(row(Number.isFinite, between(1e-9, Infinity))),
  chords: list(row(Number.isFinite, isText)),
  meters: list(row(Number.isFinite, isCount, within(1, 64))),
  key: optional(row(within(-7, 7), isCount, isCount)),
  controls: optional(list(row(between(0, 2 ** 31), within(0, 128), within(-8192, 8191), isCount))),
});

function isPiece(piece) {
  if (!hasPiece(piece)) return false;
  const { tracks, notes, lines, ticksPerBeat, tempos } = piece,
    most = [Infinity, Infinity, 127, 127, tracks.length - 1],
    isBar = between(1, MOST_BAR_BEATS * ticksPerBeat);
  return (
    notes.length % 5 === 0 &&
    notes.every((value, place) => value <= most[place % 5]) &&
    lines.length > 1 &&
    lines.at(-1) <= MOST_BEATS * ticksPerBeat &&
    lines.every((line, bar) => !bar || isBar(line - lines[bar - 1])) &&
    tempos.length > 0
  );
}

const isCurve = (name) => ["density", "register", "loudness"].includes(name);
// The goals of a plan, by bar numbers.
const isGoals = table((bar) => isCount(Number(bar)), table(isCurve, between(0, 127)));
const isFile = optional((file) => typeof file === "string" && /^[A-Za-z0-9+/]*={0,2}$/.test(file));
const hasEntry = shape({
  ...each(isText, "id", "title", "kind", "state"),
  ...each(
    optional(isText),
    "parent",
    "origin",
    "how",
    "run",
    "model",
    "example",
    "fileName",
    "act",
    "form",
  ),
  ...each(optional(isCount), "number", "chosen"),
  ...each(optional(Number.isFinite), "now", "made"),
  ...each(isFile, "file", "kept"),
  piece: isPiece,
  region: optional(shape({ first: isCount, stop: isCount, tracks: optional(list(isCount)) })),
  notices: optional(list(shape({ text: isText }), MOST_WORDS)),
  remarks: optional(list(isText, MOST_WORDS)),
  goals: optional(isGoals),
  reached: optional(shape(each(isCount, "bars", "of"))),
  // Checked by who applies them.
  edits: optional(list(shape({ change: isText }))),
  ...each(optional(shape({ ticks_per_beat: isCount })), "reading", "keptReading"),
});

// An entry that is being written and a take need their new part, and an accompaniment its tracks.
function isEntry(entry) {
  if (!hasEntry(entry)) return false;
  const { region, kind, how, state, piece } = entry,
    isTake = kind === "take";
  if (!region) return !isTake && state !== "running";
  const { tracks } = region;
  return (
    region.first < region.stop &&
    (tracks ?? []).every((track) => track < piece.tracks.length) &&
    (!isTake || how !== "accompany" || Boolean(tracks))
  );
}

const isTrack = (index) => within(0, MOST_TRACKS - 1)(Number(index));
const isIds = list(isText, MOST_PIECES);
const isProject = shape({
  entries: list(isEntry, MOST_PIECES),
  desk: shape({
    stars: optional(isIds),
    open: shape({
      current: optional(isText),
      takes: list(isText, MOST_TAKES),
      listed: isIds,
      chosen: isCount,
      model: isText,
      goals: optional(shape({ of: isText, bars: isGoals })),
      programs: optional(table(isText, table(isTrack, within(0, 127)))),
    }),
  }),
});

// Whether the page can show a project.
export function canShow(found) {
  if (!isProject(found)) return false;
  const { open } = found.desk,
    ids = new Set(found.entries.map(({ id }) => id)),
    takes = found.entries.filter(({ kind }) => kind === "take"),
    isTake = (id) => takes.some((take) => take.id === id);
  const runs = Map.groupBy(takes, ({ parent, run }) => `${parent} ${run}`); // shown together
  return (
    (open.current === null || ids.has(open.current)) &&
    open.takes.every(isTake) &&
    [...runs.values()].every((run) => run.length <= MOST_TAKES)
  );
}

const isMix = table(isText, list(optional(shape({})), MOST_TRACKS));
const FITS = {
  mix: isMix,
  idea: shape({
    ...each(optional(isText), "style", "key", "metre", "form"),
    tempo: optional(Number.isFinite),
    parts: optional(list(isText, MOST_TRACKS)),
  }),
  chords: isText,
  form: isText,
  bars: within(1, 128),
  variations: within(1, 8),
  draw: within(0, 8),
  seed: isCount,
  tempo: between(0.1, 10),
  transpose: within(-48, 48),
  swing: within(50, 75),
  humanise: within(0, 100),
  grid: within(1, 12),
  temperature: between(0, 10),
  curve: isCurve,
};

// The settings in a project, those before where they are not valid.
export const settingsOf = (found, before) =>
  Object.fromEntries(
    Object.entries(before).map(([name, usual]) => {
      const isAlike = (value) => typeof value === typeof usual && Math.abs(value) !== Infinity,
        fits = FITS[name] ?? isAlike;
      return [name, fits(found?.[name]) ? found[name] : usual];
    }),
  );

// Decode base64; null if empty.
export const bytesFrom = (text) => (text ? Uint8Array.fromBase64(text) : null);

// Whether bytes begin like a MIDI file.
export const isMidi = (bytes) =>
  bytes?.length > 4 && String.fromCharCode(...bytes.subarray(0, 4)) === "MThd";

// Read a file that the user gives; a dropped folder looks like a file until it is read.
export async function bytesOf(file) {
  try {
    return new Uint8Array(await file.arrayBuffer());
  } catch {
    throw new Error(
      `“${file.name}” cannot be read: it is a folder or has been moved. Drop the files themselves.`,
    );
  }
}

const packed = (entry) => ({
  ...entry,
  piece: { ...entry.piece, notes: Array.from(entry.piece.notes) },
  file: entry.file?.toBase64() ?? null,
  kept: entry.kept?.toBase64() ?? null,
});

export function writeDesk(desk) {
  const entries = [...desk.needed].map((id) => desk.entries.get(id)).filter(Boolean);
  return JSON.stringify({ format: FORMAT, desk: desk.plain(), entries: entries.map(packed) });
}

// Read a project as a desk with a new id, so that it does not replace the one it was saved from. Its settings have the types
// of those in `before`.
export function readDesk(text, name, before) {
  if (text.length > MOST_BYTES)
    throw new Error(`“${name}” is larger than the limit of 64 MB for a project.`);
  let found = null;
  try {
    found = JSON.parse(text);
  } catch {} // reported below
  if (found?.format !== FORMAT || !canShow(found))
    throw new Error(`“${name}” is not a complete musicgen project file.`);
  const entries = found.entries.map((entry) =>
    interrupted({
      ...entry,
      piece: { ...entry.piece, notes: Int32Array.from(entry.piece.notes) },
      file: bytesFrom(entry.file),
      kept: bytesFrom(entry.kept),
    }),
  );
  const { open, stars } = found.desk,
    settings = settingsOf(found.desk.settings, before);
  settings.mix = { ...before.mix, ...settings.mix }; // for the pieces already here
  return new Desk({ id: newId(), open, stars, settings }, entries);
}
