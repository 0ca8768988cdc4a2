// What the page is put together from: elements, buttons, sliders with a number, a sentence for errors.
import { mark } from "./icons.js";

export function make(tag, className = "", text = "", more = {}) {
  const made = Object.assign(document.createElement(tag), { className }, more);
  if (text) made.textContent = text;
  return made;
}

export const action = (text, act, className = "mg-chip", more = {}) =>
  make("button", className, text, { type: "button", onclick: act, ...more });
export const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

// A button with a mark of icons.js, and a name that is told.
export function icon(sign, name, act, className = "mg-icon") {
  const button = action("", act, className);
  button.innerHTML = mark(sign);
  rename(button, name);
  return button;
}

// A button with an icon and its name; where there is little room the mark stands alone.
export function withMark(button, sign, name) {
  if (button.ariaLabel === name) return;
  button.innerHTML = mark(sign);
  button.append(make("span", "mg-wordy", name));
  button.ariaLabel = button.title = name;
}

export function rename(button, name) {
  button.setAttribute("aria-label", name);
  button.title = name;
}

// A button that says why it cannot be pressed: it stays in reach of keys and of a screen reader.
export function able(button, can, why = "", name = "") {
  button.setAttribute("aria-disabled", String(!can));
  button.title = can ? name : why;
}

export const isAble = (button) => button.getAttribute("aria-disabled") !== "true";

// Before a part of the page goes away that has the focus, it goes on to another; who works by keys is led there.
export function passFocus(box, to) {
  const from = document.activeElement;
  if (box.contains(from)) to.focus({ preventScroll: !from.matches(":focus-visible") });
}

export function zoomButtons(roll) {
  const box = make("span", "mg-zoom");
  for (const [sign, name, factor] of [
    ["less", "Zoom out", 1 / 1.4],
    ["more", "Zoom in", 1.4],
    ["fit", "Fit", null],
  ])
    box.append(icon(sign, name, () => roll.scale(factor)));
  return box;
}

// A slider and a field for the same number. `said` puts the number into words.
export function slider(id, label, { min, max, step = 1, value, act, said = null, info = "" }) {
  const box = make("div", "mg-field", "", { id });
  const name = make("label", "mg-label", label, { htmlFor: `${id}-range` });
  const range = make("input", "", "", { type: "range", id: `${id}-range`, min, max, step, value });
  const number = make("input", "mg-number", "", {
    type: "number",
    min,
    max,
    step,
    value,
    ariaLabel: `${label}, as a number`,
  });
  const words = make("span", "mg-said");
  const show = (to, typed = document.activeElement === number) => {
    range.value = to;
    if (!typed) number.value = to; // nobody's typing is written over
    if (said) range.setAttribute("aria-valuetext", (words.textContent = said(Number(to))));
    range.style.setProperty(
      "--part",
      `${(100 * (range.value - range.min)) / Math.max(1e-9, range.max - range.min)}%`,
    );
  };
  const change = (from) => {
    const { value } = from;
    if (value !== "") range.value = value; // which keeps to its bounds and steps
    show(range.value, false);
    if (value !== "") act(Number(range.value));
  };
  range.addEventListener("input", () => change(range));
  number.addEventListener("change", () => change(number));
  const head = make("div", "mg-field-head");
  head.append(name, said ? words : number);
  box.append(head, range);
  if (info) box.append(make("span", "mg-info", info));
  show(value, false);
  return Object.assign(box, {
    show: (to) => show(to),
    bounds: (low, high) =>
      Object.assign(range, { min: low, max: high }) &&
      Object.assign(number, { min: low, max: high }),
  });
}

export function choice(id, label, options, act) {
  const box = make("div", "mg-field", "", { id }),
    select = make("select", "mg-select", "", { id: `${id}-select` });
  const name = make("label", "mg-label", label, { htmlFor: `${id}-select` });
  const fill = (list) =>
    select.replaceChildren(...list.map(([value, text]) => make("option", "", text, { value })));
  fill(options);
  select.addEventListener("change", () => act(select.value));
  box.append(name, select);
  return Object.assign(box, { select, fill, show: (value) => (select.value = value) });
}

export function check(id, label, act) {
  const box = make("label", "mg-check", "", { id }),
    input = make("input", "", "", { type: "checkbox" });
  input.addEventListener("change", () => act(input.checked));
  box.append(input, label);
  return Object.assign(box, { show: (on) => (input.checked = on) });
}

export function alarm() {
  const box = make("p", "mg-alarm", "", { hidden: true });
  box.setAttribute("role", "alert");
  return Object.assign(box, { say: (text) => ((box.textContent = text), (box.hidden = !text)) });
}

// Let a file be saved under a name.
export function download(bytes, name, kind) {
  const url = URL.createObjectURL(new Blob([bytes], { type: kind }));
  const link = make("a", "", "", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

// A title as a file's name: without folders, and nothing that turns the direction of letters or is none.
export const fileName = (title) =>
  title.replace(/[\\/:*?"<>|\p{C}\p{Zl}\p{Zp}]/gu, "_").slice(0, 80);
