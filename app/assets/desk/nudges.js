// Nudges: what keys do to chosen notes, press by press. Those of one kind to the same notes are one step of the desk.
import { changedTo, rowsAt } from "../music/edits.js";
import { newId } from "./state.js";

export class Nudges {
  // What the step is called that makes of a piece, by its chosen notes, another: as the last one, where it goes on.
  name(piece, chosen, made, words) {
    const { last } = this,
      same = last?.made === piece && last.words === words;
    const as = same && last.rows === String(rowsAt(piece, chosen)) ? last.as : `nudge ${newId()}`;
    this.last = { made, words, rows: String(changedTo(piece, chosen, made)), as };
    return as;
  }
}
