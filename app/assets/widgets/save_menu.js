// Saving a piece: as MIDI (whole, one track, the new bars), as a score or as audio. If
// playback differs from what is written, as by a transposition or a muted track, both versions are offered.
import { asHeard, changesOf, isAllSilent, tracksWithNotes } from "../music/heard.js";
import { isMidi, writeMidi } from "../music/midi.js";
import { excerptFrom } from "../music/piece.js";
import { action, download, fileName, make, menu } from "./parts.js";

const MIDI = "audio/midi",
  WAV = "audio/wav",
  XML = "application/vnd.recordare.musicxml+xml";

// The file that was opened, with the new notes if they could be written into it.
export const fileKept = (entry) => entry.kept ?? entry.file;
const midiOf = (entry) =>
  fileKept(entry) && isMidi(fileKept(entry))
    ? fileKept(entry)
    : writeMidi(entry.piece, { made: entry.provenance ?? null });

export const isXml = (bytes) => bytes && new TextDecoder().decode(bytes.subarray(0, 5)) === "<?xml";
const LOST = "Written from the notes only, without the other contents of the file you opened.";

const settingOf = ({ desk }, entry) => ({
  mix: desk.mixOf(entry),
  tempo: desk.settings.tempo,
  transpose: desk.settings.transpose,
});

// An entry as it is heard; its file records the changes in words. It is also made for an unchanged entry with a file,
// which may hold more than the page plays.
function heardEntry(app, entry) {
  const setting = settingOf(app, entry),
    changes = changesOf(entry.piece, setting),
    { provenance } = entry;
  if (isAllSilent(entry.piece, setting.mix))
    throw new Error("All tracks are muted; unmute one first.");
  if (!changes.length && !entry.file) return entry;
  const { piece, volumes } = asHeard(entry.piece, setting),
    fileName = `${entry.title}.mid`;
  const heard = changes.length > 0 && { as_heard: changes.join(", ") },
    made = provenance ? { ...provenance, ...heard } : null;
  return { ...entry, piece, file: writeMidi(piece, { made, volumes }), fileName };
}

// The items of the menu: headings as text, and buttons as [label, end of the file name, MIME type, function that makes the
// content, tooltip].
function savesOf(app, entry) {
  const { region, piece } = entry,
    used = tracksWithNotes(piece).sort((a, b) => a - b),
    changes = changesOf(piece, settingOf(app, entry));
  const heard = (one) => heardEntry(app, one).file,
    sound = (one) => app.server.made(heardEntry(app, one), "sound"),
    part = (one) => writeMidi(excerptFrom(one.piece, one.region), { made: one.provenance }),
    track = (index) => (one) => writeMidi(one.piece, { made: one.provenance, chosen: [index] });
  // The file has what the page does not show, such as words.
  const noted = (one) =>
      fileKept(one) && isMidi(fileKept(one))
        ? { ...one, file: fileKept(one), fileName: `${one.title}.mid` }
        : one,
    score = (one) => (isXml(fileKept(one)) ? fileKept(one) : app.server.made(noted(one), "score")),
    exact = (one) => app.server.made(noted(one), "score", { exact: true });
  const tracks = used.map((index) => {
    const { name } = piece.tracks[index];
    return [`${name} as MIDI`, `, ${fileName(name)}.mid`, MIDI, track(index), "one track"];
  });
  const newPart = ["New bars as MIDI", ", new bars.mid", MIDI, part, "only the new bars"],
    isOther = changes.length > 0;
  return [
    isOther && `As heard: ${changes.join(", ")}`,
    isOther && ["MIDI as heard", ", as heard.mid", MIDI, heard, "with these changes"],
    isOther && ["WAV as heard", ", as heard.wav", WAV, sound, "audio with these changes"],
    isOther && "As written",
    entry.lost && LOST,
    [isOther ? "MIDI as written" : "MIDI", ".mid", MIDI, midiOf, "the whole piece"],
    region?.first && !region.tracks && newPart,
    ...(used.length > 1 ? tracks : []),
    ["Score (MusicXML)", ".musicxml", XML, score, "for notation programs"],
    !isXml(fileKept(entry)) && [
      "Score with exact lengths",
      ", exact.musicxml",
      XML,
      exact,
      "not simplified",
    ],
    !isOther && ["WAV", ".wav", WAV, sound, "audio"],
  ].filter(Boolean);
}

export function saveMenu(app, entryOf) {
  const box = menu("Save");
  async function save(button, ending, kind, make) {
    const entry = entryOf();
    app.say("");
    button.disabled = true;
    try {
      download(await make(entry), `${fileName(entry.title)}${ending}`, kind);
    } catch (error) {
      app.fail(error.message);
    }
    button.disabled = false;
  }
  const line = (one) => {
    if (typeof one === "string") return make("p", "mg-menu-words", one);
    const [text, ending, kind, made, title] = one;
    const press = ({ target }) => save(target, ending, kind, made);
    return action(text, press, "mg-item", { title });
  };
  box.list.addEventListener("beforetoggle", ({ newState }) => {
    if (newState === "open") box.list.replaceChildren(...savesOf(app, entryOf()).map(line));
  });
  return box;
}
