// A worker that runs requests as that of the page does, and posts their hashes: { pyodide, files, source } → JSON.
const RUN = `
import json, sys
sys.path.insert(0, "/musicgen")
from app.web.tab import accept_wide_indices
accept_wide_indices()
exec(source)
from musicgen.playable import find
json.dumps(hashes(find("ensemble")))
`;

onmessage = async ({ data: { pyodide, files, source } }) => {
  const { loadPyodide } = await import(pyodide);
  const python = await loadPyodide();
  for (const { path, address } of files) {
    const { body } = await fetch(address),
      unpacked = new Response(body.pipeThrough(new DecompressionStream("gzip"))),
      bytes = new Uint8Array(await unpacked.arrayBuffer());
    if (path.endsWith("zip")) python.unpackArchive(bytes, "zip", { extractDir: "/musicgen" });
    else {
      python.FS.mkdirTree("/musicgen/" + path.replace(/[^/]*$/, ""));
      python.FS.writeFile("/musicgen/" + path, bytes);
    }
  }
  python.globals.set("source", source);
  try {
    postMessage(python.runPython(RUN));
  } catch (error) {
    postMessage(JSON.stringify(error.message));
  }
};
