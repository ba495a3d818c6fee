"use strict";
// The space-time diagram: rows are nodes, time goes right, a line is a message. Drawn on a canvas from packed columns.

(async () => {
  const root = document.getElementById("diagram");
  const packed = document.getElementById("messages-data").textContent.trim();
  if (!packed || typeof DecompressionStream === "undefined") return;
  const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const data = JSON.parse(await new Response(stream).text());
  if (!data.windows.length) return;
  root.hidden = false;

  const canvas = root.querySelector("canvas");
  const tip = root.querySelector(".tip");
  const detail = root.querySelector(".detail");
  const context = canvas.getContext("2d");
  const TOP = 34, BOTTOM = 8, RIGHT = 14;
  const state = { number: 0, from: 0, to: 1, hidden: new Set(), rows: [], rowOf: new Map(), selected: -1, cone: null };
  let colours = {};
  let width = 0, height = 0, gutter = 60;

  const current = () => data.windows[state.number];
  const length = () => (current().ends - current().began) * 1e6;
  const familyOf = (w, i) => data.sets[w.k[i]].family;
  const seconds = (us) => (us < 1e3 ? `${us.toFixed(0)} µs` : us < 1e6 ? `${(us / 1e3).toPrecision(3)} ms` : `${(us / 1e6).toFixed(2)} s`);

  function readColours() {
    const style = getComputedStyle(document.documentElement);
    const get = (name) => style.getPropertyValue(`--${name}`).trim();
    colours = { ink: get("ink"), soft: get("soft"), faint: get("faint"), line: get("line"), card: get("card"), tint: get("tint"), dead: get("dead"), past: get("sync"), future: get("cut"), families: data.families.map(get) };
  }

  function chooseRows(text) {
    const wanted = new Set();
    for (const part of text.trim().split(/[\s,]+/).filter(Boolean)) {
      const range = part.split(/–|\.\./);
      const a = data.nodes.indexOf(range[0]), b = data.nodes.indexOf(range[range.length - 1]);
      if (a >= 0 && b >= 0) for (let i = Math.min(a, b); i <= Math.max(a, b); i++) wanted.add(i);
    }
    state.rows = data.nodes.map((_, i) => i).filter((i) => !wanted.size || wanted.has(i));
    state.rowOf = new Map(state.rows.map((node, row) => [node, row]));
  }

  function visible(w, i) {
    return !state.hidden.has(familyOf(w, i)) && state.rowOf.has(w.s[i]) && (w.t[i] < 0 || state.rowOf.has(w.t[i]));
  }

  function choose(number) {
    state.number = number;
    state.selected = -1;
    state.cone = null;
    const w = current();
    // Begin with about as many messages as one can tell apart, around the moment itself.
    const moment = Math.min(0.3e6, w.began > 0 ? 0.3e6 : 0);
    let first = w.a.findIndex((at) => at >= moment - 20e3);
    if (first < 0) first = 0;
    const enough = Math.min(w.a.length - 1, first + Math.max(60, Math.round(width / 9)));
    const from = Math.max(0, (w.a[first] ?? 0) - 10e3);
    if (w.a.length < 100) setView(0, length());
    else setView(from, Math.max(from + 40e3, (w.a[enough] ?? length()) + 5e3));
    for (const [i, button] of [...root.querySelectorAll(".moments button")].entries()) button.setAttribute("aria-selected", String(i === number));
    countFamilies();
    describe();
  }

  function setView(from, to) {
    [state.from, state.to] = spacetime.bounded(from, to, length());
    const at = (us) => `${(current().began + us / 1e6).toFixed(6)} s`;
    canvas.setAttribute("aria-label", `Space-time diagram of messages from ${at(state.from)} to ${at(state.to)}`);
    draw();
  }

  function zoom(factor, at = 0.5) {
    setView(...spacetime.zoomed(state.from, state.to, factor, at));
  }

  const x = (us) => gutter + ((us - state.from) / (state.to - state.from)) * (width - gutter - RIGHT);
  const rowHeight = () => (height - TOP - BOTTOM) / Math.max(state.rows.length, 1);
  const y = (node) => TOP + (state.rowOf.get(node) + 0.5) * rowHeight();

  function ends(w, i) {
    const x1 = x(w.a[i]), y1 = y(w.s[i]);
    if (w.t[i] < 0) return [x1, y1, x1 + 14, y1 + 8];
    const x2 = x(w.a[i] + Math.max(w.d[i], 0)), y2 = y(w.t[i]);
    if (w.d[i] >= 0) return [x1, y1, x2, y2];
    const reach = Math.min(1, 26 / Math.max(Math.abs(y2 - y1), 1));
    return [x1, y1, x1 + 8, y1 + (y2 - y1) * reach];
  }

  function draw() {
    if (!width) return;
    const scale = devicePixelRatio || 1;
    const w = current();
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = `${Math.min(12, Math.max(8, rowHeight() * 0.85))}px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace`;
    context.textBaseline = "middle";
    const every = rowHeight() < 8 ? 4 : 1;
    for (const [row, node] of state.rows.entries()) {
      const at = y(node);
      context.strokeStyle = colours.line;
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(gutter, Math.round(at) + 0.5);
      context.lineTo(width - RIGHT, Math.round(at) + 0.5);
      context.stroke();
      for (const [a, b] of data.down[node] || []) {
        const left = Math.max(x((a - w.began) * 1e6), gutter), right = Math.min(x((b - w.began) * 1e6), width - RIGHT);
        if (right > left) {
          context.strokeStyle = colours.faint;
          context.lineWidth = Math.max(2, Math.min(6, rowHeight() * 0.4));
          context.setLineDash([2, 3]);
          context.beginPath();
          context.moveTo(left, at);
          context.lineTo(right, at);
          context.stroke();
          context.setLineDash([]);
        }
      }
      if (row % every === 0) {
        context.fillStyle = colours.soft;
        context.textAlign = "right";
        context.fillText(data.nodes[node].length > 11 ? `${data.nodes[node].slice(0, 10)}…` : data.nodes[node], gutter - 8, at);
      }
    }
    drawAxis(w);
    drawMessages(w);
    drawActs(w);
  }

  function drawAxis(w) {
    const span = state.to - state.from;
    const raw = span / Math.max(3, (width - gutter) / 130);
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((s) => s * power).find((s) => s >= raw);
    const digits = Math.max(0, Math.min(6, 6 - Math.floor(Math.log10(step))));
    context.font = "11.5px system-ui, sans-serif";
    context.textAlign = "center";
    const origin = w.began * 1e6;
    for (let tick = Math.ceil((origin + state.from) / step) * step; tick <= origin + state.to; tick += step) {
      const at = x(tick - origin);
      context.strokeStyle = colours.line;
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(Math.round(at) + 0.5, 22);
      context.lineTo(Math.round(at) + 0.5, height - BOTTOM);
      context.stroke();
      context.fillStyle = colours.soft;
      if (at > gutter + 20 && at < width - 30) context.fillText(`${(tick / 1e6).toFixed(digits)} s`, at, 12);
    }
  }

  function drawMessages(w) {
    context.save();
    context.beginPath();
    context.rect(gutter, 20, width - gutter - RIGHT + 6, height);
    context.clip();
    let shown = 0;
    for (let i = 0; i < w.a.length; i++) if (inView(w, i)) shown++;
    const fine = shown < 900;
    for (const pass of [0, 1]) {
      for (let i = 0; i < w.a.length; i++) {
        if (!inView(w, i)) continue;
        const role = state.cone ? state.cone[i] : 0;
        if ((role !== 0 || i === state.selected ? 1 : 0) !== pass && state.cone) continue;
        if (!state.cone && pass) continue;
        const [x1, y1, x2, y2] = ends(w, i);
        const gone = w.d[i] < 0;
        context.globalAlpha = state.cone ? (pass ? 1 : 0.1) : fine ? 0.9 : Math.max(0.12, 500 / shown);
        context.strokeStyle = context.fillStyle = i === state.selected ? colours.ink : role === 1 ? colours.past : role === 2 ? colours.future : colours.families[familyOf(w, i)];
        context.lineWidth = i === state.selected ? 3 : role ? 2 : fine ? 1.3 : 1;
        context.setLineDash(w.m[i] && fine ? [5, 2] : []);
        context.beginPath();
        context.moveTo(x1, y1);
        context.lineTo(x2, y2);
        context.stroke();
        context.setLineDash([]);
        if (gone && w.f[i] > 0) cross(x2, y2);
        else if (fine && !gone) arrow(x1, y1, x2, y2);
      }
    }
    context.restore();
    context.globalAlpha = 1;
  }

  function inView(w, i) {
    return visible(w, i) && w.a[i] <= state.to && w.a[i] + Math.max(w.d[i], 0) >= state.from;
  }

  function arrow(x1, y1, x2, y2) {
    const angle = Math.atan2(y2 - y1, x2 - x1), size = 5;
    context.beginPath();
    context.moveTo(x2, y2);
    context.lineTo(x2 - size * Math.cos(angle - 0.42), y2 - size * Math.sin(angle - 0.42));
    context.lineTo(x2 - size * Math.cos(angle + 0.42), y2 - size * Math.sin(angle + 0.42));
    context.fill();
  }

  function cross(cx, cy) {
    context.strokeStyle = colours.dead;
    context.lineWidth = 1.6;
    context.beginPath();
    context.moveTo(cx - 3, cy - 3);
    context.lineTo(cx + 3, cy + 3);
    context.moveTo(cx - 3, cy + 3);
    context.lineTo(cx + 3, cy - 3);
    context.stroke();
  }

  function drawActs(w) {
    context.font = "600 11.5px system-ui, sans-serif";
    let free = gutter;
    for (const [at, text] of data.acts) {
      const us = (at - w.began) * 1e6;
      if (us < state.from || us > state.to) continue;
      const px = x(us);
      context.strokeStyle = colours.dead;
      context.lineWidth = 1.5;
      context.setLineDash([4, 3]);
      context.beginPath();
      context.moveTo(px, 18);
      context.lineTo(px, height - BOTTOM);
      context.stroke();
      context.setLineDash([]);
      if (px < free) continue;
      const label = text.length > 44 ? `${text.slice(0, 43)}…` : text;
      const room = context.measureText(label).width;
      const left = Math.min(px + 5, width - room - 6);
      context.fillStyle = colours.card;
      context.fillRect(left - 3, 20, room + 6, 15);
      context.fillStyle = colours.dead;
      context.textAlign = "left";
      context.fillText(label, left, 28);
      free = left + room + 10;
    }
  }

  function nearest(px, py) {
    const w = current();
    let best = -1, distance = 7;
    for (let i = 0; i < w.a.length; i++) {
      if (!inView(w, i)) continue;
      const [x1, y1, x2, y2] = ends(w, i);
      const dx = x2 - x1, dy = y2 - y1, l = dx * dx + dy * dy || 1;
      const t = Math.max(0, Math.min(1, ((px - x1) * dx + (py - y1) * dy) / l));
      const d = Math.hypot(px - x1 - t * dx, py - y1 - t * dy);
      if (d < distance) [best, distance] = [i, d];
    }
    return best;
  }

  function sentences(w, i) {
    const to = w.t[i] < 0 ? "nobody" : data.nodes[w.t[i]];
    const fate = w.d[i] >= 0 ? `arrived after ${seconds(w.d[i])}` : data.fates[w.f[i]];
    return [`${data.nodes[w.s[i]]} → ${to}`, data.sets[w.k[i]].kinds.join(" + "), data.about[w.x[i]], `${w.m[i] ? "frame" : "datagram"} of ${w.z[i]} B, sent at ${(w.began + w.a[i] / 1e6).toFixed(6)} s, ${fate}`];
  }

  function describe() {
    const w = current();
    detail.replaceChildren();
    const add = (text, tag, name) => {
      const node = tag ? document.createElement(tag) : document.createTextNode(text);
      if (tag) node.textContent = text;
      if (name) node.className = name;
      detail.append(node);
      return node;
    };
    if (state.selected < 0) {
      add(`${w.a.length} messages from ${w.began.toFixed(3)} to ${w.ends.toFixed(3)} s: ${w.labels.join(", ")}. ${w.full ? "The window was full and ends early. " : ""}Solid: datagrams; dashed: frames on links; a cross: lost or cut off.`);
      return;
    }
    const [who, what, about, how] = sentences(w, state.selected);
    add(`${who}: ${what}`, "b");
    add(` ${about ? `(${about}) ` : ""}${how}. `);
    const past = state.cone.filter((r) => r === 1).length, future = state.cone.filter((r) => r === 2).length;
    add(`${past} led to it`, "span", "past");
    add(", ");
    add(`${future} could follow from it`, "span", "future");
    add(" in this window.");
    add("clear", "button").addEventListener("click", () => select(-1));
  }

  function select(i) {
    state.selected = i;
    state.cone = i < 0 ? null : spacetime.cone(current(), i);
    describe();
    draw();
  }

  function countFamilies() {
    const w = current();
    const counts = data.families.map(() => 0);
    for (let i = 0; i < w.a.length; i++) counts[familyOf(w, i)]++;
    for (const button of root.querySelectorAll(".families button")) {
      button.querySelector("small").textContent = counts[Number(button.dataset.family)];
      button.hidden = !counts[Number(button.dataset.family)];
    }
  }

  function showTip(event) {
    const box = canvas.getBoundingClientRect();
    const i = nearest(event.clientX - box.left, event.clientY - box.top);
    tip.hidden = i < 0;
    if (i < 0) return;
    const [who, ...rest] = sentences(current(), i);
    tip.replaceChildren(Object.assign(document.createElement("b"), { textContent: who }));
    for (const line of rest.filter(Boolean)) tip.append(Object.assign(document.createElement("div"), { textContent: line }));
    const left = Math.min(event.clientX - box.left + 14, width - tip.offsetWidth - 6);
    const above = event.clientY - box.top + 16 + tip.offsetHeight > height;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${above ? event.clientY - box.top - tip.offsetHeight - 10 : event.clientY - box.top + 16}px`;
  }

  // Controls

  for (const [i, w] of data.windows.entries()) {
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("role", "option");
    const label = w.labels.length > 2 ? `${w.labels.slice(0, 2).join(", ")} +${w.labels.length - 2}` : w.labels.join(", ");
    button.append(Object.assign(document.createElement("b"), { textContent: `${w.began.toFixed(1)} s` }), label);
    button.title = `${w.labels.join(", ")}: ${w.a.length} messages`;
    button.addEventListener("click", () => choose(i));
    root.querySelector(".moments").append(button);
  }
  for (const [i, name] of data.families.entries()) {
    const button = document.createElement("button");
    button.type = "button";
    button.dataset.family = i;
    button.setAttribute("aria-pressed", "true");
    button.title = (data.kinds[name] || []).join(", ");
    button.append(Object.assign(document.createElement("i"), { className: `key family-${name}` }), name, document.createElement("small"));
    button.addEventListener("click", () => {
      if (!state.hidden.delete(i)) state.hidden.add(i);
      button.setAttribute("aria-pressed", String(!state.hidden.has(i)));
      draw();
    });
    root.querySelector(".families").append(button);
  }
  root.querySelector(".only input").addEventListener("input", (event) => {
    chooseRows(event.target.value);
    resize();
  });
  for (const button of root.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => (button.dataset.zoom === "all" ? setView(0, length()) : zoom(button.dataset.zoom === "in" ? 0.5 : 2)));
  }
  canvas.addEventListener("keydown", (event) => {
    const span = state.to - state.from;
    const moves = { ArrowLeft: [-0.2, 1], ArrowRight: [0.2, 1], "+": [0, 0.5], "=": [0, 0.5], "-": [0, 2] };
    const move = moves[event.key];
    if (event.key === "Escape") select(-1);
    if (!move) return;
    event.preventDefault();
    if (move[0]) setView(state.from + move[0] * span, state.to + move[0] * span);
    else zoom(move[1]);
  });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY)) return;
    event.preventDefault();
    const box = canvas.getBoundingClientRect();
    const at = (event.clientX - box.left - gutter) / (width - gutter - RIGHT);
    const span = state.to - state.from;
    if (event.ctrlKey || event.metaKey) zoom(Math.exp(event.deltaY / 160), Math.min(1, Math.max(0, at)));
    else setView(state.from + (event.deltaX / width) * span, state.to + (event.deltaX / width) * span);
  }, { passive: false });
  const pointers = new Map();
  let moved = 0, spread = 0;
  canvas.addEventListener("pointerdown", (event) => {
    pointers.set(event.pointerId, event.clientX);
    canvas.setPointerCapture(event.pointerId);
    moved = 0;
    spread = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!pointers.has(event.pointerId)) return showTip(event);
    const before = pointers.get(event.pointerId);
    pointers.set(event.pointerId, event.clientX);
    const span = state.to - state.from;
    if (pointers.size === 2) {
      const [a, b] = [...pointers.values()];
      if (spread) zoom(spread / Math.max(Math.abs(a - b), 1));
      spread = Math.max(Math.abs(a - b), 1);
      moved = 99;
      return;
    }
    moved += Math.abs(event.clientX - before);
    if (moved > 3) {
      tip.hidden = true;
      const step = ((before - event.clientX) / (width - gutter - RIGHT)) * span;
      setView(state.from + step, state.to + step);
    }
  });
  const release = (event) => {
    const was = pointers.delete(event.pointerId);
    if (event.type === "pointerup" && was && moved <= 3) {
      const box = canvas.getBoundingClientRect();
      select(nearest(event.clientX - box.left, event.clientY - box.top));
    }
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });

  function resize() {
    width = root.querySelector(".canvas").clientWidth;
    gutter = Math.min(width < 560 ? 46 : 96, 14 + 7.5 * Math.max(...data.nodes.map((name) => name.length)));
    const rows = Math.max(state.rows.length, 1);
    const row = Math.max(rows > 80 ? 6 : 12, Math.min(34, 560 / rows));
    height = Math.round(TOP + BOTTOM + rows * row);
    const scale = devicePixelRatio || 1;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.height = `${height}px`;
    draw();
  }

  readColours();
  chooseRows("");
  new ResizeObserver(resize).observe(root.querySelector(".canvas"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); draw(); });
  resize();
  const failed = document.body.classList.contains("fail") || document.body.classList.contains("error");
  const telling = (test) => data.windows.findIndex((w) => !w.labels.includes("starts") && w.labels.some(test));
  const disputed = data.windows.findIndex((w) => w.labels.some((label) => /(Paused|CloneSeen|Fenced)$/.test(label)));
  const doubted = telling((label) => / first SUSPECT$/.test(label));
  const quiet = data.windows.findIndex((w) => !w.labels.includes("starts"));
  choose(failed ? data.windows.length - 1 : [disputed, doubted, quiet, 0].find((number) => number >= 0));
})();
