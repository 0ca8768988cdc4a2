// The takes, below each other on a shared time axis and pitch scale, also while they are being written.
import { aroundNew, barCount, countIn } from "../music/piece.js";
import { Axis } from "../roll/axis.js";
import { splitTitle } from "./titles.js";
import { blindPart } from "../widgets/blind.js";
import { HIGH, cardParts, zoomButtons } from "../widgets/card.js";
import { action, alarm, count, icon, make, marked, passFocus } from "../widgets/parts.js";
import { planShown } from "../widgets/plan_view.js";

const WORDS = {
  continue: "Continue from here",
  infill: "Use this take",
  accompany: "Use this take",
};

// Describe a take with `fresh` new notes; silence is a valid result of rewriting bars.
function factsOf({ state, how, seed }, fresh) {
  if (state === "running") return count(fresh, "new note");
  if (fresh) return `${count(fresh, "new note")} · seed ${seed}`;
  if (how === "infill") return `These bars are now empty · seed ${seed}`;
  return "The model wrote no notes; press Continue to try again.";
}

function takeCard(app, id, axis) {
  const { desk, player } = app,
    entryOf = () => desk.entries.get(id),
    { number, how } = entryOf(),
    name = `Take ${number + 1}`;
  const start = ({ piece, region } = entryOf()) =>
    piece.lines[Math.min(region.first, barCount(piece))];
  const label = `Piano roll of take ${number + 1}`,
    parts = cardParts(app, entryOf, { label, height: "178px", axis }),
    { facts, said, star, rolls, roll, bar, play, menu } = parts;
  const further = action(WORDS[how], () => app.use(id), "mg-chip mg-further"),
    drop = icon("bin", "Delete this take", () => app.remove(id), "mg-icon mg-drop");
  const head = make("div", "mg-head", [make("h3", "", name), facts, star, drop]),
    foot = make("div", "mg-foot", [play, make("span", "mg-actions", [menu, further])]),
    within = [head, said, rolls, bar, foot],
    card = make("article", "mg-card mg-take", within, { ariaLabel: name });
  let settled = false;

  function show(lanes) {
    const entry = entryOf(),
      over = entry.state !== "running",
      fresh = countIn(entry.piece, entry.region);
    facts.textContent = factsOf(entry, fresh);
    roll.high = desk.takes.length === 1 ? HIGH : lanes?.length > 1 ? "234px" : "178px";
    parts.show(entry, { lanes, seen: app.visibleBars(entry), plan: planShown(app, entry) });
    if (!settled) roll.settle(start());
    settled = true;
    if (!over && !player.playing) roll.reveal(Math.max(start(), entry.now ?? 0));
    further.hidden = menu.hidden = drop.hidden = !over;
    further.disabled = !fresh && how !== "infill";
  }
  return { id, card, show, roll, play };
}

const ENDINGS = {
  done: (run, takes) => `${count(takes, "take")} ready in ${run.seconds} s`,
  stopped: (run) => `Stopped after ${run.seconds} s; the notes so far are kept.`,
  late: (run) => `Stopped at the time limit, ${run.seconds} s; the notes so far are kept.`,
  bound: (run) =>
    `Stopped after ${run.seconds} s at the model’s greatest length; the notes so far are kept.`,
};

// The progress or the end of a request in words, and the fraction done. `elsewhere` is added if its takes are not shown.
function progressOf(run, elsewhere) {
  if (run.state) return [ENDINGS[run.state]?.(run, run.ids?.length ?? 0) ?? "", 1];
  if (!run.bars) return ["Waiting for the first notes…", 0];
  const time = run.left < 100 ? `${run.left} s` : `${Math.round(run.left / 60)} min`,
    left = run.left ? ` · ${time} left` : "",
    words = `Composing bar ${run.bar} of ${run.bars}${elsewhere}${left}`;
  return [words, Math.min(0.999, run.part)];
}

// The line above the takes: the state and progress of the request, and the tools.
function statusLine(tools) {
  const words = make("span", "", "", { role: "status" }),
    bar = make("progress", "mg-progress", "", { ariaLabel: "Progress" }),
    line = make("div", "mg-status", [words, bar, tools]);
  function say(text, part = 1) {
    line.classList.toggle("mg-busy", part < 1);
    words.classList.toggle("mg-silent", !text);
    bar.value = part;
    if (words.textContent !== text) words.textContent = words.title = text;
  }
  const show = (isSilent) => line.classList.toggle("mg-silent", isSilent && !words.textContent);
  return Object.assign(line, { say, show });
}

// The tools for all takes: comparison, visible bars, zoom.
function toolsFor(app, compare, list) {
  const { desk } = app;
  const whole = marked("whole", "Show all bars", () => {
    list.axis.reset();
    desk.flip("wholeTakes");
  });
  const zoom = zoomButtons({ scale: (factor) => list.cards[0].roll.scale(factor) });
  function show() {
    tools.hidden = !list.cards.length;
    compare.show();
    whole.hidden = !desk.takes.some((take) => aroundNew(take));
    whole.ariaPressed = desk.settings.wholeTakes;
  }
  const tools = make("span", "mg-tools", [compare.opener, whole, zoom]);
  return Object.assign(tools, { show });
}

// The cards of the current takes, or a hint if there are none. `show` returns whether the takes have changed.
function cardList(app) {
  const { desk } = app;
  const rest = make("p", "mg-rest"),
    grid = make("div", "mg-takes", [rest]),
    list = { grid, axis: new Axis(), cards: [] };
  function renew(ids) {
    const before = list.cards,
      left = before.findIndex((one) => one.card.contains(document.activeElement));
    if (!before.length || !ids.every((id) => before.some((one) => one.id === id)))
      list.axis = new Axis();
    list.cards = ids.map((id) => takeCard(app, id, list.axis));
    grid.append(...(ids.length ? list.cards.map((one) => one.card) : [rest]));
    const next = list.cards[Math.min(left, ids.length - 1)];
    passFocus(grid, next?.play.firstChild ?? app.stageRoll);
    for (const one of before) (one.roll.close(), one.card.remove());
    if (ids.length) rest.remove();
  }
  list.show = (lanes) => {
    const ids = desk.takes.map((take) => take.id),
      others = ids.join() !== list.cards.map((one) => one.id).join();
    if (others) renew(ids);
    const act = desk.current?.piece.notes.length ? "Continue" : "Generate";
    rest.textContent = `Press ${act}. Takes appear here note by note, and you can play them while they are being written.`;
    for (const one of list.cards) one.show(lanes);
    return others;
  };
  return list;
}

export function takesPart(app, lanesNow) {
  const { desk } = app;
  const list = cardList(app),
    compare = blindPart(app),
    tools = toolsFor(app, compare, list),
    status = statusLine(tools),
    said = alarm();
  const more = { id: "mg-takes", ariaLabel: "Takes" },
    box = make("section", "mg-takes-part", [said, status, list.grid], more);
  let shown = null; // the request whose progress is shown
  const isHere = ({ ids }) => list.cards.some((one) => ids?.includes(one.id));

  function show() {
    const others = list.show(lanesNow()),
      { run } = app.composer;
    if (others && !run) status.say("");
    tools.show();
    status.show(!list.cards.length);
    if (!others || !run) return;
    tell(run); // the words depend on whether its takes are shown
    if (isHere(run)) scrollToTakes();
  }

  // Scroll to new takes that would be out of sight, as on a small screen.
  function scrollToTakes() {
    if (app.trade?.on) return; // the player is at the keyboard
    const { top, bottom } = (list.cards[0]?.card ?? box).getBoundingClientRect(),
      dock = document.querySelector("#mg-dock");
    const begins = top < window.innerHeight - 300,
      whole = bottom < dock.getBoundingClientRect().top;
    if (begins && (whole || window.innerWidth > 1000)) return;
    const isReduced = matchMedia("(prefers-reduced-motion: reduce)").matches;
    box.scrollIntoView({ block: "start", behavior: isReduced ? "auto" : "smooth" });
  }

  function tell(run) {
    if (shown !== run) scrollToTakes();
    shown = run;
    status.classList.remove("mg-silent");
    // If another piece was opened meanwhile, say where to find the takes.
    const song = run.ids && splitTitle(desk.entries.get(run.ids[0]).title).song;
    status.say(...progressOf(run, !song || isHere(run) ? "" : ` for “${song}” (see the history)`));
  }
  return Object.assign(box, {
    show,
    tell,
    fail: said.say,
    cards: () => list.cards,
    dialog: compare.box,
    showOne: (id) => list.cards.find((one) => one.id === id)?.show(lanesNow()),
  });
}
