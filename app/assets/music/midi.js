// Writes a piece as a MIDI file.
import { chordSign } from "./keys.js";
import { WIDTH, rowsOf } from "./piece.js";

const COARSE = 96,
  USUAL = 480;
const text = new TextEncoder();

function variableLength(number) {
  const bytes = [number & 0x7f];
  for (let left = number >> 7; left; left >>= 7) bytes.unshift((left & 0x7f) | 0x80);
  return bytes;
}

const meta = (kind, bytes) => [0xff, kind, ...variableLength(bytes.length), ...bytes];
const word = (value, bytes) =>
  Array.from({ length: bytes }, (_, i) => (value >>> (8 * (bytes - 1 - i))) & 0xff);
const chunk = (name, bytes) => [...text.encode(name), ...word(bytes.length, 4), ...bytes];

// Events [tick, rank, bytes] → a track's bytes.
function track(events) {
  events.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  let now = 0;
  const bytes = [];
  for (const [tick, , event] of events) {
    bytes.push(...variableLength(tick - now), ...event);
    now = tick;
  }
  bytes.push(0, ...meta(0x2f, []));
  return chunk("MTrk", bytes);
}

function conductor(piece, by, texts) {
  const events = texts.map((said) => [0, 0, meta(1, text.encode(said))]);
  for (const [tick, tempo] of piece.tempos)
    events.push([tick * by, 1, meta(0x51, word(Math.min(0xffffff, Math.round(6e7 / tempo)), 3))]);
  for (const [tick, top, low] of piece.meters)
    events.push([tick * by, 1, meta(0x58, [top, Math.log2(low), 24, 8])]);
  if (piece.key && !piece.key[2]) {
    const [sharps, isMinor] = piece.key;
    events.push([0, 1, meta(0x59, [sharps & 0xff, isMinor])]);
  }
  // Guessed chords are cue points; C alone could be the name of a section.
  for (const [tick, name, isGuess, symbol] of piece.chords) {
    const sign = chordSign(name, piece.centre ?? 1, symbol) || "none";
    const said = sign.length > 1 ? sign : `${sign}maj`;
    events.push([tick * by, 2, meta(isGuess ? 7 : 6, text.encode(said))]);
  }
  return track(events);
}

function instrument(one, channel, rows, by) {
  const events = [[0, 0, meta(3, text.encode(one.name))]];
  if (!one.drum) events.push([0, 1, [0xc0 | channel, one.program & 0x7f]]);
  for (const [onset, duration, pitch, velocity] of rows) {
    events.push([onset * by, 3, [0x90 | channel, pitch, Math.max(1, velocity)]]);
    events.push([(onset + duration) * by, 2, [0x80 | channel, pitch, 0]]);
  }
  return track(events);
}

const factorOf = ({ ticksPerBeat: ticks }) => (ticks < COARSE ? Math.floor(USUAL / ticks) : 1);

// The tracks with notes, in ticks of a beat that some players need. `made`: the provenance, stored as a text.
export function writeMidi(piece, { made = null } = {}) {
  const by = factorOf(piece);
  const rows = rowsOf(piece),
    pitched = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15];
  const escaped = (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`,
    ascii = JSON.stringify(made).replace(/[^\x20-\x7e]/g, escaped),
    tracks = [conductor(piece, by, made ? [`musicgen ${ascii}`] : [])];
  piece.tracks.forEach((one, index) => {
    const own = rows.filter((row) => row[4] === index);
    if (!own.length) return;
    tracks.push(instrument(one, one.drum ? 9 : (pitched.shift() ?? 0), own, by));
  });
  const numbers = [1, tracks.length, piece.ticksPerBeat * by],
    words = numbers.flatMap((number) => word(number, 2)),
    head = chunk("MThd", words);
  return Uint8Array.from([head, ...tracks].flat());
}

// The reading of such a file, for changes of it (tokenization/changes.py).
export function readingOf({ notes, tracks, ticksPerBeat }) {
  const used = new Set(notes.filter((_, place) => place % WIDTH === WIDTH - 1)),
    places = [...used].sort((a, b) => a - b),
    sources = tracks.map((_, track) => (used.has(track) ? [places.indexOf(track)] : []));
  const file_ticks = [0, ticksPerBeat * factorOf({ ticksPerBeat })];
  return { ticks_per_beat: ticksPerBeat, sources, file_ticks };
}

// Whether bytes begin like a MIDI file.
export const isMidi = (bytes) =>
  bytes?.length > 4 && String.fromCharCode(...bytes.subarray(0, 4)) === "MThd";
