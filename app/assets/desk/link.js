// A link that opens the same piece with the same settings on the same server. All data are in the fragment after the #,
// which browsers do not send to the server.
import { isCount, isOptional, isText } from "./check.js";

export const LINK = "#desk="; // the start of the fragment

// Settings that a link leaves out, and names in a link that are no settings.
const LEFT_OUT = new Set(
  (
    "mix tempo transpose metronome onlyNew wholeTakes more plan curve newSeed " +
    "model chosen example title name file nothing"
  ).split(" "),
);
const asked = (settings) =>
  Object.fromEntries(Object.entries(settings).filter(([name]) => !LEFT_OUT.has(name)));
const MOST_LETTERS = 60000; // some programs truncate longer URLs

async function through(content, stream) {
  const passed = new Blob([content]).stream().pipeThrough(stream);
  return new Uint8Array(await new Response(passed).arrayBuffer());
}

const textOf = (bytes) => bytes.toBase64({ alphabet: "base64url", omitPadding: true });
const bytesOf = (text) => Uint8Array.fromBase64(text, { alphabet: "base64url" });

// `source` is { example }, { title, name, bytes }, or {} for a new idea.
export async function writeLink(address, source, { model, chosen, settings }) {
  const said = { model, chosen, ...asked(settings) };
  if (source.example) said.example = source.example;
  else if (source.bytes)
    Object.assign(said, { title: source.title, name: source.name, file: textOf(source.bytes) });
  else said.nothing = true;
  const packed = await through(JSON.stringify(said), new CompressionStream("deflate-raw"));
  const link = `${address.split("#")[0]}${LINK}${textOf(packed)}`;
  if (link.length > MOST_LETTERS)
    throw new Error("This piece is too long for a link; save the project as a file instead.");
  return link;
}

// Read a link.
export async function readLink(hash) {
  try {
    if (hash.length > MOST_LETTERS) throw new Error(); // a short text may inflate to a very long one
    const packed = bytesOf(hash.slice(LINK.length)),
      bytes = await through(packed, new DecompressionStream("deflate-raw"));
    const said = JSON.parse(new TextDecoder().decode(bytes));
    const texts = [said.model, said.title, said.name, said.example],
      isFile = typeof (said.file ?? "") === "string";
    if (!texts.every(isOptional(isText)) || !isFile || !isCount(said.chosen)) throw new Error();
    return {
      ...said,
      settings: { ...asked(said), newSeed: false },
      bytes: said.file ? bytesOf(said.file) : null,
    };
  } catch {
    throw new Error("This link is broken or incomplete.");
  }
}
