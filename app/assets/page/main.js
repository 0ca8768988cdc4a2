// Starts the page: restores the desk, builds the parts, and connects them.
import { Store } from "../desk/store.js";
import { setGrid } from "../music/edits.js";
import { lanesOf } from "../roll/scale.js";
import { Player } from "../sound/player.js";
import { App } from "./app.js";
import { controlsPart } from "./controls.js";
import { dockPart } from "./dock.js";
import { headerPart } from "./header.js";
import { historyPart } from "./history.js";
import { keepInstalled } from "./installed.js";
import { make } from "../widgets/parts.js";
import { Requests } from "./requests.js";
import { Server } from "./server.js";
import { shortcuts } from "./shortcuts.js";
import { stagePart } from "./stage.js";
import { Tab } from "./tab.js";
import { takesPart } from "./takes.js";

const UNTRAINED =
  "No trained model is installed. The untrained one used instead writes valid but random notes; “make model” trains a real one.";
const OLD =
  "This browser is too old for the page, which runs in Chrome and Edge from 140, Firefox from 133 and Safari from 18.2.";
const UNSAVED = "The browser has no storage left for this project; save it as a file.";

// The parts of the page in their layout; `show` updates all of them.
function partsOf(app, root) {
  const { desk, facts } = app;
  const lanesNow = () => {
    const pieces = [desk.current, ...desk.takes].filter(Boolean).map((entry) => entry.piece);
    return lanesOf(pieces, { drawing: app.drawing });
  };
  const header = headerPart(app),
    stage = stagePart(app, lanesNow),
    controls = controlsPart(app),
    takes = takesPart(app, lanesNow),
    history = historyPart(app),
    dock = dockPart(app);
  const note = make("p", "mg-note", UNTRAINED, { hidden: facts.trained }),
    columns = make("div", "mg-columns", [stage, controls, takes, history]);
  root.replaceChildren(header, note, columns, takes.dialog);
  root.after(dock);
  const show = () => {
    for (const part of [header, stage, controls, takes, history, dock]) part.show();
  };
  return { stage, takes, dock, show };
}

// Move the cursors with playback and recording. Returns a function that starts the animation.
function cursors(app, { stage, takes, dock }) {
  const { desk, player, recorder } = app;
  let frame = null;
  const run = () => (frame ??= requestAnimationFrame(move));

  function move() {
    frame = null;
    const { entry } = player,
      tick = entry ? player.tick : null,
      recorded = recorder.tick;
    if (recorded !== null && recorded > stage.roll.end) stage.show(); // a new bar has begun
    for (const { id, roll } of [{ id: desk.open.current, roll: stage.roll }, ...takes.cards()])
      roll.moveCursor(entry?.id === id ? tick : null, player.playing);
    if (recorded !== null) stage.roll.moveCursor(recorded, true);
    stage.score.follow(entry, tick);
    dock.move();
    if (player.playing || recorded !== null) run();
  }
  return run;
}

// Open what was open, or an example.
async function openFirst(app) {
  const { desk } = app;
  if (desk.current || desk.past.length) return app.follow();
  await app.openExample(app.facts.examples[0].name);
  if (desk.past.length === 1) desk.past = []; // not a step to undo
  app.changed();
}

async function start() {
  if (!Uint8Array.fromBase64)
    return document.body.prepend(make("p", "mg-note", OLD, { role: "alert" }));
  const root = make("main", "", "", { id: "mg-desk" }),
    facts = JSON.parse(document.querySelector("#mg-facts").textContent);
  document.body.prepend(root);
  const store = new Store(),
    assets = new URL(facts.assets, document.baseURI).href,
    answerer = facts.program ? new Tab(facts.program, assets) : new Server(),
    requests = new Requests(answerer),
    desk = await store.open();
  const drawn = facts.sampling.map(({ name, value }) => [name, value]);
  desk.settings = { ...Object.fromEntries(drawn), ...desk.settings };
  const player = new Player(assets, {
    soundOf: (entry) => requests.made(entry, "sound"),
    failed: (text) => app.fail(text),
  });
  const app = new App({ facts, desk, requests, player }),
    parts = partsOf(app, root),
    { stage, takes } = parts;
  answerer.tell = (words, trouble) => (trouble ? app.fail(trouble) : app.loaded(words));
  // For the browser's console and for tests.
  const rolls = { stage: () => stage.roll, takes: () => takes.cards().map((one) => one.roll) };
  window.musicgen = { app, desk, player, store, requests, rolls };

  let asked = null;
  app.changed = () => (asked ??= requestAnimationFrame(() => ((asked = null), parts.show())));
  // The player uses the mix of the piece it plays, not of the one on the stage.
  const adjust = () => {
    player.setTempo(desk.settings.tempo);
    player.setTranspose(desk.settings.transpose);
    player.setFeel(desk.settings);
    setGrid(desk.settings.grid);
    player.setMix(desk.mixOf(player.entry));
  };
  adjust();
  desk.watch((what) => {
    if (what === "settings") adjust();
    if (what === "step") (app.composer.readAhead(), player.setMix(desk.mixOf(player.entry)));
    if (what === "unsaved") app.fail(UNSAVED);
    else app.changed();
  });
  const run = cursors(app, parts);
  player.watch((what) => (what === "load" && adjust(), app.changed(), run()));

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", app.changed);
  shortcuts(app);
  store.keep(desk);
  parts.show();
  document.documentElement.dataset.musicgen = "ready";
  await openFirst(app);
  app.composer.readAhead();
  requestAnimationFrame(() => player.synth.start()); // load the soundfont after the page is visible
  answerer.ready?.then(() => keepInstalled(app, root)).catch(() => {}); // without it, the page works online
}

start();
