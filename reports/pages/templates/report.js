// Sorts and filters the table, and opens instances. All texts are in the page already; nothing
// here ever makes markup of a text.
"use strict";
(() => {
  const table = document.getElementById("instances");
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const filters = document.getElementById("filters");
  const shown = document.getElementById("shown");
  const panel = document.getElementById("panel");
  const collator = new Intl.Collator("en", { numeric: true });
  const links = new Map();
  for (const row of rows) {
    const link = row.querySelector("a");
    if (link) links.set(row.dataset.id, link);
  }

  // The filters: every word must stand in the row, every choice must be the row's.
  function filter() {
    const words = filters.elements.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const choices = Array.from(filters.querySelectorAll("select")).filter((s) => s.value !== "");
    let count = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      const fits = words.every((word) => text.includes(word))
        && choices.every((choice) => row.dataset[choice.name] === choice.value);
      row.hidden = !fits;
      if (fits) count += 1;
    }
    shown.textContent = `${count} of ${rows.length} instances`;
  }
  for (const kind of ["input", "change"]) filters.addEventListener(kind, filter);
  filters.addEventListener("reset", () => setTimeout(filter));
  filters.addEventListener("submit", (event) => event.preventDefault());

  // Sorting: cells say by what (data-key); what is unknown stays last either way.
  function sort(header) {
    const down = header.getAttribute("aria-sort") === "ascending";
    for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
    header.setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = (row) => row.cells[header.cellIndex].dataset.key;
    const sign = down ? -1 : 1;
    const compare = header.classList.contains("number")
      ? (x, y) => Number(x) - Number(y)
      : (x, y) => collator.compare(x, y);
    rows.sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === "" || y === "") return (x === "") - (y === "");
      return sign * compare(x, y);
    });
    body.append(...rows);
  }
  for (const header of table.tHead.rows[0].cells) {
    header.querySelector("button").addEventListener("click", () => sort(header));
  }

  // An instance is open when the address names it: links can be sent, and Back works.
  function named() {
    try {
      return decodeURIComponent(location.hash.slice(1));
    } catch {
      return "";
    }
  }
  function show() {
    const id = named();
    const link = links.get(id);
    if (!link) {
      if (panel.open) panel.close();
      return;
    }
    document.getElementById("panel-title").textContent = id;
    document.getElementById("alone").setAttribute("href", link.getAttribute("href"));
    // A new frame each time: changing the address of one would fill the history.
    const frame = document.createElement("iframe");
    frame.setAttribute("sandbox", "");
    frame.title = `Instance ${id}`;
    frame.setAttribute("src", link.getAttribute("href"));
    document.getElementById("page").replaceChildren(frame);
    if (!panel.open) panel.showModal();
  }
  function step(by) {
    const visible = rows.filter((row) => !row.hidden && links.has(row.dataset.id));
    const here = visible.findIndex((row) => row.dataset.id === named());
    const next = visible[here + by];
    if (here >= 0 && next) location.hash = encodeURIComponent(next.dataset.id);
  }
  body.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    location.hash = encodeURIComponent(link.closest("tr").dataset.id);
  });
  panel.addEventListener("close", () => {
    if (panel.open) return;
    const link = links.get(named());
    document.getElementById("page").replaceChildren();
    history.replaceState(null, "", "#");
    if (link) link.focus();
  });
  document.getElementById("close").addEventListener("click", () => panel.close());
  document.getElementById("previous").addEventListener("click", () => step(-1));
  document.getElementById("next").addEventListener("click", () => step(1));
  window.addEventListener("hashchange", show);
  filter();
  show();
})();
