// The page from its start: the desk as it was left, its parts, and who is told what when something changes.
import { mixOf } from "../desk/mix.js";
import { Store } from "../desk/store.js";
import { toldOfLine } from "../music/chords.js";
import { lanesOf } from "../roll/scale.js";
import { Player } from "../sound/player.js";
import { App } from "./app.js";
import { controlsPart } from "./controls.js";
import { dockPart } from "./dock.js";
import { dress, headerPart } from "./header.js";
import { historyPart } from "./history.js";
import { make } from "../widgets/parts.js";
import { Server, settingOf } from "./server.js";
import { shortcuts } from "./shortcuts.js";
import { stagePart } from "./stage.js";
import { takesPart } from "./takes.js";

const UNTRAINED =
  "No trained model is installed, so an untrained one plays: what it writes is valid music, and makes no sense. “make models” trains the real ones.";

async function start() {
  const root = make("main", "", "", { id: "mg-desk" }),
    facts = JSON.parse(document.querySelector("#mg-facts").textContent);
  dress();
  document.body.prepend(root);
  const store = new Store(),
    desk = await store.open(),
    server = new Server();
  const drawn = facts.sampling.map(({ name, value }) => [settingOf(name), value]);
  desk.settings = { ...Object.fromEntries(drawn), ...desk.settings };
  const address = new URL(facts.assets, document.baseURI).href;
  const player = new Player(address, {
    soundOf: (entry) => server.made(entry, "sound"),
    failed: (text) => app.fail(text),
    related: (one, other) => desk.related(one, other),
  });
  const app = new App({ facts, desk, server, player });
  // For the console of a browser, and for tests.
  window.musicgen = {
    app,
    desk,
    player,
    store,
    server,
    rolls: { stage: () => stage.roll, takes: () => takes.cards().map((one) => one.roll) },
  };

  const lanesNow = () => {
    const pieces = [desk.current, ...desk.takes].filter(Boolean).map((entry) => entry.piece);
    return lanesOf(pieces, { drawing: app.drawing });
  };
  const header = headerPart(app),
    stage = stagePart(app, lanesNow),
    controls = controlsPart(app),
    takes = takesPart(app, lanesNow);
  const history = historyPart(app),
    dock = dockPart(app),
    note = make("p", "mg-note", UNTRAINED, { hidden: facts.trained }),
    columns = make("div", "mg-columns", [stage, controls, takes, history]);
  root.replaceChildren(header, note, columns, takes.dialog);
  document.body.append(dock);

  const all = () => {
    for (const part of [header, stage, controls, takes, history, dock]) part.show();
  };
  let asked = null;
  const soon = () => (asked ??= requestAnimationFrame(() => ((asked = null), all())));
  desk.watch((what, more) => {
    if (what === "grown") {
      takes.showOne(more.entry.id);
      if (more.entry.state !== "running" || more.entry === desk.current) soon();
    } else if (what === "error") (more.place === "takes" ? takes : stage).fail(more.text);
    else if (what === "wait") stage.wait(more.words);
    else if (what === "request") {
      takes.tell(more.run);
      if (more.run.state) soon();
      else if (!more.run.ids) controls.show();
    } else if (what === "unsaved")
      stage.fail("The browser has no room left to keep the project: save it as a file.");
    else if (what !== "entry") soon();
    if (what === "settings") adjust();
    if (more.change?.chords && toldOfLine(more.change.chords))
      stage.tell(toldOfLine(more.change.chords));
    if (what === "step" && more.label === "composing") all();
  });
  // What plays has the mix of its own piece, whatever lies on the stage meanwhile.
  const adjust = () => player.adjust({ ...desk.settings, mix: mixOf(desk, player.entry) });
  adjust();
  player.watch((what) => (what === "load" && adjust(), all(), run()));

  // While something sounds, the cursor goes along on its roll, and faintly on the others.
  let frame = null,
    shownAt = null;
  function run() {
    frame ??= requestAnimationFrame(move);
  }
  function move() {
    frame = null;
    const { entry } = player,
      tick = entry ? player.tick : null,
      recorded = app.recorder.tick;
    if (recorded !== null && recorded > stage.roll.end) stage.show(); // with the bar that has begun
    if (tick !== shownAt || player.playing || recorded !== null) {
      shownAt = tick;
      const beat = entry ? tick / entry.piece.ticksPerBeat : 0;
      const rolls = [
        { id: desk.open.current, roll: stage.roll, play: stage.play },
        ...takes.cards(),
      ];
      const isTake = (id) => desk.open.takes.includes(id);
      for (const { id, roll, play } of rolls) {
        const own = entry?.id === id,
          sister = !own && entry && roll.piece && isTake(id) && isTake(entry.id);
        if (roll === stage.roll && recorded !== null) {
          roll.moveCursor(recorded, true);
          continue;
        }
        roll.moveCursor(
          own ? tick : sister ? beat * roll.piece.ticksPerBeat : null,
          own && player.playing,
          !own,
        );
        if (own) play.show();
      }
      stage.score.follow(entry, tick);
      dock.move();
    }
    if (player.playing || recorded !== null) run();
  }

  shortcuts(app);
  store.keep(desk);
  all();
  document.documentElement.dataset.musicgen = "ready";
  await app.openLink(location.hash);
  addEventListener("hashchange", () => app.openLink(location.hash));
  if (!desk.current) {
    const { trouble } = app;
    await app.openExample(facts.examples[0].name);
    desk.begins(); // nobody has done anything yet
    if (trouble) app.fail(trouble); // a link that is broken
  } else app.follow();
  requestAnimationFrame(() => player.start()); // the soundfont comes behind what is seen
}

start();
