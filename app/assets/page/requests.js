// The requests of the page, whoever answers them: a server (server.js), or a program of the same Python in the browser.
// Each brings its file along, since who answers keeps nothing.
//
// Who answers has one method, `ask(what, wanted, file, signal)`. It returns a Response: JSON, a file, or a stream with one
// JSON object per line; a status above 299 with { detail: sentence } refuses. If it cannot answer, it throws a Refusal.
// `lost` is what to say if a stream breaks off. A new request is a method here and an action in app/web/desk.py.
import { isMidi } from "../desk/file.js";

export class Refusal extends Error {}
const MOST_BYTES = 1 << 20; // of a file
const NOT_KEPT = 409; // the status if a file cannot hold the edits
const FULL = "The server is busy or has stopped; try again in a moment.";

// The error in an answer.
async function refusal(answer) {
  const { detail } = await answer.json().catch(() => ({}));
  const isTold = typeof detail === "string" && detail && answer.status !== 503;
  return Object.assign(new Refusal(isTold ? detail : FULL), { status: answer.status });
}

// A piece without a file, as who answers writes it to one (app/web/composing/plain_piece.py).
function plainOf({ notes, tracks, tempos, meters, chords, key, controls, ticksPerBeat: ticks }) {
  const plain = { ticks, notes: Array.from(notes), tracks, tempos, meters, chords, key, controls };
  return new TextEncoder().encode(JSON.stringify(plain));
}

// The file of an entry, or its piece, with what is `asked` for it: its edits, and more changes.
function fileOf({ file, fileName, edits, reading, title, piece, provenance: made }, more = []) {
  const own = { bytes: file ?? plainOf(piece), name: fileName ?? `${title}.mid` },
    changes = [...((file && edits) || []), ...more],
    isEdited = !file || changes.length > 0;
  return { ...own, asked: isEdited ? { edits: { reading: file && reading, changes }, made } : {} };
}

// The file that new music is written into, if the model reads another one, which has the same notes alone.
function keptOf({ file, kept, keptReading: reading, reading: read }) {
  if (!file || !kept || kept.length > MOST_BYTES) return null;
  return { file: kept.toBase64(), reading, read };
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

  // Send a request with the file of an entry; if the file cannot hold the edits, with one written from the notes.
  async #send(what, wanted, entry, { more = [], signal = null } = {}) {
    const file = entry && fileOf(entry, more);
    try {
      return await this.#ask(what, { ...wanted, ...file?.asked }, file, signal);
    } catch (error) {
      if (error.status !== NOT_KEPT || !entry.file) throw error;
      if (what !== "ahead") this.notKept?.(`${error.message} Its notes alone are used.`);
      const plain = { ...entry, file: null, fileName: null },
        answer = await this.#send(what, { ...wanted, kept: null }, plain, { more, signal });
      return Object.assign(answer, { isPlain: true });
    }
  }

  async open({ bytes = null, name = "", example = null, entry = null, more = [], model }) {
    const file = bytes ? { bytes, name } : null,
      wanted = { example, model };
    const answer = await (entry
      ? this.#send("open", wanted, entry, { more })
      : this.#ask("open", wanted, file));
    return { ...(await answer.json()), isPlain: answer.isPlain };
  }

  readAhead(entry, wanted) {
    return this.#send("ahead", wanted, entry);
  }

  // Ask for music; yields the views as they arrive, and whether the new notes are written into the file of the entry.
  async *write(entry, wanted, job, signal) {
    const kept = entry && keptOf(entry),
      answer = await this.#send("write", { ...wanted, job, kept }, entry, { signal }),
      keeps = !answer.isPlain && Boolean(kept || !entry?.kept);
    try {
      for await (const view of linesOf(answer.body)) {
        if (view.error) throw new Refusal(view.error);
        yield { ...view, keeps };
        if (view.state !== "running") return;
      }
    } catch (error) {
      if (error instanceof Refusal || error.name === "AbortError") throw error;
    }
    throw new Refusal(this.answerer.lost);
  }

  // A progression, typed from a bar on, as the models take it.
  async chords(text, bar) {
    return (await this.#ask("chords", { text, bar })).json();
  }

  stop(job) {
    return this.#ask("stop", { job });
  }

  // Keep a take as it is shown, though a better one may be chosen.
  settle(job, take) {
    return this.#ask("settle", { job, take });
  }

  // The file of an entry with more changes, as MIDI: its bytes if they are that, without changes.
  async midi(entry, more = []) {
    const isSame = isMidi(entry.file) && !entry.edits?.length && !more.length;
    return isSame ? entry.file : this.made(entry, "save", more, { made: entry.provenance });
  }

  // A file made from an entry with more changes: "save", "sound" or "score".
  async made(entry, what, more = [], wanted = {}) {
    return (await this.#send(what, wanted, entry, { more })).blob();
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
