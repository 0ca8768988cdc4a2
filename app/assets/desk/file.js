// A desk as one project file, and back.
import { canShow, settingsOf } from "./check.js";
import { Desk, interrupted, newId } from "./state.js";

export const ENDING = ".musicgen";
const FORMAT = "musicgen desk 1";
const MOST_BYTES = 64 << 20;

// Decode base64; null if empty.
export const bytesFrom = (text) => (text ? Uint8Array.fromBase64(text) : null);

// Read a file that the user gives; a dropped folder looks like a file until it is read.
export async function bytesOf(file) {
  try {
    return new Uint8Array(await file.arrayBuffer());
  } catch {
    throw new Error(
      `“${file.name}” cannot be read: it is a folder or has been moved. Drop the files themselves.`,
    );
  }
}

const packed = (entry) => ({
  ...entry,
  piece: { ...entry.piece, notes: Array.from(entry.piece.notes) },
  file: entry.file?.toBase64() ?? null,
  kept: entry.kept?.toBase64() ?? null,
});

export function writeDesk(desk) {
  const entries = [...desk.needed].map((id) => desk.entries.get(id)).filter(Boolean);
  return JSON.stringify({ format: FORMAT, desk: desk.plain(), entries: entries.map(packed) });
}

// Read a project as a desk with a new id, so that it does not replace the one it was saved from. Its settings have the types
// of those in `before`.
export function readDesk(text, name, before) {
  if (text.length > MOST_BYTES)
    throw new Error(`“${name}” is larger than the limit of 64 MB for a project.`);
  let found = null;
  try {
    found = JSON.parse(text);
  } catch {} // reported below
  if (found?.format !== FORMAT || !canShow(found))
    throw new Error(`“${name}” is not a complete musicgen project file.`);
  const entries = found.entries.map((entry) =>
    interrupted({
      ...entry,
      piece: { ...entry.piece, notes: Int32Array.from(entry.piece.notes) },
      file: bytesFrom(entry.file),
      kept: bytesFrom(entry.kept),
    }),
  );
  const { open, stars } = found.desk,
    settings = settingsOf(found.desk.settings, before);
  settings.mix = { ...before.mix, ...settings.mix }; // for the pieces already here
  return new Desk({ id: newId(), open, stars, settings }, entries);
}
