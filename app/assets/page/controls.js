// How to continue: words of musicians first, sampling by its names behind "Advanced".
import {
  action,
  check,
  choice,
  count,
  field,
  fold,
  icon,
  make,
  rename,
  slider,
} from "../widgets/parts.js";
import { settingOf } from "./server.js";

const CREATIVITY = [
  [0.7, "safe"],
  [0.85, "careful"],
  [1, "natural"],
  [1.1, "bold"],
  [1.25, "wild"],
];
const DENSE = ["sparse", "natural", "dense"];

export function controlsPart(app) {
  const { desk, facts } = app,
    set = (change) => desk.set(change);
  const exact = () => CREATIVITY.some(([temperature]) => temperature === desk.settings.temperature);
  const model = choice(
    "mg-model",
    "Model",
    facts.models.map(({ name, player }) => [name, `${name} · ${player}`]),
    (name) => app.changeModel(name),
  );
  model.hidden = facts.models.length < 2;
  const prompt = slider("mg-prompt-bars", "Continue after bar", 1, 16, (to) => desk.choose(to));
  const bars = slider("mg-bars", "Length (bars)", 1, facts.mostBars, (to) => set({ bars: to })),
    most = facts.mostVariations,
    takes = slider("mg-variations", "Takes", 1, most, (to) => set({ variations: to }));
  const dare = (place) => set({ temperature: CREATIVITY[place][0] });
  const daring = slider("mg-daring", "Creativity", 0, CREATIVITY.length - 1, dare, {
    said: (place) => (exact() ? CREATIVITY[place][1] : `temperature ${desk.settings.temperature}`),
  });
  const dense = slider("mg-dense", "Density", -1, 1, (to) => set({ dense: to }), {
    said: (to) => DENSE[to + 1],
  });
  const ends = choice(
    "mg-ends",
    "Ending",
    [
      ["open", "Leave open"],
      ["ends", "Write an ending"],
    ],
    (how) => set({ ends: how === "ends" }),
  );
  const endWhy = make("span", "mg-info", "", { id: "mg-ends-why" });
  ends.append(endWhy);
  ends.select.setAttribute("aria-describedby", "mg-ends-why");
  const line = make("input", "mg-text", "", {
    type: "text",
    id: "mg-chords-line",
    placeholder: "C | G/B | Am F | C",
    spellcheck: false,
    maxLength: 400,
  });
  line.addEventListener("change", () => set({ chords: line.value }));
  const chords = field("mg-chords", "Chord progression", line);

  const fines = facts.sampling.map(({ name, label, hint, least, most, step }) => {
    const setting = settingOf(name),
      id = `mg-${name.replace("_", "-")}`,
      act = (to) => set({ [setting]: to });
    return [setting, slider(id, label, least, most, act, { step, info: hint })];
  });
  const number = make("input", "mg-number", "", {
    type: "number",
    id: "mg-seed-number",
    min: 0,
    max: 2 ** 31 - 1,
    step: 1,
  });
  number.addEventListener("change", () =>
    set({
      seed: Math.min(2 ** 31 - 1, Math.max(0, Math.floor(Number(number.value) || 0))),
      newSeed: false,
    }),
  );
  const seed = field("mg-seed", "Seed", number);
  const newSeed = check("mg-new-seed", "Another seed each time", (on) => set({ newSeed: on }));
  const sampling = [...fines.map(([, made]) => made), seed, newSeed];
  const more = fold("Advanced", "mg-more", sampling, { id: "mg-more" });
  more.firstChild.addEventListener("click", (event) => {
    event.preventDefault(); // `show` opens it: the event "toggle" comes later, and may undo what was asked for since
    set({ more: !desk.settings.more });
  });

  const go = action(
    "Continue",
    () => (sheet(false, false), app.composer.start({ kind: "continue" })),
    "mg-button mg-go",
    { id: "mg-go" },
  );
  const halt = action("Stop", () => app.composer.stop(), "mg-button mg-halt", {
    id: "mg-halt",
    hidden: true,
  });
  // On a small screen what is asked for lies in a sheet over the music; its button is next to Continue.
  const how = icon(
    "how",
    "How to continue",
    () => sheet(!box.classList.contains("mg-up")),
    "mg-icon mg-how",
  );
  const close = icon("close", "Close", () => sheet(false), "mg-icon mg-sheet-close"),
    top = make("div", "mg-sheet-head", [make("h2", "", "How to continue"), close]),
    row = make("div", "mg-go-row", [how, go, halt]);
  const box = make(
    "section",
    "mg-card mg-controls",
    [top, model, prompt, bars, takes, daring, dense, ends, chords, more, row],
    { ariaLabel: "How to continue", id: "mg-controls" },
  );
  how.setAttribute("aria-controls", box.id);
  how.ariaExpanded = false;
  function sheet(open, back = true) {
    if (open === box.classList.contains("mg-up")) return;
    box.classList.toggle("mg-up", open);
    how.ariaExpanded = open;
    if (open) close.focus();
    else if (back) how.focus();
  }
  box.addEventListener("keydown", (event) => event.key === "Escape" && sheet(false));
  addEventListener("pointerdown", (event) => box.contains(event.target) || sheet(false, false), {
    capture: true,
  });

  function show() {
    const { settings: now, open, current } = desk,
      { lacks } = app.model,
      given = current && current.kind !== "nothing" && current.piece.notes.length;
    model.show(app.model.name);
    prompt.hidden = !given || current.piece.lines.length < 3;
    if (given) {
      prompt.bounds(1, current.piece.lines.length - 1);
      prompt.show(Math.min(open.chosen || 1, current.piece.lines.length - 1));
    }
    bars.show(now.bars);
    takes.show(now.variations);
    const far = CREATIVITY.map(([temperature]) => Math.abs(temperature - now.temperature));
    daring.show(far.indexOf(Math.min(...far)));
    dense.show(now.dense);
    ends.show(now.ends && !lacks.ends ? "ends" : "open");
    ends.select.disabled = Boolean(lacks.ends);
    ends.title = endWhy.textContent = lacks.ends ?? "";
    chords.hidden = Boolean(lacks.chords);
    if (document.activeElement !== line) line.value = now.chords;
    for (const [name, made] of fines) made.show(now[name]);
    if (document.activeElement !== number) number.value = now.seed;
    newSeed.show(now.newSeed);
    more.open = now.more;
    const busy = app.composer.busy;
    const [comes, goes] = busy ? [halt, go] : [go, halt];
    comes.hidden = false;
    if (goes.matches(":focus-visible")) comes.focus(); // for keys; after a pointer, they mean the page
    goes.hidden = true;
    go.textContent = !given && (current || desk.past.length) ? "Generate" : "Continue";
    rename(how, `How to continue: ${count(now.bars, "bar")}, ${count(now.variations, "take")}`);
  }
  return Object.assign(box, { show });
}
