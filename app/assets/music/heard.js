// How a piece is heard: with the mix of its tracks, and the tempo, transposition and feel of the player.
import { STRAIGHT, felt } from "./feel.js";
import { WIDTH } from "./piece.js";

export const FULL = 100; // the default volume of a track

export const isHeard = (mix, index) =>
  !mix[index]?.mute && (!mix.some((one) => one?.solo) || Boolean(mix[index]?.solo));
const volumeOf = (mix, index) => mix[index]?.volume ?? FULL;
const isSilent = (mix, index) => !isHeard(mix, index) || volumeOf(mix, index) === 0;

// The sorted indices of the tracks that have notes.
export function tracksWithNotes(piece) {
  const found = new Set();
  for (let i = 4; i < piece.notes.length; i += WIDTH) found.add(piece.notes[i]);
  return [...found].sort((a, b) => a - b);
}

export const isAllSilent = (piece, mix) =>
  piece.notes.length > 0 && tracksWithNotes(piece).every((index) => isSilent(mix, index));

// The silent tracks in words; "" if all are heard.
export function silentOf(piece, mix) {
  const silent = piece.tracks.filter((_, index) => isSilent(mix, index));
  if (!silent.length) return "";
  return isAllSilent(piece, mix)
    ? "all tracks muted"
    : `${silent.map(({ name }) => name).join(" and ")} muted`;
}

// The differences between the piece as heard and as written, in words.
export function changesOf(piece, { mix, tempo, transpose, swing = STRAIGHT, humanise = 0 }) {
  const played = tracksWithNotes(piece),
    other = (test) => played.some((index) => !isSilent(mix, index) && test(index));
  const program = (index) => {
    const track = piece.tracks[index];
    return !track.drum && (mix[index]?.program ?? track.program) !== track.program;
  };
  return [
    transpose && `transposed by ${transpose > 0 ? "+" : "−"}${Math.abs(transpose)}`,
    tempo !== 1 && `at ${Math.round(tempo * 100)} % of the tempo`,
    swing !== STRAIGHT && `with ${swing} % swing`,
    humanise > 0 && `humanised by ${humanise} %`,
    played.some((index) => isSilent(mix, index)) && silentOf(piece, mix),
    other(program) && "changed instruments",
    other((index) => volumeOf(mix, index) !== FULL) && "changed volumes",
  ].filter(Boolean);
}

// These differences as changes of the file of the piece (tokenization/changes.py).
export function changesHeard(piece, { mix, tempo, transpose, ...feel }) {
  const { tracks } = piece,
    { pairs = [] } = felt(piece, feel),
    rows = pairs.filter(([before, after]) => String(before) !== String(after));
  const of = tracks.flatMap(({ program: own, drum }, track) => {
    const { program = own } = mix[track] ?? {},
      volume = volumeOf(mix, track);
    return [
      !drum && program !== own && { change: "program", track, program },
      volume !== FULL && { change: "volume", track, volume },
    ];
  });
  const silent = [...tracks.keys()].filter((track) => isSilent(mix, track));
  return [
    rows.length > 0 && { change: "notes", rows },
    ...of,
    silent.length > 0 && { change: "drop", tracks: silent },
    transpose !== 0 && { change: "transpose", semitones: transpose },
    tempo !== 1 && { change: "tempo", times: tempo },
  ].filter(Boolean);
}
