"use strict";
(() => {
  const root = document.documentElement;

  // Light or dark: what the reader chose for this page, else what the system says.
  const button = document.getElementById("theme");
  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  button.hidden = false;
  // A file of its own may have no storage.
  const stored = (action) => { try { return action(localStorage); } catch { return null; } };
  const chosen = stored((storage) => storage.getItem("dnsdyno-theme"));
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    stored((storage) => storage.setItem("dnsdyno-theme", root.dataset.theme));
  });

  // Paper cannot be unfolded: it shows the conditions, and afterwards the page is as it was.
  let unfolded = [];
  const paper = (printed) => {
    for (const part of unfolded) part.open = false;
    unfolded = printed ? [...document.querySelectorAll(".conditions details:not([open])")] : [];
    for (const part of unfolded) part.open = true;
  };
  matchMedia("print").addEventListener("change", (event) => paper(event.matches));
  addEventListener("beforeprint", () => paper(true));
  addEventListener("afterprint", () => paper(false));

  // Tables sort by the column whose head is pressed; numbers by their exact value.
  const key = (row, i) => {
    const cell = row.cells[i], text = cell.dataset.v ?? cell.textContent.trim(), number = Number(text);
    return text !== "" && Number.isFinite(number) ? number : text;
  };
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return a.localeCompare(b, "en", { numeric: true });
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, i) => {
      const press = document.createElement("button");
      press.type = "button";
      press.append(...head.childNodes);
      head.append(press);
      press.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        heads.forEach((h) => h.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const rows = [...table.tBodies[0].rows].sort((a, b) => compare(key(a, i), key(b, i)) * (up ? 1 : -1));
        table.tBodies[0].append(...rows);
      });
    });
  }

  // What a mark says, on a touch as well: the browser's own tooltips want a mouse.
  let tip = null;
  const hide = () => { tip?.remove(); tip = null; };
  document.addEventListener("pointerdown", (event) => {
    hide();
    const title = event.target.closest?.("svg path")?.querySelector("title");
    if (!title || event.pointerType === "mouse") return;
    tip = document.createElement("div");
    tip.id = "tip";
    tip.setAttribute("role", "status");
    tip.textContent = title.textContent;
    document.body.append(tip);
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(event.clientX - box.width / 2, innerWidth - box.width - 4)) + "px";
    tip.style.top = Math.max(4, event.clientY - box.height - 14) + "px";
  });
  document.addEventListener("scroll", hide, { passive: true });

  // The raw data unpacked, where the browser can.
  if ("DecompressionStream" in window) {
    for (const link of document.querySelectorAll("a[data-json]")) {
      link.textContent = "Raw data (JSON)";
      link.addEventListener("click", async (event) => {
        if (!event.isTrusted || link.dataset.busy) return;
        event.preventDefault();
        link.dataset.busy = "1";
        const bytes = Uint8Array.from(atob(link.href.slice(link.href.indexOf(",") + 1)), (c) => c.charCodeAt(0));
        const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
        const url = URL.createObjectURL(await new Response(plain).blob());
        const out = document.createElement("a");
        out.href = url;
        out.download = link.dataset.json;
        out.click();
        setTimeout(() => URL.revokeObjectURL(url), 60000);
        delete link.dataset.busy;
      });
    }
  }
})();
