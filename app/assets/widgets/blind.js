// The blind comparison: two takes, or a take and the real piece, as A and B in random order.
import { Choices, blind, pairsOf } from "../desk/listening.js";
import { action, download, icon, make, marked } from "./parts.js";

const HOW =
  "A and B are two takes, or a take and the original continuation, in random order. " +
  "Listen to both, then choose.";
const CHOICES = { A: "A is better", none: "No difference", B: "B is better" };

// The dialog. `acts`: close(), play(side), choose(chosen), draw(), save(), forget().
function dialogFor(acts) {
  const name = make("h2", "", "Compare blind");
  const close = icon("close", "Close", () => acts.close());
  const said = make("p", "mg-blind-said", "", { role: "status" });
  const plays = ["A", "B"].map((side) => action("", () => acts.play(side), "mg-chip mg-side"));
  const buttons = Object.entries(CHOICES).map(([chosen, text]) => {
    const button = action(text, () => acts.choose(chosen));
    button.dataset.chosen = chosen;
    return button;
  });
  const next = action("Next pair", () => acts.draw(), "mg-chip mg-further");
  const save = action("", () => acts.save());
  const forget = action("Delete choices", () => acts.forget());
  const rows = [plays, buttons, [next, save, forget]];
  const [players, verdicts, foot] = rows.map((some) => make("div", "mg-row", some));
  const head = make("div", "mg-field-head", [name, close]);
  const all = [head, make("p", "mg-said", HOW), players, verdicts, said, foot];
  const box = make("dialog", "mg-blind", all, { ariaLabel: name.textContent });
  return { box, plays, buttons, said, next, save, forget };
}

// Show a pair: the side that plays, the sides heard so far (`known`), and the `answer` after the choice.
function showPair({ plays, buttons, said, next }, { pair, pairs, known, answer }, player) {
  for (const [place, side] of ["A", "B"].entries()) {
    const on = player.entry?.id === pair[side].entry.id && player.playing;
    plays[place].textContent = on ? `❚❚ ${side}` : `▶ ${side}`;
    plays[place].ariaLabel = `${on ? "Pause" : "Play"} ${side}`;
    plays[place].ariaPressed = on;
  }
  for (const button of buttons) button.disabled = known.size < 2 || Boolean(answer);
  said.textContent = answer || (known.size < 2 ? "Listen to A and B first." : "Which is better?");
  next.hidden = !answer;
  next.textContent = pairs.length > 1 ? "Next pair" : "Again";
}

// Show the number of stored choices, if any.
function showKept({ save, forget }, kept) {
  save.textContent = `Download choices (${kept})`;
  save.hidden = forget.hidden = !kept;
}

// Draw a pair at random, if possible not the last one.
function drawn(pairs, last) {
  const same = (pair) =>
    last &&
    pair.every(({ facts }) => [last.A, last.B].some((side) => side.facts.what === facts.what));
  const others = pairs.filter((pair) => !same(pair));
  const among = others.length ? others : pairs;
  return blind(among[Math.floor(Math.random() * among.length)]);
}

// The button and the dialog that it opens. `show` hides the button if there is nothing to compare.
export function blindPart(app) {
  const { desk, player } = app;
  const choices = new Choices();
  const opener = marked("blind", "Compare blind", () => open());
  const save = () => download(choices.text(), "listening.json", "application/json");
  const forget = () => (choices.clear(), show());
  const view = dialogFor({ close: () => view.box.close(), play, choose, draw, save, forget });
  const { box, plays, next } = view;

  let pair = null; // the current pair: {A, B, bars}
  let pairs = [];
  let known = new Set(); // the sides that have been heard
  let answer = "";

  function open() {
    player.pause();
    player.loop(null);
    draw();
    box.showModal();
    plays[0].focus();
  }

  function draw() {
    pairs = pairsOf(desk);
    player.pause();
    pair = drawn(pairs, pair);
    known = new Set();
    answer = "";
    show();
    plays[0].focus();
  }

  function play(side) {
    const { entry } = pair[side];
    if (player.entry?.id === entry.id && player.playing) return player.pause();
    player.load(entry, { at: 0 });
    player.seek(0);
    known.add(side);
    player.play();
    show();
  }

  function choose(chosen) {
    player.pause();
    choices.add(pair, chosen, desk.current?.title ?? "");
    answer = `A was ${pair.A.facts.what}, B was ${pair.B.facts.what}.`;
    show();
    next.focus();
  }

  box.addEventListener("close", () => {
    pair = null;
    player.pause();
    app.follow();
    opener.focus();
  });
  player.watch(() => box.open && show());

  function show() {
    opener.hidden = !pairsOf(desk).length;
    if (!pair) return;
    showPair(view, { pair, pairs, known, answer }, player);
    showKept(view, choices.all.length);
  }
  return { opener, box, show };
}
