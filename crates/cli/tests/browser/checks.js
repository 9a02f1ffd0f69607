// What is asked of every page. Each question gives a list of faults, empty when there is none.
(() => {
  const name = (e) => `${e.tagName.toLowerCase()}${typeof e.className === "string" && e.className ? "." + e.className : ""}: ${e.textContent.trim().slice(0, 60)}`;
  const shown = (e) => e.getClientRects().length > 0 && getComputedStyle(e).visibility === "visible";
  // Scrolled by itself, or folded out of sight on purpose.
  const apart = (e) => e.closest(".scroll, pre, thead");
  const number = (text) => text !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
  const value = (cell) => number(cell.dataset.v ?? cell.textContent.trim());
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const channels = (colour) => {
    if (!known.has(colour)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      known.set(colour, [...canvas.getImageData(0, 0, 1, 1).data]);
    }
    return known.get(colour);
  };
  // WCAG 2.1's relative luminance and contrast.
  const luminance = (colour) => {
    const [r, g, b] = channels(colour).map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (channels(colour)[3] > 0) return colour;
    }
    return "white";
  };

  window.checks = {
    // Nothing sticks out of the window; a table in a narrow one is read without scrolling it sideways.
    overflow() {
      const wide = document.documentElement.scrollWidth;
      const faults = wide > innerWidth ? [`the page is ${wide} wide in a window of ${innerWidth}`] : [];
      for (const e of document.querySelectorAll(".scroll")) {
        if (innerWidth < 600 && e.scrollWidth > e.clientWidth) faults.push(`${name(e)} holds ${e.scrollWidth} in ${e.clientWidth}`);
      }
      for (const e of document.body.querySelectorAll("*")) {
        if (!shown(e) || apart(e) || e.closest("svg") !== null && e.tagName !== "svg") continue;
        const box = e.getBoundingClientRect();
        if (box.right > innerWidth + 0.5 || box.left < -0.5) faults.push(`${name(e)} from ${box.left} to ${box.right}`);
      }
      return faults;
    },
    // On paper nothing can be scrolled: what a box holds has to fit in it.
    cut() {
      const faults = [];
      for (const e of document.body.querySelectorAll("*")) {
        if (e.closest("svg") || !shown(e) || e.closest("thead") && getComputedStyle(e).clipPath !== "none") continue;
        const style = getComputedStyle(e);
        if (style.overflowX !== "visible" && e.scrollWidth > e.clientWidth + 1) faults.push(`${name(e)} holds ${e.scrollWidth} in ${e.clientWidth}`);
        const box = e.getBoundingClientRect();
        if (box.right > innerWidth + 1) faults.push(`${name(e)} ends at ${box.right} of ${innerWidth}`);
      }
      return faults;
    },
    // Pictures: named for those who cannot see them; their words within their frames, and none over another.
    pictures() {
      const faults = [];
      for (const svg of document.querySelectorAll("svg")) {
        if (svg.getAttribute("aria-hidden") === "true") continue;
        const label = svg.getAttribute("aria-label") ?? "";
        if (svg.getAttribute("role") !== "img" || label.length < 10) faults.push(`a picture without role or words: ${label}`);
        const title = svg.closest("figure")?.querySelector("figcaption")?.textContent ?? "";
        if (title.trim() === "") faults.push(`a picture without title: ${label}`);
        if (/NaN|Infinity|undefined/.test(svg.outerHTML)) faults.push(`no number in ${title}`);
        if (!shown(svg)) continue;
        const frame = svg.viewBox.baseVal, texts = [...svg.querySelectorAll("text")];
        const outer = svg.getBoundingClientRect();
        for (const text of texts) {
          const box = text.getBoundingClientRect();
          if (box.left < outer.left - 1 || box.right > outer.right + 1 || box.top < outer.top - 1 || box.bottom > outer.bottom + 1)
            faults.push(`“${text.textContent}” sticks out of “${title}” (${frame.width} wide)`);
        }
        const boxes = texts.map((t) => [t.textContent, t.getBoundingClientRect()]);
        boxes.forEach(([a, p], i) => boxes.slice(i + 1).forEach(([b, q]) => {
          if (p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 2 && q.top < p.bottom - 2)
            faults.push(`“${a}” and “${b}” overlap in “${title}”`);
        }));
      }
      return faults;
    },
    // Each head sorts its column, up and then down, and no row is lost.
    sorting() {
      const faults = [];
      const ordered = (values) => values.every((v, i) => i === 0 || typeof v !== typeof values[i - 1] ||
        (typeof v === "number" ? values[i - 1] <= v : values[i - 1].localeCompare(v, "en", { numeric: true }) <= 0));
      for (const table of document.querySelectorAll("table.sortable")) {
        const body = table.tBodies[0], before = [...body.rows].map((r) => r.textContent).sort().join("\n");
        [...table.tHead.rows[0].cells].forEach((head, i) => {
          for (const direction of ["ascending", "descending"]) {
            head.querySelector("button").click();
            const values = [...body.rows].map((r) => value(r.cells[i]));
            if (direction === "descending") values.reverse();
            if (head.getAttribute("aria-sort") !== direction || !ordered(values)) faults.push(`${table.caption.textContent}, ${head.textContent}, ${direction}: ${values}`);
          }
        });
        const after = [...body.rows].map((r) => r.textContent).sort().join("\n");
        if (before !== after) faults.push(`${table.caption.textContent}: rows were lost`);
        for (const row of body.rows) if (row.cells.length !== table.tHead.rows[0].cells.length) faults.push(`${table.caption.textContent}: a row of ${row.cells.length} cells`);
      }
      return faults;
    },
    // Words stand out from what is behind them (WCAG 2.1 AA), lines and marks too.
    contrast() {
      const faults = new Set();
      for (const e of document.querySelectorAll("h1, h2, h3, p, li, th, td, a, button, figcaption, summary, dt, dd, small")) {
        if (!shown(e)) continue;
        const ratio = contrast(getComputedStyle(e).color, behind(e));
        if (ratio < 4.5) faults.add(`${name(e)}: ${ratio.toFixed(2)}`);
      }
      for (const e of document.querySelectorAll("svg text")) {
        if (shown(e) && contrast(getComputedStyle(e).fill, behind(e)) < 4.5) faults.add(name(e));
      }
      for (const e of document.querySelectorAll("svg .line, svg .mark")) {
        const ratio = contrast(getComputedStyle(e).stroke, behind(e));
        if (ratio < 3) faults.add(`${e.closest("g, svg").getAttribute("class")}: ${ratio.toFixed(2)}`);
      }
      return [...faults];
    },
    background: () => channels(getComputedStyle(document.body).backgroundColor).slice(0, 3).reduce((a, b) => a + b) / 3,
    // Headings go down one step at a time, ids are used once, links within the page lead somewhere.
    structure() {
      const faults = [];
      let last = 0;
      for (const h of document.querySelectorAll("h1, h2, h3, h4")) {
        const level = Number(h.tagName[1]);
        if (level > last + 1) faults.push(`${name(h)} after a heading of level ${last}`);
        last = level;
      }
      // Nothing is named twice in one section.
      const named = new Set();
      let within = "";
      for (const e of document.querySelectorAll("h2, h3, figcaption, caption")) {
        if (e.tagName === "H2") within = e.textContent;
        const title = `${e.tagName === "H2" ? "" : within}, ${e.textContent}`;
        if (named.has(title)) faults.push(`two parts are named ${title}`);
        named.add(title);
      }
      const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
      if (new Set(ids).size !== ids.length) faults.push("an id is used twice");
      for (const a of document.querySelectorAll("a[href^='#']")) if (!document.getElementById(a.hash.slice(1))) faults.push(`${a.hash} leads nowhere`);
      if (!document.documentElement.lang || !document.title) faults.push("no language or title");
      return faults;
    },
    // Each number is on one line.
    whole() {
      const faults = [];
      for (const cell of document.querySelectorAll("td.n")) {
        const text = cell.firstChild;
        if (!shown(cell) || text?.nodeType !== Node.TEXT_NODE) continue;
        const range = document.createRange();
        range.selectNodeContents(text);
        const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
        if (lines.size > 1) faults.push(`${text.textContent} is on ${lines.size} lines`);
      }
      return faults;
    },
    // On paper the conditions are unfolded.
    async folded() {
      // The page hears of the change with its next frame.
      for (let i = 0; i < 2; i += 1) await new Promise(requestAnimationFrame);
      const hidden = [...document.querySelectorAll(".conditions details")].filter((e) => !e.querySelector(".body").checkVisibility());
      return hidden.map((e) => `${name(e)} is folded`);
    },
    unfold() {
      for (const d of document.querySelectorAll("details")) d.open = true;
      return [];
    },
  };
})()
