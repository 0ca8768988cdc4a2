// The settings of a request: those for musicians first, the sampling parameters in a fold.
import { barCount } from "../music/piece.js";
import { check, choice, count, field, fold, make, onFields, slider } from "../widgets/parts.js";

const FORM = { placeholder: "A A B A", spellcheck: false, maxLength: 40 };
const DRAWN = "The most convincing of several is kept; one that you hear meanwhile stays.";
const CHORDS = { placeholder: "C | G7 | Am F | C", spellcheck: false, maxLength: 400 };

const upTo = (most) => Array.from({ length: most }, (_, index) => [index + 1, index + 1]);

// The fields by the names of their settings; those of the sampling parameters are the server's.
function fieldsOf({ models, mostBars, mostVariations, mostDrawn, sampling }) {
  const offered = models.map(({ name, player }) => [name, `${name} · ${player}`]);
  const drawn = sampling.map(({ name, label, hint: info, least, most, step }) => [
    name,
    slider(name, label, least, most, { step, info }),
  ]);
  return {
    model: choice("model", "Model", offered),
    chosen: slider("chosen", "Continue after bar", 1, 16),
    bars: slider("bars", "Length (bars)", 1, mostBars),
    variations: slider("variations", "Takes", 1, mostVariations),
    draw: choice("draw", "Best of", [[0, "as many as there is time for"], ...upTo(mostDrawn)]),
    ends: check("ends", "Write an ending"),
    chords: field("chords", "Chord progression", "input", CHORDS),
    form: field("form", "Form of the new bars", "input", FORM),
    ...Object.fromEntries(drawn),
    seed: field("seed", "Seed", "input", { type: "number", min: 0 }),
    newSeed: check("newSeed", "New seed each time"),
  };
}

// The settings, a fold that is closed at first on a small screen.
export function controlsPart(app) {
  const { desk, facts } = app,
    fields = fieldsOf(facts),
    { model, chosen, bars, variations, draw, temperature, ends, chords, form, ...fines } = fields;
  const why = make("span", "mg-info"),
    ending = make("div", "mg-field", [ends, why]),
    more = fold("For experts", "mg-more", Object.values(fines)),
    within = [model, chosen, bars, variations, draw, temperature, ending, chords, form, more];
  const box = fold("", "mg-card mg-controls", within),
    [summary] = box.children;
  box.open = innerWidth > 900;
  draw.append(make("span", "mg-info", DRAWN));

  onFields(box, (name, value) => {
    if (name === "model") return app.changeModel(value);
    if (name === "chosen") return desk.choose(value);
    if (name === "draw") return desk.set({ draw: Number(value) });
    if (name !== "seed") return desk.set({ [name]: value });
    return desk.set({ seed: Math.max(0, Math.floor(Number(value) || 0)), newSeed: false });
  });

  function show() {
    const { current, open, settings } = desk,
      given = current?.piece.notes.length ? barCount(current.piece) : 0,
      { lacks } = app.model;
    chosen.bound(1, given || 1);
    const now = { model: app.model.name, chosen: Math.min(open.chosen || 1, given) };
    for (const [name, one] of Object.entries(fields)) one.show({ ...settings, ...now }[name]);
    model.hidden = facts.models.length < 2;
    chosen.hidden = given < 2;
    chords.hidden = Boolean(lacks.chords);
    form.hidden = Boolean(lacks.plan) || app.begins;
    ends.show(settings.ends && !lacks.ends);
    ends.input.disabled = Boolean(lacks.ends);
    why.textContent = lacks.ends ?? "";
    why.hidden = !lacks.ends;
    const asked = `${count(settings.bars, "bar")}, ${count(settings.variations, "take")}`;
    summary.textContent = `Settings: ${asked}`;
  }
  return Object.assign(box, { show });
}
