// Record: from a MIDI keyboard or the computer's keys, with count-in and metronome, quantised to the grid of the piece.
import { barCount, lastPitched } from "../music/piece.js";
import { Recorder } from "../sound/recorder.js";
import { Trade } from "../sound/trade.js";
import { action, choice, fold, make, onFields } from "./parts.js";

const KEYS = "A W S E D F T G Y H U J K play notes from C up; Z and X shift down and up an octave.";

export function playIn(app) {
  const say = (text) => app.say(text);
  const recorder = (app.recorder = new Recorder(app.player, {
    changed: () => app.player.tell("recording"),
    failed: say,
  }));
  const part = partChoice(recorder);
  const midi = action("MIDI keyboard", async () => {
    midi.ariaPressed = await recorder.useMidi();
    if (recorder.devices.length) say(`Connected: ${recorder.devices.join(", ")}.`);
  });
  const keys = action("Computer keys", () => {
    recorder.useKeys(!recorder.keys);
    say(recorder.keys ? KEYS : "");
  });
  const record = action("● Record", () => (recorder.on ? finish() : begin()));
  const trade = tradeButtons(app, recorder);
  const row = make("div", "mg-row", [part, midi, keys, record, trade.pair]);
  onFields(row, (name, value) => name === "part" && (recorder.track = Number(value)));

  let onto = null; // the id of the piece that is recorded to
  function begin() {
    if (!app.desk.current || app.desk.current.kind === "nothing") app.openGrid();
    const entry = app.desk.current;
    app.player.pause();
    onto = entry.id;
    recorder.start(entry.piece, app.desk.settings.tempo);
    say("One bar of count-in, then play; press Done to finish.");
  }

  function finish() {
    const piece = recorder.stop();
    if (!piece) return say("Nothing was played.");
    if (onto !== app.desk.open.current) app.recall(onto); // another piece was opened meanwhile
    app.edit(piece, "recording", { chosen: barCount(piece) }); // the prompt is the whole piece
  }

  function show() {
    const entry = app.desk.current;
    const records = recorder.on && !app.trade.on;
    record.textContent = records ? "■ Done" : "● Record";
    record.ariaPressed = records;
    record.disabled = app.trade.on;
    trade.show();
    keys.ariaPressed = recorder.keys;
    part.offer(entry?.piece.tracks ?? []);
  }
  return Object.assign(fold("Record", "mg-play-in", [row]), { show });
}

// The choice of the part to record to; it does not change during a recording.
function partChoice(recorder) {
  const part = choice("part", "Part", []);
  let named = "";
  function offer(tracks) {
    const names = tracks.map((track) => track.name).join();
    if (names !== named && !recorder.on) {
      named = names;
      part.fill(tracks.map((track, index) => [index, track.name]));
      recorder.track = lastPitched(tracks);
      part.show(recorder.track);
    }
    part.hidden = tracks.length < 2;
  }
  return Object.assign(part, { offer });
}

// Trading bars with the model: the length of a turn, and the button that starts and stops it.
function tradeButtons(app, recorder) {
  const trade = (app.trade = new Trade(app, recorder));
  const sizes = [2, 4, 8].map((number) => [number, `${number} bars`]),
    bars = choice("trade", "Bars to trade", sizes);
  bars.show(4);
  const turn = () => (trade.on ? trade.stop() : trade.start(Number(bars.input.value))),
    swap = action("Trade bars", turn);
  function show() {
    swap.textContent = trade.on ? "■ Stop trading" : "Trade bars";
    swap.ariaPressed = trade.on;
    swap.disabled = recorder.on && !trade.on;
    bars.input.disabled = trade.on;
  }
  return { pair: make("span", "mg-pair", [bars, swap]), show };
}
