// The header of the page: name and logo, undo and redo, the Project menu.
import { able, action, make, marked, menu } from "../widgets/parts.js";

const MARK =
  '<svg viewBox="0 0 28 28" width="28" height="28" aria-hidden="true"><rect x="1" y="5" width="9" height="5" rx="2.5" fill="var(--mg-given-0)"/>' +
  '<rect x="7" y="12" width="7" height="5" rx="2.5" fill="var(--mg-given-0)"/><rect x="16" y="8" width="11" height="5" rx="2.5" fill="var(--mg-new-0)"/><rect x="16" y="17" width="7" height="5" rx="2.5" fill="var(--mg-new-0)"/>' +
  '<rect x="14" y="1" width="1.5" height="26" rx="0.75" fill="var(--mg-line-strong)"/></svg>';

export function headerPart(app) {
  const { desk } = app,
    name = make("h1", "", "musicgen");
  name.insertAdjacentHTML("afterbegin", MARK);
  const undo = marked("undo", "Undo", () => app.undo()),
    redo = marked("redo", "Redo", () => app.redo());
  const words = make("p", "", "Drop a MIDI file or score here; it writes the next bars."),
    all = [name, words, undo, redo, projectMenu(app)];

  function show() {
    able(undo, `Undo: ${desk.undoes}`, !desk.undoes && "Nothing to undo.");
    able(redo, `Redo: ${desk.redoes}`, !desk.redoes && "Nothing to redo.");
  }
  return Object.assign(make("header", "mg-bar", all), { show });
}

function projectMenu(app) {
  const item = (text, act) => action(text, act, "mg-item");
  const licences = make("a", "mg-item", "Licences", {
    href: app.facts.licences,
    target: "_blank",
  });
  const save = item("Save the project as a file", () => app.saveDesk()),
    open = item("Open a project file", () => app.picker.click());
  return menu("Project", [save, open, licences], "mg-menu mg-desk-menu");
}
