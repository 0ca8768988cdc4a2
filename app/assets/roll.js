// The piano roll: bars, lanes of tracks, chords, the prompt's end, the trained length, a cursor; zoom and scroll.
// The canvas is as wide as what is seen and is drawn anew at every scroll, so a piece may be of any length.
(() => {
  const RULER = 20, CHORDS = 16, GAP = 8, LEAST_BAR = 12, MOST_BAR = 400;
  const SEMITONES = 12; // a lane's least height in pitches

  // "onset,duration,pitch,velocity,track;…" → arrays of numbers
  function notesOf(text) {
    return text.split(";").filter(Boolean).map((row) => row.split(",").map(Number));
  }

  class Roll {
    // `chosen` is called with a number of bars while the prompt's end is dragged; `seek` with a tick.
    constructor(parent, { label, height, chosen, seek, played }) {
      this.height = height;
      this.seek = seek;
      this.chosen = chosen;
      this.view = document.createElement("div");
      this.view.className = "mg-roll";
      this.view.style.height = `${height}px`;
      this.view.innerHTML =
        '<div class="mg-wide"><canvas></canvas><div class="mg-cursor" hidden></div>' +
        '<div class="mg-end" role="slider" tabindex="0" aria-label="Bars of the prompt" hidden><span></span></div></div>';
      this.wide = this.view.firstChild;
      this.canvas = this.view.querySelector("canvas");
      this.cursor = this.view.querySelector(".mg-cursor");
      this.end = this.view.querySelector(".mg-end");
      this.canvas.tabIndex = 0;
      this.canvas.setAttribute("role", "img");
      this.canvas.setAttribute("aria-label", label);
      parent.appendChild(this.view);
      this.zoom = null; // pixels a bar; null fits the piece
      this.piece = null;
      this.view.addEventListener("scroll", () => this.draw());
      new ResizeObserver(() => this.layout()).observe(this.view);
      new MutationObserver(() => this.draw()).observe(document.body, { attributeFilter: ["class"] });
      this.canvas.addEventListener("click", (event) => this.seek?.(this.tickAt(event)));
      this.canvas.addEventListener("keydown", (event) => this.key(event, played));
      for (const hand of ["pointerdown", "wheel"])
        this.view.addEventListener(hand, () => (this.touched = true), { passive: true });
      this.view.addEventListener("wheel", (event) => {
        if (!event.ctrlKey) return;
        event.preventDefault();
        this.scale(event.deltaY < 0 ? 1.2 : 1 / 1.2);
      }, { passive: false });
      this.dragging();
    }

    show(piece) {
      const fresh = !this.piece || this.piece.bars !== piece.bars || this.piece.title !== piece.title;
      this.piece = piece;
      if (this.text !== piece.notes) {
        this.text = piece.notes;
        this.notes = notesOf(piece.notes);
        this.lanes = this.laneBounds();
      }
      if (fresh) this.layout();
      else this.draw();
    }

    choose(bars) {
      this.bars = bars;
      this.placeEnd();
      this.draw();
    }

    moveCursor(tick, follow) {
      this.cursor.hidden = tick === null;
      if (tick === null || !this.piece) return;
      const x = this.x(tick);
      this.cursor.style.transform = `translateX(${x}px)`;
      const from = this.view.scrollLeft, width = this.view.clientWidth;
      if (follow && (x < from || x > from + width * 0.9)) this.view.scrollLeft = x - width * 0.1;
    }

    // Keep a tick in sight, unless a hand has moved the view.
    reveal(tick) {
      const to = this.x(tick) - this.view.clientWidth * 0.8;
      if (!this.touched && to > this.view.scrollLeft) this.view.scrollLeft = to;
    }

    scale(factor) {
      const middle = (this.view.scrollLeft + this.view.clientWidth / 2) / this.barWidth;
      this.zoom = factor === null ? null : Math.min(MOST_BAR, Math.max(6, this.barWidth * factor));
      this.layout();
      this.view.scrollLeft = middle * this.barWidth - this.view.clientWidth / 2;
      this.draw();
    }

    get barWidth() {
      const fit = this.view.clientWidth / Math.max(1, this.piece?.bars ?? 1);
      return this.zoom ?? Math.min(MOST_BAR, Math.max(LEAST_BAR, fit));
    }

    x(tick) {
      return (tick / this.piece.barTicks) * this.barWidth;
    }

    tickAt(event) {
      const x = event.clientX - this.view.getBoundingClientRect().left + this.view.scrollLeft;
      return Math.max(0, (x / this.barWidth) * this.piece.barTicks);
    }

    // The lanes' pitch ranges, each at least an octave, and where they lie.
    laneBounds() {
      const lanes = this.piece.tracks.map((track, index) => ({ ...track, index, low: 127, high: 0 }));
      for (const [, , pitch, , track] of this.notes) {
        lanes[track].low = Math.min(lanes[track].low, pitch);
        lanes[track].high = Math.max(lanes[track].high, pitch);
      }
      const used = lanes.filter((lane) => lane.high >= lane.low);
      for (const lane of used) {
        const more = Math.max(2, SEMITONES - (lane.high - lane.low)) / 2;
        lane.low -= Math.floor(more);
        lane.high += Math.ceil(more);
      }
      return used;
    }

    layout() {
      if (!this.piece || !this.view.clientWidth) return;
      this.wide.style.width = `${Math.max(this.view.clientWidth, Math.ceil(this.piece.bars * this.barWidth))}px`;
      const ratio = window.devicePixelRatio || 1;
      this.canvas.width = this.view.clientWidth * ratio;
      this.canvas.height = this.view.clientHeight * ratio;
      this.canvas.style.width = `${this.view.clientWidth}px`;
      this.canvas.style.height = `${this.view.clientHeight}px`;
      this.placeEnd();
      this.draw();
    }

    placeEnd() {
      this.end.hidden = !this.chosen || !this.bars || !this.piece;
      if (this.end.hidden) return;
      this.end.style.transform = `translateX(${this.bars * this.barWidth}px)`;
      this.end.classList.toggle("mg-last", this.bars >= this.piece.bars);
      this.end.setAttribute("aria-valuemin", 1);
      this.end.setAttribute("aria-valuemax", this.piece.bars);
      this.end.setAttribute("aria-valuenow", this.bars);
      this.end.setAttribute("aria-valuetext", `the first ${this.bars} of ${this.piece.bars} bars`);
      this.end.firstChild.textContent = `prompt: ${this.bars}`;
    }

    dragging() {
      const drag = (event) => {
        this.pick(Math.round(this.tickAt(event) / this.piece.barTicks));
      };
      this.end.addEventListener("pointerdown", (event) => {
        this.end.setPointerCapture(event.pointerId);
        this.end.onpointermove = drag;
        event.preventDefault();
        this.end.focus();
      });
      this.end.addEventListener("pointerup", () => (this.end.onpointermove = null));
      this.end.addEventListener("pointercancel", () => (this.end.onpointermove = null));
      this.end.addEventListener("keydown", (event) => {
        const step = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -4, PageUp: 4 }[event.key];
        const to = event.key === "Home" ? 1 : event.key === "End" ? this.piece.bars : step && this.bars + step;
        if (!to) return;
        event.preventDefault();
        this.pick(to);
      });
    }

    pick(bars) {
      const within = Math.min(this.piece.bars, Math.max(1, bars));
      if (within === this.bars) return;
      this.choose(within);
      this.chosen(within);
    }

    key(event, played) {
      const act = {
        " ": () => played?.(), "+": () => this.scale(1.3), "=": () => this.scale(1.3), "-": () => this.scale(1 / 1.3),
        "0": () => this.scale(null), ArrowLeft: () => this.seek?.(null, -1), ArrowRight: () => this.seek?.(null, 1),
      }[event.key];
      if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      act();
    }

    draw() {
      if (!this.piece || !this.canvas.width || this.asked) return;
      this.asked = requestAnimationFrame(() => {
        this.asked = null;
        this.paint();
      });
    }

    paint() {
      const style = getComputedStyle(this.view), ink = (name) => style.getPropertyValue(`--mg-${name}`).trim();
      const ratio = window.devicePixelRatio || 1, pen = this.canvas.getContext("2d");
      const width = this.view.clientWidth, height = this.view.clientHeight, left = this.view.scrollLeft;
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      pen.clearRect(0, 0, width, height);
      pen.font = `11px ${style.fontFamily}`;
      pen.textBaseline = "middle";
      pen.save();
      pen.translate(-left, 0);
      const top = RULER + (this.piece.chords.length ? CHORDS : 0);
      this.paintBars(pen, ink, left, width, height, top);
      this.paintChords(pen, ink, left, width);
      this.paintNotes(pen, ink, left, width, top, height);
      this.paintLines(pen, ink, height, top);
      pen.restore();
      this.paintNames(pen, ink);
    }

    paintBars(pen, ink, left, width, height, top) {
      const bar = this.barWidth, prompt = this.piece.promptBars || this.bars || 0;
      pen.fillStyle = ink("prompt-ground");
      pen.fillRect(0, top, prompt * bar, height - top);
      const every = [1, 2, 4, 8, 16, 32].find((n) => n * bar >= 34) ?? 64;
      for (let n = Math.floor(left / bar); n <= (left + width) / bar && n <= this.piece.bars; n++) {
        pen.fillStyle = n % 4 ? ink("line") : ink("line-strong");
        pen.fillRect(Math.round(n * bar), n % every ? top : RULER - 6, 1, height);
        if (bar >= 90) {
          pen.fillStyle = ink("line");
          for (let beat = 1; beat < 4; beat++) pen.fillRect(Math.round((n + beat / 4) * bar), top, 0.5, height);
        }
        if (n % every || n === this.piece.bars) continue;
        pen.fillStyle = ink("faint");
        pen.fillText(`${n + 1}`, n * bar + 4, RULER / 2);
      }
    }

    paintChords(pen, ink, left, width) {
      pen.fillStyle = ink("faint");
      let free = -Infinity; // where the name before ends
      for (const [tick, name] of this.piece.chords) {
        const x = this.x(tick);
        if (!name || x < free || x < left - 60 || x > left + width) continue;
        pen.fillText(name, x + 3, RULER + CHORDS / 2);
        free = x + pen.measureText(name).width + 8;
      }
    }

    paintNotes(pen, ink, left, width, top, height) {
      const pitches = this.lanes.reduce((sum, lane) => sum + lane.high - lane.low + 1, 0);
      const step = (height - top - 6 - GAP * (this.lanes.length - 1)) / Math.max(1, pitches);
      let y = top + 2;
      const place = {};
      for (const lane of this.lanes) {
        lane.top = y;
        place[lane.index] = lane;
        y += (lane.high - lane.low + 1) * step;
        pen.fillStyle = ink("line");
        if (lane !== this.lanes.at(-1)) pen.fillRect(left, y + GAP / 2, width, 1);
        y += GAP;
      }
      const from = (left / this.barWidth) * this.piece.barTicks, to = from + (width / this.barWidth) * this.piece.barTicks;
      const line = (this.piece.promptBars || (this.chosen && this.bars) || 0) * this.piece.barTicks;
      for (const [onset, duration, pitch, velocity, track] of this.notes) {
        if (onset > to || onset + duration < from) continue;
        const lane = place[track], thick = Math.max(2.5, Math.min(step - 1, 9));
        const long = lane.drum ? Math.max(3, thick) : Math.max(2.5, this.x(duration) - 1);
        pen.fillStyle = ink(`${onset < line || this.chosen ? "prompt" : "new"}-${lane.index % 3}`);
        pen.globalAlpha = (0.55 + (0.45 * velocity) / 127) * (this.chosen && onset >= line ? 0.35 : 1);
        pen.beginPath();
        pen.roundRect(this.x(onset), lane.top + (lane.high - pitch) * step + (step - thick) / 2, long, thick, Math.min(2, thick / 2));
        pen.fill();
      }
      pen.globalAlpha = 1;
    }

    paintLines(pen, ink, height, top) {
      const mark = (bars, colour, text, y) => {
        const x = Math.round(bars * this.barWidth);
        pen.strokeStyle = pen.fillStyle = colour;
        pen.setLineDash([4, 3]);
        pen.beginPath();
        pen.moveTo(x + 0.5, RULER - 4);
        pen.lineTo(x + 0.5, height);
        pen.stroke();
        pen.setLineDash([]);
        const wide = pen.measureText(text).width + 10;
        const at = x + wide > this.piece.bars * this.barWidth && x > wide ? x - wide : x;
        pen.fillRect(at, y, wide, 15);
        pen.fillStyle = ink("ground");
        pen.fillText(text, at + 5, y + 8);
      };
      if (this.piece.promptBars && !this.chosen) mark(this.piece.promptBars, ink("new-0"), "continuation", 1);
      if (this.piece.trainedBars !== null) mark(this.piece.trainedBars, ink("faint"), "past the trained length", height - 16);
    }

    paintNames(pen, ink) {
      if (this.lanes.length < 2) return;
      for (const lane of this.lanes) {
        const wide = pen.measureText(lane.name).width + 8;
        pen.globalAlpha = 0.85;
        pen.fillStyle = ink("ground");
        pen.fillRect(2, lane.top, wide, 14);
        pen.globalAlpha = 1;
        pen.fillStyle = ink("faint");
        pen.fillText(lane.name, 6, lane.top + 7);
      }
    }
  }

  window.musicgen = Object.assign(window.musicgen ?? {}, { Roll });
})();
