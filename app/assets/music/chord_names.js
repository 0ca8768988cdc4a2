// Names of chords as people type them, and which of the vocabulary's qualities they mean: the same as
// tokenization/analysis/chords.py reads, to which a test holds them.

// Before the stroke stand names that say just that, after it richer chords, of which this is what stays.
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

// As written, without its bass, then without what stands in brackets → its quality, and whether something was left out.
function qualityOf(text) {
  const plain = text.startsWith("/o") ? text : text.split("/")[0],
    bare = plain.replace(/\(.*?\)/g, "");
  for (const one of [text, plain, bare]) {
    if (!one) return ["M", bare !== plain];
    if (QUALITY.has(one)) return [QUALITY.get(one), RICHER.has(one) || one !== plain];
  }
  return null;
}

const upper = (note) => note[0].toUpperCase() + note.slice(1);

// A typed chord → names of its root and its bass, its quality, and whether that is less than what was typed; all null
// where no chord is asked for. Null for what names none.
export function readName(typed) {
  const text = typed.trim();
  if (text.length > LONGEST) return null;
  if (NONE.test(text)) return { root: null, bass: null, quality: null, less: false };
  const [, letter, signs, mark, rest] = NAME.exec(text) ?? [];
  if (!letter) return null;
  const whole = mark + rest,
    found = QUALITY.has(whole) ? [QUALITY.get(whole), RICHER.has(whole)] : qualityOf(rest);
  if (!found) return null;
  const under = QUALITY.has(whole) || QUALITY.has(rest) ? "" : rest.split("/").slice(1).join("/"),
    bass = NOTE.test(under) ? upper(under) : null;
  return {
    root: upper(letter + signs),
    bass,
    quality: found[0],
    less: found[1] || Boolean(under && !bass),
  };
}
