// Compare blind: two takes, or a take and the real piece, as A and B in an order that nobody knows; which is better?
import { Choices, blind, pairsOf } from "../desk/listening.js";
import { action, download, icon, make, withMark } from "./parts.js";

const HOW =
  "A and B are two takes, or a take and the piece as it really goes on, in an order that is drawn by chance. " +
  "Hear both, then choose.";
const CHOICES = { A: "A is better", none: "No difference", B: "B is better" };

// The button, and the dialog that it opens. `show` says whether there is something to compare.
export function blindPart(app) {
  const { desk, player } = app;
  const choices = new Choices();
  const opener = action("", () => open());
  withMark(opener, "blind", "Compare blind");

  const box = make("dialog", "mg-blind");
  const name = make("h2", "", "Compare blind", { id: "mg-blind-name" });
  box.setAttribute("aria-labelledby", name.id);
  const head = make("div", "mg-field-head");
  head.append(
    name,
    icon("close", "Close", () => box.close()),
  );
  const players = make("div", "mg-row");
  const verdicts = make("div", "mg-row");
  const foot = make("div", "mg-row");
  const said = make("p", "mg-blind-said");
  said.setAttribute("role", "status");
  const plays = ["A", "B"].map((side) => action("", () => play(side), "mg-chip mg-side"));
  const buttons = Object.entries(CHOICES).map(([chosen, text]) => {
    const button = action(text, () => choose(chosen));
    button.dataset.chosen = chosen;
    return button;
  });
  const next = action("Next pair", () => draw(), "mg-chip mg-further");
  const save = action("", () =>
    download(new TextEncoder().encode(choices.text()), "listening.json", "application/json"),
  );
  const forget = action("Delete choices", () => (choices.clear(), show()));
  players.append(...plays);
  verdicts.append(...buttons);
  foot.append(next, save, forget);
  box.append(head, make("p", "mg-said", HOW), players, verdicts, said, foot);

  let heard = null; // {A, B, bars}: the pair at hand
  let pairs = [];
  let known = new Set(); // the sides that have been heard
  let told = "";
  let before = null; // what was loaded, and comes back

  function open() {
    before = { entry: player.entry, at: player.tick };
    player.pause();
    player.loop(null);
    draw();
    box.showModal();
    plays[0].focus();
  }

  // A pair by chance, and another one than before where there are several.
  function draw() {
    pairs = pairsOf(desk);
    const same = (pair) =>
      heard &&
      pair.every(({ facts }) => [heard.A, heard.B].some((side) => side.facts.what === facts.what));
    const others = pairs.filter((pair) => !same(pair));
    const among = others.length ? others : pairs;
    player.pause();
    heard = blind(among[Math.floor(Math.random() * among.length)]);
    known = new Set();
    told = "";
    show();
    plays[0].focus();
  }

  function play(side) {
    const { entry } = heard[side];
    if (player.entry?.id === entry.id && player.playing) return player.pause();
    player.load(entry, { at: 0 });
    player.seek(0);
    known.add(side);
    player.play();
    show();
  }

  function choose(chosen) {
    player.pause();
    choices.add(heard, chosen, desk.current?.title ?? "");
    told = `A was ${heard.A.facts.what}, B ${heard.B.facts.what}.`;
    show();
    next.focus();
  }

  box.addEventListener("close", () => {
    player.pause();
    heard = null;
    if (before?.entry && desk.entries.has(before.entry.id))
      player.load(desk.entries.get(before.entry.id), { at: before.at });
    else app.follow();
    opener.focus();
  });
  player.watch(() => box.open && show());

  function show() {
    opener.hidden = !pairsOf(desk).length;
    if (!heard) return;
    for (const [place, side] of ["A", "B"].entries()) {
      const on = player.entry?.id === heard[side].entry.id && player.playing;
      plays[place].textContent = on ? `❚❚ ${side}` : `▶ ${side}`;
      plays[place].ariaLabel = `${on ? "Pause" : "Play"} ${side}`;
      plays[place].setAttribute("aria-pressed", String(on));
    }
    for (const button of buttons) button.disabled = known.size < 2 || Boolean(told);
    const kept = choices.all.length;
    said.textContent = told || (known.size < 2 ? "Hear A and B first." : "Which is better?");
    next.hidden = !told;
    next.textContent = pairs.length > 1 ? "Next pair" : "Once more";
    save.textContent = `Download choices (${kept})`;
    for (const button of [save, forget]) button.hidden = !kept;
  }
  return { opener, box, show };
}
