// Sorts and filters the table of instances. All texts are in the page already; no text is ever
// parsed as HTML.
"use strict";
(() => {
  const table = document.getElementById("instances");
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const filters = document.getElementById("filters");
  const shown = document.getElementById("shown");
  const collator = new Intl.Collator("en", { numeric: true });

  // Filter: a row must contain every word and match every choice.
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
    const noun = table.dataset.noun || "instance";
    shown.textContent = `${count} of ${rows.length} ${rows.length === 1 ? noun : `${noun}s`}`;
  }
  for (const kind of ["input", "change"]) filters.addEventListener(kind, filter);
  filters.addEventListener("reset", () => setTimeout(filter));
  filters.addEventListener("submit", (event) => event.preventDefault());

  // Sort by data-key; unknown values are last in both directions.
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
  filter();
})();
