// The pitch scale shared by the rolls of the piece and its takes: the pitches that the lane of each track shows.
import { WIDTH } from "../music/piece.js";

const LEAST = 12; // pitches of a lane
const DRUMS =
  `Kick|Kick|Rim|Snare|Clap|Snare 2|Low tom|Hat|Floor tom|Pedal hat|Mid tom|Open hat|Mid tom|
High tom|Crash|High tom|Ride|China|Bell|Tamb.|Splash|Cowbell|Crash 2|Vibraslap|Ride 2|High bongo|Low bongo|
Mute conga|Conga|Low conga|||||Cabasa|Maracas|||||Claves|Woodblock|Low block|||Mute tri.|Triangle`
    .replaceAll("\n", "")
    .split("|"); // from pitch 35

const drumName = (pitch) => DRUMS[pitch - 35] || `Drum ${pitch}`;

const KIT = [51, 49, 46, 42, 45, 38, 36]; // drums of an empty lane
const MOST_DRUMS = 14; // rows; further drums share the last
const RARE = 0.01; // fraction of the notes on either side that is outside the usual range
const REACH = 12; // pitches shown beyond the usual range, if played

// Lanes for the open pieces, one per track that has notes in any of them, from top to bottom: {index, name, drum, high,
// rows}. `row` gives the row of a pitch, `at` the pitch of a row, `within` whether a pitch has its own row. The first piece
// sets the scale, or if it has no notes the median of the others, so that one outlier does not flatten the lanes; pitches
// far outside are drawn at the edge. `drawing` leaves room to add notes.
export function lanesOf(pieces, { drawing = false } = {}) {
  const lanes = [];
  pieces.forEach((piece, place) => {
    const counts = piece.tracks.map(() => new Uint32Array(128));
    for (let i = 0; i < piece.notes.length; i += WIDTH)
      counts[piece.notes[i + 4]][piece.notes[i + 2]] += 1;
    piece.tracks.forEach(({ name, drum, program }, index) => {
      lanes[index] ??= { index, name, drum, program, counts: [] };
      lanes[index].counts[place] = counts[index];
    });
  });
  const played = (lane) => lane.counts.some((counts) => counts.some(Boolean));
  const all = lanes.filter(Boolean),
    used = all.filter(played);
  return (used.length && !drawing ? used : all).map((lane) =>
    lane.drum ? drumLane(lane, drawing) : pitchLane(lane, drawing),
  );
}

// The lowest and the highest pitch without the rare ones; null without notes.
function range(counts, rare = RARE) {
  const out = Math.floor(rare * counts.reduce((sum, count) => sum + count, 0)),
    end = (from, by) => {
      let left = out,
        pitch = from;
      for (; pitch >= 0 && pitch < 128; pitch += by) if ((left -= counts[pitch]) < 0) break;
      return pitch;
    };
  const low = end(0, 1);
  return low > 127 ? null : [low, end(127, -1)];
}

const middle = (values) => values.sort((a, b) => a - b)[values.length >> 1];

function pitchLane({ counts, ...lane }, drawing) {
  const all = counts.map((one) => range(one, 0)).filter(Boolean),
    ranges = counts.map((one) => range(one)).filter(Boolean);
  const home = lane.program >= 32 && lane.program < 40 ? 40 : 62; // for a bass, and for other instruments
  const [from, to] =
    (counts[0] && range(counts[0])) ??
    (ranges.length ? [0, 1].map((end) => middle(ranges.map((one) => one[end]))) : [home, home]);
  let low = Math.max(from - REACH, Math.min(from, ...all.map((one) => one[0])));
  let high = Math.min(to + REACH, Math.max(to, ...all.map((one) => one[1])));
  const more = Math.max(2, (drawing ? 2 * LEAST : LEAST) - (high - low)) / 2;
  low = Math.max(0, low - Math.floor(more));
  high = Math.min(127, high + Math.ceil(more));
  const row = (pitch) => Math.min(high - low, Math.max(0, high - pitch));
  const at = (place) => high - place,
    within = (pitch) => pitch >= low && pitch <= high;
  return { ...lane, low, high, rows: high - low + 1, row, at, within };
}

function drumLane({ counts, ...lane }, drawing) {
  const strokes = (pitch) => counts.reduce((sum, one) => sum + one[pitch], 0),
    all = Array.from({ length: 128 }, (_, pitch) => strokes(pitch));
  const struck = [...all.keys()].filter((pitch) => all[pitch]),
    own = struck.filter((pitch) => counts[0]?.[pitch]);
  const often = struck.filter((pitch) => !own.includes(pitch)).sort((a, b) => all[b] - all[a]);
  const wanted = new Set([
    ...(drawing || !struck.length ? KIT : []),
    ...own,
    ...often.slice(0, Math.max(0, MOST_DRUMS - own.length)),
  ]);
  const pitches = [...wanted].sort((a, b) => b - a),
    rest = often.find((pitch) => !wanted.has(pitch));
  if (rest !== undefined) pitches.push(rest); // its row stands for all other drums
  const row = (pitch) => (wanted.has(pitch) ? pitches.indexOf(pitch) : pitches.length - 1);
  return {
    ...lane,
    low: Math.min(...wanted),
    high: Math.max(...wanted),
    pitches,
    rows: pitches.length,
    row,
    at: (place) => pitches[place],
    within: (pitch) => wanted.has(pitch),
    label: (pitch) => (pitch === rest ? "Others" : drumName(pitch)),
  };
}
