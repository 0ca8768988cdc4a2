// Chords as typed, such as "B♭m7" or "G/B": reading them, storing them, and setting the notes of a bar to one.
import { pitchClass, qualitySign } from "./keys.js";
import { lastPitched, rowsOf, withRows } from "./piece.js";

const TONES = {
  M: [0, 4, 7],
  m: [0, 3, 7],
  o: [0, 3, 6],
  "+": [0, 4, 8],
  7: [0, 4, 7, 10],
  M7: [0, 4, 7, 11],
  m7: [0, 3, 7, 10],
  "/o7": [0, 3, 6, 10],
  o7: [0, 3, 6, 9],
  sus2: [0, 2, 7],
  sus4: [0, 5, 7],
};
const NAMES = ["C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B"];

// Chord names as people type them; a test keeps them equal to those of tokenization/analysis/chords.py. Before the "|" are
// synonyms of the quality, after it richer chords that are simplified to it.
const SYNONYMS = {
  M: "M maj major ma :1 | 5 6 maj6 M6 69 6/9 maj69 add9 add2 add4 add11 maj9no7",
  m: "m min minor mi - | min6 m6 -6 m69 madd9 minadd9 minmaj7 mmaj7 mM7 minM7 -M7 minmaj9 mM9",
  o: "o dim ° mb5 minb5 m(b5) min(b5) |",
  "+": "+ aug maj#5 M#5 | +7 aug7 7#5 +M7 augmaj7 maj7#5 M7#5 9#5",
  7: "7 dom dom7 maj(b7) | 9 11 13 7b9 7#9 7#11 7b5 7b13 7alt alt",
  M7: "M7 maj7 ma7 major7 Maj7 Δ Δ7 ^7 ^ j7 maj(7) | M9 maj9 M11 maj11 M13 maj13 maj7#11 M7#11",
  m7: "m7 min7 mi7 minor7 -7 min(b7) | m9 min9 -9 m11 min11 -11 m13 min13",
  o7: "o7 dim7 °7 |",
  "/o7": "/o7 hdim7 hdim ø ø7 m7b5 min7b5 -7b5 m7-5 m7(b5) min7(b5) | m9b5",
  sus2: "sus2 | sus9 7sus2 9sus2 sus2(b7)",
  sus4: "sus4 sus | 7sus 7sus4 9sus 9sus4 13sus 13sus4 sus47 sus4(b7) sus4(b7,9) sus24",
};
const QUALITY = new Map(),
  RICHER = new Set();
for (const [quality, names] of Object.entries(SYNONYMS)) {
  const [own, richer] = names.split("|").map((some) => some.split(" ").filter(Boolean));
  for (const name of [...own, ...richer]) QUALITY.set(name, quality);
  for (const name of richer) RICHER.add(name);
}
const LONGEST = 32;
const NONE = /^(?:chord[-_: ]*)?(?:N|N_N|N:N|N\.C\.?|NC)$/i;
const NAME = /^(?:chord[-_: ]*)?([A-Ga-g])([#♯b♭]{0,2})([_:]?)(.*)$/is;
const NOTE = /^[A-Ga-g][#♯b♭]{0,2}$/;

// The quality of a chord as written, without its bass, or without brackets, and whether something was left out.
function qualityOf(text) {
  const plain = text.startsWith("/o") ? text : text.split("/")[0],
    bare = plain.replace(/\(.*?\)/g, "");
  for (const one of [text, plain, bare]) {
    if (!one) return ["M", bare !== plain];
    if (QUALITY.has(one)) return [QUALITY.get(one), RICHER.has(one) || one !== plain];
  }
  return null;
}

const signed = (note) =>
  note[0].toUpperCase() + note.slice(1).replaceAll("b", "♭").replaceAll("#", "♯");

// Parse a typed chord: its root, bass and tones (pitch classes), how it is stored, and in `less` what a richer chord was
// simplified to, as displayed. Null if it is not a chord; "N" has no tones.
export function readChord(typed) {
  const text = typed.trim();
  if (text.length > LONGEST) return null;
  if (NONE.test(text)) return { root: null, bass: null, tones: [], stored: "N_N", less: "" };
  const [, letter, signs, mark, rest] = NAME.exec(text) ?? [];
  if (!letter) return null;
  const whole = mark + rest,
    found = QUALITY.has(whole) ? [QUALITY.get(whole), RICHER.has(whole)] : qualityOf(rest);
  if (!found) return null;
  const [quality, isRicher] = found,
    under = QUALITY.has(whole) || QUALITY.has(rest) ? "" : rest.split("/").slice(1).join("/"),
    root = pitchClass(letter + signs),
    bass = NOTE.test(under) ? pitchClass(under) : root;
  const tones = TONES[quality].map((step) => (root + step) % 12),
    low = bass === root ? "" : `/${NAMES[bass]}`;
  const written = low && quality === "/o7" ? "m7b5" : quality; // two slashes would be ambiguous
  const shown = signed(letter + signs) + qualitySign(quality) + (low && `/${signed(under)}`);
  return {
    root,
    bass,
    tones: tones.includes(bass) ? tones : [bass, ...tones],
    stored: `${NAMES[root]}_${written}${low}`,
    less: isRicher || (under && !NOTE.test(under)) ? shown : "",
  };
}

// Transpose a stored chord by semitones; other text stays as it is.
export function chordIn(text, steps) {
  const up = (note) => NAMES[(pitchClass(note) + steps + 12) % 12];
  const [, root, quality, bass] = /^([A-G][#b]?)_(.*?)(?:\/([A-G][#b]?))?$/.exec(text) ?? [];
  return root ? `${up(root)}_${quality}${bass ? `/${up(bass)}` : ""}` : text;
}

// A notice on how a typed progression is read, since models know neither richer chords nor basses; "" if unchanged.
export function progressionNotice(line) {
  const taken = new Map();
  for (const text of line.split(/[\s|]+/).filter(Boolean)) {
    const chord = readChord(text),
      heard = chord?.less || (chord?.bass !== chord?.root && text);
    if (heard) taken.set(text, heard.split("/")[0]);
  }
  return taken.size
    ? `Read as: ${[...taken].map(([text, heard]) => `${text} → ${heard}`).join(", ")}.`
    : "";
}

// The nearest pitch of the given pitch classes; the lower of two equally near.
function nearest(pitch, classes) {
  for (let step = 0; step < 12; step++)
    for (const near of [pitch - step, pitch + step])
      if (near >= 0 && near < 128 && classes.includes(near % 12)) return near;
  return pitch;
}

const told = new WeakMap(); // piece → notice on its new chord

// The notice on a piece whose new chord was simplified; "" if it was not.
export const chordNotice = (piece) => told.get(piece) ?? "";

// Set the chord of a bar: its notes move to the nearest tones, the lowest to the bass; an empty bar gets a block chord. With
// "N" (no chord), the notes stay.
export function withChord(piece, bar, text) {
  const chord = readChord(text);
  if (!chord) throw new Error(`“${text}” is not a known chord; try C, Am7, B♭ or G/B.`);
  const from = piece.lines[bar],
    to = piece.lines[bar + 1],
    rows = rowsOf(piece);
  const here = rows.filter((row) => row[0] >= from && row[0] < to && !piece.tracks[row[4]].drum);
  const lowest = Math.min(...here.map((row) => row[2]));
  const sounds = chord.tones.length > 0;
  if (sounds)
    for (const row of here)
      row[2] = nearest(row[2], row[2] === lowest ? [chord.bass] : chord.tones);
  if (sounds && !here.length) rows.push(...block(piece, chord, from, to - from));
  const kept = piece.chords.filter(([tick]) => tick < from || tick >= to);
  const held = piece.chords.filter(([tick]) => tick <= to).at(-1);
  const after = held && held[0] !== to && to < piece.lines.at(-1) ? [[to, ...held.slice(1)]] : [];
  const chords = [...kept, [from, chord.stored], ...after].sort((a, b) => a[0] - b[0]);
  const made = { ...withRows(piece, once(rows)), chords };
  if (chord.less) told.set(made, `“${text.trim()}” is set as ${chord.less}.`);
  return made;
}

// Merge notes of a track with the same onset and pitch; the longest stays.
function once(rows) {
  const seen = new Map();
  for (const row of rows) {
    const key = `${row[0]} ${row[2]} ${row[4]}`,
      other = seen.get(key);
    if (!other || other[1] < row[1]) seen.set(key, row);
  }
  return [...seen.values()];
}

function block(piece, chord, onset, length) {
  const pitches = [36 + chord.bass, ...chord.tones.map((klass) => 60 + klass)];
  return pitches.map((pitch) => [onset, length, pitch, 80, lastPitched(piece.tracks)]);
}
