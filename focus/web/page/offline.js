// Keeps the files of the page in the browser: it then opens and solves without a connection.
"use strict";
const VERSION = "/*VERSION*/", FILES = /*FILES*/[];
const OWN = `focus ${registration.scope} `, CACHE = OWN + VERSION; // other folders of the host have theirs

addEventListener("install", (event) => {
  // From the host: the browser's HTTP cache may hold files of an earlier export.
  const requests = FILES.map((url) => new Request(url, { cache: "reload" }));
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(requests)));
});
addEventListener("activate", (event) => {
  event.waitUntil(caches.keys().then((names) =>
    Promise.all(names.filter((name) => name.startsWith(OWN) && name !== CACHE).map((name) => caches.delete(name)))));
});
addEventListener("fetch", (event) => {
  event.respondWith(caches.open(CACHE)
    .then((cache) => cache.match(event.request, { ignoreSearch: true }))
    .then((stored) => stored || fetch(event.request)));
});
