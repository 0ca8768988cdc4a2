// A menu under a button: it closes by Escape, by a press elsewhere, and where the focus leaves it.
import { make, passFocus } from "./parts.js";

export function menu(name, items = [], className = "mg-menu") {
  const list = make("div", "mg-menu-list", items);
  const button = make("summary", "mg-chip", name);
  const box = make("details", className, [button, list]);
  const shut = () => (passFocus(list, button), (box.open = false));
  box.addEventListener("focusout", ({ relatedTarget: to }) => to && !box.contains(to) && shut());
  box.addEventListener("keydown", ({ key }) => key === "Escape" && shut());
  return Object.assign(box, { list, shut });
}

addEventListener(
  "pointerdown",
  ({ target }) => {
    for (const open of document.querySelectorAll(".mg-menu[open]"))
      if (!open.contains(target)) open.open = false;
  },
  { capture: true },
);
