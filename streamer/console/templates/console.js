// What the console does in a browser beyond plain pages, all of which works without it: the key "/"
// goes to the search, tables that are whole sort and filter, and the overview follows the crawl.
"use strict";
const FILTERED_MIN = 8; // rows: fewer are seen at a look
const address = document.currentScript.dataset.source;

// ---- keys ----

document.addEventListener("keydown", (event) => {
  const isText = event.target.closest("input, textarea, select");
  if (event.key === "/" && !isText && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    document.querySelector(".search input").select();
  }
});

// ---- tables: those of which all rows are shown; of others the server sorts and filters ----

function valueOf(row, column) {
  const cell = row.cells[column];
  const text = cell.dataset.value ?? cell.textContent.trim();
  const number = Number(text.replaceAll(",", "").replace(/ ?%$/, ""));
  return text === "" || Number.isNaN(number) ? text : number;
}

function compare(one, other) {
  return typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other));
}

function sortBy(table, head) {
  const column = head.cellIndex, body = table.tBodies[0];
  const isDown = head.ariaSort ? head.ariaSort === "ascending" : head.classList.contains("number");
  for (const each of head.parentNode.cells) each.removeAttribute("aria-sort");
  head.ariaSort = isDown ? "descending" : "ascending";
  const rows = [...body.rows].sort((a, b) => compare(valueOf(a, column), valueOf(b, column)));
  body.append(...(isDown ? rows.reverse() : rows));
}

function filterRows(table) {
  const wanted = [...table.tHead.rows[1].cells].map((cell) => cell.firstChild.value.trim().toLowerCase());
  for (const row of table.tBodies[0].rows) {
    row.hidden = wanted.some((text, column) => {
      const value = valueOf(row, column), least = text === "" ? NaN : Number(text.replaceAll(",", ""));
      if (typeof value === "number" && !Number.isNaN(least)) return value < least;
      return !row.cells[column].textContent.toLowerCase().includes(text);
    });
  }
}

function equip(table) {
  const heads = [...table.tHead.rows[0].cells], filters = document.createElement("tr");
  filters.className = "filters";
  for (const head of heads) {
    const name = head.textContent, button = document.createElement("button");
    button.type = "button";
    button.textContent = name;
    button.addEventListener("click", () => sortBy(table, head));
    head.replaceChildren(button);
    const input = document.createElement("input"), cell = document.createElement("td");
    const isNumber = head.classList.contains("number");
    input.placeholder = isNumber ? "at least" : "has";
    input.ariaLabel = `${name}: ${input.placeholder}`;
    input.addEventListener("input", () => filterRows(table));
    cell.className = head.className;
    cell.append(input);
    filters.append(cell);
  }
  if (table.tBodies[0].rows.length >= FILTERED_MIN) table.tHead.append(filters);
}

function equipAll(part) {
  for (const table of part.querySelectorAll("table[data-whole]")) if (table.tBodies[0].rows.length > 1) equip(table);
}

// ---- the overview: puts the sections that the server sends in the places of those shown. One that a
// person is using stays as it is. A tab that is hidden asks for none. ----

const PAUSE_MS = 1000, PAUSE_SHARE = 10; // between two questions: as least, and of what one has taken
const sentBefore = new Map();

function isUsed(section) {
  return section.contains(document.activeElement) || section.matches(":has(.chart:hover, details[open])") ||
    [...section.querySelectorAll("input")].some((input) => input.value);
}

function show(text) {
  const sent = new DOMParser().parseFromString(text, "text/html");
  for (const old of document.getElementById("live").children) if (!sent.getElementById(old.id)) old.remove();
  for (const section of sent.body.children) {
    const old = document.getElementById(section.id);
    if (sentBefore.get(section.id) === section.outerHTML || (old && isUsed(old))) continue;
    sentBefore.set(section.id, section.outerHTML);
    const made = section.cloneNode(true);
    equipAll(made);
    if (old) old.replaceWith(made);
    else document.getElementById("live").append(made);
  }
}

async function follow() {
  const began = performance.now();
  try {
    const answer = document.hidden ? null : await fetch(address);
    if (answer?.ok) show(await answer.text());
  } catch { // the console is away, and may be back
  }
  setTimeout(follow, Math.max(PAUSE_MS, PAUSE_SHARE * (performance.now() - began)));
}

equipAll(document);
if (address) follow();
