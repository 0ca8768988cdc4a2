// Paints a piano roll on its canvas: only what is in sight, so a piece may be of any length.
(() => {
  const RULER = 20, CHORDS = 16, GAP = 8, LABEL = 15;
  const NAMES = ["ground", "prompt-ground", "line", "line-strong", "faint", ...[0, 1, 2].flatMap((n) => [`prompt-${n}`, `new-${n}`])];

  // What a painting needs to know, looked up once.
  function sheet(roll) {
    const { view, canvas, piece } = roll, style = getComputedStyle(view);
    const ratio = window.devicePixelRatio || 1, pen = canvas.getContext("2d");
    const width = view.clientWidth, height = view.clientHeight, left = view.scrollLeft;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = `11px ${style.fontFamily}`;
    pen.textBaseline = "middle";
    return {
      roll, piece, pen, width, height, left, right: left + width, bar: roll.barWidth,
      ink: Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--mg-${name}`).trim()])),
      top: RULER + (piece.chords.length ? CHORDS : 0),
      prompt: piece.promptBars || (roll.chosen && roll.bars) || 0,
    };
  }

  // Where a label at a line goes: to its right, or to its left where the piece ends.
  function placed({ pen, piece, bar }, bars, text) {
    const x = Math.round(bars * bar), wide = pen.measureText(text).width + 10;
    return { x, wide, at: x + wide > piece.bars * bar && x > wide ? x - wide : x };
  }

  // The labels of lines that the numbers of bars make room for.
  function flags(on) {
    const { piece, roll } = on;
    if (roll.chosen) return roll.flag ? [roll.flag] : [];
    return piece.promptBars ? [placed(on, piece.promptBars, "continuation")] : [];
  }

  function paintBars(on) {
    const { pen, ink, bar, left, right, top, height, piece } = on, taken = flags(on);
    pen.fillStyle = ink["prompt-ground"];
    pen.fillRect(0, top, on.prompt * bar, height - top);
    const every = [1, 2, 4, 8, 16, 32].find((n) => n * bar >= 34) ?? 64;
    for (let n = Math.floor(left / bar); n <= right / bar && n <= piece.bars; n++) {
      const x = Math.round(n * bar), text = `${n + 1}`;
      pen.fillStyle = n % 4 ? ink.line : ink["line-strong"];
      if (bar >= 4 || n % 4 === 0) pen.fillRect(x, top, 1, height);
      if (bar >= 90) {
        pen.fillStyle = ink.line;
        for (let beat = 1; beat < 4; beat++) pen.fillRect(Math.round((n + beat / 4) * bar), top, 0.5, height);
      }
      if (n % every || n === piece.bars) continue;
      pen.fillStyle = ink["line-strong"];
      pen.fillRect(x, RULER - 6, 1, 6);
      const end = x + 6 + pen.measureText(text).width;
      if (taken.some(({ at, wide }) => x + 2 < at + wide && end > at)) continue;
      pen.fillStyle = ink.faint;
      pen.fillText(text, x + 4, RULER / 2);
    }
  }

  function paintChords({ pen, ink, left, right, roll, piece }) {
    pen.fillStyle = ink.faint;
    let free = -Infinity; // where the name before ends
    for (const [tick, name] of piece.chords) {
      const x = roll.x(tick);
      if (x > right) break;
      if (!name || x < free || x < left - 60) continue;
      pen.fillText(name, x + 3, RULER + CHORDS / 2);
      free = x + pen.measureText(name).width + 8;
    }
  }

  // Lays the lanes of the tracks out; returns the height of a pitch.
  function layLanes({ pen, ink, roll, top, left, width, height }) {
    const pitches = roll.lanes.reduce((sum, lane) => sum + lane.high - lane.low + 1, 0);
    const step = (height - top - 6 - GAP * (roll.lanes.length - 1)) / Math.max(1, pitches);
    let y = top + 2;
    for (const lane of roll.lanes) {
      lane.top = y;
      y += (lane.high - lane.low + 1) * step;
      pen.fillStyle = ink.line;
      if (lane !== roll.lanes.at(-1)) pen.fillRect(left, y + GAP / 2, width, 1);
      y += GAP;
    }
    return step;
  }

  function paintNotes(on) {
    const { pen, ink, roll, piece, left, right, bar } = on, step = layLanes(on);
    const lanes = Object.fromEntries(roll.lanes.map((lane) => [lane.index, lane]));
    const ticks = piece.barTicks / bar, from = left * ticks, to = right * ticks, line = on.prompt * piece.barTicks;
    const thick = Math.max(2.5, Math.min(step - 1, 9)), round = Math.min(2, thick / 2);
    for (const [onset, duration, pitch, velocity, track] of roll.notes) {
      if (onset > to) break; // they come in the order of their onsets
      if (onset + duration < from) continue;
      const lane = lanes[track], long = lane.drum ? Math.max(3, thick) : Math.max(2.5, duration / ticks - 1);
      pen.fillStyle = ink[`${onset < line || roll.chosen ? "prompt" : "new"}-${lane.index % 3}`];
      pen.globalAlpha = (0.78 + (0.22 * velocity) / 127) * (roll.chosen && onset >= line ? 0.4 : 1);
      const x = onset / ticks, y = lane.top + (lane.high - pitch) * step + (step - thick) / 2;
      if (long < 6) {
        pen.fillRect(x, y, long, thick); // too small to be seen round
        continue;
      }
      pen.beginPath();
      pen.roundRect(x, y, long, thick, round);
      pen.fill();
    }
    pen.globalAlpha = 1;
  }

  function paintLine(on, bars, colour, text, y) {
    const { pen, ink, height } = on, { x, wide, at } = placed(on, bars, text);
    pen.strokeStyle = pen.fillStyle = colour;
    pen.setLineDash([4, 3]);
    pen.beginPath();
    pen.moveTo(x + 0.5, RULER - 4);
    pen.lineTo(x + 0.5, height);
    pen.stroke();
    pen.setLineDash([]);
    pen.fillRect(at, y, wide, LABEL);
    pen.fillStyle = ink.ground;
    pen.fillText(text, at + 5, y + 8);
  }

  function paintNames({ pen, ink, roll }) {
    if (roll.lanes.length < 2) return;
    for (const lane of roll.lanes) {
      pen.globalAlpha = 0.85;
      pen.fillStyle = ink.ground;
      pen.fillRect(2, lane.top, pen.measureText(lane.name).width + 8, 14);
      pen.globalAlpha = 1;
      pen.fillStyle = ink.faint;
      pen.fillText(lane.name, 6, lane.top + 7);
    }
  }

  function paint(roll) {
    const on = sheet(roll), { pen, piece } = on;
    pen.save();
    pen.translate(-on.left, 0);
    paintBars(on);
    paintChords(on);
    paintNotes(on);
    if (piece.promptBars && !roll.chosen) paintLine(on, piece.promptBars, on.ink["new-0"], "continuation", 1);
    if (piece.trainedBars !== null) paintLine(on, piece.trainedBars, on.ink.faint, "past the trained length", on.height - LABEL - 1);
    pen.restore();
    paintNames(on);
  }

  window.musicgen = Object.assign(window.musicgen ?? {}, { paint });
})();
