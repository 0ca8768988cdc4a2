// The blind comparison: two takes, or a take and the real piece, as A and B in random order.
import { Choices, blind, pairsOf } from "../desk/listening.js";
import { action, download, icon, make, marked } from "./parts.js";

const HOW =
  "A and B are two takes, or a take and the original continuation, in random order. " +
  "Listen to both, then choose.";
const CHOICES = { A: "A is better", none: "No difference", B: "B is better" };
const SIDES = ["A", "B"];

// The dialog. `acts`: play(side), choose(chosen), draw(), save(), forget().
function dialogFor(acts) {
  const said = make("p", "mg-said", "", { role: "status" }),
    plays = SIDES.map((side) => action("", () => acts.play(side), "mg-chip mg-side")),
    verdicts = Object.entries(CHOICES).map(([chosen, text]) =>
      action(text, () => acts.choose(chosen)),
    );
  const next = action("Next pair", acts.draw, "mg-chip mg-further"),
    save = action("", acts.save),
    forget = action("Delete choices", acts.forget);
  const [players, choices, foot] = [plays, verdicts, [next, save, forget]].map((some) =>
    make("div", "mg-row", some),
  );
  const name = make("h2", "", "Compare blind"),
    close = icon("close", "Close", () => box.close()),
    head = make("div", "mg-field-head", [name, close]),
    all = [head, make("p", "mg-said", HOW), players, choices, said, foot],
    box = make("dialog", "mg-blind", all, { ariaLabel: name.textContent });
  return { box, plays, verdicts, said, next, save, forget };
}

// Show a pair: the side that plays, the sides heard so far (`known`), and the `answer` after the choice.
function showPair({ plays, verdicts, said, next }, { pair, known, answer }, player) {
  for (const [place, side] of SIDES.entries()) {
    const on = player.entry?.id === pair[side].entry.id && player.playing;
    plays[place].textContent = on ? `❚❚ ${side}` : `▶ ${side}`;
    plays[place].ariaLabel = `${on ? "Pause" : "Play"} ${side}`;
    plays[place].ariaPressed = on;
  }
  const waits = known.size < 2;
  for (const button of verdicts) button.disabled = waits || Boolean(answer);
  said.textContent = answer || (waits ? "Listen to A and B first." : "Which is better?");
  next.hidden = !answer;
}

// The button and the dialog that it opens. `show` hides the button if there is nothing to compare.
export function blindPart(app) {
  const { desk, player } = app;
  const choices = new Choices();
  const opener = marked(
    "blind",
    "Compare blind",
    () => (player.setLoop(null), box.showModal(), draw()),
  );
  const save = () => download(choices.text(), "listening.json", "application/json");
  const forget = () => (choices.clear(), show());
  const view = dialogFor({ play, choose, draw, save, forget });
  const { box, plays, next } = view;

  let pair = null; // the current pair: {A, B, bars}
  let known = new Set(); // the sides that have been heard
  let answer = "";

  function draw() {
    const pairs = pairsOf(desk);
    player.pause();
    pair = blind(pairs[Math.floor(Math.random() * pairs.length)]);
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
    answer = `A was ${pair.A.facts.what}, B was ${pair.B.facts.what}.`;
    choices.add(pair, chosen, desk.current?.title ?? "");
    show();
    next.focus();
  }

  box.addEventListener("close", () => {
    pair = null;
    player.pause();
    app.follow();
    opener.focus();
  });

  function show() {
    opener.hidden = !pairsOf(desk).length;
    if (!pair) return;
    showPair(view, { pair, known, answer }, player);
    const kept = choices.all.length;
    view.save.textContent = `Download choices (${kept})`;
    view.save.hidden = view.forget.hidden = !kept;
  }
  return { opener, box, show };
}
