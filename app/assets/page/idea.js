// The form for a new idea: shown if no piece is open and the model accepts one; the model chooses what is set to "Any".
import { action, choice, field, make, options } from "../widgets/parts.js";

const ANY = ["", "Any"];
const FORMS = ["A A B A", "A B A C", "A A B B", "A B A B", "A B A"];
const COMMON = "piano guitar bass drums violin cello flute sax trumpet voice".split(" "); // shown as buttons
const SIGNS = { "#": "♯", b: "♭" };

const worded = (name) => (name[0].toUpperCase() + name.slice(1)).replaceAll("_", " ");
const keyName = (name) => name.replace(/[#b](?= )/, (sign) => SIGNS[sign]);

const FIELDS = {
  style: ["Style", worded],
  key: ["Key", keyName],
  metre: ["Time signature", String],
  form: ["Form", String],
};

export function ideaPart(app) {
  const { desk } = app;
  const set = (change) => desk.set({ idea: { ...desk.settings.idea, ...change } });
  const fields = Object.entries(FIELDS).map(([of, [label, word]]) => {
    const one = choice(`mg-idea-${of}`, label, [ANY], (value) => set({ [of]: value }));
    const offer = (names) => one.fill([ANY, ...names.map((name) => [name, word(name)])]);
    return Object.assign(one, { of, offer });
  });
  const asked = { type: "number", id: "mg-idea-beats", min: 10, max: 500, placeholder: "Any" },
    beats = make("input", "mg-text", "", asked);
  beats.addEventListener("change", () => set({ tempo: Number(beats.value) || 0 }));
  const [style, key, metre, form] = fields,
    tempo = field("mg-idea-tempo", "Tempo (BPM)", beats),
    players = playersField(desk, set),
    named = { ariaLabel: "New idea", role: "group" },
    box = make("div", "mg-idea", [style, key, tempo, metre, form, players], named);

  let offered = null;
  function show() {
    box.hidden = !app.begins;
    if (box.hidden) return;
    const { idea } = app.model,
      now = desk.settings.idea;
    if (offered !== idea) for (const one of fields) one.offer({ ...idea, form: FORMS }[one.of]);
    offered = idea;
    for (const one of fields) one.show(now[one.of] ?? "");
    players.show(idea);
    if (document.activeElement !== beats) beats.value = now.tempo || "";
  }
  return Object.assign(box, { show });
}

// The instruments: buttons for the common and the chosen ones, and a list of the others.
function playersField(desk, set) {
  const chips = make("div", "mg-tools", "", { role: "group", ariaLabel: "Instruments" });
  const more = make("select", "mg-select", "", { ariaLabel: "More instruments" });
  more.addEventListener("change", () => more.value && toggle(more.value));
  const name = make("span", "mg-label", "Instruments", { ariaHidden: "true" });
  const players = make("div", "mg-field mg-players", [name, chips]);

  const chosen = () => desk.settings.idea.parts ?? [];
  function toggle(part) {
    const parts = chosen();
    set({ parts: parts.includes(part) ? parts.filter((one) => one !== part) : [...parts, part] });
  }

  function chipFor(part) {
    const chip = action(worded(part), () => toggle(part));
    chip.dataset.part = part;
    return chip;
  }

  let shown = "";
  function show({ parts }) {
    const picked = chosen(),
      usual = COMMON.filter((one) => parts.includes(one)),
      all = [...new Set([...usual, ...picked])];
    if (shown !== all.join()) {
      shown = all.join();
      const others = parts.filter((one) => !all.includes(one)).map((one) => [one, worded(one)]);
      more.replaceChildren(...options([["", "More…"], ...others]));
      chips.replaceChildren(...all.map(chipFor), more);
    }
    more.value = "";
    for (const chip of chips.querySelectorAll("button"))
      chip.ariaPressed = picked.includes(chip.dataset.part);
  }
  return Object.assign(players, { show });
}
