// Writes a piece, or some of its tracks, as a MIDI file.
import { rowsOf } from "./piece.js";

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
  if (piece.signature) {
    const [sharps, isMinor] = piece.signature;
    events.push([0, 1, meta(0x59, [sharps & 0xff, isMinor ? 1 : 0])]);
  }
  for (const [tick, name, isGuess] of piece.chords)
    events.push([tick * by, 2, meta(6, text.encode(isGuess ? `${name}?` : name))]);
  return track(events);
}

function instrument(one, channel, rows, by, volume) {
  const events = [[0, 0, meta(3, text.encode(one.name))]];
  if (!one.drum) events.push([0, 1, [0xc0 | channel, one.program & 0x7f]]);
  if (volume !== undefined) events.push([0, 1, [0xb0 | channel, 7, volume]]);
  for (const [onset, duration, pitch, velocity] of rows) {
    events.push([onset * by, 3, [0x90 | channel, pitch, Math.max(1, velocity)]]);
    events.push([(onset + duration) * by, 2, [0x80 | channel, pitch, 0]]);
  }
  return track(events);
}

// `chosen`: indices of tracks, by default all with notes. `made`: the provenance, stored as a text. `volumes`: by track.
export function writeMidi(piece, { made = null, chosen = null, volumes = [] } = {}) {
  const by = piece.ticksPerBeat < COARSE ? Math.floor(USUAL / piece.ticksPerBeat) : 1;
  const rows = rowsOf(piece),
    pitched = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15];
  const escaped = (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`,
    ascii = JSON.stringify(made).replace(/[^\x20-\x7e]/g, escaped),
    tracks = [conductor(piece, by, made ? [`musicgen ${ascii}`] : [])];
  piece.tracks.forEach((one, index) => {
    const own = rows.filter((row) => row[4] === index);
    if (!own.length || (chosen && !chosen.includes(index))) return;
    tracks.push(instrument(one, one.drum ? 9 : (pitched.shift() ?? 0), own, by, volumes[index]));
  });
  const numbers = [1, tracks.length, piece.ticksPerBeat * by],
    words = numbers.flatMap((number) => word(number, 2)),
    head = chunk("MThd", words);
  return Uint8Array.from([head, ...tracks].flat());
}

// Whether bytes begin like a MIDI file.
export const isMidi = (bytes) =>
  bytes.length > 4 && String.fromCharCode(...bytes.subarray(0, 4)) === "MThd";
