// The takes: what came of the piece, while it comes and after.
(() => {
  const { Roll, Player, parts } = window.musicgen, { make, action, count, zoomButtons } = parts;

  // What is compared, in a musician's words.
  const METRICS = {
    "onset–duration": ["Rhythm", "where in the bar notes begin, and how long they are (onset–duration)"],
    "time–pitch": ["Melody", "the steps and pauses from note to note (time–pitch)"],
    "onset–drum": ["Drums", "where in the bar which drum is struck (onset–drum)"],
  };

  // A row a metric, a bar a quarter.
  function likeness(rows) {
    const box = make("div", "mg-likeness");
    if (!rows?.length) return box;
    box.append(make("span", "mg-likeness-name", "Style like the prompt’s by quarter, 0 to 1"));
    for (const { metric, quarters } of rows) {
      const row = make("div", "mg-meters"), [name, meaning] = METRICS[metric] ?? [metric, metric];
      row.append(make("span", "mg-metric", name, { title: meaning }));
      quarters.forEach((value, index) => {
        const bar = make("span", "mg-meter");
        bar.append(make("i"), make("b", "", value === null ? "–" : value.toFixed(2)));
        bar.firstChild.style.width = `${100 * (value ?? 0)}%`;
        bar.title = `${name}, quarter ${index + 1}: ${value === null ? "nothing to compare" : value.toFixed(3)}`;
        row.append(bar);
      });
      box.append(row);
    }
    return box;
  }

  function takeCard(number, trigger) {
    const card = make("article", "mg-card mg-take", "", { ariaLabel: `Variation ${number + 1}` });
    const head = make("div", "mg-head"), title = make("h3", "", `Variation ${number + 1}`), facts = make("span", "mg-facts");
    const alarm = make("p", "mg-alarm", "", { hidden: true }), rolls = make("div"), foot = make("div", "mg-foot");
    alarm.setAttribute("role", "alert");
    head.append(title, facts);
    card.append(head, alarm, rolls, foot);
    const roll = new Roll(rolls, {
      label: `Piano roll of variation ${number + 1}`, height: "210px",
      seek: (tick, bars) => player.seek(tick, bars), played: () => player.toggle(),
    });
    const player = new Player(foot, (text) => ((alarm.textContent = text), (alarm.hidden = false)));
    const actions = make("span", "mg-actions"), like = make("div");
    const jump = action("⇥", () => player.seek(start), "mg-icon mg-jump");
    jump.ariaLabel = jump.title = "To the new part";
    jump.hidden = true;
    foot.append(zoomButtons(roll, jump), make("span", "mg-space"), actions);
    card.append(like);

    let ready = false, start = 0;
    return {
      card,
      show(take) {
        const over = take.seed !== undefined, kept = over ? ` · seed ${take.seed}` : "";
        facts.textContent =
          over && !take.new ? "No new notes came; press Continue for another." : count(take.new, "new note") + kept;
        roll.show(take);
        if (!over) roll.reveal(take.endTicks);
        player.load(take, roll);
        if (!over || ready) return;
        ready = true;
        start = take.promptBars * take.barTicks;
        roll.settle(start);
        if (!take.midi) return;
        jump.hidden = !take.new || !take.continues;
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
    words.setAttribute("role", "status");
    alarm.setAttribute("role", "alert");
    bar.setAttribute("role", "progressbar");
    bar.setAttribute("aria-label", "Progress");
    bar.append(make("i"));
    status.append(words, bar);
    element.append(alarm, status, grid);
    const rest = make("p", "mg-rest", "Press Continue, and the music goes on here, note by note.");
    let run = null, cards = [], asked = false; // asked: the server has not answered yet

    // Nothing to show, but what will be here.
    function clear() {
      [run, cards] = [null, []];
      grid.replaceChildren(rest);
      delete grid.dataset.count;
      say("");
      fail("");
    }

    function say(text, part = 1) {
      status.classList.toggle("mg-busy", part < 1);
      status.classList.toggle("mg-silent", !text);
      bar.firstChild.style.width = `${100 * part}%`;
      bar.setAttribute("aria-valuenow", Math.round(100 * part));
      if (words.textContent !== text) words.textContent = text;
    }

    const fail = (text) => ((alarm.textContent = text), (alarm.hidden = !text));

    function show() {
      const value = props.value;
      if (!value?.state) return value === null || value?.cleared ? clear() : undefined;
      asked = false;
      fail(value.state === "failed" ? value.error : "");
      if (value.state === "failed") return say("");
      if (run !== value.run) {
        run = value.run;
        cards = value.takes.map((take) => takeCard(take.number, trigger));
        grid.replaceChildren(...cards.map((one) => one.card));
        grid.dataset.count = cards.length;
      }
      value.takes.forEach((take, index) => cards[index].show(take));
      if (value.state === "running") say(value.progress ? "Playing on…" : "Listening to the prompt…", value.progress);
      else say(ENDINGS[value.state](value));
    }
    watch("value", show);
    window.musicgen.waiting = () => {
      fail("");
      asked = true;
      say("In line…", 0);
      // On a small screen what comes would be out of sight; Stop stays in it.
      if (grid.getBoundingClientRect().top < window.innerHeight - 280) return;
      const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
      document.querySelector("#mg-go, #mg-halt")?.scrollIntoView({ block: "start", behavior: calm ? "auto" : "smooth" });
    };
    // A request that is refused at the door brings no event: so watch the door.
    const ask = window.fetch;
    window.fetch = async (...words) => {
      const answer = await ask(...words).catch((error) => error);
      if (asked && `${words[0]?.url ?? words[0]}`.includes("/queue/join") && !answer.ok) {
        asked = false;
        say("");
        fail("The server did not take the request: too many wait already, or it is gone. Try again soon.");
      }
      if (answer instanceof Error) throw answer;
      return answer;
    };
    clear();
    show();
  }

  Object.assign(window.musicgen, { takes });
})();
