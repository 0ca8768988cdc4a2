// A player: a button, the time, and a cursor on a roll that follows the sound. One plays at a time.
(() => {
  let playing = null;

  // Seconds ↔ ticks by a piece's tempo changes.
  class Clock {
    constructor({ tempos, ticksPerBeat }) {
      const changes = tempos.length && tempos[0][0] <= 0 ? tempos : [[0, 120], ...tempos];
      let seconds = 0;
      this.parts = changes.map(([tick, tempo], index) => {
        if (index) seconds += ((tick - changes[index - 1][0]) * 60) / (changes[index - 1][1] * ticksPerBeat);
        return { tick, seconds, ticksPerSecond: (tempo * ticksPerBeat) / 60 };
      });
    }

    tick(seconds) {
      const part = this.parts.findLast((one) => one.seconds <= seconds) ?? this.parts[0];
      return part.tick + (seconds - part.seconds) * part.ticksPerSecond;
    }

    seconds(tick) {
      const part = this.parts.findLast((one) => one.tick <= tick) ?? this.parts[0];
      return part.seconds + (tick - part.tick) / part.ticksPerSecond;
    }
  }

  const clockTime = (seconds) => `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;

  class Player {
    constructor(parent, failed) {
      this.failed = failed;
      this.box = document.createElement("div");
      this.box.className = "mg-player";
      this.box.innerHTML =
        '<button type="button" class="mg-play" aria-label="Play" disabled></button>' +
        '<span class="mg-time" aria-live="off"></span><audio preload="none"></audio>';
      [this.button, this.time, this.audio] = this.box.children;
      parent.appendChild(this.box);
      this.button.addEventListener("click", () => this.toggle());
      for (const event of ["play", "playing", "pause", "ended", "waiting", "timeupdate", "loadedmetadata"])
        this.audio.addEventListener(event, () => this.update(event));
      this.audio.addEventListener("error", () => this.broken());
    }

    // Take a piece; its sound is fetched when it is wanted.
    load(piece, roll) {
      this.roll = roll;
      this.clock = new Clock(piece);
      this.barTicks = piece.barTicks;
      this.length = piece.count ? this.clock.seconds(piece.endTicks) : 0;
      if (this.address !== piece.wav) {
        this.audio.pause();
        this.address = piece.wav;
        this.pending = 0;
        if (piece.wav) this.audio.src = piece.wav;
        else this.audio.removeAttribute("src");
        roll.moveCursor(null);
      }
      this.button.disabled = !piece.wav;
      this.update();
    }

    toggle() {
      if (this.button.disabled) return;
      if (!this.audio.paused) return this.audio.pause();
      if (playing && playing !== this) playing.audio.pause();
      playing = this;
      this.audio.play().catch(() => {});
    }

    // To a tick, or some bars on from where it is.
    seek(tick, bars = 0) {
      if (this.button.disabled) return;
      const now = this.clock.tick(this.audio.readyState ? this.audio.currentTime : this.pending);
      const to = tick ?? Math.max(0, (Math.round(now / this.barTicks) + bars) * this.barTicks);
      const seconds = Math.min(this.clock.seconds(to), Math.max(0, this.length - 0.05));
      if (this.audio.readyState) this.audio.currentTime = seconds;
      this.pending = seconds;
      this.update();
      this.roll.moveCursor(this.clock.tick(seconds));
    }

    update(event) {
      if (event === "loadedmetadata" && this.pending) this.audio.currentTime = this.pending;
      const on = !this.audio.paused;
      if (event === "ended") this.pending = 0;
      this.button.classList.toggle("mg-on", on);
      this.button.classList.toggle("mg-waits", on && this.audio.readyState < 3);
      this.button.setAttribute("aria-label", on ? "Pause" : "Play");
      const at = this.audio.readyState ? this.audio.currentTime : this.pending || 0;
      this.time.textContent = this.length ? `${clockTime(at)} / ${clockTime(this.length)}` : "";
      if (on && !this.frame) this.follow();
    }

    follow() {
      this.frame = null;
      if (this.audio.readyState) this.roll.moveCursor(this.clock.tick(this.audio.currentTime), !this.audio.paused);
      if (!this.audio.paused) this.frame = requestAnimationFrame(() => this.follow());
    }

    // The sound could not be had: ask the server why.
    async broken() {
      this.update();
      if (!this.address) return;
      const answer = await fetch(this.address).catch(() => null);
      this.failed(answer && !answer.ok ? await answer.text() : "This browser could not play the sound.");
    }
  }

  window.musicgen = Object.assign(window.musicgen ?? {}, { Player });
})();
