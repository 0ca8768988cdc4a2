// The menu of MIDI ports: where pieces play, and the clock that is sent or followed.
import { Ports } from "../sound/ports.js";
import { action, check, choice, field, menu, onFields } from "../widgets/parts.js";

const BROWSER = ["", "This browser"];
const CLOCKS = {
  none: "None",
  send: "Send clock and position",
  follow: "Follow clock and position",
};
const NOT_ALLOWED = "The browser does not support MIDI, or it is not allowed for this page.";

export function midiMenu(app) {
  const ports = (app.ports = new Ports(app.player)),
    out = choice("midiOut", "Play on", [BROWSER]),
    clock = choice("midiClock", "MIDI clock", Object.entries(CLOCKS)),
    latency = field("midiLatency", "Latency (ms)", "input", { type: "number", value: 0 }),
    lead = check("midiCountIn", "Count in one bar"),
    within = [action("Find MIDI ports", find), out, clock, latency, lead],
    box = menu("MIDI", within, "mg-playback mg-midi");
  async function find() {
    await ports.open().catch(() => app.fail(NOT_ALLOWED));
    if (!ports.access) return;
    const found = [...ports.access.outputs.values()].map(({ id, name }) => [id, name]);
    out.fill([BROWSER, ...found]);
    app.say(found.length ? "Choose where to play." : "No MIDI port was found; open one first.");
  }
  onFields(box, (name, value) => {
    if (name === "midiOut") ports.play(value);
    if (name === "midiClock") ports.clock = value;
    if (name === "midiLatency") ports.latency = Number(value) || 0;
    if (name === "midiCountIn") ports.countIn = value;
  });
  return box;
}
