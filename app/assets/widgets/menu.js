// A popover menu: closes on Escape, on a click elsewhere or on an item, and when it loses the focus.
import { make } from "./parts.js";

export function menu(name, items = [], className = "mg-menu") {
  const list = make("div", "mg-menu-list", items, { popover: "auto" });
  const button = make("button", "mg-chip", name, { type: "button", popoverTargetElement: list });
  const box = make("span", className, [button, list]);
  list.addEventListener("click", ({ target }) => target.matches("button") && list.hidePopover());
  list.addEventListener("focusout", ({ relatedTarget: to }) => {
    if (to && !box.contains(to)) list.hidePopover();
  });
  return Object.assign(box, { list });
}
