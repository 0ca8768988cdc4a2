// Requests to the server. Each brings its file along, since the server keeps nothing.
import { isMidi, writeMidi } from "../music/midi.js";

class Refusal extends Error {}
const FULL = "The server is busy or has stopped; try again in a moment.";
const GONE = "The server cannot be reached. Your project is kept in this browser.";

// The error in an answer of the server.
async function refusal(answer) {
  const { detail } = await answer.json().catch(() => ({}));
  const isTold = typeof detail === "string" && detail && answer.status !== 503;
  return new Refusal(isTold ? detail : FULL);
}

// Send a request, with a file if it needs one.
async function fetched(what, ask, file = null, signal = null) {
  const body = new FormData();
  body.append("ask", JSON.stringify(ask));
  if (file) {
    const ending = isMidi(file.bytes) && !/\.\w+$/.test(file.name) ? ".mid" : "",
      name = file.name.replace(/[\\/]/g, "_").slice(-120);
    body.append("file", new Blob([file.bytes]), name + ending);
  }
  let answer;
  try {
    answer = await fetch(`desk/${what}`, { method: "POST", body, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(GONE);
  }
  if (!answer.ok) throw await refusal(answer);
  return answer;
}

// The file of an entry: its own, or one written from its notes.
export function fileOf(entry) {
  if (entry.file) return { bytes: entry.file, name: entry.fileName ?? `${entry.title}.mid` };
  return { bytes: writeMidi(entry.piece, { made: entry.provenance }), name: `${entry.title}.mid` };
}

export class Server {
  async open({ bytes = null, name = "", example = null, model }) {
    const file = bytes ? { bytes, name } : null;
    return (await fetched("open", { example, model }, file)).json();
  }

  readAhead(entry, ask) {
    return fetched("ahead", ask, fileOf(entry));
  }

  // Ask for music; yields the server's views as they arrive.
  async *write(entry, ask, job, signal) {
    const answer = await fetched("write", { ...ask, job }, entry && fileOf(entry), signal);
    try {
      for await (const view of linesOf(answer.body)) {
        if (view.error) throw new Refusal(view.error);
        yield view;
        if (view.state !== "running") return;
      }
    } catch (error) {
      if (error instanceof Refusal || error.name === "AbortError") throw error;
    }
    throw new Refusal("The server stopped while composing; the notes so far are kept.");
  }

  stop(job) {
    return fetched("stop", { job });
  }

  // A file that the server makes from an entry: "sound" or "score".
  async made(entry, what, ask = {}) {
    return (await fetched(what, ask, fileOf(entry))).blob();
  }
}

// Parse a stream with one JSON object per line.
async function* linesOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (text + value).split("\n");
    text = lines.pop();
    for (const line of lines) yield JSON.parse(line);
  }
}
