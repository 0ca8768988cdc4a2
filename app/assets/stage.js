// The stage: the piece to continue, and how it gets there.
(() => {
  const MOST_BYTES = 1 << 20;
  const { Roll, Player, parts } = window.musicgen, { make, action, count, zoomButtons } = parts;

  async function base64(file) {
    const bytes = new Uint8Array(await file.arrayBuffer());
    let text = "";
    for (let i = 0; i < bytes.length; i += 0x8000) text += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
    return btoa(text);
  }

  function stage(element, trigger, props, watch) {
    element.innerHTML = "";
    const card = make("section", "mg-card mg-stage", "", { ariaLabel: "Your piece" });
    const head = make("div", "mg-head"), title = make("h2", "", "…"), facts = make("span", "mg-facts");
    const undo = action("↶ Undo", () => trigger("undo"), "mg-chip mg-undo");
    const picker = make("input", "mg-file", "", { type: "file", accept: ".mid,.midi,.kar,audio/midi,.mxl,.musicxml,.xml,.abc", id: "mg-file" });
    const open = make("label", "mg-chip mg-open", "", { htmlFor: "mg-file" });
    const more = (text) => make("span", "mg-more-words", text);
    open.append("Open", more(" a"), " MIDI", more(" file"), "…");
    const alarm = make("p", "mg-alarm", "", { hidden: true });
    alarm.setAttribute("role", "alert");
    const rolls = make("div"), foot = make("div", "mg-foot"), chips = make("div", "mg-chips");
    const remarks = make("details", "mg-remarks"), list = make("ul");
    remarks.append(make("summary"), list);
    const say = (text) => ((alarm.textContent = text), (alarm.hidden = !text));
    // However long the name of a file is, which variation this is can be read.
    const name = (text) => {
      const [, song, comma = "", variation = ""] = text.match(/^(.*?)(?:(, )(variation [\d.]+))?$/s);
      title.replaceChildren(make("span", "mg-song", song), make("span", "mg-comma", comma), make("span", "", variation));
      title.title = text;
    };

    const hands = make("span", "mg-hands");
    hands.append(undo, picker, open);
    head.append(title, facts, hands);
    card.append(head, alarm, rolls, foot, remarks, chips);
    element.append(card);
    const roll = new Roll(rolls, {
      label: "Piano roll of your piece", height: "clamp(250px, 33vh, 380px)",
      chosen: (bars) => ((window.musicgen.chosen = bars), trigger("choose")),
      seek: (tick, bars) => player.seek(tick, bars), played: () => player.toggle(),
    });
    const player = new Player(foot, say);
    foot.append(zoomButtons(roll), make("span", "mg-hint", "drag the line to choose the prompt"));

    chips.append(make("span", "mg-chips-name", "or try"));
    for (const [example, text] of props.examples) {
      chips.append(action(text, () => (say(""), trigger("example", { name: example }))));
      chips.lastChild.dataset.example = example;
    }

    async function take(file) {
      if (!file) return;
      say("");
      if (file.size > MOST_BYTES) return say(`${file.name} is larger than the 1 MB that can be read.`);
      name(`Reading ${file.name}…`);
      trigger("file", { name: file.name, data: await base64(file) });
    }
    picker.addEventListener("change", () => (take(picker.files[0]), (picker.value = "")));
    for (const event of ["dragenter", "dragover"])
      card.addEventListener(event, (dragged) => (dragged.preventDefault(), card.classList.add("mg-over")));
    for (const event of ["dragleave", "drop"]) card.addEventListener(event, () => card.classList.remove("mg-over"));
    card.addEventListener("drop", (event) => (event.preventDefault(), take(event.dataTransfer.files[0])));

    let shown = null;
    function show() {
      const piece = props.value;
      if (!piece) return;
      if (piece.error) {
        name(shown?.title ?? "No piece yet");
        return say(piece.error);
      }
      say("");
      shown = piece;
      name(piece.title);
      facts.textContent = piece.length ? `${count(piece.length, "bar")} · ${count(piece.count, "note")}` : "the model begins by itself";
      undo.hidden = !piece.undo;
      remarks.hidden = !piece.remarks.length;
      remarks.firstChild.textContent = `How it is heard: ${count(piece.remarks.length, "remark")}`;
      list.replaceChildren(...piece.remarks.map((text) => make("li", "", text)));
      card.classList.toggle("mg-empty", !piece.length);
      for (const chip of chips.querySelectorAll("[data-example]"))
        chip.setAttribute("aria-pressed", String(chip.textContent === piece.title));
      roll.show(piece);
      roll.choose(piece.chosen);
      player.load(piece, roll);
    }
    watch("value", show);
    window.musicgen.choose = (bars) => shown?.length && roll.choose(Math.min(bars, shown.length));
    show();
  }

  Object.assign(window.musicgen, { stage });
})();
