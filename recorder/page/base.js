// What all parts of the page share: the embedded report, units, colours, and one state (what is shown, picked, searched for) of which
// every part hears when it changes. The page asks for nothing from elsewhere.
"use strict";
const page = (() => {
  const report = JSON.parse(document.getElementById("report").textContent);
  const root = document.documentElement;
  const color = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();

  function bytes(n) {
    const units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = 0;
    while (Math.abs(n) >= 1024 && unit < 5) { n /= 1024; unit++; }
    return (unit ? n.toFixed(2) : n) + " " + units[unit];
  }
  function time(ns) {
    if (ns >= 1e9) return (ns / 1e9).toFixed(3) + " s";
    if (ns >= 1e6) return (ns / 1e6).toFixed(3) + " ms";
    if (ns >= 1e3) return (ns / 1e3).toFixed(3) + " us";
    return Math.round(ns) + " ns";
  }

  const timeline = report.timeline;
  const end = timeline.length ? timeline[timeline.length - 1].ns : 0;
  for (const b of report.buffers) b.life = b.dead_ns >= b.born_ns ? b.dead_ns - b.born_ns : end - b.born_ns + b.dead_ns;
  const opOf = new Map(report.ops.map((o) => [o.op, o]));
  const bufferOf = new Map(report.buffers.map((b) => [b.tensor, b]));

  // Owners: call sites by what their buffers add up to. The first have a colour of their own.
  const colours = 10;
  const total = new Map();
  for (const b of report.buffers) if (!b.page) total.set(b.site || "", (total.get(b.site || "") || 0) + b.bytes);
  const owners = [...total.entries()].sort((a, b) => b[1] - a[1]).map(([site, sum]) => ({ site, sum }));
  const rank = new Map(owners.map((o, i) => [o.site, i]));
  const ownerColor = (site) => { const r = rank.get(site || ""); return color(r < colours ? "owner" + r : "owner-rest"); };
  const frames = (site) => (site ? site.split(" < ") : ["(unknown call site)"]);
  // A program's own allocator is at the inner end of all its call sites, and says nothing.
  const inner = (site) => frames(site)[0].replace(/ [^ ]*$/, "");
  const named = owners.filter((o) => o.site), shared = named.length > 1 && named.every((o) => inner(o.site) === inner(named[0].site)) ? 1 : 0;
  const brief = (site) => frames(site).slice(site ? Math.min(shared, frames(site).length - 1) : 0).slice(0, 2).join(" < ");

  // from, to: the stretch of the iteration that the charts show. sites: a set of call sites, or null for all.
  const state = { from: 0, to: end, search: "", sites: null };
  const heard = [];
  function change(more) {
    Object.assign(state, more);
    for (const hear of heard) hear(Object.keys(more));
  }
  const has = (text) => text !== undefined && String(text).toLowerCase().includes(state.search);
  function matches(row) {
    if (state.sites && row.site !== undefined && !state.sites.has(row.site)) return false;
    if (state.sites && row.site === undefined && row.tensor === undefined) return true;
    if (state.sites && row.site === undefined) {
      const buffer = bufferOf.get(row.tensor);
      if (!buffer || !state.sites.has(buffer.site || "")) return false;
    }
    return !state.search || has(row.name) || has(row.site);
  }
  const make = (tag, attributes, ...children) => {
    const element = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes || {}))
      if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
      else if (key === "class") element.className = value;
      else element.setAttribute(key, value);
    element.append(...children);
    return element;
  };
  // What a mouse does, a keyboard does too.
  const press = (act) => ({ tabindex: "0", role: "button", onclick: act, onkeydown: (e) => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); act(e); } } });
  return { report, root, color, bytes, time, timeline, end, opOf, bufferOf, owners, colours, ownerColor, frames, brief, state, change, heard, matches, make, press };
})();
