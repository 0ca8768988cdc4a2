// Names of notes and chords according to the key: B♭ and E♭ in G minor, never A♯ and D♯.
const LINE = "FCGDAEB"; // the line of fifths: F is −1, C is 0
const FLAT = "♭",
  SHARP = "♯";
const CLASSES = { C: 0, D: 2, E: 4, F: 5, G: 7, A: 9, B: 11 };
const QUALITIES = {
  M: "",
  m: "m",
  o: "°",
  "+": "+",
  7: "7",
  M7: "maj7",
  m7: "m7",
  o7: "°7",
  "/o7": "ø7",
  m7b5: "ø7",
};

// The centre of a piece on the line of fifths; pieces stored by an earlier version have the sharps of their key instead.
export const centreOf = ({ centre, fifths = 0 }) => centre ?? fifths + 1;

const SCALE = [-1, 0, 1, 2, 3, 4, 5]; // C major on the line of fifths
const KEYS = [...Array(12).keys()]
  .map((place) => place - 5)
  .sort((a, b) => Math.abs(a) - Math.abs(b)); // sharps
const AROUND = 4; // bars on each side that determine the key at a bar
const mod = (value, by) => ((value % by) + by) % by;

// The centre of the key whose scale covers most of the weight of pitch classes, as `key_of` in writing.py; null for silence.
function centreFrom(weight) {
  const scale = (key) => SCALE.map((place) => weight[mod(7 * (key + place), 12)]),
    sum = (values) => values.reduce((a, b) => a + b, 0);
  const [key, most] = KEYS.reduce(
    (best, one) => (sum(scale(one)) > best[1] ? [one, sum(scale(one))] : best),
    [0, 0],
  );
  if (!most) return null;
  let heard = 0;
  return key + SCALE[scale(key).findIndex((value) => (heard += value) >= most / 2)];
}

// The centre around each bar, since a piece may modulate.
function centresOf(piece) {
  const { notes, lines, tracks } = piece,
    bars = lines.length - 1,
    weights = Array.from({ length: bars }, () => new Float64Array(12));
  let bar = 0;
  for (let i = 0; i < notes.length; i += 5) {
    while (bar < bars - 1 && lines[bar + 1] <= notes[i]) bar += 1;
    if (!tracks[notes[i + 4]].drum) weights[bar][notes[i + 2] % 12] += notes[i + 1];
  }
  const around = new Float64Array(12),
    add = (at, by) =>
      at >= 0 && at < bars && weights[at].forEach((value, klass) => (around[klass] += by * value));
  for (let at = 0; at < AROUND; at++) add(at, 1);
  return weights.map((_, at) => {
    add(at + AROUND, 1);
    add(at - AROUND - 1, -1);
    return centreFrom(around) ?? centreOf(piece);
  });
}

// The name of a pitch class. Twelve neighbours on the line of fifths, from five below the centre to six above, name the
// twelve classes, as in tokenization/notation/musicxml/writing.py.
export function noteName(pitch, centre) {
  const first = centre - 5;
  const place = first + mod(pitch * 7 - first, 12);
  const alter = Math.floor((place + 1) / 7);
  return LINE[mod(place + 1, 7)] + (alter < 0 ? FLAT.repeat(-alter) : SHARP.repeat(alter));
}

// "Bb", "B♭", "A#" → 10; undefined if it is not a note name.
export function pitchClass(name) {
  const found = /^([A-Ga-g])([#♯b♭]*)$/.exec(name);
  if (!found) return undefined;
  const shift = [...found[2]].reduce((sum, sign) => sum + ("#♯".includes(sign) ? 1 : -1), 0);
  return (((CLASSES[found[1].toUpperCase()] + shift) % 12) + 12) % 12;
}

// The symbol of a stored quality.
export const qualitySign = (quality) => QUALITIES[quality] ?? quality;

// The root, quality and bass of a stored chord; null for "no chord" and for other text.
function partsOf(text) {
  const [, root, quality] = /^([^_]*)_(.*)$/s.exec(text) ?? [],
    klass = root ? pitchClass(root) : undefined;
  if (klass === undefined) return null;
  const [chord, bass] = quality.startsWith("/") ? [quality] : quality.split("/");
  return { klass, chord, bass: bass === undefined ? undefined : pitchClass(bass) };
}

const naturalOf = (klass) => Object.keys(CLASSES).find((letter) => CLASSES[letter] === klass);
function singly(klass, centre) {
  const name = noteName(klass, centre);
  return name.length > 2 ? naturalOf(klass) : name;
}

// The symbol of a stored chord: B♭m7 for A#_m7 in G minor, "" for no chord. `root` overrides the name of its root.
export function chordSign(text, centre, root = null) {
  const parts = partsOf(text);
  if (!parts) return /^N(_|$)/.test(text) ? "" : text;
  const low = parts.bass === undefined ? "" : `/${singly(parts.bass, centre)}`;
  return (root ?? singly(parts.klass, centre)) + qualitySign(parts.chord) + low;
}

const signsOf = new WeakMap(); // notes → chords and their symbols, cached for painting

// The chord symbols of a piece, each by the key around it. A root is E♯, B♯, C♭ or F♭ only if its neighbours have the same
// accidental: E♯ between F♯ and C♯, never next to D minor. No root has two accidentals.
export function chordSigns(piece) {
  const kept = signsOf.get(piece.notes);
  if (kept?.chords === piece.chords) return kept.signs;
  const { chords, lines } = piece,
    centres = chords.length ? centresOf(piece) : [];
  let bar = 0;
  const placed = chords.map(([tick, text]) => {
    while (bar < lines.length - 2 && lines[bar + 1] <= tick) bar += 1;
    const parts = partsOf(text),
      centre = centres[bar] ?? centreOf(piece);
    return { text, parts, centre, root: parts && singly(parts.klass, centre) };
  });
  const known = placed.filter(({ parts }) => parts);
  known.forEach((one, place) => {
    const neighbours = [-1, 1]
      .map((by) => {
        let at = place + by;
        while (known[at]?.parts.klass === one.parts.klass) at += by;
        return known[at]?.root;
      })
      .filter(Boolean);
    const agree = neighbours.length > 0 && neighbours.every((root) => root.includes(one.root[1]));
    one.name = (agree ? null : naturalOf(one.parts.klass)) ?? one.root;
  });
  const signs = placed.map(({ text, name, centre }) => chordSign(text, centre, name));
  signsOf.set(piece.notes, { chords, signs });
  return signs;
}

const NAMES = ["C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B"]; // of stored chords

// Transpose a stored chord by semitones; other text stays as it is.
export function chordIn(text, steps) {
  const up = (note) => NAMES[(pitchClass(note) + steps + 12) % 12];
  const [, root, quality, bass] = /^([A-G][#b]?)_(.*?)(?:\/([A-G][#b]?))?$/.exec(text) ?? [];
  return root ? `${up(root)}_${quality}${bass ? `/${up(bass)}` : ""}` : text;
}
