// Names of notes and chords by the key: B♭ and E♭ in G minor, never A♯ and D♯.
const LINE = "FCGDAEB"; // of fifths: F is −1, C is 0
const FLAT = "♭", SHARP = "♯";
const CLASSES = { C: 0, D: 2, E: 4, F: 5, G: 7, A: 9, B: 11 };
const QUALITIES = { M: "", m: "m", o: "°", "+": "+", 7: "7", M7: "maj7", m7: "m7", o7: "°7", "/o7": "ø7" };

// A pitch class in a key of so many sharps (flats are negative). Twelve neighbours on the line of fifths name
// the twelve classes: from the minor third above the tonic's fourth to its raised fourth.
export function noteName(pitch, fifths) {
  const first = fifths - 4, mod = (value, by) => ((value % by) + by) % by;
  const place = first + mod(pitch * 7 - first, 12);
  const alter = Math.floor((place + 1) / 7);
  return LINE[mod(place + 1, 7)] + (alter < 0 ? FLAT.repeat(-alter) : SHARP.repeat(alter));
}

const sign = (name) => name.split(SHARP).length - name.split(FLAT).length;

export function pitchName(pitch, fifths) {
  const name = noteName(pitch % 12, fifths);
  return `${name}${Math.floor((pitch - sign(name)) / 12) - 1}`;
}

// "Bb", "B♭", "A#" → 10; undefined for what is no note.
export function pitchClass(name) {
  const plain = name.replaceAll(FLAT, "b").replaceAll(SHARP, "#");
  const found = /^([A-Ga-g])(#*|b*)$/.exec(plain);
  if (!found) return undefined;
  const shift = found[2].length * (found[2][0] === "b" ? -1 : 1);
  return (((CLASSES[found[1].toUpperCase()] + shift) % 12) + 12) % 12;
}

// A stored chord as musicians write it in a key: A#_m7 in G minor as B♭m7, nothing for no chord.
export function chordSign(text, fifths) {
  const [, root, quality] = /^([^_]*)_?(.*)$/s.exec(text);
  if (root === "N") return "";
  const klass = pitchClass(root);
  if (klass === undefined || !text.includes("_")) return text;
  const [chord, bass] = quality.split("/").length > 1 && !quality.startsWith("/") ? quality.split("/") : [quality];
  const low = bass && pitchClass(bass) !== undefined ? `/${noteName(pitchClass(bass), fifths)}` : "";
  return noteName(klass, fifths) + (QUALITIES[chord] ?? chord) + low;
}

