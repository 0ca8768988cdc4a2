// The program in the browser, in a worker, as it answers the page's requests (requests.js).
import { Refusal } from "./requests.js";

const OLD =
  "This browser is too old for the instrument; it runs in Chrome and Edge from 100, Firefox from 114 and Safari from 16.4.";
const BROKEN =
  "A part of the instrument could not be loaded, or arrived damaged; reload the page to load it again.";
const FAILED = "The program has failed; reload the page: your project is kept in this browser.";
// The smallest module with an instruction on vectors of 128 bits, which the kernel needs.
const SIMD = [
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15,
  253, 98, 11,
];

export class Tab {
  lost = "The program stopped while composing; the notes so far are kept.";

  tell = () => {}; // shows how far the program is loaded, as a sentence, and why it cannot be

  constructor({ worker, files, model }) {
    this.waiting = new Map(); // by the number of the request
    this.last = 0;
    this.ready = new Promise((done, failed) => {
      if (!globalThis.WebAssembly?.validate(new Uint8Array(SIMD))) return failed(new Refusal(OLD));
      this.begun = done;
      this.failed = failed;
      this.worker = new Worker(new URL(worker, document.baseURI), { type: "module" });
    });
    this.ready.catch(({ message }) => this.tell("", message));
    if (!this.worker) return;
    const all = files.reduce((sum, { bytes }) => sum + bytes, 0),
      addressed = files.map((one) => ({
        ...one,
        address: new URL(one.address, document.baseURI).href,
      }));
    this.worker.onmessage = ({ data }) => {
      if (data.bytes)
        this.tell(`Loading the instrument: ${Math.round((100 * data.bytes) / all)} %`);
      else if (data.ready) (this.tell(""), this.begun());
      else if (data.failed) this.#fail();
      else this.waiting.get(data.id)?.(data);
    };
    this.worker.onerror = () => this.#fail();
    this.worker.postMessage({ files: addressed, model });
  }

  // Nothing is answered any more.
  #fail() {
    this.failed(new Refusal(BROKEN));
    this.ready.then(() => (this.ready = Promise.reject(new Refusal(FAILED))));
    for (const take of [...this.waiting.values()]) take({ failed: true });
  }

  async ask(what, wanted, file, signal) {
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
