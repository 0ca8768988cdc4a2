// Names of notes and chords by the key: B♭ and E♭ in G minor, never A♯ and D♯.
const LINE = "FCGDAEB"; // of fifths: F is −1, C is 0
const FLAT = "♭", SHARP = "♯";
const CLASSES = { C: 0, D: 2, E: 4, F: 5, G: 7, A: 9, B: 11 };
const QUALITIES = { M: "", m: "m", o: "°", "+": "+", 7: "7", M7: "maj7", m7: "m7", o7: "°7", "/o7": "ø7", m7b5: "ø7" };

// Where a piece lies on the line of fifths; one that was kept by an earlier page has the sharps of its key.
export const centreOf = ({ centre, fifths = 0 }) => centre ?? fifths + 1;

// A pitch class in a piece. Twelve neighbours on the line of fifths name the twelve classes, five below its centre and
// six above it, as in tokenization/notation/musicxml/spelling.py.
export function noteName(pitch, centre) {
  const first = centre - 5, mod = (value, by) => ((value % by) + by) % by;
  const place = first + mod(pitch * 7 - first, 12);
  const alter = Math.floor((place + 1) / 7);
  return LINE[mod(place + 1, 7)] + (alter < 0 ? FLAT.repeat(-alter) : SHARP.repeat(alter));
}

// "Bb", "B♭", "A#" → 10; undefined for what is no note.
export function pitchClass(name) {
  const found = /^([A-Ga-g])([#♯b♭]*)$/.exec(name);
  if (!found) return undefined;
  const shift = [...found[2]].reduce((sum, sign) => sum + ("#♯".includes(sign) ? 1 : -1), 0);
  return (((CLASSES[found[1].toUpperCase()] + shift) % 12) + 12) % 12;
}

// A quality as musicians write it.
export const qualitySign = (quality) => QUALITIES[quality] ?? quality;

// A stored chord as musicians write it: A#_m7 in G minor as B♭m7, nothing for no chord.
export function chordSign(text, centre) {
  const [, root, quality] = /^([^_]*)_?(.*)$/s.exec(text);
  if (root === "N") return "";
  const klass = pitchClass(root);
  if (klass === undefined || !text.includes("_")) return text;
  const [chord, bass] = quality.split("/").length > 1 && !quality.startsWith("/") ? quality.split("/") : [quality];
  const low = bass && pitchClass(bass) !== undefined ? `/${noteName(pitchClass(bass), centre)}` : "";
  return noteName(klass, centre) + qualitySign(chord) + low;
}

