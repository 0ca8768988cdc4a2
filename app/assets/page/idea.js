// The form for a new idea: shown if no piece is open and the model accepts one; the model chooses what is set to "Any".
import { check, choice, field, make, menu, onFields } from "../widgets/parts.js";

const ANY = ["", "Any"];
const FORMS = ["A A B A", "A B A C", "A A B B", "A B A B", "A B A"];
const SIGNS = { "#": "♯", b: "♭" };
const TEMPO = { name: "tempo", type: "number", min: 10, max: 500, placeholder: "Any" };

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
    parts = menu("Any", [], "mg-parts"),
    [button] = parts.children,
    name = make("span", "mg-label", "Instruments"),
    within = [style, key, tempo, metre, form, make("div", "mg-field", [name, parts])],
    box = make("div", "mg-idea", within, { ariaLabel: "New idea", role: "group" });

  onFields(box, (name, value) => {
    const picked = [...parts.list.querySelectorAll(":checked")].map((one) => one.value),
      change = name === "parts" ? picked : name === "tempo" ? Number(value) : value;
    desk.set({ idea: { ...desk.settings.idea, [name]: change } });
  });

  let offered = null;
  function offer(idea) {
    const fill = (one, names, word = String) =>
      one.fill([ANY, ...names.map((name) => [name, word(name)])]);
    fill(style, idea.style, worded);
    fill(key, idea.key, keyName);
    fill(metre, idea.metre);
    fill(form, FORMS);
    const boxes = idea.parts.map((value) =>
      check(`idea-${value}`, worded(value), { name: "parts", value }),
    );
    parts.list.replaceChildren(...boxes);
    offered = idea;
  }

  function show() {
    box.hidden = !app.begins;
    if (box.hidden) return;
    if (offered !== app.model.idea) offer(app.model.idea);
    const { idea } = desk.settings,
      picked = idea.parts ?? [];
    for (const one of [style, key, tempo, metre, form]) one.show(idea[one.input.name] || "");
    for (const one of parts.list.children) one.show(picked.includes(one.input.value));
    button.textContent = picked.map(worded).join(", ") || "Any";
    button.ariaLabel = `Instruments: ${button.textContent}`;
  }
  return Object.assign(box, { show });
}
