// The server as it answers the page's requests (requests.js).
import { Refusal } from "./requests.js";

const GONE = "The server cannot be reached. Your project is kept in this browser.";

export class Server {
  lost = "The server stopped while composing; the notes so far are kept.";

  async ask(what, wanted, file, signal) {
    const body = new FormData();
    body.append("ask", JSON.stringify(wanted));
    if (file) body.append("file", new Blob([file.bytes]), file.name);
    try {
      return await fetch(`desk/${what}`, { method: "POST", body, signal });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Refusal(GONE);
    }
  }
}
