// The left edge of a piano roll: black keys, names of octaves, drums and tracks.
export const NAME = 13; // height of the name of a track
export const GUTTER = 64; // its width in pixels
export const BLACK = new Set([1, 3, 6, 8, 10]);
const SIDE = 4,
  STEP = 11; // pixels; STEP is the least distance between names
const small = (family) => `10px ${family}`,
  strong = (family) => `600 11px ${family}`;

export function paintGutter({ pen, ink, roll, gutter, height }) {
  pen.fillStyle = ink.ground;
  pen.fillRect(0, 0, gutter - 1, height);
  pen.fillStyle = ink["line-strong"];
  pen.fillRect(gutter - 1, 0, 1, height);
  for (const lane of roll.laid) {
    const y = (row) => lane.top + (row + 0.5) * lane.step,
      least = roll.laid.length > 1 ? lane.top - NAME / 2 + 2 + STEP : 0; // below the name of the track
    let most = lane.bottom;
    pen.font = small(pen.font.split("px ")[1]);
    for (let row = lane.rows - 1; row >= 0; row--) {
      const pitch = lane.at(row);
      pen.fillStyle = ink["line-strong"];
      if (!lane.drum && BLACK.has(pitch % 12))
        pen.fillRect(gutter - 9, y(row) - lane.step / 2 + 0.5, 8, Math.max(1, lane.step - 1));
      const isNamed = lane.drum || pitch % 12 === 0;
      if (!isNamed || y(row) < least || y(row) > most) continue;
      pen.fillStyle = ink.faint;
      pen.fillText(lane.drum ? lane.label(pitch) : `C${pitch / 12 - 1}`, SIDE, y(row));
      most = y(row) - STEP;
    }
  }
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
