// Chords as they are typed, "B♭m7" or "G/B": their tones, how they are stored, and a bar that plays one.
import { pitchClass } from "./keys.js";
import { rowsOf, withRows } from "./piece.js";

const CHORD = /^([A-Ga-g][#♯b♭]?)(maj7|M7|m7b5|ø7?|°7|dim7|dim|°|aug|\+|min7|m7|-7|min|m|-|sus2|sus4|7|)(?:\/([A-Ga-g][#♯b♭]?))?$/;
const STORED = {
  "": "M", m: "m", min: "m", "-": "m", "7": "7", maj7: "M7", M7: "M7", m7: "m7", min7: "m7", "-7": "m7",
  "m7b5": "/o7", "ø": "/o7", "ø7": "/o7", "°": "o", dim: "o", "°7": "o7", dim7: "o7", aug: "+", "+": "+", sus2: "sus2", sus4: "sus4",
};
const TONES = {
  M: [0, 4, 7], m: [0, 3, 7], o: [0, 3, 6], "+": [0, 4, 8], 7: [0, 4, 7, 10], M7: [0, 4, 7, 11], m7: [0, 3, 7, 10],
  "/o7": [0, 3, 6, 10], o7: [0, 3, 6, 9], sus2: [0, 2, 7], sus4: [0, 5, 7],
};
const NAMES = ["C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B"];

// A typed chord → its root, tones (pitch classes) and how it is stored; null for what is none.
export function readChord(text) {
  const found = CHORD.exec(text.trim());
  if (!found) return null;
  const root = pitchClass(found[1][0].toUpperCase() + found[1].slice(1)), quality = STORED[found[2]];
  const bass = found[3] ? pitchClass(found[3]) : root;
  const tones = TONES[quality].map((step) => (root + step) % 12);
  return { root, bass, tones: tones.includes(bass) ? tones : [bass, ...tones], stored: `${NAMES[root]}_${quality}` };
}

// The nearest pitch whose class is among some; of two as near, the lower.
function nearest(pitch, classes) {
  for (let step = 0; step < 12; step++)
    for (const near of [pitch - step, pitch + step])
      if (near >= 0 && near < 128 && classes.includes(near % 12)) return near;
  return pitch;
}

// A bar that plays a chord: its notes move to the nearest tones, the lowest to the bass; an empty one gets the chord.
export function withChord(piece, bar, text) {
  const chord = readChord(text);
  if (!chord) throw new Error(`“${text}” is no chord that is known here; try C, Am7, B♭ or G/B.`);
  const from = piece.lines[bar], to = piece.lines[bar + 1], rows = rowsOf(piece);
  const here = rows.filter((row) => row[0] >= from && row[0] < to && !piece.tracks[row[4]].drum);
  const lowest = Math.min(...here.map((row) => row[2]));
  for (const row of here) row[2] = nearest(row[2], row[2] === lowest ? [chord.bass] : chord.tones);
  if (!here.length) rows.push(...block(piece, chord, from, to - from));
  const kept = piece.chords.filter(([tick]) => tick < from || tick >= to);
  const held = piece.chords.filter(([tick]) => tick <= to).at(-1);
  const after = held && held[0] !== to && to < piece.lines.at(-1) ? [[to, held[1]]] : [];
  const chords = [...kept, [from, chord.stored], ...after].sort((a, b) => a[0] - b[0]);
  return { ...withRows(piece, once(rows)), chords };
}

// Notes of one track that would sound twice at once are one.
function once(rows) {
  const seen = new Map();
  for (const row of rows) {
    const key = `${row[0]} ${row[2]} ${row[4]}`, other = seen.get(key);
    if (!other || other[1] < row[1]) seen.set(key, row);
  }
  return [...seen.values()];
}

function block(piece, chord, onset, length) {
  const track = Math.max(0, piece.tracks.findLastIndex((one) => !one.drum));
  const pitches = [36 + chord.bass, ...chord.tones.map((klass) => 60 + ((klass + 12 - (60 % 12)) % 12))];
  return pitches.map((pitch) => [onset, length, pitch, 80, track]);
}
