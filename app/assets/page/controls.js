// The settings of a request: those for musicians first, the sampling parameters under "Advanced".
import { barCount } from "../music/piece.js";
import { check, choice, count, fold, icon, make, rename, slider, typed } from "../widgets/parts.js";
import { settingOf } from "./server.js";

const CREATIVITY = ["safe", "careful", "natural", "bold", "wild"]; // around a temperature of 1, 0.15 apart
const MOST_SEED = 2 ** 31 - 1;

const isGiven = ({ current }) => Boolean(current?.piece.notes.length);

// A part with a function that updates it from the desk.
const live = (part, update) => Object.assign(part, { update });

function modelChoice(app) {
  const { models } = app.facts;
  const named = models.map(({ name, player }) => [name, `${name} · ${player}`]);
  const part = choice("mg-model", "Model", named, (name) => app.changeModel(name));
  part.hidden = models.length < 2;
  return live(part, () => part.show(app.model.name));
}

function promptSlider(desk) {
  const part = slider("mg-prompt-bars", "Continue after bar", 1, 16, (to) => desk.choose(to));
  return live(part, () => {
    const bars = isGiven(desk) ? barCount(desk.current.piece) : 0;
    part.hidden = bars < 2;
    if (!bars) return;
    part.bounds(1, bars);
    part.show(Math.min(desk.open.chosen || 1, bars));
  });
}

// A slider for a setting.
function dial(desk, name, id, label, low, high, more) {
  const part = slider(id, label, low, high, (to) => desk.set({ [name]: to }), more);
  return live(part, () => part.show(desk.settings[name]));
}

// The temperature, with a word for it.
function creativity({ desk, facts }) {
  const { name, least, most, step } = facts.sampling.find((one) => one.name === "temperature");
  const place = (value) => Math.min(4, Math.max(0, Math.round((value - 1) / 0.15) + 2));
  const inWords = (value) => `${CREATIVITY[place(value)]} · ${value}`;
  return dial(desk, name, "mg-temperature", "Creativity", least, most, { step, inWords });
}

function ending(app) {
  const { desk } = app;
  const box = check("mg-ends", "Write an ending", (ends) => desk.set({ ends })),
    why = make("span", "mg-info");
  return live(make("div", "mg-field", [box, why]), () => {
    const { ends: lacks = "" } = app.model.lacks;
    box.show(desk.settings.ends && !lacks);
    box.firstChild.disabled = Boolean(lacks);
    why.textContent = lacks;
  });
}

function chordLine(app) {
  const { desk } = app,
    more = { placeholder: "C | G7 | Am F | C", spellcheck: false, maxLength: 400 };
  const set = (chords) => desk.set({ chords });
  const part = typed("mg-chords", "Chord progression", more, set);
  return live(part, () => {
    part.hidden = Boolean(app.model.lacks.chords);
    part.show(desk.settings.chords);
  });
}

function seedField(desk) {
  const whole = { type: "number", min: 0, max: MOST_SEED, step: 1 };
  const part = typed("mg-seed", "Seed", whole, (text) => {
    const seed = Math.min(MOST_SEED, Math.max(0, Math.floor(Number(text) || 0)));
    desk.set({ seed, newSeed: false });
  });
  return live(part, () => part.show(desk.settings.seed));
}

function advanced({ desk, facts }) {
  const others = facts.sampling.filter(({ name }) => name !== "temperature");
  const fines = others.map(({ name, label, hint: info, least, most, step }) =>
    dial(desk, settingOf(name), `mg-${name.replace("_", "-")}`, label, least, most, { step, info }),
  );
  const newSeed = check("mg-new-seed", "New seed each time", (on) => desk.set({ newSeed: on }));
  live(newSeed, () => newSeed.show(desk.settings.newSeed));
  const within = [...fines, seedField(desk), newSeed];
  const update = () => within.forEach((one) => one.update());
  return live(fold("Advanced", "mg-more", within), update);
}

// The settings. On a small screen they are a popover, opened by `box.opener` in the bar at the bottom.
export function controlsPart(app) {
  const { desk, facts } = app;
  const asked = [
    modelChoice(app),
    promptSlider(desk),
    dial(desk, "bars", "mg-bars", "Length (bars)", 1, facts.mostBars),
    dial(desk, "variations", "mg-variations", "Takes", 1, facts.mostVariations),
    creativity(app),
    ending(app),
    chordLine(app),
    advanced(app),
  ];
  const name = "Settings",
    more = { ariaLabel: name, popover: "auto" },
    box = make("section", "mg-card mg-controls", asked, more),
    opener = icon("how", name, () => {}, "mg-icon mg-how");
  opener.popoverTargetElement = box;

  function show() {
    for (const part of asked) part.update();
    const { bars, variations } = desk.settings;
    rename(opener, `${name}: ${count(bars, "bar")}, ${count(variations, "take")}`);
  }
  return Object.assign(box, { show, opener });
}
