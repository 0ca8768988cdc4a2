// The page's head: its name and mark, undo and redo, the desk as a file, light and dark.
import { ENDING } from "../desk/file.js";
import { mark } from "../widgets/icons.js";
import { able, action, icon, isAble, make, passFocus, rename, withMark } from "../widgets/parts.js";

const MARK =
  '<svg class="mg-mark" viewBox="0 0 28 28" width="28" height="28" aria-hidden="true"><rect x="1" y="5" width="9" height="5" rx="2.5" class="mg-mark-given"/>' +
  '<rect x="7" y="12" width="7" height="5" rx="2.5" class="mg-mark-given"/><rect x="16" y="8" width="11" height="5" rx="2.5" class="mg-mark-new"/><rect x="16" y="17" width="7" height="5" rx="2.5" class="mg-mark-new"/>' +
  '<rect x="14" y="1" width="1.5" height="26" rx="0.75" class="mg-mark-line"/></svg>';

const THEME = "musicgen-theme";
const system = () => (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
let chosen = null;

export function isDark() {
  try {
    chosen = localStorage.getItem(THEME) ?? chosen; // another tab may have changed it
  } catch {} // a browser that is told to keep nothing
  return (chosen ?? system()) === "dark";
}

function choose(theme) {
  chosen = theme;
  try {
    localStorage.setItem(THEME, theme);
  } catch {} // for this visit, then
}

export function headerPart(app) {
  const { desk } = app,
    box = make("header", "mg-bar"),
    name = make("h1", "", "musicgen");
  name.insertAdjacentHTML("afterbegin", MARK);
  const pressed =
    (act) =>
    ({ currentTarget }) =>
      isAble(currentTarget) && act();
  const undo = action(
      "",
      pressed(() => app.undo()),
    ),
    redo = action(
      "",
      pressed(() => app.redo()),
    );
  withMark(undo, "undo", "Undo");
  withMark(redo, "redo", "Redo");
  const { menu, file } = projectMenu(app);
  box.append(
    name,
    make("p", "", "Continue a piece of music."),
    undo,
    redo,
    menu,
    file,
    themeButton(),
  );

  function show() {
    able(undo, Boolean(desk.undoes), "There is nothing to undo.", `Undo: ${desk.undoes}`);
    able(redo, Boolean(desk.redoes), "There is nothing to redo.", `Redo: ${desk.redoes}`);
  }
  return Object.assign(box, { show });
}

// The menu of the project, and the field for the file that it opens.
function projectMenu(app) {
  const menu = make("details", "mg-menu mg-desk-menu"),
    list = make("div", "mg-menu-list"),
    file = make("input", "mg-file", "", {
      type: "file",
      accept: ENDING,
      id: "mg-desk-file",
      ariaLabel: "Open a project",
    });
  const close = (act) => () => (passFocus(list, menu.firstChild), (menu.open = false), act());
  file.addEventListener(
    "change",
    () => (app.openFile(file.files[0]), (file.value = ""), (menu.open = false)),
  );
  list.append(
    action(
      "Save the project as a file",
      close(() => app.saveDesk()),
      "mg-item",
    ),
    action("Open a project from a file", () => file.click(), "mg-item"),
    make("a", "mg-item", "Licences of sound and score", {
      href: `${app.facts.assets}/vendor/LICENCES.txt`,
      target: "_blank",
    }),
  );
  menu.append(make("summary", "mg-chip", "Project"), list);
  menu.addEventListener(
    "keydown",
    (event) => event.key === "Escape" && ((menu.open = false), menu.firstChild.focus()),
  );
  file.tabIndex = -1;
  return { menu, file };
}

function themeButton() {
  const button = icon(
    "moon",
    "",
    () => {
      const dark = !document.body.classList.contains("dark");
      choose(dark ? "dark" : "light");
      document.body.classList.toggle("dark", dark);
      name();
    },
    "mg-icon mg-theme",
  );
  const name = () => {
    const dark = document.body.classList.contains("dark");
    button.innerHTML = mark(dark ? "sun" : "moon");
    rename(button, dark ? "Light mode" : "Dark mode");
  };
  name();
  new MutationObserver(name).observe(document.body, { attributeFilter: ["class"] });
  return button;
}
