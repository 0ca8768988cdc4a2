// Record: from a MIDI keyboard or the computer's keys, with count-in and metronome, quantised to the grid of the piece; alone
// or in turn with the model.
import { lastPitched } from "../music/piece.js";
import { Recorder } from "../sound/recorder.js";
import { Trade } from "../sound/trade.js";
import { action, choice, fold, make, onFields } from "./parts.js";

const KEYS = "A W S E D F T G Y H U J K play notes from C up; Z and X shift down and up an octave.";

export function playIn(app) {
  const say = (text) => app.say(text);
  const recorder = (app.recorder = new Recorder(app.player, () => app.player.tell("recording")));
  const trade = (app.trade = new Trade(app, recorder));
  const part = choice("part", "Part", []),
    sizes = [2, 4, 8].map((number) => [number, `${number} bars`]),
    bars = choice("trade", "Bars to trade", sizes);
  const midi = action("MIDI keyboard", async () => {
    try {
      await recorder.useMidi();
      say(`Connected: ${recorder.devices.join(", ")}.`);
    } catch (error) {
      say(error.message);
    }
  });
  const keys = action("Computer keys", () => {
    recorder.useKeys(!recorder.keys);
    say(recorder.keys ? KEYS : "");
  });
  const record = action("", () => (trade.on ? trade.stop() : trade.record())),
    swap = action("", () => (trade.on ? trade.stop() : trade.start(Number(bars.input.value)))),
    pair = make("span", "mg-pair", [bars, swap]),
    row = make("div", "mg-row", [part, midi, keys, record, pair]);
  onFields(row, (name, value) => name === "part" && (recorder.track = Number(value)));
  bars.show(4);

  let named = "";
  function offerParts(tracks) {
    const names = tracks.map((track) => track.name).join();
    part.hidden = tracks.length < 2;
    if (names === named || recorder.on) return; // the part does not change during a recording
    named = names;
    part.fill(tracks.map((track, index) => [index, track.name]));
    recorder.track = lastPitched(tracks);
    part.show(recorder.track);
  }

  function show() {
    const alone = trade.turn === "alone",
      trades = trade.on && !alone;
    record.textContent = alone ? "■ Done" : "● Record";
    swap.textContent = trades ? "■ Stop trading" : "Trade bars";
    record.ariaPressed = swap.disabled = alone;
    swap.ariaPressed = record.disabled = bars.input.disabled = trades;
    keys.ariaPressed = recorder.keys;
    midi.ariaPressed = recorder.devices.length > 0;
    offerParts(app.desk.current?.piece.tracks ?? []);
  }
  return Object.assign(fold("Record", "mg-play-in", [row]), { show });
}
