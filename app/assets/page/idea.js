// The form for a new idea: shown if no piece is open and the model accepts one; the model chooses what is set to "Any".
import { check, choice, make, menu, typed } from "../widgets/parts.js";

const ANY = ["", "Any"];
const FORMS = ["A A B A", "A B A C", "A A B B", "A B A B", "A B A"];
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
  const number = { type: "number", min: 10, max: 500, placeholder: "Any" };
  const [style, key, metre, form] = fields,
    tempo = typed("mg-idea-tempo", "Tempo (BPM)", number, (text) => set({ tempo: Number(text) })),
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
    tempo.show(now.tempo || "");
  }
  return Object.assign(box, { show });
}

// The instruments: a menu of boxes to check.
function playersField(desk, set) {
  const box = menu("Any", [], "mg-players"),
    name = make("span", "mg-label", "Instruments"),
    [button] = box.children;
  let offered = null;

  function toggle(part, on) {
    const others = (desk.settings.idea.parts ?? []).filter((one) => one !== part);
    set({ parts: on ? [...others, part] : others });
  }

  function show({ parts }) {
    const picked = desk.settings.idea.parts ?? [];
    if (offered !== parts) {
      const boxFor = (part) => check(`mg-${part}`, worded(part), (on) => toggle(part, on));
      box.list.replaceChildren(...parts.map(boxFor));
    }
    offered = parts;
    for (const [place, one] of [...box.list.children].entries())
      one.show(picked.includes(parts[place]));
    button.textContent = picked.map(worded).join(", ") || "Any";
    button.ariaLabel = `Instruments: ${button.textContent}`;
  }
  return Object.assign(make("div", "mg-field", [name, box]), { show });
}
