// The program in a worker of the browser: loads Python and the files of the program, and passes requests on to it
// (app/web/tab.py). Between two parts of an answer it takes other messages, such as one to stop.
import { loadPyodide } from "../pyodide/pyodide.mjs";

const ROOT = "/musicgen",
  INDEX = new URL("../pyodide/", import.meta.url).href,
  LIBRARY = "python/python_stdlib.zip",
  WORK_SECONDS = 0.05;
const START = `
import sys
sys.path.insert(0, "${ROOT}")
from app.web.tab import Tab, accept_wide_indices
accept_wide_indices()
tab = Tab(model)
ask = lambda what, wanted, data, name: tab.ask(what, wanted, data.to_bytes(), name)
`;

const answers = new Map(); // generators of Python, by the number of the request
let tab, ask, warmed, atWork;

// Let messages come in.
const turn = () =>
  new Promise((done) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => (port1.close(), done());
    port2.postMessage(0);
  });

// Load a file, which is compressed, and count its bytes as they come.
async function fetched({ address }, count) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${address}: ${answer.status}`);
  const transform = (chunk, stream) => (count(chunk.length), stream.enqueue(chunk)),
    counted = answer.body.pipeThrough(new TransformStream({ transform })),
    unpacked = counted.pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(unpacked).arrayBuffer());
}

// Pyodide waits for ever if its program is missing or damaged, so that is found here.
async function check({ address, integrity }) {
  const answer = await fetch(address, { integrity });
  if (!answer.ok) throw new Error(`${address}: ${answer.status}`);
  await answer.arrayBuffer();
}

// Start Python with its library.
async function started(library) {
  const stdLibURL = URL.createObjectURL(new Blob([await library])),
    python = await loadPyodide({ indexURL: INDEX, stdLibURL });
  URL.revokeObjectURL(stdLibURL);
  return python;
}

// Load all files, of which the page is told how many bytes have come.
async function load({ files, python: program, model }) {
  let bytes = 0;
  const count = (more) => postMessage({ bytes: (bytes += more) }),
    got = files.map((file) => fetched(file, count)),
    library = files.findIndex(({ path }) => path === LIBRARY),
    ready = [started(got[library]), check(program), ...got],
    [python, , ...contents] = await Promise.all(ready);
  for (const [i, content] of contents.entries()) {
    const { path } = files[i];
    if (i === library) continue;
    if (path.endsWith(".zip")) python.unpackArchive(content, "zip", { extractDir: ROOT });
    else {
      python.FS.mkdirTree(`${ROOT}/${path}`.replace(/\/[^/]*$/, ""));
      python.FS.writeFile(`${ROOT}/${path}`, content);
    }
  }
  python.globals.set("model", model);
  python.runPython(START);
  [tab, ask] = ["tab", "ask"].map((name) => python.globals.get(name));
  postMessage({ ready: true });
}

async function answer({ id, what, wanted, bytes, name }) {
  const parts = ask(what, wanted, bytes, name);
  answers.set(id, parts);
  const next = () => {
    const { value, done } = parts.next();
    return { done, value: value?.toJs ? value.toJs() : value }; // bytes, or text
  };
  let part = next();
  postMessage({ id, head: JSON.parse(part.value) });
  for (part = next(); !part.done && answers.has(id); part = next()) {
    postMessage({ id, part: part.value });
    await turn();
  }
  postMessage({ id, ended: true });
  leave(id);
}

function leave(id) {
  const parts = answers.get(id);
  if (!answers.delete(id)) return;
  parts.return();
  parts.destroy();
}

// Work on what is not waited for: after the first answer, read the weights.
async function work() {
  if (atWork || answers.size) return; // what is asked comes first
  atWork = true;
  if (!warmed) tab.warm();
  warmed = true;
  while (tab.work(WORK_SECONDS)) await turn();
  atWork = false;
}

self.onmessage = async ({ data }) => {
  const { id, files, left } = data;
  if (left) return leave(id);
  try {
    if (files) return await load(data);
    await answer(data);
    await work();
  } catch (error) {
    console.error(error);
    answers.delete(id);
    postMessage({ id, failed: true });
  }
};
