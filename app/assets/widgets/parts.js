// The building blocks of the page: elements, icons, buttons, fields, menus.

// Icons are drawn as paths: some systems lack characters for them.
const PATHS = {
  play: "M8 5.5v13l10.5-6.5z",
  pause: "M8.5 6v12M15.5 6v12",
  wait: "M12 5a7 7 0 1 1-7 7",
  start: "M6 5v14M19 5 9 12l10 7z",
  star: "M12 3.5l2.6 5.6 6.1.7-4.5 4.2 1.2 6-5.4-3-5.4 3 1.2-6L3.3 9.8l6.1-.7z",
  bin: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13M10 11v5M14 11v5",
  close: "M6 6l12 12M18 6 6 18",
  less: "M5 12h14",
  more: "M5 12h14M12 5v14",
  fit: "M3 12h18M7 8l-4 4 4 4M17 8l4 4-4 4",
  blind: "M3 12s3.5-6 9-6 9 6 9 6-3.5 6-9 6-9-6-9-6zM4 20 20 4",
  plan: "M3 15c4 0 5-9 9-9s5 7 9 4M3 20h18",
  score: "M3 5h18M3 9h18M3 13h10M3 17h8M17 19V9M14.5 17a2.5 2 0 1 0 0 4 2.5 2 0 0 0 0-4",
  pencil: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  undo: "M8 5 4 9l4 4M4 9h10a5 5 0 0 1 0 10h-3",
  redo: "M16 5l4 4-4 4M20 9H10a5 5 0 0 0 0 10h3",
};

export const mark = (name) =>
  '<svg width="17" height="17" viewBox="0 0 24 24" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.7"' +
  ` stroke-linecap="round" stroke-linejoin="round"><path d="${PATHS[name]}"/></svg>`;

// Make an element; `within` is its text or its children.
export function make(tag, className = "", within = "", more = {}) {
  const made = Object.assign(document.createElement(tag), { className }, more);
  if (within) made.append(...[within].flat());
  return made;
}

// Change the text of an element; if it is the same, a screen reader need not say it again.
export const write = (box, text) => box.textContent === text || (box.textContent = text);

// A collapsible section.
export const fold = (words, className, within) =>
  make("details", className, [make("summary", "", words), ...within]);

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

// Whether the page is used by fingers.
export const byTouch = () => matchMedia("(pointer: coarse)").matches;

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

// Call `act` with the name and the value of each field in a box that the user changes.
export function onFields(box, act) {
  const changed = ({ type, target }) => {
    const { name, value, checked } = target;
    if (!name || (type === "input") !== (target.type === "range")) return; // only sliders tell each step
    act(name, target.type === "checkbox" ? checked : target.type === "range" ? +value : value);
  };
  for (const type of ["input", "change"]) box.addEventListener(type, changed);
  return box;
}

// A slider with a number field. Fields are named, and `show` their value.
export function slider(name, label, min, max, { step = 1, info = "" } = {}) {
  const bounds = { type: "range", min, max, step },
    range = make("input", "", "", { ...bounds, name, id: `mg-${name}-range` }),
    more = { ...bounds, type: "number", ariaLabel: `${label}, as a number` },
    number = make("input", "mg-number", "", more);
  const show = (value) => {
    range.value = value;
    if (document.activeElement !== number) number.value = value; // do not overwrite what is being typed
  };
  number.addEventListener("change", () => {
    if (number.value !== "") range.value = number.value; // clamped to the bounds and steps
    number.value = range.value;
    range.dispatchEvent(new Event("input", { bubbles: true }));
  });
  const title = make("label", "mg-label", label, { htmlFor: range.id }),
    head = make("div", "mg-field-head", [title, number]),
    within = [head, range, make("span", "mg-info", info, { hidden: !info })];
  function bound(from, to) {
    range.min = number.min = Math.round(from);
    range.max = number.max = Math.round(to);
  }
  return Object.assign(make("div", "mg-field", within, { id: `mg-${name}` }), { show, bound });
}

// An input or a select with its label above; what is being typed is not overwritten.
export function field(id, label, tag = "input", more = {}) {
  const input = make(tag, "", "", { id: `mg-${id}-input`, name: id, ...more }),
    title = make("label", "mg-label", label, { htmlFor: input.id }),
    box = make("div", "mg-field", [title, input], { id: `mg-${id}` });
  const show = (value) =>
    (tag === "input" && document.activeElement === input) || (input.value = value);
  return Object.assign(box, { input, show });
}

// Offer values in a field; others can be typed.
export function suggest({ input }, values) {
  const list = make("datalist", "", options(values.map((value) => [value, ""])), {
    id: `${input.id}-list`,
  });
  input.setAttribute("list", list.id);
  input.after(list);
}

// The options of a select, from pairs [value, text].
export const options = (pairs) => pairs.map(([value, text]) => make("option", "", text, { value }));

export function choice(id, label, pairs, more = {}) {
  const made = field(id, label, "select", more),
    fill = (others) => made.input.replaceChildren(...options(others));
  fill(pairs);
  return Object.assign(made, { fill });
}

export function check(id, label, more = {}) {
  const input = make("input", "", "", { type: "checkbox", name: id, ...more }),
    show = (on) => (input.checked = on),
    box = make("label", "mg-check", [input, label], { id: `mg-${id}` });
  return Object.assign(box, { input, show });
}

// A popover: closes on Escape, on a click elsewhere or on an item, and when it loses the focus. The arrows open it and move
// between its items.
export function menu(name, items = [], className = "mg-menu") {
  const list = make("div", "mg-menu-list", items, { popover: "auto" });
  const button = make("button", "mg-chip", name, { type: "button", popoverTargetElement: list });
  const box = make("span", className, [button, list]);
  list.addEventListener("click", ({ target }) => target.matches(".mg-item") && list.hidePopover());
  box.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key],
      { target } = event;
    if (!by || (target !== button && !target.matches(".mg-item"))) return;
    event.preventDefault();
    if (!list.matches(":popover-open")) button.click();
    const all = [...list.querySelectorAll(".mg-item:not(:disabled)")],
      at = all.indexOf(target);
    all.at(at < 0 ? Math.min(0, by) : (at + by) % all.length)?.focus();
  });
  list.addEventListener("focusout", ({ relatedTarget: to }) => {
    if (to && !box.contains(to)) list.hidePopover();
  });
  return Object.assign(box, { list });
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
