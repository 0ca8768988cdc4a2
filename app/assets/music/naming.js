// Parts of a piece in requests for music.
import { tracksWithNotes } from "./heard.js";

// A track in a request: its number among those with notes, which are all that the server reads; a silent one is a new part
// for one of the instruments.
export function partOf(piece, index, instruments) {
  const { drum, program } = piece.tracks[index],
    number = tracksWithNotes(piece).indexOf(index);
  return number >= 0 ? number : drum ? "drums" : `+${instruments[program]}`;
}

// Names in a sentence.
export const listed = (names) =>
  names.length < 2 ? names.join() : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;

// The names of some tracks of a piece; without any, only chords were written.
export const namesOf = ({ tracks }, chosen) =>
  chosen.length ? listed(chosen.map((index) => tracks[index]?.name ?? "")) : "Chords";
