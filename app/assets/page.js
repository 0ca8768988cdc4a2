// The page's two own parts: the stage (the piece to continue) and the takes (what came of it).
(() => {
  const MOST_BYTES = 1 << 20;
  const { Roll, Player } = window.musicgen;

  function make(tag, className, text, more = {}) {
    const made = Object.assign(document.createElement(tag), { className }, more);
    if (text) made.textContent = text;
    return made;
  }

  const action = (text, act, className = "mg-chip") => make("button", className, text, { type: "button", onclick: act });
  const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

  function zoomButtons(roll) {
    const box = make("span", "mg-zoom");
    for (const [sign, name, factor] of [["−", "Zoom out", 1 / 1.4], ["+", "Zoom in", 1.4], ["↔", "Fit", null]]) {
      const button = action(sign, () => roll.scale(factor), "mg-icon");
      button.setAttribute("aria-label", name);
      button.title = name;
      box.append(button);
    }
    return box;
  }

  function legend(piece) {
    const box = make("span", "mg-legend");
    if (piece.tracks.length > 1)
      piece.tracks.forEach((track, index) => box.append(make("span", `mg-key mg-key-${index % 3}`, track.name)));
    return box;
  }

  async function base64(file) {
    const bytes = new Uint8Array(await file.arrayBuffer());
    let text = "";
    for (let i = 0; i < bytes.length; i += 0x8000) text += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
    return btoa(text);
  }

  function stage(element, trigger, props, watch) {
    element.innerHTML = "";
    const card = make("section", "mg-card mg-stage");
    const head = make("div", "mg-head"), title = make("h2", "", "…"), facts = make("span", "mg-facts");
    const undo = action("↶ Undo", () => trigger("undo"), "mg-chip mg-undo");
    const picker = make("input", "mg-file", "", { type: "file", accept: ".mid,.midi,.kar,audio/midi", id: "mg-file" });
    const open = make("label", "mg-chip mg-open", "Open a MIDI file…", { htmlFor: "mg-file" });
    const alarm = make("p", "mg-alarm", "", { hidden: true });
    alarm.setAttribute("role", "alert");
    const rolls = make("div"), foot = make("div", "mg-foot"), chips = make("div", "mg-chips");
    const remarks = make("details", "mg-remarks"), list = make("ul");
    remarks.append(make("summary"), list);
    const say = (text) => ((alarm.textContent = text), (alarm.hidden = !text));

    head.append(title, facts, make("span", "mg-space"), undo, picker, open);
    card.append(head, alarm, rolls, foot, remarks, chips);
    element.append(card);
    const roll = new Roll(rolls, {
      label: "Piano roll of your piece", height: 260,
      chosen: (bars) => trigger("choose", { bars }),
      seek: (tick, bars) => player.seek(tick, bars), played: () => player.toggle(),
    });
    const player = new Player(foot, say);
    const keys = make("span");
    foot.append(zoomButtons(roll), keys, make("span", "mg-hint", "drag the line to choose the prompt"));

    chips.append(make("span", "mg-chips-name", "or try"));
    for (const [name, text] of props.examples) {
      chips.append(action(text, () => (say(""), trigger("example", { name }))));
      chips.lastChild.dataset.example = name;
    }

    async function take(file) {
      if (!file) return;
      say("");
      if (file.size > MOST_BYTES) return say(`${file.name} is larger than the 1 MB that can be read.`);
      title.textContent = `Reading ${file.name}…`;
      trigger("file", { name: file.name, data: await base64(file) });
    }
    picker.addEventListener("change", () => (take(picker.files[0]), (picker.value = "")));
    for (const name of ["dragenter", "dragover"])
      card.addEventListener(name, (event) => (event.preventDefault(), card.classList.add("mg-over")));
    for (const name of ["dragleave", "drop"]) card.addEventListener(name, () => card.classList.remove("mg-over"));
    card.addEventListener("drop", (event) => (event.preventDefault(), take(event.dataTransfer.files[0])));

    let shown = null;
    function show() {
      const piece = props.value;
      if (!piece) return;
      if (piece.error) {
        title.textContent = shown?.title ?? "No piece yet";
        return say(piece.error);
      }
      say("");
      shown = piece;
      title.textContent = piece.title;
      facts.textContent = piece.length ? `${count(piece.length, "bar")} · ${count(piece.count, "note")}` : "the model begins by itself";
      undo.hidden = !piece.undo;
      keys.replaceChildren(legend(piece));
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

  // A row a metric, a bar a quarter.
  function likeness(rows) {
    const box = make("div", "mg-likeness");
    if (!rows?.length) return box;
    box.append(make("span", "mg-likeness-name", "Style like the prompt’s, quarter by quarter"));
    for (const { metric, quarters } of rows) {
      const row = make("div", "mg-meters");
      row.append(make("span", "mg-metric", metric));
      quarters.forEach((value, index) => {
        const bar = make("span", "mg-meter");
        bar.append(make("i"), make("b", "", value === null ? "–" : value.toFixed(2)));
        bar.firstChild.style.width = `${100 * (value ?? 0)}%`;
        bar.title = `${metric}, quarter ${index + 1}: ${value === null ? "nothing to compare" : value.toFixed(3)}`;
        row.append(bar);
      });
      box.append(row);
    }
    return box;
  }

  function takeCard(number, trigger) {
    const card = make("article", "mg-card mg-take");
    const head = make("div", "mg-head"), title = make("h3", "", `Variation ${number + 1}`), facts = make("span", "mg-facts");
    const alarm = make("p", "mg-alarm", "", { hidden: true }), rolls = make("div"), foot = make("div", "mg-foot");
    alarm.setAttribute("role", "alert");
    head.append(title, facts);
    card.append(head, alarm, rolls, foot);
    const roll = new Roll(rolls, {
      label: `Piano roll of variation ${number + 1}`, height: 210,
      seek: (tick, bars) => player.seek(tick, bars), played: () => player.toggle(),
    });
    const player = new Player(foot, (text) => ((alarm.textContent = text), (alarm.hidden = false)));
    const actions = make("span", "mg-actions"), like = make("div");
    foot.append(zoomButtons(roll), make("span", "mg-space"), actions);
    card.append(like);

    let ready = false;
    return {
      card,
      show(take) {
        const over = take.seed !== undefined, kept = over ? ` · seed ${take.seed}` : "";
        facts.textContent =
          over && !take.new ? "No new notes came; press Continue for another." : count(take.new, "new note") + kept;
        roll.show(take);
        roll.reveal(take.endTicks);
        player.load(take, roll);
        if (!take.midi || ready) return;
        ready = true;
        const link = (text, address, note) => make("a", "mg-chip", text, { href: address, download: "", title: note });
        const further = action("Continue from here", () => trigger("further", { number: take.number }), "mg-chip mg-further");
        further.disabled = !take.new;
        actions.append(further, link("MIDI", take.midi, "prompt and continuation"));
        if (take.part && take.continues) actions.append(link("New part", take.part, "the continuation by itself, as MIDI"));
        actions.append(link("WAV", take.wav, "the sound"));
        like.replaceWith(likeness(take.similarity));
      },
    };
  }

  const ENDINGS = {
    done: (run) => `${count(run.takes.length, "variation")} in ${run.seconds} s`,
    stopped: (run) => `Stopped after ${run.seconds} s; what there is stays.`,
    late: (run) => `Ended after ${run.seconds} s, the longest that a request may take; what there is stays.`,
  };

  function takes(element, trigger, props, watch) {
    element.innerHTML = "";
    const status = make("div", "mg-status"), words = make("span"), bar = make("div", "mg-progress");
    const alarm = make("p", "mg-alarm", "", { hidden: true }), grid = make("div", "mg-takes");
    status.setAttribute("role", "status");
    alarm.setAttribute("role", "alert");
    bar.setAttribute("role", "progressbar");
    bar.setAttribute("aria-label", "Progress");
    bar.append(make("i"));
    status.append(words, bar);
    element.append(alarm, status, grid);
    status.hidden = true;
    let run = null, cards = [], asked = false; // asked: the server has not answered yet

    function progress(part, text) {
      status.hidden = false;
      status.classList.toggle("mg-busy", part < 1);
      bar.firstChild.style.width = `${100 * part}%`;
      bar.setAttribute("aria-valuenow", Math.round(100 * part));
      words.textContent = text;
    }

    function show() {
      const value = props.value;
      if (!value?.state) {
        if (value === null || value?.cleared) (cards = []), grid.replaceChildren(), (status.hidden = alarm.hidden = true);
        return;
      }
      asked = false;
      alarm.hidden = value.state !== "failed";
      if (value.state === "failed") {
        alarm.textContent = value.error;
        status.hidden = true;
        return;
      }
      if (run !== value.run) {
        run = value.run;
        cards = value.takes.map((take) => takeCard(take.number, trigger));
        grid.replaceChildren(...cards.map((one) => one.card));
        grid.dataset.count = cards.length;
      }
      value.takes.forEach((take, index) => cards[index].show(take));
      if (value.state === "running") progress(value.progress, value.progress ? "Playing on…" : "Listening to the prompt…");
      else progress(1, ENDINGS[value.state](value));
    }
    watch("value", show);
    window.musicgen.waiting = () => {
      alarm.hidden = true;
      asked = true;
      progress(0, "In line…");
    };
    // A request that is refused at the door brings no event: so watch the door.
    const ask = window.fetch;
    window.fetch = async (...words) => {
      const answer = await ask(...words).catch((error) => error);
      if (asked && `${words[0]?.url ?? words[0]}`.includes("/queue/join") && !answer.ok) {
        status.hidden = !(alarm.hidden = asked = false);
        alarm.textContent = "The server did not take the request: too many wait already, or it is gone. Try again soon.";
      }
      if (answer instanceof Error) throw answer;
      return answer;
    };
    show();
  }

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

  Object.assign(window.musicgen, { stage, takes, theme });
})();
