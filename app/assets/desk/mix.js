// Who is heard how: mute, solo, volume and instrument of each track. A mix goes with a piece and all that came of it, and
// a piece that is opened begins with none. It is a setting of the desk: kept, and no step of undo.

// What a piece came of in the end, and the tracks that it has: another model's language may have others.
function keyOf(desk, entry) {
  const root = desk.root(entry);
  return [root.parent ?? root.id, ...entry.piece.tracks.map(({ name }) => name)].join(" ");
}

export const mixOf = (desk, entry) => (entry && desk.settings.mix[keyOf(desk, entry)]) || [];

// The mixes with one more; those of which nothing is left go.
function withMix(desk, key, mix) {
  const known = new Set([...desk.entries.values()].flatMap(({ id, parent }) => [id, parent]));
  const left = Object.entries(desk.settings.mix).filter(([one]) => known.has(one.split(" ")[0]));
  desk.set({ mix: { ...Object.fromEntries(left), [key]: mix } });
}

// A change to one track; no more than that is kept, since the instrument of a track may change by itself.
export function remix(desk, entry, index, change) {
  const mix = [...mixOf(desk, entry)];
  mix[index] = { ...mix[index], ...change };
  withMix(
    desk,
    keyOf(desk, entry),
    Array.from(mix, (one) => one ?? null),
  );
}

// The same piece as another model hears it has no parent, and keeps its mix where its tracks are the same.
export function carryMix(desk, from, to) {
  const mix = mixOf(desk, from),
    names = (entry) => keyOf(desk, entry).split(" ").slice(1).join(" ");
  if (mix.length && keyOf(desk, from) !== keyOf(desk, to) && names(from) === names(to))
    withMix(desk, keyOf(desk, to), mix);
}
