// The pitch scale shared by the rolls of the piece and its takes: the pitches that the lane of each track shows.
import { WIDTH } from "../music/piece.js";

const LEAST = 12, // pitches of a lane
  REACH = 5; // semitones above and below the notes, to draw others there
const DRUMS =
  `Kick|Kick|Rim|Snare|Clap|Snare 2|Low tom|Hat|Floor tom|Pedal hat|Mid tom|Open hat|Mid tom|
High tom|Crash|High tom|Ride|China|Bell|Tamb.|Splash|Cowbell|Crash 2|Vibraslap|Ride 2|High bongo|Low bongo|
Mute conga|Conga|Low conga|||||Cabasa|Maracas|||||Claves|Woodblock|Low block|||Mute tri.|Triangle`
    .replaceAll("\n", "")
    .split("|"); // from pitch 35

const drumName = (pitch) => DRUMS[pitch - 35] || `Drum ${pitch}`;

const KIT = [51, 49, 46, 42, 45, 38, 36]; // drums of an empty lane

// Lanes for the open pieces, one per track that has notes in any of them, from top to bottom: {index, name, drum, low, high,
// rows}. `row` gives the row of a pitch, `at` the pitch of a row. `drawing` leaves room to add notes.
export function lanesOf(pieces, { drawing = false } = {}) {
  const lanes = [];
  for (const { tracks, notes } of pieces) {
    tracks.forEach(({ name, drum, program }, index) => {
      lanes[index] ??= { index, name, drum, program, pitches: new Set() };
    });
    for (let i = 0; i < notes.length; i += WIDTH) lanes[notes[i + 4]].pitches.add(notes[i + 2]);
  }
  const all = lanes.filter(Boolean),
    used = all.filter(({ pitches }) => pitches.size);
  return (used.length && !drawing ? used : all).map((lane) =>
    lane.drum ? drumLane(lane, drawing) : pitchLane(lane, drawing),
  );
}

function pitchLane({ pitches, ...lane }, drawing) {
  const home = lane.program >= 32 && lane.program < 40 ? 40 : 62; // for a bass, and for other instruments
  const all = pitches.size ? [...pitches] : [home],
    from = Math.min(...all),
    to = Math.max(...all);
  const [least, reach] = drawing ? [2 * LEAST, REACH] : [LEAST, 1],
    more = Math.max(2 * reach, least - (to - from)) / 2,
    low = Math.max(0, from - Math.floor(more)),
    high = Math.min(127, to + Math.ceil(more));
  const row = (pitch) => high - pitch;
  return { ...lane, low, high, rows: high - low + 1, row, at: row };
}

function drumLane({ pitches, ...lane }, drawing) {
  const wanted = new Set([...pitches, ...(drawing || !pitches.size ? KIT : [])]);
  const rows = [...wanted].sort((a, b) => b - a);
  return {
    ...lane,
    low: rows.at(-1),
    high: rows[0],
    rows: rows.length,
    row: (pitch) => rows.indexOf(pitch),
    at: (place) => rows[place],
    label: drumName,
  };
}
