(() => {
  // The rows that fit the choices; the address keeps them, so that a link shows the same.
  const form = document.querySelector("form.filter"), shown = document.getElementById("shown");
  const rows = [...document.querySelectorAll("#runs tbody tr")], keys = ["server", "host", "experiment"];
  form.hidden = false;
  const apply = () => {
    const text = form.elements.text.value.trim().toLowerCase();
    const fits = (row) => row.textContent.toLowerCase().includes(text) &&
      keys.every((key) => !form.elements[key].value || JSON.parse(row.dataset[key]).includes(form.elements[key].value));
    for (const row of rows) row.hidden = !fits(row);
    shown.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} runs`;
    const chosen = [...keys, "text"].map((key) => [key, form.elements[key].value]).filter(([, value]) => value);
    const address = chosen.length ? "#" + new URLSearchParams(chosen) : location.pathname.split("/").pop();
    try { history.replaceState(null, "", address); } catch { /* a page without an address of its own */ }
  };
  for (const [key, value] of new URLSearchParams(location.hash.slice(1))) {
    if (form.elements[key]) form.elements[key].value = value;
  }
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(apply));
  apply();
})();
