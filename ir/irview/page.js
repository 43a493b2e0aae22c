"use strict";
(() => {
  const places = new Map();
  for (const e of document.querySelectorAll("b[data-v]")) {
    const name = e.dataset.v;
    if (!places.has(name)) places.set(name, []);
    places.get(name).push(e);
  }
  const marked = new Map(); // name -> class
  const colours = ["m0", "m1", "m2", "m3", "m4", "m5"];
  let next = 0, hovered = null;
  const each = (name, f) => { for (const e of places.get(name) || []) f(e.classList); };
  const hover = name => {
    if (name === hovered) return;
    if (hovered !== null) each(hovered, c => c.remove("hover"));
    hovered = name;
    if (name !== null) each(name, c => c.add("hover"));
  };
  const toggle = name => {
    if (marked.has(name)) {
      const m = marked.get(name);
      each(name, c => c.remove(m));
      marked.delete(name);
      return;
    }
    const m = colours[next++ % colours.length];
    each(name, c => c.add(m));
    marked.set(name, m);
  };
  const under = e => e.target.closest ? e.target.closest("b[data-v]") : null;
  document.addEventListener("mouseover", e => { const b = under(e); hover(b ? b.dataset.v : null); });
  document.addEventListener("click", e => {
    const b = under(e);
    if (b) { toggle(b.dataset.v); return; }
    const h = e.target.closest ? e.target.closest("section > h2 button") : null;
    if (h) h.closest("section").classList.toggle("folded");
  });
  document.addEventListener("keydown", e => {
    if (e.key !== "Escape") return;
    for (const name of [...marked.keys()]) toggle(name);
  });
})();
