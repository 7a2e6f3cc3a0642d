// Keeps the files of the page in the browser: it then opens and solves without a connection.
"use strict";
const VERSION = "/*VERSION*/", FILES = /*FILES*/[];

addEventListener("install", (event) => {
  event.waitUntil(caches.open(VERSION).then((cache) => cache.addAll(FILES)));
});
addEventListener("activate", (event) => {
  event.waitUntil(caches.keys().then((names) =>
    Promise.all(names.filter((name) => name.startsWith("focus-") && name !== VERSION).map((name) => caches.delete(name)))));
});
addEventListener("fetch", (event) => {
  event.respondWith(caches.open(VERSION)
    .then((cache) => cache.match(event.request, { ignoreSearch: true }))
    .then((stored) => stored || fetch(event.request)));
});
