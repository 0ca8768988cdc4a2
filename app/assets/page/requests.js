// The requests of the page, whoever answers them: a server (server.js), or a program of the same Python in the browser.
// Each brings its file along, since who answers keeps nothing.
//
// Who answers has one method, `ask(what, wanted, file, signal)`. It returns a Response: JSON, a file, or a stream with one
// JSON object per line; a status above 299 with { detail: sentence } refuses. If it cannot answer, it throws a Refusal.
// `lost` is what to say if a stream breaks off. A new request is a method here and an action in app/web/desk.py.
import { isMidi, writeMidi } from "../music/midi.js";

export class Refusal extends Error {}
const FULL = "The server is busy or has stopped; try again in a moment.";

// The error in an answer.
async function refusal(answer) {
  const { detail } = await answer.json().catch(() => ({}));
  const isTold = typeof detail === "string" && detail && answer.status !== 503;
  return new Refusal(isTold ? detail : FULL);
}

// The file of an entry: its own, or one written from its notes.
export function fileOf(entry) {
  if (entry.file) return { bytes: entry.file, name: entry.fileName ?? `${entry.title}.mid` };
  return { bytes: writeMidi(entry.piece, { made: entry.provenance }), name: `${entry.title}.mid` };
}

// A file with a name by which its format is recognised.
function named({ bytes, name }) {
  const ending = isMidi(bytes) && !/\.\w+$/.test(name) ? ".mid" : "";
  return { bytes, name: name.replace(/[\\/]/g, "_").slice(-120) + ending };
}

export class Requests {
  constructor(answerer) {
    this.answerer = answerer;
  }

  // Send a request, with a file if it needs one.
  async #ask(what, wanted, file = null, signal = null) {
    const answer = await this.answerer.ask(what, wanted, file && named(file), signal);
    if (!answer.ok) throw await refusal(answer);
    return answer;
  }

  async open({ bytes = null, name = "", example = null, model }) {
    const file = bytes ? { bytes, name } : null;
    return (await this.#ask("open", { example, model }, file)).json();
  }

  readAhead(entry, wanted) {
    return this.#ask("ahead", wanted, fileOf(entry));
  }

  // Ask for music; yields the views as they arrive.
  async *write(entry, wanted, job, signal) {
    const answer = await this.#ask("write", { ...wanted, job }, entry && fileOf(entry), signal);
    try {
      for await (const view of linesOf(answer.body)) {
        if (view.error) throw new Refusal(view.error);
        yield view;
        if (view.state !== "running") return;
      }
    } catch (error) {
      if (error instanceof Refusal || error.name === "AbortError") throw error;
    }
    throw new Refusal(this.answerer.lost);
  }

  stop(job) {
    return this.#ask("stop", { job });
  }

  // A file made from an entry: "sound" or "score".
  async made(entry, what) {
    return (await this.#ask(what, {}, fileOf(entry))).blob();
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
