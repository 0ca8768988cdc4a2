// The piano roll: a view of a piece with a cursor, zoom and scroll, and the prompt's end to be dragged.
// The canvas is as wide as what is seen, and paint.js paints it anew at every scroll.
(() => {
  const LEAST_BAR = 12, MOST_BAR = 400;
  const SEMITONES = 12; // a lane's least height in pitches

  // "onset,duration,pitch,velocity,track;…" → arrays of numbers
  function notesOf(text) {
    return text.split(";").filter(Boolean).map((row) => row.split(",").map(Number));
  }

  class Roll {
    // `chosen` is called with a number of bars while the prompt's end is dragged; `seek` with a tick.
    constructor(parent, { label, height, chosen, seek, played }) {
      this.seek = seek;
      this.chosen = chosen;
      this.view = document.createElement("div");
      this.view.className = "mg-roll";
      this.view.style.height = height;
      this.view.innerHTML =
        '<div class="mg-wide"><canvas></canvas><div class="mg-cursor" hidden></div>' +
        '<div class="mg-end" role="slider" tabindex="0" aria-label="Bars of the prompt" hidden><span></span></div></div>';
      this.wide = this.view.firstChild;
      this.canvas = this.view.querySelector("canvas");
      this.cursor = this.view.querySelector(".mg-cursor");
      this.end = this.view.querySelector(".mg-end");
      this.canvas.tabIndex = 0;
      this.canvas.setAttribute("role", "application");
      this.canvas.setAttribute("aria-roledescription", "piano roll");
      this.label = label;
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
      this.canvas.setAttribute("aria-label", `${this.label}: ${piece.count} notes in ${piece.bars} bars. ` +
        "Space plays, left and right go by bars, plus and minus zoom.");
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

    // Show where something begins with a little of what was before, unless a hand has moved the view.
    settle(tick) {
      if (!this.touched) this.view.scrollLeft = this.x(tick) - this.view.clientWidth * 0.25;
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
      this.flag = null;
      if (this.end.hidden) return;
      this.end.setAttribute("aria-valuemin", 1);
      this.end.setAttribute("aria-valuemax", this.piece.bars);
      this.end.setAttribute("aria-valuenow", this.bars);
      this.end.setAttribute("aria-valuetext", `the first ${this.bars} of ${this.piece.bars} bars`);
      const sign = this.end.firstChild, x = this.bars * this.barWidth;
      sign.textContent = `prompt: ${this.bars}`;
      const last = x + sign.offsetWidth > this.wide.clientWidth;
      this.end.style.transform = `translateX(${x}px)`;
      this.end.classList.toggle("mg-last", last);
      this.flag = { at: last ? x - sign.offsetWidth : x, wide: sign.offsetWidth }; // the ruler leaves room for it
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
        window.musicgen.paint(this);
      });
    }
  }

  window.musicgen = Object.assign(window.musicgen ?? {}, { Roll });
})();
