// The form for a new idea: shown if no piece is open and the model accepts one; the model chooses what is set to "Any".
import { choice, field, make, onFields } from "../widgets/parts.js";

const ANY = ["", "Any"];
const FORMS = ["A A B A", "A B A C", "A A B B", "A B A B", "A B A"];
const SIGNS = { "#": "♯", b: "♭" };
const TEMPO = { name: "tempo", type: "number", min: 30, max: 300, placeholder: "Any" };
const PARTS = { name: "parts", type: "text", placeholder: "Any; or Violin, Violin, Cello" };

// The instruments in a text, in which one can come several times.
const partsIn = (text) =>
  text
    .split(",")
    .map((part) => part.trim().toLowerCase().replaceAll(" ", "_"))
    .filter(Boolean);
const worded = (name) => (name[0].toUpperCase() + name.slice(1)).replaceAll("_", " ");
const keyName = (name) => name.replace(/[#b](?= )/, (sign) => SIGNS[sign]);

export function ideaPart(app) {
  const { desk } = app;
  const asked = (name, label) => choice(`idea-${name}`, label, [ANY], { name }),
    style = asked("style", "Style"),
    key = asked("key", "Key"),
    tempo = field("idea-tempo", "Tempo (BPM)", "input", TEMPO),
    metre = asked("metre", "Time signature"),
    form = asked("form", "Form"),
    parts = field("idea-parts", "Instruments", "input", PARTS),
    more = choice("idea-more", "Add an instrument", [], { name: "more" }),
    within = [style, key, tempo, metre, form, parts, more],
    box = make("div", "mg-idea", within, { ariaLabel: "New idea", role: "group" });

  onFields(box, (name, value) => {
    const before = desk.settings.idea.parts ?? [];
    if (name === "more") return set("parts", [...before, value]);
    if (name === "parts") return set(name, partsIn(value));
    return set(name, name === "tempo" ? Number(value) : value);
  });
  const set = (name, value) => desk.set({ idea: { ...desk.settings.idea, [name]: value } });

  let offered = null;
  function offer(idea) {
    const fill = (one, names, word = String) =>
      one.fill([ANY, ...names.map((name) => [name, word(name)])]);
    fill(style, idea.style, worded);
    fill(key, idea.key, keyName);
    fill(metre, idea.metre);
    fill(form, FORMS);
    more.fill([["", "…"], ...idea.parts.map((name) => [name, worded(name)])]);
    offered = idea;
  }

  function show() {
    box.hidden = !app.begins;
    if (box.hidden) return;
    if (offered !== app.model.idea) offer(app.model.idea);
    const { idea } = desk.settings,
      picked = idea.parts ?? [];
    for (const one of [style, key, tempo, metre, form]) one.show(idea[one.input.name] || "");
    parts.show(picked.map(worded).join(", "));
    more.show("");
  }
  return Object.assign(box, { show });
}
