// The menu of MIDI ports: where pieces play, and the clock that is sent or followed.
import { Ports } from "../sound/ports.js";
import { action, check, choice, field, menu, onFields } from "../widgets/parts.js";

const BROWSER = ["", "This browser"];
const CLOCKS = [
  ["none", "None"],
  ["send", "Send clock and position"],
  ["follow", "Follow clock and position"],
];

export function midiMenu(app) {
  const ports = new Ports(app.player),
    out = choice("midiOut", "Play on", [BROWSER]),
    clock = choice("midiClock", "MIDI clock", CLOCKS),
    latency = field("midiLatency", "Latency (ms)", "input", { type: "number", value: 0 }),
    lead = check("midiCountIn", "Count in one bar"),
    allow = action("Find MIDI ports", find),
    box = menu("MIDI", [allow, out, clock, latency, lead], "mg-playback");
  async function find() {
    try {
      await ports.open();
      const found = [...ports.access.outputs.values()].map(({ id, name }) => [id, name]);
      out.fill([BROWSER, ...found]);
      app.say(found.length ? "Choose where to play." : "No MIDI port was found; open one first.");
    } catch {
      app.fail("The browser does not support MIDI, or it is not allowed for this page.");
    }
  }
  onFields(box, (name, value) => {
    if (name === "midiOut") return ports.play(value);
    if (name === "midiClock") return void (ports.clock = value);
    if (name === "midiCountIn") return void (ports.countIn = value);
    ports.latency = Number(value) || 0;
  });
  box.hidden = !navigator.requestMIDIAccess;
  return box;
}
