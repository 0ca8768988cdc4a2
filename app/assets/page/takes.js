// The takes: what came of the piece, while it comes and after; under one another, on one axis and one pitch scale.
import { aroundNew, barCount, countIn } from "../music/piece.js";
import { Axis } from "../roll/axis.js";
import { splitTitle } from "./titles.js";
import { alongMenu, grip } from "../widgets/save_menu.js";
import { blindPart } from "../widgets/blind.js";
import { HIGH, rollPart, starButton } from "../widgets/card.js";
import { likeness } from "../widgets/likeness.js";
import {
  action,
  alarm,
  count,
  icon,
  make,
  marked,
  passFocus,
  rename,
  zoomButtons,
} from "../widgets/parts.js";
import { playButton } from "../widgets/play_button.js";
import { planShown } from "../widgets/plan_view.js";

const WORDS = {
  continue: "Continue from here",
  infill: "Use this take",
  accompany: "Use this take",
};

function takeCard(app, id, axis) {
  const { desk, player } = app,
    entryOf = () => desk.entries.get(id),
    first = entryOf();
  const name = `Take ${first.number + 1}`;
  const facts = make("span", "mg-facts"),
    said = alarm(),
    star = starButton(desk, () => id);
  const play = playButton(app, entryOf),
    jump = icon("seam", "To the new part", () => app.play(entryOf(), start()));
  const start = () =>
    entryOf().piece.lines[Math.min(entryOf().region.first, barCount(entryOf().piece))];
  const further = action(WORDS[first.how], () => app.use(id), "mg-chip mg-further");
  const like = make("div"),
    label = `Piano roll of take ${first.number + 1}`,
    { rolls, roll, bar } = rollPart(app, entryOf, { label, height: "178px", axis });
  const menu = alongMenu(app, entryOf, said.say),
    drop = icon("bin", "Delete this take", () => app.remove(id), "mg-icon mg-drop");
  const head = [grip(entryOf, "take"), make("h3", "", name), facts, star, drop],
    foot = [play, jump, make("span", "mg-actions", [menu, further])];
  const card = make(
    "article",
    "mg-card mg-take",
    [make("div", "mg-head", head), said, rolls, bar, make("div", "mg-foot", foot), like],
    { ariaLabel: name },
  );
  let settled = false,
    liked = null;

  function show(lanes) {
    const entry = entryOf(),
      over = entry.state !== "running",
      fresh = entry.fresh ?? countIn(entry.piece, entry.region);
    const told = [count(fresh, "new note"), over && `seed ${entry.seed}`];
    const emptied = over && !fresh && entry.how === "infill"; // nothing sounds there any more: that is a take, too
    facts.textContent = emptied
      ? `These bars are now empty · seed ${entry.seed}`
      : over && !fresh
        ? "No new notes came; press Continue for another."
        : told.filter(Boolean).join(" · ");
    roll.high = desk.takes.length === 1 ? HIGH : lanes?.length > 1 ? "234px" : "178px";
    roll.loop = player.loopOf(entry);
    roll.show(entry, { lanes, seen: app.seen(entry), plan: planShown(app, entry) });
    bar.show(roll.range); // which may be gone; and what can be done with it changes when composing ends
    if (!settled) roll.settle(start());
    settled = true;
    if (!over && !player.playing) roll.reveal(Math.max(start(), entry.now ?? 0));
    card.classList.toggle("mg-growing", !over);
    jump.hidden = !fresh || !entry.continues || entry.region.first === 0;
    further.hidden = menu.hidden = drop.hidden = !over;
    further.disabled = !fresh && !emptied;
    star.show();
    if (over && liked !== entry.likeness) like.replaceChildren(likeness((liked = entry.likeness)));
    play.show();
  }
  return { id, card, show, roll, play, close: () => roll.close() };
}

const ENDINGS = {
  done: (run, takes) => `${count(takes, "take")} ready in ${run.seconds} s`,
  stopped: (run) => `Stopped after ${run.seconds} s; what there is stays.`,
  late: (run) =>
    `Ended after ${run.seconds} s, the longest that a request may take; what there is stays.`,
  bound: (run) =>
    `Ended after ${run.seconds} s: the model has no position further on; what there is stays.`,
  broken: () => "",
};

export function takesPart(app, lanesNow) {
  const { desk } = app;
  const words = make("span", "", "", { role: "status" }),
    bar = make("progress", "mg-progress", "", { ariaLabel: "Progress" }),
    said = alarm();
  const rest = make("p", "mg-rest"),
    grid = make("div", "mg-takes", [rest]);
  const whole = marked("whole", "All bars", () => {
    axis.reset();
    desk.set({ wholeTakes: !desk.settings.wholeTakes });
  });
  const compare = blindPart(app),
    zoom = zoomButtons({ scale: (factor) => cards[0].roll.scale(factor) }),
    tools = make("span", "mg-tools", [compare.opener, whole, zoom]), // for all takes: they share an axis
    status = make("div", "mg-status", [words, bar, tools]);
  const box = make("section", "mg-takes-part", [said, status, grid], {
    id: "mg-takes",
    ariaLabel: "Takes",
  });
  let cards = [],
    axis = new Axis(),
    asked = null; // the request whose progress is shown

  function say(text, part = 1) {
    status.classList.toggle("mg-busy", part < 1);
    words.classList.toggle("mg-silent", !text);
    bar.value = part;
    if (words.textContent !== text) words.textContent = words.title = text;
  }

  function show() {
    const ids = desk.takes.map((take) => take.id);
    let come = false;
    if (ids.join() !== cards.map((one) => one.id).join()) {
      const same = cards.length && ids.every((id) => cards.some((one) => one.id === id));
      if (!same) axis = new Axis();
      const before = cards,
        left = before.findIndex((one) => one.card.contains(document.activeElement));
      cards = ids.map((id) => takeCard(app, id, axis));
      grid.append(...(cards.length ? cards.map((one) => one.card) : [rest]));
      passFocus(grid, cards[Math.min(left, cards.length - 1)]?.play.firstChild ?? app.stageRoll);
      for (const one of before) (one.close(), one.card.remove());
      if (cards.length) rest.remove();
      grid.dataset.count = cards.length;
      if (!app.composer.busy) say("");
      else come = true;
    }
    const [act, comes] = desk.current?.piece.notes.length
      ? ["Continue", "the music goes on"]
      : ["Generate", "music comes"];
    rest.textContent = `Press ${act}, and ${comes} here, note by note: each take under the other, to be heard while it is written.`;
    const lanes = lanesNow(),
      { wholeTakes } = desk.settings,
      parts = desk.takes.filter((take) => aroundNew(take));
    for (const one of cards) one.show(lanes);
    tools.hidden = !cards.length;
    compare.show();
    whole.hidden = !parts.length;
    const all = parts.some((take) => take.how !== "continue") ? "All bars" : "Show my part too";
    whole.lastChild.textContent = rename(whole, all);
    whole.ariaPressed = wholeTakes;
    status.classList.toggle("mg-silent", !cards.length && !words.textContent);
    const { run } = app.composer;
    if (!come || !run) return;
    tell(run); // other words, where what comes is no longer here
    if (cards.some((one) => run.ids?.includes(one.id))) bring();
  }

  // On a small screen what comes would be out of sight.
  function bring() {
    if (app.trade?.on) return; // hands are on the keys
    const { top, bottom } = (cards[0]?.card ?? box).getBoundingClientRect(),
      dock = document.querySelector("#mg-dock");
    const begins = top < window.innerHeight - 300,
      whole = bottom < dock.getBoundingClientRect().top;
    if (begins && (whole || window.innerWidth > 1000)) return;
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    box.scrollIntoView({ block: "start", behavior: calm ? "auto" : "smooth" });
  }

  // How far a request is, or how it ended.
  function tell(run) {
    if (asked !== run) {
      asked = run;
      bring();
    }
    status.classList.remove("mg-silent");
    if (run.state) return say(ENDINGS[run.state]?.(run, run.ids?.length ?? 0) ?? "");
    if (run.place === undefined) return say("In line…", 0);
    const before = count(run.place - 1, "request");
    if (run.place)
      return say(run.place === 1 ? "Next in line…" : `In line: ${before} before yours…`, 0);
    if (!run.bars) return say("Reading your piece…", 0.001);
    const left = run.left
      ? ` · about ${run.left < 100 ? `${run.left} s` : `${Math.round(run.left / 60)} min`} left`
      : "";
    // Who opened something else meanwhile finds it later.
    const here = cards.some((one) => run.ids.includes(one.id)),
      { song } = splitTitle(desk.entries.get(run.ids[0]).title),
      away = here ? "" : ` for “${song}”, in the history`;
    const what = run.parts ? `${run.parts.join(" and ")}, ` : "",
      bars = `${what}bar ${run.bar} of ${run.bars}`;
    // On a small screen, few words: the button next to them says that it is being composed.
    const short = !away && matchMedia("(max-width: 1000px)").matches;
    say(
      short
        ? `${bars[0].toUpperCase()}${bars.slice(1)}${left.replace("about ", "")}`
        : `Composing ${bars}${away}${left}`,
      Math.min(0.999, run.part),
    );
  }
  return Object.assign(box, {
    show,
    tell,
    fail: said.say,
    cards: () => cards,
    dialog: compare.box,
    showOne: (id) => cards.find((one) => one.id === id)?.show(lanesNow()),
  });
}
