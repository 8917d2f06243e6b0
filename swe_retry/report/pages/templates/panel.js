// Opens instances in a panel over the table. No text is ever parsed as HTML.
"use strict";
(() => {
  const body = document.getElementById("instances").tBodies[0];
  const panel = document.getElementById("panel");
  const links = new Map();
  for (const row of body.rows) {
    const link = row.querySelector("a");
    if (link) links.set(row.dataset.id, link);
  }

  // The address names the open instance, so that links can be shared and Back works.
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
    // A new frame each time, because changing the address of a frame adds to the history.
    const frame = document.createElement("iframe");
    frame.setAttribute("sandbox", "");
    frame.title = `Instance ${id}`;
    // Its link back would open the report inside the frame.
    frame.setAttribute("src", `${link.getAttribute("href")}#framed`);
    document.getElementById("page").replaceChildren(frame);
    if (!panel.open) panel.showModal();
  }
  function step(by) {
    const visible = Array.from(body.rows).filter((row) => !row.hidden && links.has(row.dataset.id));
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
  show();
})();
