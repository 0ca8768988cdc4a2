// What pieces are called, and by what one tells them apart: which variation of what, which bars or parts, by whom.
import { count } from "../widgets/parts.js";

const VARIATION = /^(?:(.*), )?(variation [\d.]+)$/is;

// "My song, variation 2.1" → what it is a variation of, and which.
export function splitTitle(title) {
  const [, song, variation] = VARIATION.exec(title) ?? [];
  return song === undefined ? { song: title, variation: "" } : { song, variation };
}

// What a variation of something is called; its number is counted from 0.
export function titleOf(parent, number) {
  if (!parent || parent.kind === "nothing") return `Variation ${number + 1}`;
  if (VARIATION.test(parent.title)) return `${parent.title}.${number + 1}`;
  return `${parent.title}, variation ${number + 1}`;
}

// Variations of a piece are counted on, so that no two that are kept have one name.
export const nextNumber = (entries, parent) =>
  1 + Math.max(-1, ...entries.filter((one) => one.kind === "take" && one.parent === (parent?.id ?? null)).map((one) => one.number));

const KINDS = { file: "opened", example: "example", nothing: "from nothing", edit: "by hand" };

function written({ how, region, piece }) {
  if (how === "accompany") return `${region.tracks.map((track) => piece.tracks[track].name.toLowerCase()).join(" and ")} anew`;
  const bars = region.stop - region.first > 1 ? `bars ${region.first + 1}–${region.stop}` : `bar ${region.stop}`;
  return how === "infill" ? `${bars} anew` : bars;
}

// The facts of an entry, the most telling first.
export function factsOf(entry) {
  const { kind, piece, by, model, seed, made, act } = entry, bars = count(piece.lines.length - 1, "bar");
  const time = new Date(made).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  if (kind === "take" && entry.region) return [written(entry), by ?? model, `seed ${seed}`, time];
  return [act ?? KINDS[kind], bars, time].filter(Boolean);
}
