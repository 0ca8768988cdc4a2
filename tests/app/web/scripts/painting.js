// The painting of a piano roll: nothing covers anything else; and how the view follows playback.
import { GUTTER, paint } from "../../../../app/assets/roll/paint.js";
import { Axis, Roll } from "../../../../app/assets/roll/roll.js";
import { lanesOf } from "../../../../app/assets/roll/scale.js";
import { equal, near, ok, piece } from "./check.js";

const LETTER = 6; // pixels per letter

// Stand-ins for the styles, and in node for the window and the document.
function dressed(act) {
  const before = globalThis.getComputedStyle, counted = { looked: 0 }, own = {};
  if (typeof document === "undefined") own.document = { createElement: () => ({ getContext: () => penOf([]) }) };
  if (typeof window === "undefined") own.window = { devicePixelRatio: 1 };
  Object.assign(globalThis, own);
  globalThis.getComputedStyle = () => ((counted.looked += 1), { fontFamily: "sans", getPropertyValue: (name) => name });
  try {
    return act(counted);
  } finally {
    globalThis.getComputedStyle = before;
    for (const name of Object.keys(own)) delete globalThis[name];
  }
}

// A pen that records what it paints, with colour and alpha.
function penOf(painted) {
  const known = { font: "11px sans", globalAlpha: 1, fillStyle: "", measureText: (text) => ({ width: LETTER * text.length }) };
  return new Proxy(known, {
    get: (_, name) => known[name] ?? ((...given) => painted.push({ name, given, colour: known.fillStyle, alpha: known.globalAlpha, font: known.font })),
    set: (_, name, value) => ((known[name] = value), true),
  });
}

// A roll on a view of some size; `paintNow` returns what is painted.
function rolled(song, { width = 846, height = 400, zoom = null, ...more } = {}) {
  const painted = [], pen = penOf(painted), cursor = { style: {} };
  const roll = Object.assign(Object.create(Roll.prototype), {
    piece: song, lanes: lanesOf([song]), laid: [], axis: Object.assign(new Axis(), { zoom }), gutter: 46, region: null, picked: new Set(), isPrompt: false, bars: 0, acts: {},
    view: { clientWidth: width, clientHeight: height, scrollLeft: 0 }, canvas: { getContext: () => pen }, cursor, played: null, layout() {}, ...more,
  });
  roll.axis.rolls.add(roll);
  const paintNow = () => dressed((counted) => {
    painted.length = 0;
    paint(roll);
    return { all: [...painted], looked: counted.looked };
  });
  const texts = () => paintNow().all.filter(({ name }) => name === "fillText").map(({ given: [text, x, y] }) => ({ text, x, y }));
  return { roll, paintNow, texts };
}

const numbersIn = (texts) => texts.filter(({ text }) => /^\d+$/.test(text));
const boxes = (all) => all.filter(({ name }) => name === "fillRect" || name === "roundRect");
const song = (bars, more = {}) => ({ ...piece(Array.from({ length: bars }, (_, bar) => [48 * bar, 12, 60 + (bar % 12), 80, 0]), { bars }), ...more });

export const tests = {
  "painting is cheap, and only visible notes are painted"() {
    const rows = Array.from({ length: 5000 }, (_, n) => [6 * n, 4 + (n % 20), 40 + ((7 * n) % 48), 1 + (n % 127), n % 3]);
    const { roll, paintNow } = rolled(piece(rows, { bars: 625, tracks: 3 }), { region: { first: 300, stop: 625, tracks: null } });
    const work = () => {
      const { all, looked } = paintNow();
      return [all.filter(({ name }) => /^(fillRect|fill|stroke|strokeRect|fillText)$/.test(name)).length, looked];
    };
    const [whole, looks] = work();
    roll.axis.zoom = 40;
    const [close, again] = work();
    ok(whole > 5000 && whole < 5000 + 625 * 2, `${whole}`);
    ok(close < whole / 10 && close > 30, `${close}`);
    equal([looks, again], [1, 1]);
  },
  "notes are painted at their position, coloured by track, new ones differently and muted ones faintly"() {
    const rows = [[0, 12, 60, 127, 0], [48, 24, 64, 127, 1], [96, 12, 67, 127, 0]], region = { first: 2, stop: 4, tracks: null };
    const { roll, paintNow } = rolled(piece(rows, { tracks: 2 }), { region, zoom: 24, muted: (track) => track === 1 });
    const notes = paintNow().all.filter(({ colour, name }) => name === "roundRect" && /^--mg-(given|new)-\d$/.test(colour) && name);
    equal(notes.filter(({ given }) => given[1] > 20).map(({ given: [x, , long], colour, alpha }) => [x, long, colour, alpha]),
      [[46, 23, "--mg-given-0", 1], [46 + 96, 47, "--mg-given-1", 0.35], [46 + 192, 23, "--mg-new-0", 1]]);
    for (const [place, [, , pitch, , track]] of rows.entries()) {
      const lane = roll.laid[track], [, y, , tall] = notes.filter(({ given }) => given[1] > 20)[place].given;
      near(y + tall / 2, lane.top + (lane.row(pitch) + 0.5) * lane.step);
    }
  },
  "loud notes are thicker and stronger"() {
    const { paintNow } = rolled(piece([[0, 12, 60, 30, 0], [12, 12, 64, 80, 0], [24, 12, 67, 120, 0]], { bars: 1 }));
    const [soft, middle, loud] = boxes(paintNow().all).filter(({ alpha }) => alpha > 0.7 && alpha < 1).map(({ given, alpha }) => [given[3], alpha]);
    ok(soft[0] * 1.3 < middle[0] && middle[0] < loud[0] / 1.2, `${soft}, ${middle}, ${loud}`);
    ok(soft[1] + 0.1 < middle[1] && middle[1] < loud[1] - 0.05);
  },
  "the flag of new bars is above the bar numbers, which are complete"() {
    for (const width of [1280, 820, 390]) {
      const texts = rolled(song(20), { width, region: { first: 8, stop: 20, tracks: null } }).texts();
      const numbers = numbersIn(texts).map(({ text }) => Number(text)), flag = texts.find(({ text }) => text === "new");
      const step = numbers[1] - numbers[0];
      equal(numbers, Array.from({ length: Math.ceil(20 / step) }, (_, n) => 1 + n * step));
      ok(texts.filter((one) => one !== flag).every(({ y }) => y - 5 >= flag.y + 6));
    }
  },
  "the flag of the prompt is above the bar numbers"() {
    const [plain, prompt] = [0, 4].map((bars) => numbersIn(rolled(song(16), { isPrompt: true, bars }).texts())[0].y);
    equal(prompt - plain, 18);
  },
  "lines do not cross chord names, and bar numbers end with the piece"() {
    const chords = [[0, "G_m"], [48, "Bb_M"], [96, "Eb_M"], [144, "N_N", 0], [168, "N_N", 1], [192, "C_M"]], { roll, paintNow, texts } = rolled(song(4, { chords, centre: -2 }));
    const said = texts(), named = said.filter(({ text }) => /[A-G]/.test(text) && !/\d/.test(text)), [{ y }] = named;
    equal(named.map(({ text }) => text), ["Gm", "B♭", "E♭", "N.C."]);
    equal(numbersIn(said).map(({ text }) => text), ["1", "2", "3", "4"]);
    const through = boxes(paintNow().all).filter(({ given: [x, top, wide, tall] }) => x > roll.gutter && wide <= 1 && top < y + 9 && top + tall > y - 7);
    equal(through, []);
  },
  "track names are above their lanes, and names at the edge do not overlap"() {
    const drums = [36, 38, 42, 46, 49].map((pitch, n) => [12 * n, 6, pitch, 80, 2]);
    for (const height of [250, 400]) {
      const { roll, texts } = rolled({ ...piece([[0, 12, 40, 80, 0], [0, 12, 72, 80, 1], ...drums], { tracks: 3 }), tracks: ["Bass", "Other", "Drums"].map((name) => ({ name, drum: name === "Drums" })) }, { height });
      roll.gutter = GUTTER;
      const edge = texts().filter(({ x }) => x < roll.gutter);
      let above = 20;
      for (const { name, top, bottom } of roll.laid) {
        const { x, y } = edge.find(({ text }) => text === name);
        ok(above < y - 5 && y + 5 < top && x > 0 && x < 13, `${name} at ${y} of ${above} to ${top}`);
        above = bottom;
      }
      ok(edge.some(({ text }) => text === "Kick"));
      ok(edge.every(({ text, x }) => x + LETTER * text.length < roll.gutter));
      const heights = edge.map(({ y }) => y).sort((a, b) => a - b);
      ok(heights.slice(1).every((y, n) => y - heights[n] >= 10), `${heights}`);
    }
  },
  "long track names cover at most a part of their lane, and the music shines through"() {
    const long = "Devoured by the Jaws of Defeat, Part 2", named = { ...piece([[0, 12, 40, 80, 0], [0, 12, 72, 80, 1]], { tracks: 2 }), tracks: [long, "Viola d’amore"].map((name) => ({ name })) };
    for (const [width, cut] of [[390, "Devoured by the Jaws of…"], [1280, long]]) {
      const { all } = rolled(named, { width, gutter: GUTTER }).paintNow(), most = GUTTER + 0.3 * (width - GUTTER);
      const texts = all.filter(({ name, given: [text] }) => name === "fillText" && /…|’|Devoured/.test(text)).map(({ given: [text] }) => text);
      equal(texts, [cut, "Viola d’amore"]);
      const grounds = all.filter(({ name, given: [x, , , tall], colour }) => name === "fillRect" && colour === "--mg-ground" && x === GUTTER && tall === 12);
      ok(grounds.length === 2 && grounds.every(({ given: [x, , wide], alpha }) => x + wide <= most && alpha < 0.8), JSON.stringify(grounds));
    }
  },
  "while drawing, a lane of any range has room above and below, within the pitches of MIDI"() {
    const spans = [[40, 80], [60, 64], [2, 126]].map(([low, high]) => piece([[0, 12, low, 80, 0], [0, 12, high, 80, 0]]));
    const shown = (drawing) => spans.map((one) => lanesOf([one], { drawing }).map(({ low, high, row }) => [low, high, row(high)])[0]);
    equal(shown(true), [[35, 85, 0], [50, 74, 0], [0, 127, 0]]);
    equal(shown(false), [[39, 81, 0], [56, 68, 0], [1, 127, 0]]);
  },
  "a loop is marked above the notes"() {
    const { roll, paintNow } = rolled(song(16), { loop: [192, 384] }), [start, stop] = [192, 384].map((tick) => Math.round(roll.x(tick)));
    ok(boxes(paintNow().all).some(({ given: [x, , wide, tall] }) => x === start && wide === stop - start && tall === 3));
  },
  "the view follows playback except during a drag, and the cursor stays at its beat"() {
    const { roll } = rolled(song(64), { zoom: 24 });
    roll.moveCursor(48 * 4, true);
    equal(roll.axis.left, 0);
    roll.moveCursor(48 * 12, true);
    near(roll.axis.left, 48 * 2 * 12 - 80);
    equal(roll.cursor.style.transform, `translateX(${46 + 48 * 2 * 12}px)`);
    roll.axis.zoom = 48;
    roll.placeCursor();
    equal([roll.cursor.style.transform, roll.cursor.hidden], [`translateX(${46 + 48 * 4 * 12}px)`, false]);
    roll.axis.held = true;
    roll.axis.to(0);
    roll.moveCursor(48 * 60, true);
    equal(roll.axis.left, 0);
    roll.moveCursor(null);
    ok(roll.cursor.hidden);
  },
  "rolls of several takes share their axis"() {
    const { roll } = rolled(song(64), { zoom: 24 }), other = rolled(song(64)).roll;
    roll.axis.rolls.add(other);
    roll.view.scrollLeft = 200;
    roll.axis.scrolled(roll);
    equal(other.view.scrollLeft, 200);
  },
  "a take is shown from the bar before its new ones"() {
    const { roll } = rolled(song(16), { seen: { first: 3, stop: 8 } });
    equal([roll.begin, roll.end, roll.x(roll.begin) - roll.gutter, roll.shownBeats], [144, 384, 0, 20]);
  },
};
