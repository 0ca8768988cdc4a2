// What the page is put together from: elements, buttons, sliders with a number, a sentence for errors.
import { mark } from "./icons.js";

// An element; `within` is its text, or what lies in it.
export function make(tag, className = "", within = "", more = {}) {
  const made = Object.assign(document.createElement(tag), { className }, more);
  if (within) made.append(...[within].flat());
  return made;
}

// What is folded away under a few words.
export const fold = (words, className, within = [], more = {}) =>
  make("details", className, [make("summary", "", words), ...within], more);

export const action = (text, act, className = "mg-chip", more = {}) =>
  make("button", className, text, { type: "button", onclick: act, ...more });
export const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
export const barsSaid = ({ first, stop }) =>
  stop - first > 1 ? `bars ${first + 1}–${stop}` : `bar ${stop}`;

// A button with a mark of icons.js, and a name that is told.
export function icon(sign, name, act, className = "mg-icon") {
  const button = action("", act, className);
  button.innerHTML = mark(sign);
  rename(button, name);
  return button;
}

// A button with a mark and its name; where there is little room the mark stands alone.
export function marked(sign, name, act, className = "mg-chip") {
  const button = icon(sign, name, act, className);
  button.append(make("span", "mg-wordy", name));
  return button;
}

export const rename = (button, name) => (button.ariaLabel = button.title = name);

// A button that says why it cannot be pressed, the first of some reasons that are false where they do not hold: it stays
// in reach of keys and of a screen reader.
export function able(button, name, ...reasons) {
  const why = reasons.find((one) => one !== false);
  button.ariaDisabled = why !== undefined;
  button.title = why ?? name;
}

export const isAble = (button) => button.ariaDisabled !== "true";

// Before a part of the page goes away that has the focus, it goes on to another; who works by keys is led there.
export function passFocus(box, to) {
  const from = document.activeElement;
  if (box.contains(from)) to.focus({ preventScroll: !from.matches(":focus-visible") });
}

// A slider and a field for the same number. `said` puts the number into words.
export function slider(id, label, min, max, act, { step = 1, said = null, info = "" } = {}) {
  const name = make("label", "mg-label", label, { htmlFor: `${id}-range` });
  const bounds = { min, max, step },
    ariaLabel = `${label}, as a number`;
  const range = make("input", "", "", { type: "range", id: `${id}-range`, ...bounds }),
    number = make("input", "mg-number", "", { type: "number", ariaLabel, ...bounds });
  const words = make("output", "mg-said");
  const show = (to, typed = document.activeElement === number) => {
    range.value = to;
    if (!typed) number.value = to; // nobody's typing is written over
    if (said) range.ariaValueText = words.textContent = said(Number(to));
  };
  const change = (from) => {
    const { value } = from;
    if (value !== "") range.value = value; // which keeps to its bounds and steps
    show(range.value, false);
    if (value !== "") act(Number(range.value));
  };
  range.addEventListener("input", () => change(range));
  number.addEventListener("change", () => change(number));
  const head = make("div", "mg-field-head", [name, said ? words : number]);
  const box = make("div", "mg-field", [head, range, make("span", "mg-info", info)], { id });
  return Object.assign(box, {
    show: (to) => show(to),
    bounds: (low, high) => {
      for (const one of [range, number]) Object.assign(one, { min: low, max: high });
    },
  });
}

// A field with its name over it.
export const field = (id, label, input) =>
  make("div", "mg-field", [make("label", "mg-label", label, { htmlFor: input.id }), input], { id });

// Pairs of a value and its name, as they lie in a list to choose from.
export const options = (pairs) => pairs.map(([value, text]) => make("option", "", text, { value }));

export function choice(id, label, pairs, act) {
  const select = make("select", "mg-select", options(pairs), { id: `${id}-select` });
  const fill = (others) => select.replaceChildren(...options(others));
  select.addEventListener("change", () => act(select.value));
  const show = (value) => (select.value = value);
  return Object.assign(field(id, label, select), { select, fill, show });
}

export function check(id, label, act) {
  const input = make("input", "", "", { type: "checkbox" });
  input.addEventListener("change", () => act(input.checked));
  const show = (on) => (input.checked = on);
  return Object.assign(make("label", "mg-check", [input, label], { id }), { show });
}

// A field, out of sight, for a file to be opened.
export function filePicker(app, accept, more) {
  const picker = make("input", "mg-file", "", { type: "file", accept, ...more });
  picker.addEventListener("change", () => (app.openFile(picker.files[0]), (picker.value = "")));
  return picker;
}

export function alarm() {
  const box = make("p", "mg-alarm", "", { hidden: true, role: "alert" });
  return Object.assign(box, { say: (text) => ((box.textContent = text), (box.hidden = !text)) });
}

// Let bytes or a text be saved as a file.
export function download(content, name, kind) {
  const url = URL.createObjectURL(new Blob([content], { type: kind }));
  const link = make("a", "", "", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

// A title as a file's name: without folders, and nothing that turns the direction of letters or is none.
export const fileName = (title) =>
  title.replace(/[\\/:*?"<>|\p{C}\p{Zl}\p{Zp}]/gu, "_").slice(0, 80);
