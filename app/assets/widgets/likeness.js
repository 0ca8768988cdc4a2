// The similarity of a take to its prompt, as horizontal bars in a fold, in words for musicians.
import { fold, make } from "./parts.js";

const METRICS = {
  "onset–duration": [
    "Rhythm",
    "where notes begin in the bar, and their durations (onset–duration)",
  ],
  "time–pitch": ["Melody", "time and pitch differences from note to note (time–pitch)"],
  "onset–drum": ["Drums", "which drums are played where in the bar (onset–drum)"],
};

// One row per metric, one bar per quarter of the take.
export function likeness(rows) {
  if (!rows?.length) return make("div");
  const each = rows[0].quarters.length > 1 ? ", quarter by quarter" : "";
  const made = rows.map(({ metric, quarters: values }) => {
    const [name, meaning] = METRICS[metric] ?? [metric, metric];
    const bars = values.map((value, index) => {
      const part = values.length > 1 ? `, quarter ${index + 1}` : "";
      const bar = make("span", "mg-meter", value === null ? "–" : value.toFixed(2));
      bar.style.setProperty("--part", `${100 * (value ?? 0)}%`);
      bar.title = `${name}${part}: ${value === null ? "nothing to compare" : value.toFixed(3)}`;
      return bar;
    });
    const named = make("span", "mg-metric", name, { title: meaning });
    return make("div", "mg-meters", [named, ...bars]);
  });
  const words = make("span", "mg-likeness-name", `Similarity to the prompt${each}, 0 to 1`);
  return fold("Details", "mg-details", [make("div", "mg-likeness", [words, ...made])]);
}
