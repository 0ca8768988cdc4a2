// What the file of a desk must hold to be opened: it may be damaged, or come from a stranger, and is kept once it is open.

export const isText = (value) => typeof value === "string";
const within = (low, high) => (value) => Number.isInteger(value) && value >= low && value <= high;
const isTick = within(0, 2 ** 31 - 1);
export const isCount = isTick;
const isAbove = (low) => (value) => Number.isFinite(value) && value > low;
const isList = (test) => (value) => Array.isArray(value) && value.every(test);
const isRow = (...tests) => (value) => Array.isArray(value) && tests.every((test, place) => test(value[place]));
const isTrack = (track) => isText(track?.name) && within(0, 127)(track.program) && typeof track.drum === "boolean";

function isPiece(piece) {
  if (!piece || !isList(isTrack)(piece.tracks) || !Array.isArray(piece.notes) || piece.notes.length % 5) return false;
  const note = [isTick, isTick, within(0, 127), within(0, 127), within(0, piece.tracks.length - 1)];
  return piece.notes.every((value, place) => note[place % 5](value))
    && isList(isTick)(piece.lines) && piece.lines.length > 1 && piece.lines.every((line, bar) => !bar || line > piece.lines[bar - 1])
    && within(1, 1 << 15)(piece.ticksPerBeat) && isList(isRow(Number.isFinite, isAbove(0)))(piece.tempos) && piece.tempos.length > 0
    && isList(isRow(Number.isFinite, isText))(piece.chords) && isList(isRow(Number.isFinite, isCount, within(1, 64)))(piece.meters);
}

// What may be left unsaid.
export const isMaybe = (test) => (value) => value === undefined || value === null || test(value);
const isRegion = (region) => isCount(region?.first) && isCount(region.stop) && isMaybe(isList(isCount))(region.tracks);
const isLikeness = (one) => isText(one?.metric) && isList(isMaybe(Number.isFinite))(one.quarters);
// What else a piece on the desk can say of itself, and the kind that it is of.
const SAID = {
  ...Object.fromEntries(["parent", "how", "run", "by", "byWhy", "model", "example", "fileName", "act"].map((name) => [name, isText])),
  ...Object.fromEntries(["number", "bars", "chosen", "fresh", "now", "trainedBars", "made"].map((name) => [name, Number.isFinite])),
  notices: isList((notice) => isText(notice?.text)), remarks: isList(isText), likeness: isList(isLikeness),
  real: (real) => Object.values(real).every(Number.isFinite),
};
const isSaid = (entry) => Object.entries(SAID).every(([name, test]) => isMaybe(test)(entry[name]));
const isFile = (file) => !file || (isText(file) && /^[A-Za-z0-9+/]*={0,2}$/.test(file));
const isEntry = (entry) => [entry?.id, entry?.title, entry?.kind, entry?.state].every(isText) && isPiece(entry.piece) && isFile(entry.file) && isFile(entry.kept) && isSaid(entry)
  && (isRegion(entry.region) ? (entry.region.tracks ?? []).every((track) => track < entry.piece.tracks.length) : !entry.region && entry.state !== "running");

export function isDesk(found) {
  if (!isList(isEntry)(found?.entries) || !isList(isText)(found.desk?.stars ?? [])) return false;
  const { open } = found.desk, ids = new Set(found.entries.map(({ id }) => id));
  return open && (open.current === null || ids.has(open.current)) && isList(isText)(open.takes) && isList(isText)(open.listed) && isCount(open.chosen) && isText(open.model);
}

const isMix = (mix) => Boolean(mix) && Object.values(mix).every(isList((one) => one === null || typeof one === "object"));
const isIdea = (idea) => Boolean(idea) && isMaybe(isList(isText))(idea.parts) && isMaybe(Number.isFinite)(idea.tempo)
  && [idea.style, idea.key, idea.metre, idea.form].every(isMaybe(isText));
const FITS = { mix: isMix, idea: isIdea, tempo: isAbove(0) };

// The settings that are of the kind of those before them.
export const settingsOf = (found, before) => Object.fromEntries(Object.entries(before).flatMap(([name, usual]) => {
  const value = found?.[name], isOne = typeof value === typeof usual && (typeof usual !== "number" || Number.isFinite(value));
  return isOne && (FITS[name]?.(value) ?? true) ? [[name, value]] : [];
}));
