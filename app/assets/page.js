// The page around our own parts: light and dark, and what gradio's controls leave unsaid.
(() => {
  const { action } = window.musicgen.parts;

  function theme(element) {
    const button = action("", () => {
      const dark = document.body.classList.toggle("dark");
      localStorage.setItem("musicgen-theme", dark ? "dark" : "light");
      name();
    }, "mg-icon mg-theme");
    const name = () => {
      const dark = document.body.classList.contains("dark");
      button.textContent = dark ? "☀" : "☾";
      button.setAttribute("aria-label", dark ? "Light colours" : "Dark colours");
    };
    const kept = localStorage.getItem("musicgen-theme");
    if (kept) document.body.classList.toggle("dark", kept === "dark");
    name();
    new MutationObserver(name).observe(document.body, { attributeFilter: ["class"] });
    element.querySelector(".mg-bar").append(button);
  }

  // The fold with the finer controls: say to who cannot see it whether it is open.
  function fold(element) {
    const button = element.querySelector("button");
    const say = () => button.setAttribute("aria-expanded", String(button.classList.contains("open")));
    say();
    new MutationObserver(say).observe(button, { attributeFilter: ["class"] });
  }

  // gradio puts its parts on the page when it likes.
  function whenThere(selector, act) {
    const found = document.querySelector(selector);
    if (found) act(found);
    else requestAnimationFrame(() => whenThere(selector, act));
  }

  function page(element) {
    theme(element);
    whenThere("#mg-more", fold);
  }

  Object.assign(window.musicgen, { page });
})();
