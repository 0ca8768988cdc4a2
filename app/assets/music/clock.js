// Seconds ↔ ticks by a piece's tempo changes, and time as a player shows it.
export class Clock {
  constructor({ tempos, ticksPerBeat }) {
    const changes = tempos.length && tempos[0][0] <= 0 ? tempos : [[0, tempos[0]?.[1] ?? 120], ...tempos];
    let seconds = 0;
    this.parts = changes.map(([tick, tempo], index) => {
      if (index) seconds += ((tick - changes[index - 1][0]) * 60) / (changes[index - 1][1] * ticksPerBeat);
      return { tick, seconds, ticksPerSecond: (tempo * ticksPerBeat) / 60 };
    });
  }

  // The last part that begins by a value, found by halving: some pieces change tempo at every beat.
  part(name, value) {
    let low = 0, high = this.parts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.parts[middle][name] <= value) low = middle;
      else high = middle - 1;
    }
    return this.parts[low];
  }

  tick(seconds) {
    const part = this.part("seconds", seconds);
    return part.tick + (seconds - part.seconds) * part.ticksPerSecond;
  }

  seconds(tick) {
    const part = this.part("tick", tick);
    return part.seconds + (tick - part.tick) / part.ticksPerSecond;
  }
}

export const clockTime = (seconds) =>
  `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;
