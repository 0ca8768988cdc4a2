// The takes: what came of the piece, while it comes and after; under one another, on one axis and one pitch scale.
import { aroundNew, barCount, countIn } from "../music/piece.js";
import { Axis } from "../roll/axis.js";
import { Roll } from "../roll/roll.js";
import { alongMenu, grip } from "../widgets/save_menu.js";
import { blindPart } from "../widgets/blind.js";
import { likeness } from "../widgets/likeness.js";
import {
  action,
  alarm,
  count,
  icon,
  make,
  passFocus,
  rename,
  withMark,
  zoomButtons,
} from "../widgets/parts.js";
import { playButton } from "../widgets/play_button.js";
import { planShown } from "../widgets/plan_view.js";
import { rangeBar } from "../widgets/range_bar.js";

const WORDS = {
  continue: "Continue from here",
  infill: "Use this take",
  accompany: "Use this take",
};

const HIGH = "clamp(240px, 34vh, 380px)"; // of a take by itself, as of the piece

function takeCard(app, id, axis) {
  const { desk, player } = app,
    entryOf = () => desk.entries.get(id),
    first = entryOf();
  const name = `Take ${first.number + 1}`;
  const card = make("article", "mg-card mg-take", "", { ariaLabel: name });
  const head = make("div", "mg-head"),
    facts = make("span", "mg-facts"),
    title = make("h3", "", name),
    said = alarm();
  const star = icon("star", "Star", () => desk.star(id), "mg-icon mg-star");
  const play = playButton(app, entryOf),
    jump = icon("seam", "To the new part", () => app.play(entryOf(), start()), "mg-icon mg-jump");
  const start = () =>
    entryOf().piece.lines[Math.min(entryOf().region.first, barCount(entryOf().piece))];
  const further = action(WORDS[first.how], () => app.use(id), "mg-chip mg-further");
  const like = make("div"),
    rolls = make("div"),
    foot = make("div", "mg-foot"),
    actions = make("span", "mg-actions");
  const roll = new Roll(rolls, {
    label: `Piano roll of take ${first.number + 1}`,
    height: "178px",
    axis,
    acts: {
      seek: (tick) => (player.load(entryOf()), player.seek(tick)),
      play: () => app.play(entryOf()),
      step: (by) => app.stepBars(entryOf(), by),
      range: (range) => bar.show(range),
      bar: () => app.barOf(entryOf()),
    },
  });
  roll.muted = (track) => app.isMuted?.(track);
  const bar = rangeBar(app, roll, entryOf);
  const menu = alongMenu(app, entryOf, said.say),
    drop = icon("bin", "Delete this take", () => app.remove(id), "mg-icon mg-drop");
  head.append(grip(entryOf, "take"), title, facts, star, drop);
  foot.append(play, jump, make("span", "mg-space"), actions);
  actions.append(menu, further);
  card.append(head, said, rolls, bar, foot, like);
  let settled = false,
    liked = null;

  function tell(parts) {
    if (facts.title === parts.join(" · ")) return;
    facts.title = parts.join(" · ");
    facts.replaceChildren(
      ...parts.map((part, place) => make("span", "", place ? ` · ${part}` : part)),
    );
  }

  function show(lanes) {
    const entry = entryOf(),
      over = entry.state !== "running",
      fresh = entry.fresh ?? countIn(entry.piece, entry.region);
    const told = [
      count(fresh, "new note"),
      entry.by && `by ${entry.by}`,
      over && `seed ${entry.seed}`,
    ];
    const emptied = over && !fresh && entry.how === "infill"; // nothing sounds there any more: that is a take, too
    tell(
      emptied
        ? [`These bars are now empty · seed ${entry.seed}`]
        : over && !fresh
          ? ["No new notes came; press Continue for another."]
          : told.filter(Boolean),
    );
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
    star.setAttribute("aria-pressed", String(desk.stars.has(id)));
    rename(star, desk.stars.has(id) ? "Starred; remove the star" : "Star");
    if (over && liked !== entry.likeness)
      like.replaceChildren(likeness((liked = entry.likeness), entry.real));
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
  const { desk } = app,
    box = make("section", "mg-takes-part", "", { id: "mg-takes", ariaLabel: "Takes" });
  const status = make("div", "mg-status"),
    words = make("span"),
    bar = make("div", "mg-progress"),
    said = alarm();
  const grid = make("div", "mg-takes"),
    rest = make("p", "mg-rest");
  words.setAttribute("role", "status");
  bar.setAttribute("role", "progressbar");
  bar.setAttribute("aria-label", "Progress");
  bar.append(make("i"));
  const whole = action(
      "",
      () => {
        axis.reset();
        desk.set({ wholeTakes: !desk.settings.wholeTakes });
      },
      "mg-chip mg-whole",
    ),
    by = make("p", "mg-by");
  by.setAttribute("aria-live", "polite");
  const tools = make("span", "mg-tools"); // for all takes: they share an axis
  const compare = blindPart(app);
  tools.append(
    compare.opener,
    whole,
    zoomButtons({ scale: (factor) => cards[0].roll.scale(factor) }),
  );
  status.append(words, bar, tools);
  box.append(said, status, by, grid);
  grid.append(rest);
  let cards = [],
    axis = new Axis();

  function say(text, part = 1) {
    status.classList.toggle("mg-busy", part < 1);
    words.classList.toggle("mg-silent", !text);
    bar.firstChild.style.width = `${100 * part}%`;
    bar.setAttribute("aria-valuenow", Math.round(100 * part));
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
    withMark(
      whole,
      "whole",
      parts.some((take) => take.how !== "continue") ? "All bars" : "Show my part too",
    );
    whole.setAttribute("aria-pressed", String(wholeTakes));
    tellBy(desk.takes[0]?.byWhy);
    status.classList.toggle("mg-silent", !cards.length && !words.textContent);
    const { run } = app.composer;
    if (!come || !run) return;
    progress(run); // other words, where what comes is no longer here
    if (cards.some((one) => run.ids?.includes(one.id))) bring();
  }

  // The model on the desk does not do this itself.
  function tellBy(why = "") {
    if (by.textContent !== why) by.textContent = why;
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

  const composing = (run) => {
    status.classList.remove("mg-silent");
    say("In line…", 0);
    tellBy(run.other?.why);
    bring();
  };
  const progress = (run) => {
    if (run.place)
      return say(
        run.place === 1
          ? "Next in line…"
          : `In line: ${count(run.place - 1, "request")} before yours…`,
        0,
      );
    if (!run.bars) return say(`Reading your piece…`, 0.001);
    const left = run.left
      ? ` · about ${run.left < 100 ? `${run.left} s` : `${Math.round(run.left / 60)} min`} left`
      : "";
    // Who opened something else meanwhile finds it later.
    const here = cards.some((one) => run.ids.includes(one.id)),
      away = here
        ? ""
        : ` for “${desk.entries.get(run.ids[0]).title.replace(/, (take|variation).*/, "")}”, in the history`;
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
  };
  const composed = (run) => {
    say(ENDINGS[run.state]?.(run, run.ids?.length ?? 0) ?? "");
  };
  return Object.assign(box, {
    show,
    composing,
    progress,
    composed,
    fail: said.say,
    cards: () => cards,
    dialog: compare.box,
    showOne: (id) => cards.find((one) => one.id === id)?.show(lanesNow()),
  });
}
