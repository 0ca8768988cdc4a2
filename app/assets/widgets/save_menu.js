// Take a piece along: drag it out of the page, or save it as MIDI, a track of it, a score, or sound.
import { excerptFrom } from "../music/excerpt.js";
import { writeMidi } from "../music/midi.js";
import { toBase64 } from "../desk/file.js";
import { action, download, fileName, make, passFocus } from "./parts.js";

const MIDI = "audio/midi";

export const midiOf = (entry) => (entry.file && entry.kind === "take" ? entry.file : writeMidi(entry.piece, { made: entry.provenance ?? null }));

// `DownloadURL` is what a browser hands to whom a drag ends at: a folder, or a program for music.
export function grip(entryOf, what) {
  const element = make("span", "mg-grip", "⠿", { title: `Drag this ${what} into another program`, draggable: true, ariaHidden: "true" });
  element.addEventListener("dragstart", (event) => {
    const entry = entryOf();
    if (!entry?.piece.notes.length) return event.preventDefault();
    const name = `${fileName(entry.title)}.mid`, address = `data:${MIDI};base64,${toBase64(midiOf(entry))}`;
    event.dataTransfer.setData("DownloadURL", `${MIDI}:${name}:${address}`);
    event.dataTransfer.setData("text/plain", name);
    event.dataTransfer.effectAllowed = "copy";
  });
  return element;
}

export function alongMenu(app, entryOf, failed) {
  const box = make("details", "mg-menu"), list = make("div", "mg-menu-list");
  box.append(make("summary", "mg-chip", "Save"), list);
  const save = (text, ending, act, note) => action(text, async (event) => {
    const entry = entryOf();
    passFocus(list, box.firstChild);
    box.open = false;
    failed("");
    event.target.disabled = true;
    try {
      await act(entry, `${fileName(entry.title)}${ending}`);
    } catch (error) {
      failed(error.message);
    }
    event.target.disabled = false;
  }, "mg-item", { title: note });
  const fromServer = (what, kind) => async (entry, name) => {
    const answer = await fetch(await app.server.made(entry, what));
    if (!answer.ok) throw new Error("The server could not give the file; try again.");
    download(await answer.arrayBuffer(), name, kind);
  };
  function fill() {
    const entry = entryOf(), { tracks } = entry.piece, used = new Set();
    for (let i = 4; i < entry.piece.notes.length; i += 5) used.add(entry.piece.notes[i]);
    const items = [save("MIDI", ".mid", (one, name) => download(midiOf(one), name, MIDI), "all of it")];
    if (entry.region?.first && !entry.region.tracks)
      items.push(save("New part as MIDI", ", new part.mid", (one, name) => download(writeMidi(excerptFrom(one.piece, one.region), { made: one.provenance }), name, MIDI), "what was written, by itself"));
    if (used.size > 1)
      tracks.forEach((track, index) => used.has(index) && items.push(save(`${track.name} as MIDI`, `, ${fileName(track.name)}.mid`, (one, name) => download(writeMidi(one.piece, { made: one.provenance, chosen: [index] }), name, MIDI), "one track")));
    items.push(save("Score (MusicXML)", ".musicxml", fromServer("score", "application/vnd.recordare.musicxml+xml"), "for a program that prints music"));
    items.push(save("WAV", ".wav", fromServer("sound", "audio/wav"), "the sound"));
    list.replaceChildren(...items);
  }
  box.addEventListener("toggle", () => {
    if (!box.open) return;
    fill();
    box.classList.toggle("mg-above", box.getBoundingClientRect().top > list.offsetHeight + 8); // where there is room
  });
  box.addEventListener("focusout", (event) => !box.contains(event.relatedTarget) && event.relatedTarget && (box.open = false));
  box.addEventListener("keydown", (event) => event.key === "Escape" && ((box.open = false), box.firstChild.focus()));
  return box;
}

addEventListener("pointerdown", (event) => {
  for (const menu of document.querySelectorAll(".mg-menu[open]")) if (!menu.contains(event.target)) menu.open = false;
}, { capture: true });

