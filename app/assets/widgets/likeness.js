// How like its prompt a take stays, in a musician's words: light bars in a fold, and what they mean.
import { make } from "./parts.js";

const METRICS = {
  "onset–duration": [
    "Rhythm",
    "where in the bar notes begin, and how long they are (onset–duration)",
  ],
  "time–pitch": ["Melody", "the steps and pauses from note to note (time–pitch)"],
  "onset–drum": ["Drums", "where in the bar which drum is struck (onset–drum)"],
};

// A row a metric, a bar a quarter; `real` is how like its own beginning the real piece goes on.
export function likeness(rows, real) {
  if (!rows?.length) return make("div");
  const fold = make("details", "mg-details"),
    box = make("div", "mg-likeness");
  fold.append(make("summary", "", "Details"), box);
  const quarters = rows[0].quarters.length > 1;
  box.append(
    make(
      "span",
      "mg-likeness-name",
      quarters
        ? "Likeness to your part, quarter by quarter, 0 to 1"
        : "Likeness to your part, 0 to 1",
    ),
  );
  for (const { metric, quarters: values } of rows) {
    const row = make("div", "mg-meters"),
      [name, meaning] = METRICS[metric] ?? [metric, metric];
    row.append(make("span", "mg-metric", name, { title: meaning }));
    values.forEach((value, index) => {
      const bar = make("span", "mg-meter"),
        part = values.length > 1 ? `, quarter ${index + 1}` : "";
      bar.append(make("i"), make("b", "", value === null ? "–" : value.toFixed(2)));
      bar.firstChild.style.width = `${100 * (value ?? 0)}%`;
      bar.title = `${name}${part}: ${value === null ? "nothing to compare" : value.toFixed(3)}`;
      row.append(bar);
    });
    const known = real?.[metric];
    row.append(
      make("span", "mg-real", known === undefined ? "" : `the real piece: ${known.toFixed(2)}`),
    );
    box.append(row);
  }
  return fold;
}
