// One pitch scale for all rolls of a desk: which pitches a track's lane shows, the same in the piece and in every take.
import { WIDTH } from "../music/piece.js";

const LEAST = 12; // pitches of a lane
const DRUMS = {
  35: "Kick", 36: "Kick", 37: "Rim", 38: "Snare", 39: "Clap", 40: "Snare 2", 41: "Low tom", 42: "Hat", 43: "Floor tom", 44: "Pedal hat",
  45: "Mid tom", 46: "Open hat", 47: "Mid tom", 48: "High tom", 49: "Crash", 50: "High tom", 51: "Ride", 52: "China", 53: "Bell",
  54: "Tambourine", 55: "Splash", 56: "Cowbell", 57: "Crash 2", 58: "Vibraslap", 59: "Ride 2", 60: "High bongo", 61: "Low bongo",
  62: "Mute conga", 63: "Conga", 64: "Low conga", 69: "Cabasa", 70: "Maracas", 75: "Claves", 76: "Woodblock", 77: "Low block", 80: "Mute triangle", 81: "Triangle",
};

export const drumName = (pitch) => DRUMS[pitch] ?? `Drum ${pitch}`;

// Pieces that lie open → a lane a track that plays in any of them: {index, name, drum, high, rows} from top to bottom;
// `rows` are the drums that are struck, from high to low, or how many pitches the lane spans.
export function lanesOf(pieces) {
  const lanes = [];
  for (const piece of pieces) {
    piece.tracks.forEach(({ name, drum }, index) => (lanes[index] ??= { index, name, drum, low: 127, high: 0, struck: new Set() }));
    for (let i = 0; i < piece.notes.length; i += WIDTH) {
      const pitch = piece.notes[i + 2], lane = lanes[piece.notes[i + 4]];
      if (lane.drum) lane.struck.add(pitch);
      if (pitch < lane.low) lane.low = pitch;
      if (pitch > lane.high) lane.high = pitch;
    }
  }
  const used = lanes.filter((lane) => lane && lane.high >= lane.low);
  return (used.length ? used : lanes.filter(Boolean).map((lane) => ({ ...lane, low: 60, high: 60 }))).map(bounded);
}

function bounded(lane) {
  if (lane.drum && lane.struck.size) {
    const pitches = [...lane.struck].sort((a, b) => b - a);
    return { ...lane, pitches, rows: pitches.length, row: (pitch) => pitches.indexOf(pitch), at: (row) => pitches[row] };
  }
  const more = Math.max(2, LEAST - (lane.high - lane.low)) / 2;
  const low = Math.max(0, lane.low - Math.floor(more)), high = Math.min(127, lane.high + Math.ceil(more));
  return { ...lane, low, high, rows: high - low + 1, row: (pitch) => high - pitch, at: (row) => high - row };
}

export const sameLanes = (one, other) =>
  one.length === other.length
  && one.every((lane, i) => lane.name === other[i].name && lane.low === other[i].low && lane.high === other[i].high && lane.rows === other[i].rows);
