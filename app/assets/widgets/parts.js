// The building blocks of the page: elements, buttons, sliders, fields, error messages.
import { mark } from "./icons.js";

// Make an element; `within` is its text or its children.
export function make(tag, className = "", within = "", more = {}) {
  const made = Object.assign(document.createElement(tag), { className }, more);
  if (within) made.append(...[within].flat());
  return made;
}

// A collapsible section.
export const fold = (words, className, within = [], more = {}) =>
  make("details", className, [make("summary", "", words), ...within], more);

export const action = (text, act, className = "mg-chip", more = {}) =>
  make("button", className, text, { type: "button", onclick: act, ...more });
export const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
export const barsLabel = ({ first, stop }) =>
  stop - first > 1 ? `bars ${first + 1}–${stop}` : `bar ${stop}`;

// A button with an icon; its name is the tooltip and the label for screen readers.
export function icon(sign, name, act, className = "mg-icon") {
  const button = action("", act, className);
  button.innerHTML = mark(sign);
  rename(button, name);
  return button;
}

// A button with an icon and its name, which a small screen hides.
export function marked(sign, name, act, className = "mg-chip") {
  const button = icon(sign, name, act, className);
  button.append(make("span", "mg-wordy", name));
  return button;
}

export const rename = (button, name) => (button.ariaLabel = button.title = name);

// Disable a button if one of the reasons is not false, and give it as the tooltip, which a press says (shortcuts.js). The
// button stays reachable by keyboard and screen reader.
export function able(button, name, ...reasons) {
  const why = reasons.find((one) => one !== false);
  button.ariaDisabled = why !== undefined;
  button.title = why ?? name;
}

// Before `box` is removed, pass its focus on; scroll to the new place for keyboard users only.
export function passFocus(box, to) {
  const from = document.activeElement;
  if (box.contains(from)) to.focus({ preventScroll: !from.matches(":focus-visible") });
}

// A slider with a number field, or with words for the number if `inWords` is given.
export function slider(id, label, min, max, act, { step = 1, inWords = null, info = "" } = {}) {
  const name = make("label", "mg-label", label, { htmlFor: `${id}-range` });
  const bounds = { min, max, step },
    ariaLabel = `${label}, as a number`;
  const range = make("input", "", "", { type: "range", id: `${id}-range`, ...bounds }),
    number = make("input", "mg-number", "", { type: "number", ariaLabel, ...bounds });
  const words = make("output", "mg-said");
  const show = (to, typed = document.activeElement === number) => {
    range.value = to;
    if (!typed) number.value = to; // do not overwrite what is being typed
    if (inWords) range.ariaValueText = words.textContent = inWords(Number(to));
  };
  const change = (from) => {
    const { value } = from;
    if (value !== "") range.value = value; // clamped to the bounds and steps
    show(range.value, false);
    if (value !== "") act(Number(range.value));
  };
  range.addEventListener("input", () => change(range));
  number.addEventListener("change", () => change(number));
  const head = make("div", "mg-field-head", [name, inWords ? words : number]);
  const box = make("div", "mg-field", [head, range, make("span", "mg-info", info)], { id });
  return Object.assign(box, {
    show: (to) => show(to),
    bounds: (low, high) => {
      for (const one of [range, number]) Object.assign(one, { min: low, max: high });
    },
  });
}

// An input with its label above.
export const field = (id, label, input) =>
  make("div", "mg-field", [make("label", "mg-label", label, { htmlFor: input.id }), input], { id });

// A field for text or a number, which does not overwrite what is being typed.
export function typed(id, label, more, act) {
  const input = make("input", "mg-text", "", { id: `${id}-input`, ...more });
  input.addEventListener("change", () => act(input.value));
  const show = (value) => document.activeElement !== input && (input.value = value);
  return Object.assign(field(id, label, input), { show });
}

// The options of a select, from pairs [value, text].
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

// A popover: closes on Escape, on a click elsewhere or on an item, and when it loses the focus.
export function menu(name, items = [], className = "mg-menu") {
  const list = make("div", "mg-menu-list", items, { popover: "auto" });
  const button = make("button", "mg-chip", name, { type: "button", popoverTargetElement: list });
  const box = make("span", className, [button, list]);
  list.addEventListener("click", ({ target }) => target.matches(".mg-item") && list.hidePopover());
  list.addEventListener("focusout", ({ relatedTarget: to }) => {
    if (to && !box.contains(to)) list.hidePopover();
  });
  return Object.assign(box, { list });
}

// A hidden file input that opens a file.
export function filePicker(app, accept, more) {
  const picker = make("input", "mg-file", "", { type: "file", accept, ...more });
  picker.addEventListener("change", () => (app.openFile(picker.files[0]), (picker.value = "")));
  return picker;
}

// Save bytes or text as a file.
export function download(content, name, kind) {
  const url = URL.createObjectURL(new Blob([content], { type: kind }));
  const link = make("a", "", "", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

// A title as a file name, without path separators and control characters.
export const fileName = (title) =>
  title.replace(/[\\/:*?"<>|\p{C}\p{Zl}\p{Zp}]/gu, "_").slice(0, 80);
