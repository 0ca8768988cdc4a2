// Blind comparisons: the pairs, the excerpts, and the stored choices.
import { Choices, blind, pairsOf } from "../../../../app/assets/widgets/blind.js";
import { Desk } from "../../../../app/assets/desk/state.js";
import { barCount, rowsOf } from "../../../../app/assets/music/piece.js";
import { equal, ok, piece } from "./check.js";

// A piece with a note at the start of each bar, with another pitch from the bar `from` on.
const song = (bars, from = bars) =>
  piece(
    Array.from({ length: bars }, (_, bar) => [48 * bar, 12, bar < from ? 60 : 70, 80, 0]),
    { bars },
  );

const made = (id, more) => ({ id, title: id, state: "done", model: "ensemble", ...more });

const take = (number, more = {}) =>
  made(`take ${number}`, {
    kind: "take",
    how: "continue",
    parent: "song",
    number,
    seed: 5,
    piece: song(8, 4),
    region: { first: 4, stop: 8, tracks: null },
    ...more,
  });

function desked(parent, ...takes) {
  const desk = new Desk();
  desk.show(made("song", { kind: "file", piece: song(12), ...parent }), "opening a file");
  desk.begin(takes);
  return desk;
}

const named = (desk) =>
  pairsOf(desk).map((pair) => pair.map(({ facts }) => facts.what).join(" and "));

// A stand-in for the browser's storage.
function store() {
  const kept = new Map();
  return {
    getItem: (name) => kept.get(name) ?? null,
    setItem: (name, text) => kept.set(name, text),
    removeItem: (name) => kept.delete(name),
  };
}

export const tests = {
  "takes are compared with each other and with the real continuation"() {
    const three = ["take 1 and take 2", "take 1 and the real piece", "take 2 and the real piece"];
    equal(named(desked({}, take(0), take(1))), three);
    const two = [take(0), take(1)];
    equal(named(desked({ piece: song(4) }, ...two)), three.slice(0, 1)); // it ends there
    equal(named(desked({ provenance: { model: "groove" } }, ...two)), three.slice(0, 1)); // written by a model
    equal(named(desked({ kind: "edit" }, ...two)), three.slice(0, 1));
    const growing = take(1, { state: "running" });
    equal(named(desked({ piece: song(4) }, take(0), growing)), []);
    const parts = take(0, { how: "accompany", region: { first: 0, stop: 8, tracks: [0] } });
    equal(named(desked({}, parts)), []);
  },
  "both sides have the same bars, from two before the new ones"() {
    const desk = desked({}, take(0)),
      [pair] = pairsOf(desk);
    const { A, B, bars } = blind(pair, () => 0);
    equal(bars, { first: 2, stop: 8 });
    equal(
      [A, B].map(({ entry }) => barCount(entry.piece)),
      [6, 6],
    );
    equal(
      rowsOf(A.entry.piece).map((row) => row[2]),
      [60, 60, 70, 70, 70, 70],
    );
    equal(
      rowsOf(B.entry.piece).map((row) => row[2]),
      [60, 60, 60, 60, 60, 60],
    );
    equal(
      [A, B].map(({ entry }) => entry.title),
      ["A", "B"],
    );
    const long = take(0, { piece: song(60, 4), region: { first: 4, stop: 60, tracks: null } });
    equal(blind(pairsOf(desked({ piece: song(80) }, long))[0]).bars, { first: 2, stop: 20 });
  },
  "either side may come first"() {
    const [pair] = pairsOf(desked({}, take(0)));
    const sources = [0.1, 0.9].map((drawn) => blind(pair, () => drawn).A.facts.source);
    equal(sources, ["ensemble", "real"]);
    equal(
      [0.1, 0.9].map((drawn) => blind(pair, () => drawn).A.entry.title),
      ["A", "A"],
    );
  },
  "a choice is stored with its sides, and can be exported and deleted"() {
    const kept = store(),
      choices = new Choices(() => kept),
      [pair] = pairsOf(desked({}, take(0)));
    choices.add(
      blind(pair, () => 0),
      "B",
      "song",
    );
    choices.add(
      blind(pair, () => 0),
      "none",
      "song",
    );
    const { format, choices: written } = JSON.parse(choices.text());
    equal([format, written.length], ["musicgen listening 1", 2]);
    const [{ id, made: when, ...first }, second] = written;
    ok(id !== second.id && when);
    equal(first, {
      title: "song",
      bars: [3, 8],
      A: { what: "take 1", source: "ensemble", seed: 5 },
      B: { what: "the real piece", source: "real" },
      chosen: "B",
    });
    choices.clear();
    equal(choices.all, []);
  },
};
