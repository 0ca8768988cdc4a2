// The titles of pieces, and the facts that tell them apart: bars or parts written, model, seed, time.
import { barsLabel, count } from "../widgets/parts.js";

const TAKE = /(^|, )(take|variation) [\d.]+$/i; // "variation": in projects of earlier versions

// The title of a take; numbers count from 0.
export function titleOf(parent, number) {
  if (!parent || parent.kind === "nothing") return `Take ${number + 1}`;
  if (TAKE.test(parent.title)) return `${parent.title}.${number + 1}`;
  return `${parent.title}, take ${number + 1}`;
}

// The next free number among the takes of a piece.
export function nextNumber(entries, parent) {
  const isTake = (one) => one.kind === "take" && one.parent === (parent?.id ?? null);
  return 1 + Math.max(-1, ...entries.filter(isTake).map((one) => one.number));
}

const KINDS = { file: "opened", example: "example", nothing: "new idea", edit: "edited" };

function written({ how, region, piece }) {
  if (how === "accompany")
    return `${region.tracks.map((track) => piece.tracks[track].name.toLowerCase()).join(" and ")} rewritten`;
  return how === "infill" ? `${barsLabel(region)} rewritten` : barsLabel(region);
}

// The facts of an entry, the most important first.
export function factsOf(entry) {
  const { kind, piece, model, seed, made, act } = entry,
    bars = count(piece.lines.length - 1, "bar");
  const time = new Date(made).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  if (kind === "take" && entry.region) return [written(entry), model, `seed ${seed}`, time];
  return [act ?? KINDS[kind], bars, time].filter(Boolean);
}
