// Renders a MIDI file to a WAV file by the synthesizer, faster than it plays.
import { GAIN, LIMIT, soundfontOf } from "./synth.js";

const RATE = 48000,
  TAIL = 3; // seconds for the last notes to fade

export async function wavOf(address, midi) {
  const [{ WorkletSynthesizer, BasicMIDI, audioBufferToWav }, soundBankBuffer] = await Promise.all([
    import("../vendor/spessasynth/synthesizer.js"),
    soundfontOf(address),
  ]);
  const soundBankList = [{ bankOffset: 0, soundBankBuffer }],
    midiSequence = BasicMIDI.fromArrayBuffer(midi),
    length = Math.ceil(RATE * (midiSequence.duration + TAIL));
  const context = new OfflineAudioContext({ numberOfChannels: 2, sampleRate: RATE, length });
  await context.audioWorklet.addModule(`${address}/vendor/spessasynth/processor.js`);
  const synth = new WorkletSynthesizer(context, { eventsEnabled: false }),
    gain = new GainNode(context, { gain: GAIN });
  synth.connect(gain);
  gain.connect(new DynamicsCompressorNode(context, LIMIT)).connect(context.destination);
  await synth.startOfflineRender({ midiSequence, soundBankList, loopCount: 0 });
  return audioBufferToWav(await context.startRendering());
}
