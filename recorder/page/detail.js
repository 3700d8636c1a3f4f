// What is known of one buffer or op, in a panel beside the page.
(() => {
  const { report, bytes, time, opOf, bufferOf, frames, make, press } = page;
  const panel = document.getElementById("detail");
  if (!panel) return;
  const stallOf = new Map(report.stalls.map((s) => [s.op, s]));
  const most = 60;

  function opLink(op) {
    const row = opOf.get(op);
    return make("li", {}, make("a", press(() => page.showOp(op)), "op " + op + (row ? " " + row.name : "")),
      row && row.start_ns !== undefined ? " at " + time(row.start_ns) : "");
  }
  function bufferLink(b) {
    return make("li", {}, make("a", press(() => page.showBuffer(b.tensor)), b.name), " " + bytes(b.bytes));
  }
  function list(title, items) {
    if (!items.length) return "";
    return make("div", {}, make("h3", {}, title + " (" + items.length + ")"), make("ul", {}, ...items.slice(0, most)));
  }
  function facts(rows) {
    const dl = make("dl", {});
    for (const [label, value] of rows) if (value !== undefined && value !== "") dl.append(make("dt", {}, label), make("dd", {}, String(value)));
    return dl;
  }
  function stack(site) {
    return make("ol", { class: "stack" }, ...frames(site).map((f) => make("li", {}, f)));
  }
  function show(title, ...parts) {
    panel.replaceChildren(make("button", { type: "button", "aria-label": "close", onclick: () => { panel.hidden = true; } }, "close"), make("h2", {}, title), ...parts);
    panel.hidden = false;
    panel.dataset.title = title;
  }
  // The op that a time falls into.
  function opAt(ns) {
    let found;
    for (const o of report.ops) { if (o.start_ns > ns) break; found = o; }
    return found ? "op " + found.op + " " + found.name : "";
  }

  page.showBuffer = (tensor) => {
    const b = bufferOf.get(tensor);
    if (!b) return;
    const swaps = report.swaps.filter((s) => s.tensor === tensor);
    show(b.name,
      facts([["size", bytes(b.bytes)], ["kept", b.persistent ? "lives across iterations" : ""], ["born", b.persistent ? "" : time(b.born_ns) + ", " + opAt(b.born_ns)],
             ["dead", b.persistent ? "" : time(b.dead_ns) + ", " + opAt(b.dead_ns)], ["lives", time(b.life)]]),
      make("h3", {}, "allocated at"), stack(b.site),
      list("used by", (b.uses || []).map(opLink)),
      list("copied", swaps.map((s) => make("li", {}, s.kind + " " + time(s.start_ns) + " to " + time(s.end_ns) +
        (s.after_op !== undefined ? ", after op " + s.after_op : "") + (s.before_op !== undefined ? ", before op " + s.before_op : "")))));
  };
  page.showOp = (op) => {
    const o = opOf.get(op);
    if (!o) return;
    const stall = stallOf.get(op);
    show("op " + op + " " + o.name,
      facts([["start", o.start_ns === undefined ? "" : time(o.start_ns)], ["duration", time(o.duration_ns)], ["waits before it", o.stall_ns ? time(o.stall_ns) : ""],
             ["because", stall && stall.why], ["what would remove it", stall && stall.remedy], ["touches", bytes(o.touched_bytes)],
             ["copied in for it", o.in_bytes ? bytes(o.in_bytes) : ""], ["copied out", o.out_bytes ? bytes(o.out_bytes) : ""], ["stream", o.stream]]),
      list("buffers", report.buffers.filter((b) => (b.uses || []).includes(op)).sort((a, b) => b.bytes - a.bytes).map(bufferLink)));
  };
  document.addEventListener("keydown", (e) => { if (e.key === "Escape") panel.hidden = true; });
})();
