// What the page asks of its server, by the server's named endpoints. A file is sent once, and again if the server was
// started anew or has swept it.
import { isMidi, writeMidi } from "../music/midi.js";

const API = "gradio_api";
const LOST = /upload it first|not sent to this server|No such file|does not exist/i;

class Refusal extends Error {}

// What a server said in place of an answer.
async function refusal(answer) {
  const said = await answer.json().catch(() => ({}));
  const words = said.detail ?? said.error;
  if (typeof words === "string" && words && answer.status !== 503) return new Refusal(words);
  return new Refusal(
    "The server did not take the request: too many wait already, or it is gone. Try again soon.",
  );
}

// What the server answers to what is sent to it, a file or a request.
async function fetched(path, options, noun) {
  let answer;
  try {
    answer = await fetch(`${API}/${path}`, { method: "POST", ...options });
  } catch {
    throw new Refusal(
      `The server did not take the ${noun}: it is gone, or not reached. Your project stays.`,
    );
  }
  if (!answer.ok) throw await refusal(answer);
  return answer.json();
}

const asked = (path, body) =>
  fetched(
    path,
    { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) },
    "request",
  );

const handle = (path, name) => ({ path, orig_name: name, meta: { _type: "gradio.FileData" } });

// The file that stands for an entry: its own, or one written from its notes.
export function fileOf(entry) {
  if (entry.file) return { bytes: entry.file, name: entry.fileName ?? `${entry.title}.mid` };
  return { bytes: writeMidi(entry.piece, { made: entry.provenance }), name: `${entry.title}.mid` };
}

export class Server {
  constructor() {
    this.sent = new WeakMap(); // an entry's piece → where its file lies on the server
  }

  async upload(bytes, name) {
    const form = new FormData(),
      ending = isMidi(bytes) && !/\.\w+$/.test(name) ? ".mid" : "";
    form.append("files", new Blob([bytes]), name.replace(/[\\/]/g, "_").slice(-120) + ending);
    return (await fetched("upload", { body: form }, "file"))[0];
  }

  // Where an entry's file lies on the server; it is sent where it does not yet.
  place(entry, { again = false } = {}) {
    const key = entry.piece;
    if (again || !this.sent.has(key)) {
      const { bytes, name } = fileOf(entry),
        sent = this.upload(bytes, name).then((path) => handle(path, name));
      this.sent.set(key, sent);
      sent.catch(() => this.sent.delete(key));
    }
    return this.sent.get(key);
  }

  async open({ bytes = null, name = "", example = null, model, fit }) {
    const file = bytes ? handle(await this.upload(bytes, name), name) : null;
    const {
      data: [view],
    } = await asked("run/desk_open", { data: [file, { name, example, model, fit }] });
    return { ...JSON.parse(view), sent: file };
  }

  // Remember where a file lies that has just been opened, or send it ahead, so that Continue need not wait for that.
  knows(entry, sent) {
    if (sent) this.sent.set(entry.piece, Promise.resolve(sent));
    else if (entry.file) this.place(entry).catch(() => {});
  }

  // Ask for music; yields what the server says as it comes.
  async *write(entry, ask, job, signal) {
    for await (const [view] of this.#called("desk_write", entry, [ask, job], signal))
      yield JSON.parse(view);
  }

  // Call an endpoint with an entry's file, and with `more`; where the server has lost the file, once again.
  async *#called(what, entry, more = [], signal) {
    for (let tries = 0; ; tries++) {
      const file = entry ? await this.place(entry, { again: tries > 0 }) : null;
      signal?.throwIfAborted(); // stopped while the file was on its way
      const { event_id: event } = await asked(`call/${what}`, { data: [file, ...more] });
      try {
        return yield* this.events(`call/${what}/${event}`, signal);
      } catch (error) {
        if (tries || !LOST.test(error.message)) throw error;
      }
    }
  }

  async *events(path, signal) {
    let answer;
    try {
      answer = await fetch(`${API}/${path}`, { signal });
      if (!answer.ok) throw await refusal(answer);
      yield* eventsOf(answer.body);
    } catch (error) {
      if (error instanceof Refusal || error.name === "AbortError") throw error;
      throw new Refusal("The server went away while it composed; what there is stays.");
    }
  }

  stop(job) {
    return asked("run/desk_stop", { data: [job] });
  }

  // A file that the server makes of an entry: its sound, or its score.
  async made(entry, what) {
    for await (const [found] of this.#called(what, entry)) return `${API}/file=${found.path}`;
    throw new Refusal("The server gave no file; try again.");
  }
}

// The events of a stream: what each one brings; an error is thrown as the sentence it is.
async function* eventsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Refusal("The server went away while it was at work; what there is stays.");
    text += value;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const [, kind, data] = /^event: (\w+)\ndata: (.*)$/s.exec(text.slice(0, end)) ?? [];
      text = text.slice(end + 2);
      const found = data ? JSON.parse(data) : null;
      if (kind === "error")
        throw new Refusal(
          found?.error ??
            (typeof found === "string"
              ? found
              : "The server failed at this request; its log says how."),
        );
      if (kind === "generating" || (kind === "complete" && found)) yield found;
      if (kind === "complete") return;
    }
  }
}
