// Paints the visible part of a piano roll on its canvas, so that the length of the piece does not matter.
import { NONE } from "../music/chords.js";
import { chordSign } from "../music/keys.js";
import { WIDTH, barAt, barCount, beatOf, firstFrom } from "../music/piece.js";
import { paintPlan, paintPlanNames } from "./plan.js";
import { below, paintVelocities, paintVelocityName } from "./velocity.js";

export const FLAG = 18, // pixels of height
  RULER = 20;
const CHORDS = 18;
const NAME = 13, // height of the name of a track
  NAMED = 0.3; // of the lane, covered by a name at most
export const GUTTER = 64; // pixels of width of the left edge, with keys and names
const BLACK = new Set([1, 3, 6, 8, 10]);
const SIDE = 4,
  STEP = 11; // pixels; STEP is the least distance between names
const small = (family) => `10px ${family}`,
  strong = (family) => `600 11px ${family}`;

const GAP = 4,
  LABEL = 16;
const NAMES = [
  ..."ground given-ground shade line line-strong faint ink range".split(" "),
  ...[0, 1, 2].flatMap((n) => [`given-${n}`, `new-${n}`]),
];
const COLOUR = { syntax: "<color>", inherits: true, initialValue: "black" };
// Register the properties, so that computed styles give them as colours in both schemes.
for (const name of NAMES) globalThis.CSS?.registerProperty({ name: `--mg-${name}`, ...COLOUR });

function longestOf(notes) {
  let most = 0;
  for (let i = 1; i < notes.length; i += WIDTH) if (notes[i] > most) most = notes[i];
  return most;
}

// The line on a roll with its flag: the end of the prompt or the beginning of the new part; null if there is none, as if
// all is new or only some tracks are.
function lineOf({ isPrompt, bars, region, piece }) {
  const all = barCount(piece),
    isPart = region && !region.tracks && (region.first || region.stop < all);
  if (isPrompt ? !bars : !isPart) return null;
  const bar = Math.min(isPrompt ? bars : region.first, all);
  return {
    bar,
    words: isPrompt ? `after bar ${bar}` : "new",
    colour: isPrompt ? "given-0" : "new-0",
  };
}

// Heights above the notes: the flag and the ruler, then with the chords.
export const rulerOf = (roll) => (lineOf(roll) ? FLAG : 0) + RULER;
export const topOf = (roll, { piece } = roll) =>
  rulerOf(roll) +
  (roll.acts.chord || piece.chords.some(([, name]) => name && !name.startsWith("N")) ? CHORDS : 0);

// The context of painting, computed once.
function sheet(roll) {
  const { view, canvas, piece } = roll,
    style = getComputedStyle(view);
  const ratio = window.devicePixelRatio || 1,
    pen = canvas.getContext("2d");
  const width = view.clientWidth,
    height = view.clientHeight,
    left = view.scrollLeft;
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = `11px ${style.fontFamily}`;
  pen.textBaseline = "middle";
  const ink = {};
  for (const name of NAMES) ink[name] = style.getPropertyValue(`--mg-${name}`);
  const beat = roll.beatWidth,
    { begin, gutter } = roll,
    x = (tick) => gutter + ((tick - begin) / piece.ticksPerBeat) * beat - left;
  const seen = { roll, piece, pen, ink, x, width, height, gutter };
  return {
    ...seen,
    top: topOf(roll),
    ruler: rulerOf(roll),
    ticks: piece.ticksPerBeat / beat,
    from: begin + (left / beat) * piece.ticksPerBeat,
    to: begin + ((left + width - gutter) / beat) * piece.ticksPerBeat,
  };
}

// Place the lanes: all pitches have the same height, drums next to other lanes twice that, for their names. With several
// lanes, each has its name above it.
export function placeLanes(lanes, top, height) {
  const share = (lane) => (lane.drum && lanes.length > 1 ? 2 : 1),
    rows = lanes.reduce((sum, lane) => sum + share(lane) * lane.rows, 0);
  const name = lanes.length > 1 ? NAME : 0,
    between = name + GAP,
    room = height - top - 6 - name - between * (lanes.length - 1),
    step = Math.max(0.1, room / Math.max(1, rows));
  let y = top + 3 + name;
  return lanes.map((lane) => {
    const own = step * share(lane),
      laid = { ...lane, top: y, bottom: y + lane.rows * own, step: own };
    y = laid.bottom + between;
    return laid;
  });
}

function paintGround({ pen, ink, roll, piece, x, gutter, top, width, height }) {
  for (const lane of roll.laid) {
    if (lane.drum) continue;
    pen.fillStyle = ink.shade; // the rows of black keys
    for (let row = 0; row < lane.rows; row++)
      if (BLACK.has(lane.at(row) % 12))
        pen.fillRect(gutter, lane.top + row * lane.step, width, lane.step);
  }
  const given = roll.given;
  if (!given) return;
  pen.globalAlpha = 0.7;
  pen.fillStyle = ink["given-ground"];
  pen.fillRect(x(0), top, x(piece.lines[Math.min(given, barCount(piece))]) - x(0), height - top);
  pen.globalAlpha = 1;
}

function paintOctaves({ pen, ink, roll, gutter, width }) {
  pen.fillStyle = ink.line;
  for (const lane of roll.laid) {
    if (lane !== roll.laid.at(-1)) pen.fillRect(0, lane.bottom + GAP / 2, width, 1);
    if (lane.drum) continue;
    for (let row = 0; row < lane.rows; row++)
      if (lane.at(row) % 12 === 0) pen.fillRect(gutter, lane.top + (row + 1) * lane.step, width, 1);
  }
}

function paintBars(on) {
  const { pen, ink, piece, roll, x, top, ruler, height, from, to } = on,
    bars = barCount(piece);
  if (roll.loop) {
    pen.fillStyle = ink["given-0"]; // a bracket over the loop
    const [start, stop] = roll.loop.map((tick) => Math.round(x(tick)));
    pen.fillRect(start, ruler - 3, stop - start, 3);
    for (const at of [start, stop - 2]) pen.fillRect(at, ruler - 9, 2, 9);
  }
  const bar = x(piece.lines[1]) - x(0),
    far = (pixels, by) => by ** Math.max(0, Math.ceil(Math.log(pixels / bar) / Math.log(by)));
  const every = far(34, 2),
    line = far(4, 4); // bars between numbers, and between lines
  for (let n = Math.max(0, barAt(piece, from)); n <= bars && piece.lines[n] <= to; n++) {
    const at = Math.round(x(piece.lines[n])),
      stop = n < bars && bar >= 90 ? piece.lines[n + 1] : 0,
      beat = beatOf(piece, n);
    pen.fillStyle = n % 4 ? ink.line : ink["line-strong"];
    if (n % line === 0) pen.fillRect(at, top, 1, height);
    pen.fillStyle = ink.line;
    for (let tick = piece.lines[n] + beat; tick < stop; tick += beat)
      pen.fillRect(Math.round(x(tick)), top, 0.5, height);
    if (n % every || n >= bars) continue;
    pen.fillStyle = ink["line-strong"];
    pen.fillRect(at, ruler - 6, 1, 6);
    pen.fillStyle = ink.faint;
    pen.fillText(`${n + 1}`, at + 4, ruler - RULER / 2 + 1);
  }
}

function paintChords({ pen, ink, roll, piece, x, gutter, top, ruler, width }) {
  if (top === ruler) return;
  const prompt = roll.isPrompt ? x(piece.lines[Math.min(roll.bars, barCount(piece))]) : 0;
  let free = gutter;
  for (const [tick, text, isGuess, symbol] of piece.chords) {
    const at = x(tick),
      sign = chordSign(text, piece.centre ?? 1, symbol) || (isGuess ? "" : NONE),
      name = isGuess && sign ? `${sign}?` : sign;
    pen.font = pen.font.replace(/^(600 )?/, isGuess ? "" : "600 ");
    if (at > width) break;
    const crossed = at < prompt - 1 && at + 3 + pen.measureText(name).width > prompt; // by the end of the prompt
    if (!name || crossed || at + 2 < free || tick >= piece.lines.at(-1)) continue;
    pen.fillStyle = roll.isNew(tick, -1) ? ink["new-0"] : isGuess ? ink.faint : ink.ink;
    pen.fillText(name, at + 3, ruler + CHORDS / 2);
    free = at + pen.measureText(name).width + 9;
  }
  pen.font = pen.font.replace(/^600 /, "");
}

function paintNotes(on) {
  const { pen, ink, roll, piece, x, from, to, ticks } = on,
    { notes } = piece;
  const lanes = [],
    end = piece.lines.at(-1),
    chosen = roll.chosenNotes;
  for (const lane of roll.laid) lanes[lane.index] = lane;
  const prompt = roll.isPrompt ? piece.lines[Math.min(roll.given, barCount(piece))] : Infinity,
    first = firstFrom(notes, from - longestOf(notes));
  for (let i = first; i < notes.length && notes[i] <= to + 1; i += WIDTH) {
    const onset = notes[i],
      track = notes[i + 4],
      lane = lanes[track];
    const stop = Math.min(onset + notes[i + 1], end);
    if (stop < from || !lane) continue;
    const { step } = lane,
      thick = Math.max(2.5, Math.min(step - 0.5, 12)),
      row = lane.row(notes[i + 2]);
    const left = x(onset),
      long = lane.drum
        ? Math.max(3.5, Math.min(thick, 9))
        : Math.max(2.5, (stop - onset) / ticks - 1);
    const fresh = roll.isNew(onset, track);
    pen.fillStyle =
      onset >= prompt ? ink.faint : ink[`${fresh ? "new" : "given"}-${lane.index % 3}`];
    const loud = notes[i + 3] / 127,
      tall = Math.max(2.5, thick * (0.4 + 0.6 * loud)),
      y = lane.top + row * step + (step - tall) / 2;
    pen.globalAlpha = (0.72 + 0.28 * loud) * (roll.muted?.(track) ? 0.35 : 1);
    if (long < 6 || tall < 4) pen.fillRect(left, y, long, tall);
    else {
      pen.beginPath();
      pen.roundRect(left, y, long, tall, 2);
      pen.fill();
    }
    if (chosen?.has(i / WIDTH)) {
      pen.globalAlpha = 1;
      pen.strokeStyle = ink.ink;
      pen.lineWidth = 2;
      pen.strokeRect(left, y, long, tall);
    }
  }
  pen.globalAlpha = 1;
}

// The lanes of the selected tracks.
const pickedOf = ({ laid, picked }) => laid.filter(({ index }) => picked.has(index));

function paintRange({ roll, pen, ink, piece, x, height }) {
  if (!roll.range) return;
  const { first, stop } = roll.range,
    from = x(piece.lines[first]),
    wide = x(piece.lines[Math.min(stop, barCount(piece))]) - from;
  pen.fillStyle = ink.range;
  if (!roll.picked.size) pen.fillRect(from, 0, wide, height);
  for (const lane of pickedOf(roll)) pen.fillRect(from, lane.top, wide, lane.bottom - lane.top);
  pen.fillStyle = ink["given-0"];
  pen.fillRect(from, 0, wide, 3);
  for (const at of [from, from + wide - 1]) pen.fillRect(at, 0, 1, height);
}

function paintLine({ roll, pen, ink, piece, x, gutter, width, height }) {
  const line = lineOf(roll),
    at = line ? Math.round(x(piece.lines[line.bar])) : -1;
  if (at < gutter) return;
  const wide = pen.measureText(line.words).width + 12,
    left = at + wide > width ? at - wide : at;
  pen.fillStyle = ink[line.colour];
  pen.fillRect(at - 1, 0, 2, height - below(roll));
  pen.beginPath();
  pen.roundRect(left, 0, wide, LABEL, 4);
  pen.fill();
  pen.fillStyle = ink.ground;
  pen.fillText(line.words, left + 6, LABEL / 2 + 0.5);
}

// The left edge: black keys, names of octaves, drums and tracks.
function paintGutter({ pen, ink, roll, gutter, height }) {
  pen.fillStyle = ink.ground;
  pen.fillRect(0, 0, gutter - 1, height);
  pen.fillStyle = ink["line-strong"];
  pen.fillRect(gutter - 1, 0, 1, height);
  pen.fillStyle = ink.range;
  for (const { top, bottom } of pickedOf(roll))
    pen.fillRect(0, top - NAME, gutter - 1, bottom - top + NAME);
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

// A text, cut with an ellipsis to a width.
function fitted(pen, text, width) {
  const letters = [...text];
  let cut = text;
  while (letters.length > 1 && pen.measureText(cut).width > width) {
    letters.pop();
    cut = `${letters.join("").trimEnd()}…`;
  }
  return cut;
}

// Paint the names of tracks above their lanes, over the lines of bars; notes there shine through.
function paintNames({ pen, ink, roll, gutter, width }) {
  if (roll.laid.length < 2) return;
  pen.font = strong(pen.font.split("px ")[1]);
  const most = gutter + (width - gutter) * NAMED;
  for (const { name, top } of roll.laid) {
    const shown = fitted(pen, name, most - 2 * SIDE),
      wide = pen.measureText(shown).width + 2 * SIDE;
    pen.fillStyle = ink.ground;
    pen.globalAlpha = 0.6;
    if (wide > gutter) pen.fillRect(gutter, top - NAME, wide - gutter, NAME - 1);
    pen.globalAlpha = 1;
    pen.fillStyle = ink.ink;
    pen.fillText(shown, SIDE, top - NAME / 2);
  }
}

export function paint(roll) {
  const on = sheet(roll),
    { pen, top } = on;
  roll.laid = placeLanes(roll.lanes, top, on.height - below(roll));
  pen.save();
  pen.beginPath();
  pen.rect(on.gutter, 0, on.width, on.height);
  pen.clip();
  paintGround(on);
  paintOctaves(on);
  paintBars(on);
  paintChords(on);
  paintNotes(on);
  paintVelocities(on);
  paintPlan(on);
  paintRange(on);
  paintLine(on);
  pen.restore();
  paintGutter(on);
  paintNames(on);
  paintPlanNames(on);
  paintVelocityName(on);
}
