// How to continue: words of musicians first, sampling by its names behind "Advanced".
import { action, check, choice, count, icon, make, rename, slider } from "../widgets/parts.js";
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
    set = (change) => desk.set(change),
    { settings } = desk;
  const box = make("section", "mg-card mg-controls", "", { ariaLabel: "How to continue" });
  const exact = () => CREATIVITY.some(([temperature]) => temperature === desk.settings.temperature);
  const model = choice(
    "mg-model",
    "Model",
    facts.models.map(({ name, player }) => [name, `${name} · ${player}`]),
    (name) => app.changeModel(name),
  );
  const prompt = slider("mg-prompt-bars", "Continue after bar", {
    min: 1,
    max: 16,
    value: 8,
    act: (bars) => desk.choose(bars),
  });
  const bars = slider("mg-bars", "Length (bars)", {
    min: 1,
    max: facts.mostBars,
    value: settings.bars,
    act: (to) => set({ bars: to }),
  });
  const takes = slider("mg-variations", "Takes", {
    min: 1,
    max: facts.mostVariations,
    value: settings.variations,
    act: (to) => set({ variations: to }),
  });
  const daring = slider("mg-daring", "Creativity", {
    min: 0,
    max: CREATIVITY.length - 1,
    value: 2,
    said: (place) => (exact() ? CREATIVITY[place][1] : `temperature ${desk.settings.temperature}`),
    act: (place) => set({ temperature: CREATIVITY[place][0] }),
  });
  const dense = slider("mg-dense", "Density", {
    min: -1,
    max: 1,
    value: 0,
    said: (to) => DENSE[to + 1],
    act: (to) => set({ dense: to }),
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
  const chords = make("div", "mg-field", "", { id: "mg-chords" }),
    line = make("input", "mg-text", "", {
      type: "text",
      id: "mg-chords-line",
      placeholder: "C | G/B | Am F | C",
      spellcheck: false,
      maxLength: 400,
    });
  line.addEventListener("change", () => set({ chords: line.value }));
  chords.append(
    make("label", "mg-label", "Chord progression", { htmlFor: "mg-chords-line" }),
    line,
  );

  const more = make("details", "mg-more", "", { id: "mg-more" });
  more.append(make("summary", "", "Advanced"));
  const fines = facts.sampling.map(({ name, label, hint, least, most, step }) => {
    const setting = settingOf(name),
      made = slider(`mg-${name.replace("_", "-")}`, label, {
        min: least,
        max: most,
        step,
        value: settings[setting],
        act: (to) => set({ [setting]: to }),
        info: hint,
      });
    more.append(made);
    return [setting, made];
  });
  const seed = make("div", "mg-field", "", { id: "mg-seed" }),
    number = make("input", "mg-number mg-wide-number", "", {
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
  const seedHead = make("div", "mg-field-head");
  seedHead.append(make("label", "mg-label", "Seed", { htmlFor: "mg-seed-number" }), number);
  seed.append(seedHead);
  const newSeed = check("mg-new-seed", "Another seed each time", (on) => set({ newSeed: on }));
  more.append(seed, newSeed);
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
  const row = make("div", "mg-go-row");
  // On a small screen what is asked for lies in a sheet over the music; its button is next to Continue.
  const how = icon(
    "how",
    "How to continue",
    () => sheet(!box.classList.contains("mg-up")),
    "mg-icon mg-how",
  );
  const top = make("div", "mg-sheet-head");
  top.append(
    make("h2", "", "How to continue"),
    icon("close", "Close", () => sheet(false), "mg-icon mg-sheet-close"),
  );
  box.id = "mg-controls";
  how.setAttribute("aria-controls", box.id);
  function sheet(open, back = true) {
    if (open === box.classList.contains("mg-up")) return;
    box.classList.toggle("mg-up", open);
    how.setAttribute("aria-expanded", String(open));
    if (open) top.lastChild.focus();
    else if (back) how.focus();
  }
  sheet(false);
  how.setAttribute("aria-expanded", "false");
  box.addEventListener("keydown", (event) => event.key === "Escape" && sheet(false));
  addEventListener("pointerdown", (event) => box.contains(event.target) || sheet(false, false), {
    capture: true,
  });
  row.append(how, go, halt);
  box.append(top, model, prompt, bars, takes, daring, dense, ends, chords, more, row);

  function show() {
    const { settings: now, open, current } = desk,
      can = app.model,
      given = current && current.kind !== "nothing" && current.piece.notes.length;
    model.show(can.name);
    prompt.hidden = !given || current.piece.lines.length < 3;
    if (given) {
      prompt.bounds(1, current.piece.lines.length - 1);
      prompt.show(Math.min(open.chosen || 1, current.piece.lines.length - 1));
    }
    bars.show(now.bars);
    takes.show(now.variations);
    const near = CREATIVITY.reduce(
      (best, [temperature], place) =>
        Math.abs(temperature - now.temperature) < Math.abs(CREATIVITY[best][0] - now.temperature)
          ? place
          : best,
      0,
    );
    daring.show(near);
    dense.show(now.dense);
    ends.show(now.ends && can.ends.can ? "ends" : "open");
    ends.select.disabled = !can.ends.can;
    ends.title = can.ends.why;
    endWhy.textContent = can.ends.can && !now.ends ? "" : can.ends.why;
    chords.hidden = !can.chords.can;
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
