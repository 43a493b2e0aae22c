"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { strings, records, columns, drawings, regions = [] } = data;
  const $ = id => document.getElementById(id);
  const svg = $("svg"), view = $("view"), side = $("side"), map = $("map");
  const NODE = 0, INPUT = 1, OUTPUT = 2, FRAME = 3, OUTER = 4, UNDEFINED = 5;
  const last = columns.reduce((k, c, i) => c.drawing >= 0 ? i : k, -1);
  const state = { column: last, base: -1, side: "after", chosen: -1, hits: [], hit: -1, heat: regions.length > 0 };
  const at = { x: 0, y: 0, k: 1 };
  let shown = null; // the drawing on the screen, with what belongs to it

  // ---- what is drawn
  const el = (tag, attrs, text) => {
    const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const k in attrs) e.setAttribute(k, attrs[k]);
    if (text !== undefined) e.textContent = text;
    return e;
  };
  const tag = (name, attrs = {}, ...inside) => {
    const e = document.createElement(name);
    for (const k in attrs) if (k === "onclick") e.onclick = attrs[k]; else e.setAttribute(k, attrs[k]);
    e.append(...inside);
    return e;
  };
  const cut = (s, n) => [...s].length > n ? [...s].slice(0, n).join("") + "…" : s;
  const shortType = s => cut(s.startsWith("float[") ? s.slice(5) : s, 44);
  const isRead = i => i >= 0;
  const kinds = [
    [/SSM|StateSpace|Scan$|LongConv|DPLR|SoftmaxConv|MatrixConv|GatedScan|LSTM|GRU|RNN|LinearAttention/, "#8250df"],
    [/MatMul|Gemm|Linear|Einsum/, "#1f6feb"], [/Conv/, "#0b8a8f"], [/Attention|Softmax/, "#bf3989"],
    [/Norm/, "#1a8f43"], [/Relu|Elu|Gelu|Sigmoid|Tanh|Silu|Swish|Mish|Softplus|Activation/i, "#d1470c"],
    [/Pool|Reduce|Pick|Mean|ArgM/, "#9a6700"], [/Gather|Embedding|Slice|Split|Concat/, "#57606a"],
    [/Reshape|Transpose|Squeeze|Shape|Expand|Cast|Identity|Flatten|Tile|Pad/, "#a5adb8"],
    [/If|Loop|Scan|Block|SequenceMap/, "#e3b200"]];
  const colour = op => (kinds.find(k => k[0].test(op)) || [0, "#79879a"])[1];
  const lines = r => {
    const t = strings[r.o], out = r.u && r.u[0] >= 0 ? r.u : null;
    switch (r.r || NODE) {
      case INPUT: case OUTER: case UNDEFINED: return [cut(strings[r.u[0]], 30), shortType(strings[r.u[1]])];
      case OUTPUT: return [cut(r.i[0] >= 0 ? strings[r.i[0]] : r.i[0] < -1 ? strings[-2 - r.i[0]] : "?", 30), "output"];
      case FRAME: return [t, ""];
    }
    return [t, out ? shortType(strings[out[1]]) : ""];
  };
  // The name under which a record of another graph is the same one, changed.
  const valueOf = r => r.u && r.u.length ? r.u[0] : r.i && r.i.length ? -1 - r.i[0] : -1;
  const boxesOf = d => {
    const out = [];
    for (let i = 0; i < d.b.length; i += 5) out.push({ r: d.b[i], x: d.b[i + 1], y: d.b[i + 2], w: d.b[i + 3], h: d.b[i + 4] });
    return out;
  };
  const count = ids => { const m = new Map(); for (const i of ids) m.set(i, (m.get(i) || 0) + 1); return m; };
  const own = d => boxesOf(d).map(b => b.r).filter(r => { const k = records[r].r || NODE; return k !== FRAME && k !== OUTER && k !== UNDEFINED; });
  // compare gives each record of the drawings that is not in both: "add" or "chg" in the later one, "rem" or "chg" before.
  const compare = (before, after) => {
    const old = count(own(before)), now = count(own(after)), a = new Map(), b = new Map(), names = new Map();
    for (const [r, n] of old) if ((now.get(r) || 0) < n) { b.set(r, "rem"); const v = valueOf(records[r]); if (!names.has(v)) names.set(v, []); names.get(v).push(r); }
    for (const [r, n] of now) if ((old.get(r) || 0) < n) {
      const same = (names.get(valueOf(records[r])) || []).shift();
      a.set(r, same === undefined ? "add" : "chg");
      if (same !== undefined) { b.set(same, "chg"); pairs.set(r, same); pairs.set(same, r); }
    }
    return { a, b };
  };
  const pairs = new Map(); // changed records, before and after
  const regionOf = new Map(); // value -> region
  regions.forEach((r, i) => r.out.forEach(v => regionOf.set(v, i)));
  const total = regions.reduce((s, r) => s + r.ms, 0);
  const ms = v => v >= 1000 ? (v / 1000).toPrecision(3) + " s" : v >= 1 ? v.toPrecision(3) + " ms" : v >= 1e-3 ? (v * 1000).toPrecision(3) + " µs" : (v * 1e6).toFixed(0) + " ns";
  const percent = v => total > 0 ? (100 * v / total).toFixed(1) + "%" : "";
  const timedColumn = () => regions.length && columns[state.column].drawing === columns[last].drawing && state.side === "after";

  const fitting = (r, w) => { const s = ms(r.ms) + " · " + r.form; return s.length * 6.4 + 14 <= w ? s : ms(r.ms); };
  const path = (d, boxes) => {
    const from = boxes[d[0]], to = boxes[d[1]];
    let x = d[2], y = from.y + from.h, s = `M${x} ${y}`;
    const curve = (nx, ny) => {
      const m = (y + ny) / 2;
      s += nx === x ? `V${ny}` : `C${x} ${m} ${nx} ${m} ${nx} ${ny}`;
      x = nx; y = ny;
    };
    for (let i = 4; i < d.length; i += 3) { curve(d[i], d[i + 1]); s += `V${d[i + 2]}`; y = d[i + 2]; }
    if (x !== d[3] || y !== to.y) curve(d[3], to.y); // a part without length would turn the tip
    return s;
  };

  const draw = keep => {
    const c = columns[state.column], base = state.base >= 0 ? columns[state.base] : null;
    pairs.clear();
    let d = c.drawing >= 0 ? drawings[c.drawing] : null, marks = new Map();
    const differs = base && base.drawing >= 0 && d && base.drawing !== c.drawing;
    if (differs) {
      const diff = compare(drawings[base.drawing], d);
      if (state.side === "before") { d = drawings[base.drawing]; marks = diff.b; } else marks = diff.a;
      shown = { diff };
    } else { state.side = "after"; shown = { diff: null }; }
    view.replaceChildren();
    shown.boxes = []; shown.marks = marks; shown.drawing = d; shown.edges = [];
    if (d) {
      const boxes = shown.boxes = boxesOf(d), hot = state.heat && timedColumn();
      const scopes = el("g", { class: "scope" });
      for (let i = 0; d.s && i < d.s.length; i += 5) {
        scopes.append(el("rect", { x: d.s[i + 1], y: d.s[i + 2], width: d.s[i + 3], height: d.s[i + 4], rx: 8 }));
        scopes.append(el("text", { x: d.s[i + 1] - 8, y: d.s[i + 2] + 16, "text-anchor": "end" }, strings[d.s[i]]));
      }
      const frames = el("g", {}), edges = el("g", {}), nodes = el("g", {});
      boxes.forEach((b, i) => {
        const r = records[b.r], role = r.r || NODE, [first, second] = lines(r), holder = role === FRAME || b.h > 36;
        const g = el("g", { class: "node" + (role === NODE ? "" : role === FRAME ? " frame" : " io") + (holder && role === NODE ? " holder" : ""), transform: `translate(${b.x} ${b.y})`, "data-i": i });
        const mark = role === FRAME ? undefined : marks.get(b.r);
        if (mark) g.classList.add(mark);
        g.append(el("rect", { width: b.w, height: b.h, rx: 5 }));
        const region = hot && role === NODE && r.u ? regionOf.get(r.u[0]) : undefined;
        if (role === NODE) g.append(el("rect", { class: "bar", width: 5, height: Math.min(b.h, 36), rx: 2, style: `fill:${colour(first)}` }));
        if (region !== undefined && total > 0)
          g.append(el("rect", { class: "bar", x: 5, width: b.w - 5, height: Math.min(b.h, 36), style: `fill:rgba(var(--hot),${(0.04 + 0.8 * Math.sqrt(regions[region].ms / Math.max(...regions.map(x => x.ms)))).toFixed(3)})` }));
        const middle = role === FRAME ? 10 : b.w / 2 + (role === NODE ? 2 : 0), anchor = role === FRAME ? "start" : "middle";
        g.append(el("text", { x: middle, y: second ? 16 : 22, "text-anchor": anchor }, first));
        const typed = region !== undefined && regions[region].out[0] === r.u[0] ? fitting(regions[region], b.w) : second;
        if (typed) g.append(el("text", { class: "type", x: middle, y: 30, "text-anchor": anchor }, typed));
        (holder ? frames : nodes).append(g);
        b.e = g;
      });
      for (const e of d.e) {
        const p = el("path", { class: "edge", d: path(e, boxes) });
        const mark = marks.get(boxes[e[0]].r), to = marks.get(boxes[e[1]].r), both = state.side === "before" ? "rem" : "add";
        if (mark === both || to === both) p.classList.add(both);
        p.append(el("title", {}, valuesBetween(boxes[e[0]], boxes[e[1]]).join("\n")));
        edges.append(p);
        shown.edges.push({ e, p });
      }
      view.append(scopes, frames, edges, nodes);
    }
    $("sides").hidden = !differs;
    $("before").classList.toggle("on", state.side === "before");
    $("after").classList.toggle("on", state.side === "after");
    legend(differs);
    for (const b of $("passes").children) {
      b.classList.toggle("on", +b.dataset.c === state.column);
      if (+b.dataset.c === state.column) b.scrollIntoView({ block: "nearest" });
    }
    search(false);
    if (!keep) home();
    place();
  };

  const valuesBetween = (from, to) => {
    const a = records[from.r], b = records[to.r], out = [];
    for (let i = 0; a.u && i < a.u.length; i += 2)
      if (a.u[i] >= 0 && ((b.i || []).includes(a.u[i]) || (a.r || NODE) !== NODE && a.r !== INPUT)) out.push(strings[a.u[i]] + ": " + strings[a.u[i + 1]]);
    if (!out.length) out.push("read in a subgraph");
    return out;
  };

  const legend = differs => {
    const l = $("legend"), item = (name, v, bg) => l.append(tag("b", { style: `background:var(${bg});border:1px solid var(${v})` }), name);
    l.replaceChildren();
    const n = shown.drawing ? shown.drawing.n : 0;
    l.append(columns[state.column].drawing < 0 ? "no drawing" : `${n} node${n === 1 ? "" : "s"}`);
    if (!differs) return;
    l.append(state.side === "before" ? `, after ${columns[state.base].name}` : `, after ${columns[state.column].name}`);
    if (state.side === "before") item("removed", "--rem", "--rembg"); else item("added", "--add", "--addbg");
    item("changed", "--chg", "--chgbg");
  };

  // ---- place and zoom
  const size = () => ({ w: svg.clientWidth, h: svg.clientHeight });
  const mapWidth = () => map.hidden ? 0 : map.width + 16;
  const place = () => { view.setAttribute("transform", `translate(${at.x} ${at.y}) scale(${at.k})`); frame(); };
  const fit = () => {
    const d = shown.drawing, s = size();
    if (!d) return;
    at.k = Math.min((s.w - mapWidth() - 40) / Math.max(d.w, 1), (s.h - 40) / Math.max(d.h, 1), 1.6);
    at.x = (s.w - mapWidth() - d.w * at.k) / 2; at.y = (s.h - d.h * at.k) / 2;
  };
  // home shows the first marked node, or the top, at a size at which it can be read.
  const home = () => {
    drawMap();
    const d = shown.drawing, s = size();
    if (!d) return;
    fit();
    if (at.k >= 0.62) return;
    at.k = Math.min(1, Math.max(0.8, (s.w - mapWidth() - 40) / d.w));
    const b = shown.boxes.find(b => shown.marks.has(b.r)), first = shown.boxes.reduce((a, b) => !a || b.y < a.y ? b : a, null);
    if (b && b.y * at.k > s.h * 0.7) centre(b, 0.3);
    else if (first) { centre(b || first, 0); at.y = 24; }
  };
  const centre = (b, high) => {
    const s = size();
    at.x = (s.w - mapWidth()) / 2 - (b.x + b.w / 2) * at.k;
    at.y = s.h * high - (b.y + Math.min(b.h, 36) / 2) * at.k;
  };
  const zoom = (f, x, y) => {
    const k = Math.min(6, Math.max(0.01, at.k * f));
    at.x = x - (x - at.x) * k / at.k; at.y = y - (y - at.y) * k / at.k; at.k = k;
    place();
  };
  svg.addEventListener("wheel", e => {
    e.preventDefault();
    const unit = e.deltaMode === 1 ? 30 : 1;
    if (e.ctrlKey || e.metaKey) { const r = svg.getBoundingClientRect(); zoom(Math.exp(-e.deltaY * unit * (e.deltaMode === 1 ? 0.01 : 0.004)), e.clientX - r.left, e.clientY - r.top); return; }
    at.x -= (e.shiftKey ? e.deltaY : e.deltaX) * unit; if (!e.shiftKey) at.y -= e.deltaY * unit;
    place();
  }, { passive: false });
  const fingers = new Map();
  let moved = 0;
  svg.addEventListener("pointerdown", e => { fingers.set(e.pointerId, e); moved = 0; });
  svg.addEventListener("pointermove", e => {
    const was = fingers.get(e.pointerId);
    if (!was) return;
    const dx = e.clientX - was.clientX, dy = e.clientY - was.clientY;
    moved += Math.abs(dx) + Math.abs(dy);
    if (moved > 4 && !svg.hasPointerCapture(e.pointerId)) { svg.setPointerCapture(e.pointerId); svg.classList.add("drag"); }
    if (fingers.size === 2) {
      const other = [...fingers.values()].find(f => f.pointerId !== e.pointerId), r = svg.getBoundingClientRect();
      const d0 = Math.hypot(was.clientX - other.clientX, was.clientY - other.clientY), d1 = Math.hypot(e.clientX - other.clientX, e.clientY - other.clientY);
      if (d0 > 0) zoom(d1 / d0, (e.clientX + other.clientX) / 2 - r.left, (e.clientY + other.clientY) / 2 - r.top);
    } else if (moved > 4) { at.x += dx; at.y += dy; place(); }
    fingers.set(e.pointerId, e);
  });
  const up = e => { fingers.delete(e.pointerId); svg.classList.remove("drag"); };
  svg.addEventListener("pointerup", up);
  svg.addEventListener("pointercancel", up);
  svg.addEventListener("click", e => {
    if (moved > 4) return;
    const g = e.target.closest(".node");
    choose(g ? +g.dataset.i : -1);
  });

  // ---- the map at the side
  let image = null, scale = 1;
  const drawMap = () => {
    const d = shown.drawing, s = size();
    map.hidden = !d || d.h * 0.62 < s.h;
    if (map.hidden) return;
    const h = s.h - 18;
    scale = Math.min(h / d.h, 110 / d.w);
    map.width = Math.max(24, Math.ceil(d.w * scale) + 4); map.height = Math.ceil(d.h * scale);
    map.style.height = map.height + "px";
    const g = map.getContext("2d"), css = getComputedStyle(document.documentElement), v = n => css.getPropertyValue(n).trim();
    const dim = v("--edge"), of = { add: v("--add"), rem: v("--rem"), chg: v("--chg") };
    for (const b of shown.boxes) {
      const r = records[b.r], mark = (r.r || NODE) === FRAME ? null : shown.marks.get(b.r);
      g.fillStyle = mark ? of[mark] : (r.r || NODE) === NODE && !shown.marks.size ? colour(strings[r.o]) : dim;
      if ((r.r || NODE) !== FRAME) g.fillRect(2 + b.x * scale, b.y * scale, Math.max(1.5, b.w * scale), Math.max(1, Math.min(b.h, 36) * scale));
    }
    image = g.getImageData(0, 0, map.width, map.height);
  };
  const frame = () => {
    if (map.hidden || !image) return;
    const g = map.getContext("2d"), s = size();
    g.putImageData(image, 0, 0);
    g.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--accent");
    g.lineWidth = 2;
    g.strokeRect(Math.max(1, 2 - at.x / at.k * scale), -at.y / at.k * scale, Math.min(map.width - 2, s.w / at.k * scale), s.h / at.k * scale);
  };
  const jump = e => { if (e.buttons) { at.y = size().h / 2 - e.offsetY / scale * at.k; at.x = (size().w - mapWidth()) / 2 - Math.min(Math.max(e.offsetX / scale, 0), shown.drawing.w) * at.k; place(); } };
  map.addEventListener("pointerdown", jump);
  map.addEventListener("pointermove", jump);

  // ---- the panel at the right
  const goTo = i => { if (i >= 0) { choose(i); centre(shown.boxes[i], 0.4); place(); } };
  const link = (text, i) => i >= 0 ? tag("a", { onclick: () => goTo(i) }, text) : text;
  const producer = v => shown.boxes.findIndex(b => { const r = records[b.r]; return r.u && (r.r || NODE) < OUTPUT && r.u.some((x, k) => k % 2 === 0 && x === v); });
  const readers = v => shown.boxes.map((b, i) => [b, i]).filter(([b]) => (records[b.r].i || []).includes(v)).map(p => p[1]);
  const row = (a, ...b) => { const e = tag("td"); e.append(...b); return tag("tr", {}, tag("td", {}, a), e); };
  const choose = i => {
    state.chosen = i;
    for (const g of view.querySelectorAll(".on")) g.classList.remove("on");
    for (const { e, p } of shown.edges) p.classList.toggle("near", i >= 0 && (e[0] === i || e[1] === i));
    if (i < 0) { about(); return; }
    shown.boxes[i].e.classList.add("on");
    const b = shown.boxes[i], r = records[b.r], role = r.r || NODE;
    side.replaceChildren(tag("h2", {}, role === NODE || role === FRAME ? strings[r.o] : strings[r.o] + " " + lines(r)[0]));
    const t = tag("table");
    if (r.n) t.append(row("name", strings[r.n]));
    if (r.s) t.append(row("part", strings[r.s]));
    for (let k = 0; r.a && k < r.a.length; k += 2) {
      const name = strings[r.a[k]];
      t.append(row(name === "(opset)" ? "operator since" : name, tag("code", {}, name === "(opset)" ? "opset " + strings[r.a[k + 1]] : strings[r.a[k + 1]])));
    }
    side.append(t);
    const list = (title, rows) => { if (rows.length) { const t = tag("table"); t.append(...rows); side.append(tag("h3", {}, title), t); } };
    list("Inputs", (r.i || []).map((v, k) => {
      if (v === -1) return row(k, tag("span", { class: "dim" }, "absent"));
      if (v < -1) return row(k, tag("code", {}, strings[-2 - v]), tag("span", { class: "dim" }, " constant"));
      const p = producer(v), u = p >= 0 ? records[shown.boxes[p].r].u : null;
      return row(k, link(strings[v], p), u ? tag("code", {}, " " + strings[u[u.findIndex((x, q) => q % 2 === 0 && x === v) + 1]]) : "");
    }));
    const outs = [];
    for (let k = 0; r.u && k < r.u.length; k += 2) {
      if (r.u[k] < 0) { outs.push(row(k / 2, tag("span", { class: "dim" }, "absent"))); continue; }
      const to = readers(r.u[k]), cell = [strings[r.u[k]], tag("code", {}, " " + strings[r.u[k + 1]]), tag("br")];
      cell.push(tag("span", { class: "dim" }, to.length ? "read by " : "read by nothing here"));
      to.slice(0, 12).forEach((q, n) => cell.push(n ? ", " : "", link(lines(records[shown.boxes[q].r])[0], q)));
      if (to.length > 12) cell.push(` and ${to.length - 12} more`);
      outs.push(row(k / 2, ...cell));
    }
    list("Outputs", outs);
    if (regions.length && timedColumn() && r.u && regionOf.has(r.u[0])) {
      const g = regions[regionOf.get(r.u[0])];
      list("Runs in", [row("step", g.name), row("form", g.form), row("time", `${ms(g.ms)}, ${percent(g.ms)} of a run`), row("nodes", String(g.out.length))]);
    }
    if (pairs.has(b.r)) difference(b.r);
    side.append(tag("p"), tag("a", { onclick: () => choose(-1) }, "About this pass"));
  };
  // difference lists what a pass has changed at a node.
  const difference = id => {
    const [was, is] = state.side === "before" ? [id, pairs.get(id)] : [pairs.get(id), id], a = records[was], b = records[is], rows = [];
    const text = v => v === -1 ? "absent" : v < -1 ? strings[-2 - v] : strings[v];
    const differ = (name, x, y) => { if (x !== y) rows.push(row(name, tag("code", { class: "err" }, x || "–"), tag("br"), tag("code", {}, y || "–"))); };
    differ("operator", strings[a.o], strings[b.o]);
    differ("part", strings[a.s || 0], strings[b.s || 0]);
    const long = (x, y) => Math.max((x || []).length, (y || []).length);
    for (let k = 0; k < long(a.i, b.i); k++) differ("input " + k, (a.i || [])[k] === undefined ? "" : text(a.i[k]), (b.i || [])[k] === undefined ? "" : text(b.i[k]));
    for (let k = 1; k < long(a.u, b.u); k += 2) differ("type of output " + (k - 1) / 2, strings[(a.u || [])[k]] || "", strings[(b.u || [])[k]] || "");
    const attrs = r => { const m = new Map(); for (let k = 0; r.a && k < r.a.length; k += 2) m.set(strings[r.a[k]], strings[r.a[k + 1]]); return m; };
    const x = attrs(a), y = attrs(b);
    for (const k of new Set([...x.keys(), ...y.keys()])) differ(k === "(opset)" ? "operator since opset" : k, x.get(k) || "", y.get(k) || "");
    if (!rows.length) rows.push(row("", "its subgraphs, or its name"));
    side.append(tag("h3", {}, `Changed (before, after)`), tag("table", {}, ...rows));
  };
  // about describes the pass, lists what it has changed, and the time of the regions.
  const about = () => {
    const c = columns[state.column];
    side.replaceChildren(tag("h2", {}, c.name), tag("p", { class: "dim" }, c.work));
    if (c.doc) side.append(tag("p", {}, c.doc));
    if (c.err) side.append(tag("p", { class: "err" }, c.err));
    if (c.notes) side.append(tag("ul", {}, ...c.notes.map(n => tag("li", n.startsWith("warning: ") ? { class: "warn" } : {}, n))));
    if (timedColumn()) {
      const sorted = regions.map((r, i) => [r, i]).sort((a, b) => b[0].ms - a[0].ms);
      side.append(tag("h3", {}, `Time of a run: ${ms(total)}${data.setting ? ", " + data.setting : ""}`));
      side.append(tag("table", {}, ...sorted.slice(0, 200).map(([r]) => {
        const i = shown.boxes.findIndex(b => records[b.r].u && records[b.r].u[0] === r.out[0]);
        return tag("tr", {}, tag("td", { class: "num" }, ms(r.ms)), tag("td", { class: "num" }, percent(r.ms)), tag("td", {}, link(r.name, i), tag("span", { class: "dim" }, " " + r.form)));
      })));
    }
    if (!shown.diff) return;
    const before = state.side === "before", groups = before ? [["rem", "Removed"], ["chg", "Changed"]] : [["add", "Added"], ["chg", "Changed"]];
    for (const [mark, name] of groups) {
      const all = shown.boxes.map((b, i) => [b, i]).filter(([b]) => shown.marks.get(b.r) === mark && (records[b.r].r || NODE) !== FRAME);
      if (!all.length) continue;
      side.append(tag("h3", {}, `${name} (${all.length})`));
      side.append(tag("ul", {}, ...all.slice(0, 400).map(([b, i]) => tag("li", {}, link(lines(records[b.r])[0], i), " ", tag("span", { class: "dim" }, strings[(records[b.r].u || [0])[0]] || "")))));
      if (all.length > 400) side.append(tag("p", { class: "dim" }, `and ${all.length - 400} more`));
    }
    const gone = [...shown.diff.b.values()].filter(x => x === "rem").length;
    if (!before && gone) side.append(tag("p", {}), tag("a", { onclick: () => { state.side = "before"; draw(false); about(); } }, `${gone} removed: show the graph before`));
  };

  // ---- search
  const textOf = r => [strings[r.o], strings[r.n || 0], strings[r.s || 0], ...(r.i || []).filter(v => v !== -1).map(v => strings[v < 0 ? -2 - v : v]), ...(r.u || []).filter(isRead).map(v => strings[v])].join("\n").toLowerCase();
  const search = go => {
    const q = $("search").value.trim().toLowerCase();
    state.hits = [];
    view.classList.toggle("far", q !== "");
    shown.boxes.forEach((b, i) => {
      const hit = q !== "" && textOf(records[b.r]).includes(q);
      b.e.classList.toggle("hit", hit);
      if (hit) state.hits.push(i);
    });
    state.hit = -1;
    $("found").textContent = q === "" ? "" : `${state.hits.length} found`;
    if (go && state.hits.length) next(1);
  };
  const next = by => {
    const n = state.hits.length;
    if (!n) return;
    state.hit = (state.hit + by + n) % n;
    $("found").textContent = `${state.hit + 1} of ${n}`;
    goTo(state.hits[state.hit]);
  };
  $("search").addEventListener("input", () => search(true));
  $("search").addEventListener("keydown", e => {
    if (e.key === "Enter") next(e.shiftKey ? -1 : 1);
    if (e.key === "Escape") { $("search").value = ""; search(false); $("search").blur(); }
    e.stopPropagation();
  });

  // ---- passes
  const select = i => {
    state.column = i; state.side = "after"; state.chosen = -1;
    state.base = i > 0 ? i - 1 : -1;
    $("base").value = state.base;
    draw(false);
    about();
    history.replaceState(null, "", "#" + i);
  };
  columns.forEach((c, i) => {
    const same = i > 0 && c.drawing === columns[i - 1].drawing && !c.err;
    const b = tag("button", { type: "button", "data-c": i, class: (same ? "same" : "") + (c.err ? " failed" : ""), onclick: () => select(i) }, c.name);
    if (!same) {
      const work = tag("small");
      for (const part of (c.err ? "failed" : c.work).split(/(\d+ (?:added|removed|changed)(?=,|$))/)) {
        const m = /^(\d+) (added|removed|changed)$/.exec(part);
        work.append(m ? tag("i", { class: { added: "add", removed: "rem", changed: "chg" }[m[2]] }, part) : part);
      }
      b.append(work);
    }
    $("passes").append(b);
    $("base").append(tag("option", { value: i }, c.name));
  });
  $("base").prepend(tag("option", { value: -1 }, "nothing"));
  $("basis").hidden = columns.length < 2;
  $("passes").hidden = columns.length < 2;
  $("base").addEventListener("change", () => { state.base = +$("base").value; state.side = "after"; draw(false); about(); });
  const turn = s => { state.side = s; const k = { ...at }; draw(false); if (state.chosen < 0) about(); else choose(-1); if (shown.drawing && k.k > 2) at.k = k.k; place(); };
  $("before").addEventListener("click", () => turn("before"));
  $("after").addEventListener("click", () => turn("after"));
  $("timed").hidden = regions.length === 0;
  $("heat").checked = state.heat;
  $("heat").addEventListener("change", () => { state.heat = $("heat").checked; draw(true); });
  $("fit").addEventListener("click", () => { fit(); place(); });
  const middle = f => { const s = size(); zoom(f, s.w / 2, s.h / 2); };
  $("in").addEventListener("click", () => middle(1.3));
  $("out").addEventListener("click", () => middle(1 / 1.3));
  document.addEventListener("keydown", e => {
    if (e.ctrlKey || e.metaKey || e.altKey || /INPUT|SELECT/.test(e.target.tagName)) return;
    const s = size(), move = (x, y) => { at.x += x; at.y += y; place(); e.preventDefault(); };
    switch (e.key) {
      case "/": $("search").focus(); e.preventDefault(); break;
      case "+": case "=": middle(1.3); break;
      case "-": middle(1 / 1.3); break;
      case "0": fit(); place(); break;
      case "b": if (!$("sides").hidden) turn(state.side === "before" ? "after" : "before"); break;
      case "[": if (state.column > 0) select(state.column - 1); break;
      case "]": if (state.column + 1 < columns.length) select(state.column + 1); break;
      case "n": next(1); break;
      case "Escape": choose(-1); break;
      case "ArrowUp": move(0, 60); break;
      case "ArrowDown": move(0, -60); break;
      case "ArrowLeft": move(60, 0); break;
      case "ArrowRight": move(-60, 0); break;
      case "PageDown": move(0, -0.9 * s.h); break;
      case "PageUp": move(0, 0.9 * s.h); break;
    }
  });
  addEventListener("resize", () => { drawMap(); place(); });

  $("title").textContent = data.title;
  const [pass, word] = decodeURIComponent(location.hash.slice(1)).split("/");
  select(columns[+pass] && pass !== "" ? +pass : Math.max(last, 0));
  if (word) { $("search").value = word; search(true); }
})();
