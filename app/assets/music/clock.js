// Converts between seconds and ticks by the tempo changes of a piece; formats time.
import { countUntil } from "./piece.js";

export class Clock {
  constructor({ tempos, ticksPerBeat }) {
    const changes =
      tempos.length && tempos[0][0] <= 0 ? tempos : [[0, tempos[0]?.[1] ?? 120], ...tempos];
    let seconds = 0;
    this.parts = changes.map(([tick, tempo], index) => {
      if (index)
        seconds += ((tick - changes[index - 1][0]) * 60) / (changes[index - 1][1] * ticksPerBeat);
      return { tick, seconds, ticksPerSecond: (tempo * ticksPerBeat) / 60 };
    });
  }

  // The part in force at a value of "tick" or "seconds".
  part(name, value) {
    const { parts } = this,
      count = countUntil(parts.length, (index) => parts[index][name] <= value);
    return parts[Math.max(0, count - 1)];
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
