// Validates a project file before it is opened: it may be damaged or come from a stranger, and is stored once opened.

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

const isText = (value) => typeof value === "string" && value.length <= MOST_LETTERS;
const within = (low, high) => (value) => Number.isInteger(value) && value >= low && value <= high;
const isTick = within(0, 2 ** 31 - 1);
const isCount = isTick;
const between = (low, high) => (value) => Number.isFinite(value) && value >= low && value <= high;
const isAbove = (low) => (value) => Number.isFinite(value) && value > low;
const isList =
  (test, most = MOST_SIGNS) =>
  (value) =>
    Array.isArray(value) && value.length <= most && value.every(test);
const isRow =
  (...tests) =>
  (value) =>
    Array.isArray(value) && tests.every((test, place) => test(value[place]));
const isTrack = (track) =>
  isText(track?.name) && within(0, 127)(track.program) && typeof track.drum === "boolean";

function isPiece(piece) {
  if (!piece || !isList(isTrack, MOST_TRACKS)(piece.tracks)) return false;
  if (!isList(Number.isInteger, 5 * MOST_NOTES)(piece.notes) || piece.notes.length % 5)
    return false;
  const note = [isTick, isTick, within(0, 127), within(0, 127), within(0, piece.tracks.length - 1)];
  const { lines, ticksPerBeat } = piece,
    isBar = (ticks) => ticks > 0 && ticks <= MOST_BAR_BEATS * ticksPerBeat;
  return (
    piece.notes.every((value, place) => note[place % 5](value)) &&
    within(1, 1 << 15)(ticksPerBeat) &&
    isList(isTick)(lines) &&
    lines.length > 1 &&
    lines.at(-1) <= MOST_BEATS * ticksPerBeat &&
    lines.every((line, bar) => !bar || isBar(line - lines[bar - 1])) &&
    isList(isRow(Number.isFinite, isAbove(0)))(piece.tempos) &&
    piece.tempos.length > 0 &&
    isList(isRow(Number.isFinite, isText))(piece.chords) &&
    isList(isRow(Number.isFinite, isCount, within(1, 64)))(piece.meters)
  );
}

// A test for an optional value.
const isOptional = (test) => (value) => value === undefined || value === null || test(value);
const isRegion = (region) =>
  isCount(region?.first) &&
  isCount(region.stop) &&
  region.first < region.stop &&
  isOptional(isList(isCount))(region.tracks);
// The goals of a plan, by bar numbers.
const isCurve = (name) => ["density", "register", "loudness"].includes(name);
const isGoal = (goal) =>
  Object.entries(goal ?? {}).every(([curve, value]) => isCurve(curve) && between(0, 127)(value));
const isGoals = (goals) =>
  Object.keys(goals).length <= MOST_SIGNS &&
  Object.entries(goals).every(([bar, goal]) => isCount(Number(bar)) && isGoal(goal));
// Tests for the optional attributes of an entry.
const each = (test, ...names) => Object.fromEntries(names.map((name) => [name, test]));
const OPTIONAL = {
  ...each(isText, "parent", "how", "run", "model", "example", "fileName", "act"),
  ...each(isCount, "number", "chosen"),
  ...each(Number.isFinite, "now", "made"),
  notices: isList((notice) => isText(notice?.text), MOST_WORDS),
  remarks: isList(isText, MOST_WORDS),
  goals: isGoals,
};
const hasValidOptions = (entry) =>
  Object.entries(OPTIONAL).every(([name, test]) => isOptional(test)(entry[name]));
const isFile = (file) => !file || (typeof file === "string" && /^[A-Za-z0-9+/]*={0,2}$/.test(file));
const isEntry = (entry) =>
  [entry?.id, entry?.title, entry?.kind, entry?.state].every(isText) &&
  isPiece(entry.piece) &&
  isFile(entry.file) &&
  isFile(entry.kept) &&
  hasValidOptions(entry) &&
  (isRegion(entry.region)
    ? (entry.region.tracks ?? []).every((track) => track < entry.piece.tracks.length)
    : !entry.region && entry.state !== "running");

function isDesk(found) {
  const isIds = isList(isText, MOST_PIECES);
  if (!isList(isEntry, MOST_PIECES)(found?.entries) || !isIds(found.desk?.stars ?? []))
    return false;
  const { open } = found.desk,
    ids = new Set(found.entries.map(({ id }) => id));
  return (
    open &&
    (open.current === null || ids.has(open.current)) &&
    isList(isText, MOST_TAKES)(open.takes) &&
    isIds(open.listed) &&
    isCount(open.chosen) &&
    isText(open.model) &&
    isOptional(({ of, bars }) => isText(of) && Boolean(bars) && isGoals(bars))(open.goals)
  );
}

// A take needs its new part, and an accompaniment its tracks.
const isTake = ({ how, region }) => region && (how !== "accompany" || region.tracks?.length);

// The takes of each request, which are shown together.
const runsOf = (takes) => [...Map.groupBy(takes, ({ parent, run }) => `${parent} ${run}`).values()];

// Whether the page can show a project.
export function canShow(found) {
  if (!isDesk(found)) return false;
  const { entries, desk } = found,
    { open } = desk,
    takes = entries.filter(({ kind }) => kind === "take"),
    ids = new Set(takes.map(({ id }) => id));
  return (
    takes.every(isTake) &&
    open.takes.every((id) => ids.has(id)) &&
    runsOf(takes).every((run) => run.length <= MOST_TAKES)
  );
}

const isMix = (mix) =>
  Boolean(mix) &&
  Object.keys(mix).length <= MOST_PIECES &&
  Object.values(mix).every(isList((one) => one === null || typeof one === "object", MOST_TRACKS));
const isIdea = (idea) =>
  Boolean(idea) &&
  isOptional(isList(isText, MOST_TRACKS))(idea.parts) &&
  isOptional(Number.isFinite)(idea.tempo) &&
  [idea.style, idea.key, idea.metre, idea.form].every(isOptional(isText));
const FITS = {
  mix: isMix,
  idea: isIdea,
  chords: isText,
  bars: within(1, 128),
  variations: within(1, 8),
  seed: isCount,
  tempo: between(0.1, 10),
  transpose: within(-48, 48),
  temperature: between(0, 10),
  curve: isCurve,
};

// The settings whose values are valid and of the type of those before them.
export const settingsOf = (found, before) =>
  Object.fromEntries(
    Object.entries(before).flatMap(([name, usual]) => {
      const value = found?.[name],
        isOne =
          typeof value === typeof usual && (typeof usual !== "number" || Number.isFinite(value));
      return isOne && (FITS[name]?.(value) ?? true) ? [[name, value]] : [];
    }),
  );
