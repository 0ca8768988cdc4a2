// The program in the browser, in a worker, as it answers the page's requests (requests.js).
import { canSound } from "../sound/synth.js";
import { wavOf } from "../sound/wav.js";
import { Refusal } from "./requests.js";

const BROKEN =
  "A part of the instrument could not be loaded, or arrived damaged; reload the page to load it again.";
const FAILED = "The program has failed; reload the page: your project is kept in this browser.";
const SILENT = "The browser plays music only where the address begins with https.";
const loading = (part) => `Loading the instrument: ${Math.round(100 * part)} %`;

export class Tab {
  lost = "The program stopped while composing; the notes so far are kept.";

  tell = () => {}; // shows how far the program is loaded, as a sentence, and why it cannot be

  constructor({ worker, files, python, model }, assets) {
    this.assets = assets;
    this.waiting = new Map(); // by the number of the request
    this.last = 0;
    const all = files.reduce((sum, { bytes }) => sum + bytes, 0),
      at = (address) => new URL(address, document.baseURI).href;
    this.ready = new Promise((ready, failed) => {
      this.worker = new Worker(at(worker), { type: "module" });
      const fail = () => failed(new Refusal(BROKEN));
      this.worker.onmessage = ({ data }) => {
        if (data.id) this.waiting.get(data.id)?.(data);
        else if (data.failed)
          (this.worker.terminate(), fail()); // what still loads says nothing more
        else if (data.ready) (this.tell(""), ready());
        else this.tell(data.bytes < all ? loading(data.bytes / all) : "Starting the instrument…");
      };
      this.worker.onerror = () => {
        fail(); // of no effect once it is ready
        for (const take of [...this.waiting.values()]) take({ failed: true });
      };
      const addressed = (one) => ({ ...one, address: at(one.address) });
      this.worker.postMessage({ files: files.map(addressed), python: addressed(python), model });
    });
    this.ready.catch(({ message }) => this.tell("", message));
  }

  // The program answers all requests; audio is rendered from its MIDI here.
  async ask(what, wanted, file, signal) {
    if (what === "sound" && !canSound()) throw new Refusal(SILENT);
    const answer = await this.#asked(what, wanted, file, signal);
    if (what !== "sound" || !answer.ok) return answer;
    return new Response(await wavOf(this.assets, await answer.arrayBuffer()));
  }

  async #asked(what, wanted, file, signal) {
    await this.ready;
    signal?.throwIfAborted();
    const id = (this.last += 1),
      { waiting, worker } = this;
    return new Promise((answered, refused) => {
      let body;
      const stream = new ReadableStream({
        start: (control) => (body = control),
        cancel: () => leave(),
      });
      const leave = () => {
        if (waiting.delete(id)) worker.postMessage({ id, left: true });
      };
      const stop = (error) => {
        leave();
        refused(error);
        body.error(error);
      };
      signal?.addEventListener("abort", () => stop(signal.reason));
      waiting.set(id, ({ head, part, ended, failed }) => {
        if (failed) return stop(new Refusal(FAILED));
        if (head) {
          const { status, kind } = head,
            headers = kind ? { "content-type": kind } : {};
          answered(new Response(status === 204 ? null : stream, { status, headers }));
        } else if (ended) {
          waiting.delete(id);
          body.close();
        } else body.enqueue(typeof part === "string" ? new TextEncoder().encode(part) : part);
      });
      const { bytes = new Uint8Array(), name = "" } = file ?? {};
      worker.postMessage({ id, what, wanted: JSON.stringify(wanted), bytes, name });
    });
  }
}
