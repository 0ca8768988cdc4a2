// The left edge of a piano roll: black keys, names of octaves, drums and tracks. Its width depends on the names.
export const NAME = 13; // height of the name of a track
export const BLACK = new Set([1, 3, 6, 8, 10]);
const WELL_KNOWN = [36, 35, 38, 42, 40, 46]; // kick, snare and hi-hat, for orientation
const LEAST = 46,
  MOST = 92,
  SIDE = 4,
  STEP = 11; // pixels; STEP is the least distance between names
const small = (family) => `10px ${family}`,
  strong = (family) => `600 11px ${family}`;

let ruler = null;
function widths(font, texts) {
  ruler ??= document.createElement("canvas").getContext("2d");
  ruler.font = font;
  return texts.map((text) => ruler.measureText(text).width);
}

const pitchesOf = (lane) => Array.from({ length: lane.rows }, (_, row) => lane.at(row));

// The width of the edge, for the names in it.
export function gutterOf({ view, lanes }) {
  const { fontFamily } = getComputedStyle(view),
    drums = lanes.filter((lane) => lane.drum).flatMap((lane) => pitchesOf(lane).map(lane.label));
  const names = lanes.length > 1 ? lanes.map((lane) => lane.name) : [],
    all = [...widths(small(fontFamily), drums), ...widths(strong(fontFamily), names)];
  return Math.min(MOST, Math.max(LEAST, Math.ceil(Math.max(0, ...all)) + 2 * SIDE));
}

export function paintGutter({ pen, ink, roll, gutter, height }) {
  pen.fillStyle = ink.ground;
  pen.fillRect(0, 0, gutter - 1, height);
  pen.fillStyle = ink["line-strong"];
  pen.fillRect(gutter - 1, 0, 1, height);
  for (const lane of roll.laid) {
    const taken = roll.laid.length > 1 ? [lane.top - NAME / 2 + 2] : [],
      pitches = pitchesOf(lane),
      y = (row) => lane.top + (row + 0.5) * lane.step;
    pen.fillStyle = ink["line-strong"];
    for (const [row, pitch] of pitches.entries())
      if (!lane.drum && BLACK.has(pitch % 12))
        pen.fillRect(gutter - 9, y(row) - lane.step / 2 + 0.5, 8, Math.max(1, lane.step - 1));
    pen.fillStyle = ink.faint;
    pen.font = small(pen.font.split("px ")[1]);
    for (const row of namedFirst(lane, pitches)) {
      if (taken.some((other) => Math.abs(other - y(row)) < STEP)) continue;
      const name = lane.drum ? lane.label(pitches[row]) : `C${pitches[row] / 12 - 1}`;
      pen.fillText(name, SIDE, y(row));
      taken.push(y(row));
    }
  }
}

// The rows to name, the most important first.
function namedFirst(lane, pitches) {
  const rows = [...pitches.keys()];
  if (!lane.drum) return rows.filter((row) => pitches[row] % 12 === 0);
  const rank = (row) =>
    (WELL_KNOWN.indexOf(pitches[row]) + WELL_KNOWN.length + 1) % (WELL_KNOWN.length + 1); // unknown ones last
  return rows.sort((a, b) => rank(a) - rank(b));
}

// Paint the names of tracks, cut if too long, above their lanes, where no line crosses them.
export function paintNames({ pen, ink, roll, gutter }) {
  if (roll.laid.length < 2) return;
  pen.font = strong(pen.font.split("px ")[1]);
  pen.fillStyle = ink.ink;
  for (const lane of roll.laid) {
    let { name } = lane;
    while (name.length > 1 && pen.measureText(name).width > gutter - 2 * SIDE)
      name = `${name.replace(/…$/, "").slice(0, -1)}…`;
    pen.fillText(name, SIDE, lane.top - NAME / 2);
  }
}
