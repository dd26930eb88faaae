// Puts the sections of the overview that the server sends in the places of those that are shown.
// One that a person is using stays as it is: it holds the focus, or an open table. A tab that is
// hidden takes none of the few connections that a browser has for a server.
"use strict";
const address = document.currentScript.dataset.source;
let source = null;

function show(event) {
  const sent = new DOMParser().parseFromString(event.data, "text/html");
  const shown = document.getElementById("live");
  for (const section of sent.body.children) {
    const old = document.getElementById(section.id);
    if (!old) {
      shown.append(section.cloneNode(true));
    } else if (
      !old.isEqualNode(section) && !old.contains(document.activeElement) && !old.querySelector("details[open]")
    ) {
      old.replaceWith(section.cloneNode(true));
    }
  }
}

function follow() {
  if (document.hidden) {
    source?.close();
    source = null;
  } else if (!source) {
    source = new EventSource(address);
    source.onmessage = show;
  }
}

document.addEventListener("visibilitychange", follow);
follow();
