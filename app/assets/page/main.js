// Starts the page: restores the desk, builds the parts, and connects them.
import { mixOf } from "../desk/mix.js";
import { Store } from "../desk/store.js";
import { lanesOf } from "../roll/scale.js";
import { Player } from "../sound/player.js";
import { App } from "./app.js";
import { controlsPart } from "./controls.js";
import { dockPart } from "./dock.js";
import { headerPart } from "./header.js";
import { historyPart } from "./history.js";
import { make } from "../widgets/parts.js";
import { Server, settingOf } from "./server.js";
import { shortcuts } from "./shortcuts.js";
import { stagePart } from "./stage.js";
import { takesPart } from "./takes.js";

const UNTRAINED =
  "No trained model is installed. The untrained one used instead writes valid but random notes; “make model” trains a real one.";

async function appOf(facts, store) {
  const desk = await store.open(),
    server = new Server();
  const drawn = facts.sampling.map(({ name, value }) => [settingOf(name), value]);
  desk.settings = { ...Object.fromEntries(drawn), ...desk.settings };
  const player = new Player(new URL(facts.assets, document.baseURI).href, {
    soundOf: (entry) => server.made(entry, "sound"),
    failed: (text) => app.fail(text),
  });
  const app = new App({ facts, desk, server, player });
  return app;
}

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
  document.body.append(dock);
  const show = () => {
    for (const part of [header, stage, controls, takes, history, dock]) part.show();
  };
  return { stage, controls, takes, dock, show };
}

function watchDesk(desk, { stage, controls, takes, show }) {
  let asked = null;
  const soon = () => (asked ??= requestAnimationFrame(() => ((asked = null), show())));
  const acts = {
    entry() {},
    grown({ entry }) {
      takes.showOne(entry.id);
      if (entry.state !== "running" || entry === desk.current) soon();
    },
    error: ({ place, text }) => (place === "takes" ? takes : stage).fail(text),
    wait: ({ words }) => stage.wait(words),
    request({ run }) {
      takes.tell(run);
      if (run.state) soon();
      else if (!run.ids) controls.show();
    },
    unsaved: () => stage.fail("The browser is out of storage for this project; save it as a file."),
    step: ({ label }) => (label === "composing" ? show() : soon()),
  };
  desk.watch((what, more) => (acts[what] ?? soon)(more));
}

// Move the cursor with playback. Returns a function that starts the animation.
function cursors(app, { stage, takes, dock }) {
  const { desk, player, recorder } = app;
  let frame = null,
    shownAt = null;
  const run = () => (frame ??= requestAnimationFrame(move));

  function place({ id, roll, play }, entry, tick) {
    const isOwn = entry?.id === id;
    roll.moveCursor(isOwn ? tick : null, player.playing);
    if (isOwn) play.show();
  }

  function move() {
    frame = null;
    const { entry } = player,
      tick = entry ? player.tick : null,
      recorded = recorder.tick;
    if (recorded !== null && recorded > stage.roll.end) stage.show(); // a new bar has begun
    if (tick !== shownAt || player.playing || recorded !== null) {
      shownAt = tick;
      const { roll, play } = stage;
      if (recorded === null) place({ id: desk.open.current, roll, play }, entry, tick);
      else roll.moveCursor(recorded, true);
      for (const card of takes.cards()) place(card, entry, tick);
      stage.score.follow(entry, tick);
      dock.move();
    }
    if (player.playing || recorded !== null) run();
  }
  return run;
}

// Open the last piece, or an example.
async function openFirst(app) {
  const { desk } = app;
  if (desk.current) return app.follow();
  await app.openExample(app.facts.examples[0].name);
  desk.begins(); // not a step to undo
}

async function start() {
  const root = make("main", "", "", { id: "mg-desk" }),
    facts = JSON.parse(document.querySelector("#mg-facts").textContent);
  document.body.prepend(root);
  const store = new Store(),
    app = await appOf(facts, store),
    { desk, player, server } = app,
    parts = partsOf(app, root),
    { stage, takes } = parts;
  // For the browser's console and for tests.
  const rolls = { stage: () => stage.roll, takes: () => takes.cards().map((one) => one.roll) };
  window.musicgen = { app, desk, player, store, server, rolls };

  watchDesk(desk, parts);
  // The player uses the mix of the piece it plays, not of the one on the stage.
  const adjust = () => player.adjust({ ...desk.settings, mix: mixOf(desk, player.entry) });
  adjust();
  desk.watch((what) => what === "settings" && adjust());
  desk.watch((what) => what === "step" && app.composer.readAhead());
  const run = cursors(app, parts);
  player.watch((what) => (what === "load" && adjust(), parts.show(), run()));

  shortcuts(app);
  store.keep(desk);
  parts.show();
  document.documentElement.dataset.musicgen = "ready";
  await openFirst(app);
  app.composer.readAhead();
  requestAnimationFrame(() => player.start()); // load the soundfont after the page is visible
}

start();
