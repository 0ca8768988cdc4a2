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
  const { loadPyodide } = await import(pyodide),
    unpacked = async ({ address }) => {
      const { body } = await fetch(address);
      return new Response(body.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
    };
  const library = files.find(({ path }) => path.endsWith("stdlib.zip")),
    stdLibURL = URL.createObjectURL(new Blob([await unpacked(library)])),
    python = await loadPyodide({ stdLibURL });
  for (const file of files) {
    const bytes = new Uint8Array(await unpacked(file)),
      path = "/musicgen/" + file.path;
    if (file === library) continue;
    if (path.endsWith("zip")) python.unpackArchive(bytes, "zip", { extractDir: "/musicgen" });
    else {
      python.FS.mkdirTree(path.replace(/[^/]*$/, ""));
      python.FS.writeFile(path, bytes);
    }
  }
  python.globals.set("source", source);
  try {
    postMessage(python.runPython(RUN));
  } catch (error) {
    postMessage(JSON.stringify(error.message));
  }
};
