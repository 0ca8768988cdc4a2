// Saving a piece: as MIDI (whole, one track, the new bars), as a score or as audio. If
// playback differs from what is written, as by a transposition or a muted track, both versions are offered.
import { isMidi } from "../desk/file.js";
import { changesHeard, changesOf, isAllSilent, tracksWithNotes } from "../music/heard.js";
import { barCount, cutOf } from "../music/piece.js";
import { action, download, fileName, make, menu } from "./parts.js";

const MIDI = "audio/midi",
  WAV = "audio/wav",
  XML = "application/vnd.recordare.musicxml+xml";

// An entry with the file that was opened, with the new notes if they could be written into it.
export function asKept(entry) {
  const { kept, keptReading: reading, title } = entry,
    fileName = `${title}.${isMidi(kept) ? "mid" : "musicxml"}`;
  return kept ? { ...entry, file: kept, fileName, reading } : entry;
}

// Whether the file of an entry is notation.
export const isNotated = ({ file, fileName }) =>
  Boolean(file) && /\.(mxl|musicxml|xml)$/i.test(fileName ?? "");
const LOST = "Written from the notes only, without the other contents of the file you opened.";

const settingOf = ({ desk }, entry) => ({ ...desk.settings, mix: desk.mixOf(entry) });

// What playback changes, as changes of the file; its words are kept in the file.
function asHeard(app, entry) {
  const setting = settingOf(app, entry),
    words = changesOf(entry.piece, setting).join(", "),
    { provenance } = entry;
  if (isAllSilent(entry.piece, setting.mix))
    throw new Error("All tracks are muted; unmute one first.");
  const heard = provenance && words ? { ...provenance, as_heard: words } : provenance;
  return [{ ...entry, provenance: heard }, changesHeard(entry.piece, setting)];
}

// What sounds, of the notes of a file alone, which may hold more than the page plays.
function soundOf(app, entry) {
  const [heard, changes] = asHeard(app, entry);
  return [{ ...heard, ...(heard.file && { file: null, fileName: null }) }, "sound", changes];
}

// The changes that leave the new bars.
function outside({ piece, region: { first, stop } }) {
  const bars = barCount(piece);
  return [
    ...(stop < bars ? [cutOf(piece, stop, bars)] : []),
    ...(first ? [cutOf(piece, 0, first)] : []),
  ];
}

// The items of the menu: headings as text, and buttons as [label, end of the file name, MIME type, function that makes the
// content, tooltip].
function savesOf(app, entry) {
  const { region, piece } = entry,
    used = tracksWithNotes(piece),
    changes = changesOf(piece, settingOf(app, entry));
  const { requests } = app,
    midi = (one) => requests.midi(asKept(one)),
    heard = (one) => requests.midi(...asHeard(app, asKept(one))),
    sound = (one) => requests.made(...soundOf(app, one)),
    part = (one) => requests.midi(asKept(one), outside(one)),
    others = (index) => [...piece.tracks.keys()].filter((other) => other !== index),
    track = (index) => (one) =>
      requests.midi(asKept(one), [{ change: "drop", tracks: others(index) }]);
  const score = (one) => requests.made(asKept(one), "score"),
    exact = (one) => requests.made(asKept(one), "score", [], { exact: true });
  const tracks = used.map((index) => {
    const { name } = piece.tracks[index];
    return [`${name} as MIDI`, `, ${fileName(name)}.mid`, MIDI, track(index), "one track"];
  });
  const exactly = ["Score with exact lengths", ", exact.musicxml", XML, exact, "not simplified"];
  const newPart = ["New bars as MIDI", ", new bars.mid", MIDI, part, "only the new bars"],
    isOther = changes.length > 0;
  return [
    isOther && `As heard: ${changes.join(", ")}`,
    isOther && ["MIDI as heard", ", as heard.mid", MIDI, heard, "with these changes"],
    isOther && ["WAV as heard", ", as heard.wav", WAV, sound, "audio with these changes"],
    isOther && "As written",
    entry.lost && LOST,
    [isOther ? "MIDI as written" : "MIDI", ".mid", MIDI, midi, "the whole piece"],
    region?.first && !region.tracks && newPart,
    ...(used.length > 1 ? tracks : []),
    ["Score (MusicXML)", ".musicxml", XML, score, "for notation programs"],
    !isNotated(asKept(entry)) && exactly,
    !isOther && ["WAV", ".wav", WAV, sound, "audio"],
  ].filter(Boolean);
}

// Let the MIDI file be dragged from the button to the desktop or another program (DownloadURL, in Chrome and Edge).
function dragOut(button, app, entryOf) {
  let made = null, // the entry whose file is at the address
    url = "";
  const ready = async () => {
    const entry = entryOf();
    if (entry === made || entry.state === "running") return;
    URL.revokeObjectURL(url);
    [made, url] = [entry, ""];
    const bytes = await app.requests.midi(asKept(entry)).catch(() => null); // saving says why
    if (made !== entry) return;
    if (bytes) url = URL.createObjectURL(new Blob([bytes], { type: MIDI }));
    else made = null;
  };
  button.draggable = true;
  button.title = "Press to save, or drag to the desktop or a DAW as MIDI";
  for (const type of ["pointerenter", "pointerdown"]) button.addEventListener(type, ready);
  button.addEventListener("dragstart", (event) => {
    if (!url || made !== entryOf()) return event.preventDefault();
    const name = `${fileName(made.title)}.mid`;
    return event.dataTransfer.setData("DownloadURL", `${MIDI}:${name}:${url}`);
  });
}

export function saveMenu(app, entryOf) {
  const box = menu("Save");
  dragOut(box.firstChild, app, entryOf);
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
    const lack = kind === WAV && app.facts.lacks?.sound;
    return action(text, press, "mg-item", lack ? { title: lack, disabled: true } : { title });
  };
  box.list.addEventListener("beforetoggle", ({ newState }) => {
    if (newState === "open") box.list.replaceChildren(...savesOf(app, entryOf()).map(line));
  });
  return box;
}
