// Keeps the files of the page, so that it works offline; VERSION and FILES are written before this.
/* global VERSION, FILES */
const PREFIX = `musicgen ${registration.scope} `,
  CACHE = PREFIX + VERSION;

addEventListener("install", (event) => {
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(FILES)));
});

// A new version waits until the page lets it begin, or no page of an earlier one is open.
addEventListener("message", ({ data }) => data === "begin" && skipWaiting());

addEventListener("activate", (event) => {
  const clean = async () => {
    const names = await caches.keys(),
      old = names.filter((name) => name.startsWith(PREFIX) && name !== CACHE);
    await Promise.all(old.map((name) => caches.delete(name)));
    await clients.claim();
  };
  event.waitUntil(clean());
});

addEventListener("fetch", (event) => {
  if (event.request.method !== "GET") return;
  const kept = caches
    .open(CACHE)
    .then((cache) => cache.match(event.request, { ignoreSearch: true }));
  event.respondWith(kept.then((answer) => answer ?? fetch(event.request)));
});
