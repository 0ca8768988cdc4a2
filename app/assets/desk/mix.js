// The mix: mute, solo, volume and instrument of each track. A piece shares its mix with all takes and edits of it. The mix
// is a setting: stored, but not a step to undo.

// The origin of a piece with the names of its tracks, which differ between languages.
function keyOf(desk, entry) {
  const root = desk.root(entry);
  return [root.parent ?? root.id, ...entry.piece.tracks.map(({ name }) => name)].join(" ");
}

export const mixOf = (desk, entry) => (entry && desk.settings.mix[keyOf(desk, entry)]) || [];

// Change the mix of a track. Only changes are stored, since the instrument of the track itself may change. Mixes of deleted
// pieces are dropped.
export function remix(desk, entry, index, change) {
  const mix = [...mixOf(desk, entry)];
  mix[index] = { ...mix[index], ...change };
  const known = new Set([...desk.entries.values()].flatMap(({ id, parent }) => [id, parent]));
  const left = Object.entries(desk.settings.mix).filter(([one]) => known.has(one.split(" ")[0]));
  const changed = [keyOf(desk, entry), Array.from(mix, (one) => one ?? null)];
  desk.set({ mix: Object.fromEntries([...left, changed]) });
}
