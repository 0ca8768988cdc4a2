// What the stage and the takes are put together from.
(() => {
  function make(tag, className, text, more = {}) {
    const made = Object.assign(document.createElement(tag), { className }, more);
    if (text) made.textContent = text;
    return made;
  }

  const action = (text, act, className = "mg-chip") => make("button", className, text, { type: "button", onclick: act });
  const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

  // `more` is a button of the same kind, before them.
  function zoomButtons(roll, ...more) {
    const box = make("span", "mg-zoom");
    box.append(...more);
    for (const [sign, name, factor] of [["−", "Zoom out", 1 / 1.4], ["+", "Zoom in", 1.4], ["↔", "Fit", null]]) {
      const button = action(sign, () => roll.scale(factor), "mg-icon");
      button.setAttribute("aria-label", name);
      button.title = name;
      box.append(button);
    }
    return box;
  }

  Object.assign(window.musicgen, { parts: { make, action, count, zoomButtons } });
})();
