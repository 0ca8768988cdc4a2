// Take a piece along: drag it out of the page, or save it as MIDI, a track of it, a score, or sound. Where it is heard
// otherwise than it is written, in another key or without a track, it can be had as either.
import { toBase64 } from "../desk/file.js";
import { mixOf } from "../desk/mix.js";
import { asHeard, changesOf, isAllSilent, playing } from "../music/heard.js";
import { isMidi, writeMidi } from "../music/midi.js";
import { excerptFrom } from "../music/piece.js";
import { menu } from "./menu.js";
import { action, download, fileName, make } from "./parts.js";

const MIDI = "audio/midi",
  XML = "application/vnd.recordare.musicxml+xml";

// The file that was opened, as it was or with what was written into it; else one of the notes.
export const fileKept = (entry) => entry.kept ?? entry.file;
const midiOf = (entry) =>
  fileKept(entry) && isMidi(fileKept(entry))
    ? fileKept(entry)
    : writeMidi(entry.piece, { made: entry.provenance ?? null });

export const isXml = (bytes) => bytes && new TextDecoder().decode(bytes.subarray(0, 5)) === "<?xml";
const LOST =
  "Written from the notes alone: what else was in the file that you opened is not in it.";

const settingOf = ({ desk }, entry) => ({
  mix: mixOf(desk, entry),
  tempo: desk.settings.tempo,
  transpose: desk.settings.transpose,
});

// What stands for an entry as it is heard: the file says in words what was changed. A file that was opened may hold more
// than the page plays of it.
function heardEntry(app, entry) {
  const setting = settingOf(app, entry),
    changes = changesOf(entry.piece, setting),
    { provenance } = entry;
  if (isAllSilent(entry.piece, setting.mix))
    throw new Error("All tracks are muted, so there is nothing to hear; let one be heard first.");
  if (!changes.length && !entry.file) return entry;
  const { piece, volumes } = asHeard(entry.piece, setting),
    fileName = `${entry.title}.mid`;
  const made =
    provenance && changes.length
      ? { ...provenance, as_heard: changes.join(", ") }
      : (provenance ?? null);
  return { ...entry, piece, file: writeMidi(piece, { made, volumes }), fileName };
}

// `DownloadURL` is what a browser hands to whom a drag ends at: a folder, or a program for music.
export function grip(entryOf, what) {
  const element = make("span", "mg-grip", "⠿", {
    title: `Drag this ${what}, as it is written, into another program`,
    draggable: true,
    ariaHidden: "true",
  });
  element.addEventListener("dragstart", (event) => {
    const entry = entryOf();
    if (!entry?.piece.notes.length) return event.preventDefault();
    const name = `${fileName(entry.title)}.mid`,
      address = `data:${MIDI};base64,${toBase64(midiOf(entry))}`;
    event.dataTransfer.setData("DownloadURL", `${MIDI}:${name}:${address}`);
    event.dataTransfer.setData("text/plain", name);
    event.dataTransfer.effectAllowed = "copy";
  });
  return element;
}

export function alongMenu(app, entryOf, failed) {
  const box = menu("Save"),
    { list } = box;
  const save = (text, ending, act, note) =>
    action(
      text,
      async (event) => {
        const entry = entryOf();
        box.shut();
        failed("");
        event.target.disabled = true;
        try {
          await act(entry, `${fileName(entry.title)}${ending}`);
        } catch (error) {
          failed(error.message);
        }
        event.target.disabled = false;
      },
      "mg-item",
      { title: note },
    );
  const fromServer =
    (what, kind, standIn = (entry) => entry) =>
    async (entry, name) => {
      const made = await app.server.made(standIn(entry), what);
      download(await made.arrayBuffer(), name, kind);
    };
  const written = (text, ending, fileOf, note) =>
    save(text, ending, (entry, name) => download(fileOf(entry), name, MIDI), note);
  const words = (text) => make("p", "mg-menu-words", text);
  function fill() {
    const entry = entryOf(),
      { tracks } = entry.piece,
      used = playing(entry.piece),
      items = [];
    const changes = changesOf(entry.piece, settingOf(app, entry)),
      wav = fromServer("sound", "audio/wav", (one) => heardEntry(app, one));
    if (changes.length) {
      items.push(words(`As heard: ${changes.join(", ")}`));
      items.push(
        written(
          "MIDI as heard",
          ", as heard.mid",
          (one) => heardEntry(app, one).file,
          "with these changes",
        ),
      );
      items.push(
        save("WAV as heard", ", as heard.wav", wav, "the sound, with these changes"),
        words("As written"),
      );
    }
    if (entry.lost) items.push(words(LOST));
    items.push(written(changes.length ? "MIDI as written" : "MIDI", ".mid", midiOf, "all of it"));
    if (entry.region?.first && !entry.region.tracks)
      items.push(
        written(
          "New part as MIDI",
          ", new part.mid",
          (one) => writeMidi(excerptFrom(one.piece, one.region), { made: one.provenance }),
          "what was written, by itself",
        ),
      );
    for (const index of used.length > 1 ? used.sort((a, b) => a - b) : [])
      items.push(
        written(
          `${tracks[index].name} as MIDI`,
          `, ${fileName(tracks[index].name)}.mid`,
          (one) => writeMidi(one.piece, { made: one.provenance, chosen: [index] }),
          "one track",
        ),
      );
    // The file of a take may not name the chords of its new bars.
    const score = fromServer("score", XML, (one) =>
        one.kind === "take" ? { ...one, file: null, piece: { ...one.piece } } : one,
      ),
      given = async (one, name) =>
        isXml(fileKept(one)) ? download(fileKept(one), name, XML) : score(one, name);
    items.push(save("Score (MusicXML)", ".musicxml", given, "for a program that prints music"));
    if (!changes.length) items.push(save("WAV", ".wav", wav, "the sound"));
    list.replaceChildren(...items);
  }
  box.addEventListener("toggle", () => {
    if (!box.open) return;
    fill();
    box.classList.toggle("mg-above", box.getBoundingClientRect().top > list.offsetHeight + 8); // where there is room
  });
  return box;
}
