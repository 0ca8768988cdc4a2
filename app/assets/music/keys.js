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

const mod = (value, by) => ((value % by) + by) % by;

// "Bb", "A#" → 10
function pitchClass(name) {
  const shift = { "#": 1, b: -1 }[name[1]] ?? 0;
  return mod(CLASSES[name[0]] + shift, 12);
}

// The name of a place on the line of fifths.
function nameAt(place) {
  const alter = Math.floor((place + 1) / 7);
  return LINE[mod(place + 1, 7)] + (alter < 0 ? FLAT.repeat(-alter) : SHARP.repeat(alter));
}

// The name of a pitch class in a key with a centre on the line of fifths. Twelve neighbours on the line, from five below the
// centre to six above, name the twelve classes, as in tokenization/notation/musicxml/writing.py.
export function noteName(pitch, centre) {
  const first = centre - 5;
  return nameAt(first + mod(pitch * 7 - first, 12));
}

// The name of a key with some sharps, or flats if negative: A minor, F♯ minor.
export const keyName = (fifths, minor) =>
  minor ? `${nameAt(fifths + 3)} minor` : `${nameAt(fifths)} major`;

// The name of a pitch class with at most one accidental.
function simpleName(pitch, centre) {
  const name = noteName(pitch, centre);
  const natural = Object.keys(CLASSES).find((letter) => CLASSES[letter] === pitch);
  return name.length > 2 ? natural : name;
}

// The root, quality and bass of a stored chord; null for "no chord" and for other text.
function partsOf(text) {
  const [, root, quality, bass] = /^([A-G][#b]?)_(\/?[^/]*)(?:\/([A-G][#b]?))?$/.exec(text) ?? [];
  if (!root) return null;
  return { root: pitchClass(root), quality, bass: bass ? pitchClass(bass) : null };
}

// The symbol of a stored chord, as written if that says more: B♭m7 for A#_m7 in G minor, "" for no chord.
export function chordSign(text, centre, symbol = "") {
  if (symbol) return symbol;
  const parts = partsOf(text);
  if (!parts) return /^N(_|$)/.test(text) ? "" : text;
  const { root, quality, bass } = parts,
    low = bass === null ? "" : `/${simpleName(bass, centre)}`;
  return simpleName(root, centre) + (QUALITIES[quality] ?? quality) + low;
}
