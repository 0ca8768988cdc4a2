// The controls of the plan: its visibility, the curve to edit, and the goals that it sets for bars.
import { barAt, barCount, linesFor } from "../music/piece.js";
import { CURVES, askedOf, planOf, valueLabel } from "../music/plan.js";
import { action, make, marked } from "./parts.js";

const isIn = (range, bar) => Boolean(range) && bar >= range.first && bar < range.stop;

// Whether the model can be given a plan.
const canAsk = ({ desk, model }) => !model.lacks.plan && desk.current?.piece.notes.length > 0;

const HOW = ": drag its curve over the bars to be written, or press the up and down arrow keys";

// The bars that Continue will write.
const nextOf = ({ desk: { open, settings } }) => ({
  first: open.chosen,
  stop: open.chosen + settings.bars,
});

// The plan that a roll shows, or null. On the stage (`roll`), the bars to be written can be edited: those after the prompt
// and the selected ones.
export function planShown(app, entry, roll = null) {
  const { desk } = app;
  const { plan, curve } = desk.settings;
  const { piece } = entry;
  if (!plan) return null;
  const asked = askedForm(entry);
  if (!roll) {
    const known = entry.state === "running" ? barAt(piece, entry.now) : barCount(piece);
    return { curve, asked, goals: entry.goals ?? {}, lines: piece.lines, known };
  }
  const next = canAsk(app) ? nextOf(app) : null;
  const isOpen = (bar) => canAsk(app) && (isIn(next, bar) || isIn(roll.range, bar));
  const bars = Math.max(barCount(piece), next?.stop ?? 0);
  return { curve, asked, goals: desk.goals, lines: linesFor(piece, bars), next, isOpen };
}

// The form that the new bars of an entry were asked for: its letters and bars.
function askedForm({ form, region }) {
  if (!form || !region) return null;
  const letters = form.trim().includes(" ") ? form.trim().split(/\s+/) : [...form.trim()];
  return { letters, first: region.first, stop: region.stop };
}

// The goals for the bars that are written next; none if the plan is hidden.
export function planAsked(app, { kind = "continue", first, last }) {
  const { goals, open, settings } = app.desk;
  if (!settings.plan || !canAsk(app)) return null;
  if (kind === "infill") return askedOf(goals, first - 1, last - first + 1);
  return kind === "continue" ? askedOf(goals, open.chosen, settings.bars) : null;
}

// The button that shows the plan, and the row of its curves under the roll.
export function planView(app, roll) {
  const { desk } = app;
  const toggle = marked(
    "plan",
    "Plan",
    () => desk.set({ plan: !desk.settings.plan }),
    "mg-chip mg-of-roll",
  );
  const hint = make("span", "mg-said");
  const clear = action("Clear the plan", () => desk.bend({}));

  function bend(bars, value) {
    const { curve } = desk.settings;
    const { goals } = desk;
    if (bars.every((bar) => goals[bar]?.[curve] === value)) return;
    const added = bars.map((bar) => [bar, { ...goals[bar], [curve]: value }]);
    desk.bend({ ...goals, ...Object.fromEntries(added) });
    const last = bars.at(-1) + 1;
    app.say(`Bar ${last}: ${valueLabel(curve, value)}.`);
  }

  // Keys raise or lower all bars to be written together: the selected ones, or those after the prompt.
  function nudge(event, curve) {
    const by = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (!by || !canAsk(app)) return;
    event.preventDefault();
    const { low, high, step } = CURVES[curve];
    const { first, stop } = roll.range ?? nextOf(app);
    const bars = Array.from({ length: stop - first }, (_, bar) => first + bar);
    const values = planOf(roll.piece)[curve].slice(0, first + 1);
    const before = values.findLast((value) => value !== null);
    const usual = Math.round((before ?? (low + high) / 2) / step) * step,
      from = desk.goals[first]?.[curve] ?? usual;
    desk.set({ curve });
    bend(bars, Math.min(high, Math.max(low, from + by * step * (step < 1 ? 1 : 4))));
  }

  const names = Object.entries(CURVES).map(([curve, { name, line, colour }]) => {
    const button = action(name, () => desk.set({ curve }), "mg-chip mg-curve");
    button.dataset.curve = curve;
    button.style.setProperty("--curve", `var(--mg-${colour})`);
    button.style.setProperty("--line", line);
    button.addEventListener("keydown", (event) => nudge(event, curve));
    return button;
  });
  const within = [...names, clear, hint],
    row = make("div", "mg-plan-row mg-of-roll", within, { ariaLabel: "Plan", role: "group" });

  function show() {
    const { plan, curve } = desk.settings;
    const entry = desk.current;
    toggle.ariaPressed = plan;
    row.hidden = !plan || !entry;
    if (row.hidden) return;
    for (const button of names) {
      button.ariaPressed = button.dataset.curve === curve;
      button.title = button.textContent + (canAsk(app) ? HOW : "");
    }
    clear.hidden = !Object.keys(desk.goals).length;
    hint.textContent = canAsk(app) ? "drag across the orange bars" : (app.model.lacks.plan ?? "");
  }
  return { toggle, row, show, bend };
}
