// Puts the sections of the overview that the server sends in the places of those that are shown.
// One that a person is using stays as it is: it holds the focus, or an open table.
"use strict";
const source = new EventSource(document.currentScript.dataset.source);
source.onmessage = (event) => {
  const sent = new DOMParser().parseFromString(event.data, "text/html");
  const shown = document.getElementById("live");
  for (const section of sent.body.children) {
    const old = document.getElementById(section.id);
    if (!old) {
      shown.append(section.cloneNode(true));
    } else if (!old.contains(document.activeElement) && !old.querySelector("details[open]")) {
      old.replaceWith(section.cloneNode(true));
    }
  }
};
