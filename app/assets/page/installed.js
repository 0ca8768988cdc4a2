// A page without a server keeps its files in the browser, so that it works offline, and says when there is a new version.
import { action, make } from "../widgets/parts.js";

const ROOM =
  "This browser has no room to keep the instrument, so that it needs the network at each start.";

// The line about a new version, which is shown when there is one.
function newVersion(root, waiting) {
  const reload = action("Reload", () => waiting.postMessage("begin"));
  root.prepend(make("p", "mg-note", ["There is a new version of musicgen. ", reload]));
}

export async function keepInstalled(app, root) {
  const { serviceWorker: service } = navigator;
  if (!service) return; // without HTTPS, or in a private window
  let begun = Boolean(service.controller);
  service.addEventListener("controllerchange", () => {
    if (begun) location.reload();
    begun = true; // the first visit is not a new version
  });
  const kept = await service.register("sw.js"),
    look = () => service.controller && kept.waiting && newVersion(root, kept.waiting);
  look();
  kept.addEventListener("updatefound", () => {
    const { installing } = kept;
    installing.addEventListener("statechange", () => {
      if (installing.state === "installed") look();
      if (installing.state === "redundant" && !service.controller) app.say(ROOM);
    });
  });
}
