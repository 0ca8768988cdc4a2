// Shortcuts of the whole page: Space plays, Ctrl+Enter continues, Ctrl+Z undoes, files can be dropped anywhere, and a disabled button says why.
const FIELDS = "input, select, textarea, [contenteditable]";
const PRESSED = "button, summary, a, [role=application]";
const LEFT = "button, summary, a, [type=range], [type=checkbox]"; // need no keys after a click

export function shortcuts(app) {
  // The element that a pointer has focused. Determined on focus, since :focus-visible matches once a key is pressed.
  let pointed = null;
  addEventListener("focusin", ({ target }) => {
    pointed = target.matches(LEFT) && !target.matches(":focus-visible") ? target : null;
  });
  const isFree = (target) => target === pointed || !target.closest?.(`${FIELDS}, ${PRESSED}`);
  addEventListener("keydown", (event) => {
    const key = event.key.toLowerCase(),
      control = event.ctrlKey || event.metaKey,
      typing = event.target.matches?.("input[type=text], input[type=number], textarea");
    if (control && key === "z" && !typing) {
      event.preventDefault();
      if (event.shiftKey) app.redo();
      else app.undo();
    } else if (control && key === "y" && !typing) {
      event.preventDefault();
      app.redo();
    } else if (control && key === "enter") {
      event.preventDefault();
      app.composer.press();
    } else if (key === " " && !control && isFree(event.target)) {
      event.preventDefault();
      if (event.target === pointed) pointed.blur(); // no focus ring around an element that the key does not press
      app.toggle();
    }
  });
  const explain = (event) => {
    const button = event.target.closest?.("[aria-disabled=true]");
    if (!button) return;
    event.stopPropagation();
    app.say(button.title);
  };
  addEventListener("click", explain, { capture: true });
  const withFile = (event) => event.dataTransfer?.types.includes("Files");
  addEventListener("dragover", (event) => withFile(event) && event.preventDefault());
  addEventListener("drop", (event) => {
    if (!withFile(event)) return;
    event.preventDefault();
    app.openFile(event.dataTransfer.files[0]);
  });
}
