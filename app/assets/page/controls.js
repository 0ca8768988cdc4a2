// The settings of a request: those for musicians first, the sampling parameters under "Advanced".
import { barCount } from "../music/piece.js";
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

const TEMPERATURES = [0.7, 0.85, 1, 1.1, 1.25];
const CREATIVITY = ["safe", "careful", "natural", "bold", "wild"];
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

// The temperature in words; another value is shown as a number at the nearest step.
function creativity(desk) {
  const dare = (place) => desk.set({ temperature: TEMPERATURES[place] });
  const inWords = (place) => {
    const { temperature } = desk.settings;
    return TEMPERATURES.includes(temperature) ? CREATIVITY[place] : `temperature ${temperature}`;
  };
  const part = slider("mg-daring", "Creativity", 0, TEMPERATURES.length - 1, dare, { inWords });
  return live(part, () => {
    const far = TEMPERATURES.map((one) => Math.abs(one - desk.settings.temperature));
    part.show(far.indexOf(Math.min(...far)));
  });
}

function ending(app) {
  const { desk } = app;
  const ways = Object.entries({ open: "Leave open", ends: "Write an ending" });
  const part = choice("mg-ends", "Ending", ways, (how) => desk.set({ ends: how === "ends" })),
    why = make("span", "mg-info", "", { id: "mg-ends-why" });
  part.append(why);
  part.select.setAttribute("aria-describedby", why.id);
  return live(part, () => {
    const { ends: lacks = "" } = app.model.lacks;
    part.show(desk.settings.ends && !lacks ? "ends" : "open");
    part.select.disabled = Boolean(lacks);
    part.title = why.textContent = lacks;
  });
}

function chordLine(app) {
  const { desk } = app;
  const line = make("input", "mg-text", "", {
    type: "text",
    id: "mg-chords-line",
    placeholder: "C | G7 | Am F | C",
    spellcheck: false,
    maxLength: 400,
  });
  line.addEventListener("change", () => desk.set({ chords: line.value }));
  const part = field("mg-chords", "Chord progression", line);
  return live(part, () => {
    part.hidden = Boolean(app.model.lacks.chords);
    if (document.activeElement !== line) line.value = desk.settings.chords;
  });
}

function seedField(desk) {
  const whole = { type: "number", id: "mg-seed-number", min: 0, max: MOST_SEED, step: 1 },
    number = make("input", "mg-number", "", whole);
  number.addEventListener("change", () => {
    const seed = Math.min(MOST_SEED, Math.max(0, Math.floor(Number(number.value) || 0)));
    desk.set({ seed, newSeed: false });
  });
  return live(field("mg-seed", "Seed", number), () => {
    if (document.activeElement !== number) number.value = desk.settings.seed;
  });
}

function advanced({ desk, facts }) {
  const fines = facts.sampling.map(({ name, label, hint: info, least, most, step }) =>
    dial(desk, settingOf(name), `mg-${name.replace("_", "-")}`, label, least, most, { step, info }),
  );
  const newSeed = check("mg-new-seed", "New seed each time", (on) => desk.set({ newSeed: on }));
  live(newSeed, () => newSeed.show(desk.settings.newSeed));
  const within = [...fines, seedField(desk), newSeed],
    part = fold("Advanced", "mg-more", within, { id: "mg-more" });
  part.firstChild.addEventListener("click", (event) => {
    event.preventDefault(); // `update` opens it: the event "toggle" shown late and could undo a newer change
    desk.flip("more");
  });
  return live(part, () => {
    for (const one of within) one.update();
    part.open = desk.settings.more;
  });
}

// The buttons Continue and Stop, of which one is shown.
function goButtons(app, begin) {
  const { desk, composer } = app;
  const go = action("Continue", begin, "mg-button mg-go", { id: "mg-go" }),
    halt = action("Stop", () => composer.stop(), "mg-button mg-halt", { id: "mg-halt" });
  function update() {
    const [shown, other] = composer.busy ? [halt, go] : [go, halt];
    shown.hidden = false;
    if (other.matches(":focus-visible")) shown.focus(); // for keyboard users only
    other.hidden = true;
    const begins = !isGiven(desk) && (desk.current || desk.past.length);
    go.textContent = begins ? "Generate" : "Continue";
  }
  return { go, halt, update };
}

export function controlsPart(app) {
  const { desk, facts } = app;
  const { go, halt, update } = goButtons(app, () => {
    sheet(false, false);
    app.composer.start({ kind: "continue" });
  });
  const asked = [
    modelChoice(app),
    promptSlider(desk),
    dial(desk, "bars", "mg-bars", "Length (bars)", 1, facts.mostBars),
    dial(desk, "variations", "mg-variations", "Takes", 1, facts.mostVariations),
    creativity(desk),
    ending(app),
    chordLine(app),
    advanced(app),
  ];
  // On a small screen, the settings are in a sheet over the music, opened by a button next to Continue.
  const name = "Settings",
    isUp = () => box.classList.contains("mg-up");
  const how = icon("how", name, () => sheet(!isUp()), "mg-icon mg-how"),
    close = icon("close", "Close", () => sheet(false), "mg-icon mg-sheet-close"),
    top = make("div", "mg-sheet-head", [make("h2", "", name), close]),
    row = make("div", "mg-go-row", [how, go, halt]),
    more = { ariaLabel: name, id: "mg-controls" },
    box = make("section", "mg-card mg-controls", [top, ...asked, row], more);
  how.setAttribute("aria-controls", box.id);
  how.ariaExpanded = false;
  function sheet(open, back = true) {
    if (open === isUp()) return;
    box.classList.toggle("mg-up", open);
    how.ariaExpanded = open;
    if (open) close.focus();
    else if (back) how.focus();
  }
  box.addEventListener("keydown", (event) => event.key === "Escape" && sheet(false));
  const leave = ({ target }) => box.contains(target) || sheet(false, false);
  addEventListener("pointerdown", leave, { capture: true });

  function show() {
    for (const part of asked) part.update();
    update();
    const { bars, variations } = desk.settings;
    rename(how, `${name}: ${count(bars, "bar")}, ${count(variations, "take")}`);
  }
  return Object.assign(box, { show });
}
