// Who is heard how: mute, solo, volume and instrument of each track. A mix goes with a piece and all that came of it, and
// a piece that is opened begins with none. It is a setting of the desk: kept, and no step of undo.

// What a piece came of in the end, and the tracks that it has: another model's language may have others.
function keyOf(desk, entry) {
  const root = desk.root(entry);
  return [root.parent ?? root.id, ...entry.piece.tracks.map(({ name }) => name)].join(" ");
}

export const mixOf = (desk, entry) => (entry && desk.settings.mix[keyOf(desk, entry)]) || [];

// A change to one track; no more than that is kept, since the instrument of a track may change by itself. Mixes go with the
// pieces that they are of.
export function remix(desk, entry, index, change) {
  const mix = [...mixOf(desk, entry)];
  mix[index] = { ...mix[index], ...change };
  const known = new Set([...desk.entries.values()].flatMap(({ id, parent }) => [id, parent]));
  const left = Object.entries(desk.settings.mix).filter(([one]) => known.has(one.split(" ")[0]));
  const changed = [keyOf(desk, entry), Array.from(mix, (one) => one ?? null)];
  desk.set({ mix: Object.fromEntries([...left, changed]) });
}
