// Draws the charts and the sortable tables from the report embedded in the page. No other request is made.
(function () {
  "use strict";
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
    return ns + " ns";
  }

  // --- tables ---
  const columns = {
    ops: [["op", "op", "n"], ["name", "name"], ["start_ns", "start", "n", time], ["duration_ns", "duration", "n", time],
          ["stall_ns", "stall", "n", time], ["touched_bytes", "touches", "n", bytes], ["in_bytes", "in", "n", bytes],
          ["out_bytes", "out", "n", bytes], ["stream", "stream", "n"]],
    buffers: [["tensor", "id", "n"], ["name", "name"], ["bytes", "size", "n", bytes], ["life", "life", "n", time],
              ["born_ns", "born", "n", time], ["dead_ns", "dead", "n", time], ["persistent", "kept"], ["site", "allocated at"]],
    swaps: [["name", "buffer"], ["kind", "kind"], ["bytes", "size", "n", bytes], ["start_ns", "start", "n", time],
            ["end_ns", "end", "n", time], ["after_op", "after op", "n"], ["before_op", "before op", "n"]],
  };
  const firstSort = { ops: "stall_ns", buffers: "bytes", swaps: "bytes" };
  const rowsShown = 400;
  for (const b of report.buffers) b.life = b.dead_ns - b.born_ns;

  function fillTable(kind) {
    const table = document.getElementById("table-" + kind);
    if (!table) return;
    let key = firstSort[kind], descending = true;
    const body = table.createTBody(), head = table.createTHead().insertRow();
    const more = document.getElementById("more-" + kind);
    const draw = () => {
      const rows = report[kind].slice();
      rows.sort((a, b) => {
        const x = a[key], y = b[key];
        if (x === y) return 0;
        if (x === undefined) return 1;
        if (y === undefined) return -1;
        return (x < y ? -1 : 1) * (descending ? -1 : 1);
      });
      body.replaceChildren();
      for (const row of rows.slice(0, rowsShown)) {
        const tr = body.insertRow();
        for (const [field, , numeric, format] of columns[kind]) {
          const td = tr.insertCell();
          const value = row[field];
          if (numeric) { td.className = "n"; td.title = value === undefined ? "" : value; }
          td.textContent = value === undefined ? "" : format ? format(value) : value === true ? "yes" : value === false ? "" : value;
        }
      }
      more.textContent = rows.length > rowsShown ? "The first " + rowsShown + " of " + rows.length + " rows in this order." : "";
      for (const th of head.cells)
        th.setAttribute("aria-sort", th.dataset.key !== key ? "none" : descending ? "descending" : "ascending");
    };
    for (const [field, label, numeric] of columns[kind]) {
      const th = document.createElement("th");
      th.textContent = label;
      th.dataset.key = field;
      th.className = "sortable" + (numeric ? " n" : "");
      th.tabIndex = 0;
      const sort = () => { descending = key === field ? !descending : numeric !== undefined; key = field; draw(); };
      th.addEventListener("click", sort);
      th.addEventListener("keydown", (e) => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); sort(); } });
      head.appendChild(th);
    }
    draw();
  }
  ["ops", "buffers", "swaps"].forEach(fillTable);

  // --- charts ---
  const timeline = report.timeline;
  const end = timeline.length ? timeline[timeline.length - 1].ns : 0;
  let peak = -1;
  timeline.forEach((s, i) => { if (peak < 0 || s.live_bytes > timeline[peak].live_bytes) peak = i; });
  let charts = [];

  // Round steps in binary units.
  function byteStep(most) {
    let step = 1;
    while (step * 7 < most) step *= 2;
    return step;
  }
  function scales(yTitle, extra) {
    return Object.assign({
      x: { type: "linear", min: 0, max: end, ticks: { color: color("muted"), callback: (v) => time(v) }, grid: { color: color("line") } },
      y: { ticks: { color: color("muted"), callback: (v) => bytes(v) }, grid: { color: color("line") },
           title: { display: !!yTitle, text: yTitle, color: color("muted") } },
    }, extra);
  }
  // The charts stand one above the other: their time axes must, too.
  const alignLeft = (scale) => { scale.width = 86; };
  function options(yScale, tooltip) {
    yScale.y.afterFit = alignLeft;
    return { animation: false, maintainAspectRatio: false, parsing: false, normalized: true, scales: yScale,
             interaction: { mode: "nearest", intersect: false },
             plugins: { legend: { labels: { color: color("ink"), boxWidth: 14, usePointStyle: true } }, tooltip: { callbacks: tooltip } } };
  }
  function make(id, config) {
    const canvas = document.getElementById(id);
    if (canvas) charts.push(new Chart(canvas, config));
  }
  // Boxes [start, end] x [low, high] as one scatter data set with its own drawing.
  const boxes = {
    id: "boxes",
    afterDatasetsDraw(chart) {
      const { ctx, scales: { x, y }, chartArea: area } = chart;
      ctx.save();
      ctx.beginPath();
      ctx.rect(area.left, area.top, area.width, area.height);
      ctx.clip();
      chart.data.datasets.forEach((set, index) => {
        if (!set.boxes || !chart.isDatasetVisible(index)) return;
        ctx.fillStyle = set.backgroundColor;
        for (const b of set.boxes) {
          const left = x.getPixelForValue(b[0]), top = y.getPixelForValue(b[3]);
          ctx.fillRect(left, top, Math.max(1, x.getPixelForValue(b[1]) - left), Math.max(1, y.getPixelForValue(b[2]) - top - 0.5));
        }
      });
      ctx.restore();
    },
  };
  const boxSet = (label, colorName, list) =>
    ({ type: "scatter", label, pointStyle: "rect", borderColor: color(colorName), backgroundColor: color(colorName), data: list.map((b) => ({ x: (b[0] + b[1]) / 2, y: (b[2] + b[3]) / 2 })),
       pointRadius: 0, pointHitRadius: 4, boxes: list });

  function drawMemory() {
    const line = (label, field, colorName, fill) =>
      ({ label, data: timeline.map((s) => ({ x: s.ns, y: s[field] })), borderColor: color(colorName), backgroundColor: color(colorName) + (fill ? "40" : ""), pointStyle: fill ? "rect" : "line",
         fill: !!fill, stepped: "after", pointRadius: 0, borderWidth: 1.5 });
    const sets = [line("live", "live_bytes", "live"), line("resident on the device", "resident_bytes", "resident", true),
                  line("swapped out", "swapped_bytes", "swapped")];
    if (report.limit_bytes)
      sets.push({ label: "limit", pointStyle: "line", data: [{ x: 0, y: report.limit_bytes }, { x: end, y: report.limit_bytes }], borderColor: color("limit"),
                  backgroundColor: color("limit"), borderDash: [6, 4], pointRadius: 0, borderWidth: 1.5 });
    if (peak >= 0)
      sets.push({ type: "scatter", label: "peak " + bytes(timeline[peak].live_bytes), data: [{ x: timeline[peak].ns, y: timeline[peak].live_bytes }],
                  borderColor: color("peak"), backgroundColor: color("peak"), pointRadius: 6, pointStyle: "triangle" });
    make("chart-memory", { type: "line", data: { datasets: sets }, options: options(scales("", { y: { min: 0, ticks: { color: color("muted"), stepSize: byteStep(Math.max(report.limit_bytes || 0, ...timeline.map((s) => s.live_bytes))), callback: (v) => bytes(v) },
                grid: { color: color("line") } } }), {
      title: (items) => items.length ? time(items[0].parsed.x) : "",
      label: (item) => item.dataset.label + ": " + bytes(item.parsed.y) }) });
  }
  function drawBuffers() {
    const most = 1000;
    const shown = report.buffers.slice().sort((a, b) => b.bytes - a.bytes).slice(0, most).sort((a, b) => a.born_ns - b.born_ns || b.dead_ns - a.dead_ns);
    const kept = [], made = [], names = [], placed = [];
    const spansOf = (b) => b.dead_ns >= b.born_ns ? [[b.born_ns, b.dead_ns]] : [[0, b.dead_ns], [b.born_ns, end]];
    // Each at the lowest height that is free for as long as it lives: the picture is about as high as the peak.
    const lowest = (spans, size) => {
      const taken = placed.filter((p) => spans.some(([from, to]) => p.from < to && from < p.to)).sort((p, q) => p.low - q.low);
      let low = 0;
      for (const p of taken) {
        if (p.low - low >= size) break;
        low = Math.max(low, p.high);
      }
      return low;
    };
    let top = 0;
    for (const b of [...shown.filter((s) => s.persistent), ...shown.filter((s) => !s.persistent)]) {
      const list = b.persistent ? kept : made;
      const spans = spansOf(b), low = lowest(spans, b.bytes);
      for (const [from, to] of spans) {
        list.push([from, to, low, low + b.bytes]);
        names.push([list, list.length - 1, b]);
        placed.push({ from, to, low, high: low + b.bytes });
      }
      top = Math.max(top, low + b.bytes);
    }
    const nameOf = new Map(names.map(([list, i, b]) => [(list === kept ? "k" : "m") + i, b]));
    const sets = [boxSet("lives across iterations", "peak", kept), boxSet("born and dead in one", "resident", made)];
    const config = options(scales(report.buffers.length > most ? "the " + most + " largest of " + report.buffers.length : "height: size", { y: { min: 0, max: Math.ceil(top / byteStep(top)) * byteStep(top), ticks: { color: color("muted"), stepSize: byteStep(top), callback: (v) => bytes(v) }, grid: { display: false } } }), {
      label: (item) => { const b = nameOf.get((item.datasetIndex === 0 ? "k" : "m") + item.dataIndex); return b.name + ": " + bytes(b.bytes) + ", " + time(b.born_ns) + " to " + time(b.dead_ns); } });
    make("chart-buffers", { type: "scatter", data: { datasets: sets }, options: config, plugins: [boxes] });
  }
  function drawLanes() {
    const lane = { op: 2, in: 1, out: 0 };
    const box = (row, at) => [row.start_ns, row.end_ns, at + 0.12, at + 0.88];
    const ops = report.ops.filter((o) => o.start_ns !== undefined);
    const kinds = [["compute", "op", ops.map((o) => [o.start_ns, o.start_ns + o.duration_ns, 2.12, 2.88]), ops],
      ["stalled", "stall", ops.filter((o) => o.stall_ns > 0).map((o) => [o.start_ns - o.stall_ns, o.start_ns, 2.12, 2.88]), ops.filter((o) => o.stall_ns > 0)],
      ["in", "in", report.swaps.filter((s) => s.kind === "in").map((s) => box(s, lane.in)), report.swaps.filter((s) => s.kind === "in")],
      ["out", "out", report.swaps.filter((s) => s.kind !== "in" && s.kind !== "drop").map((s) => box(s, lane.out)), report.swaps.filter((s) => s.kind !== "in" && s.kind !== "drop")]];
    const config = options(scales("", { y: { min: 0, max: 3, ticks: { stepSize: 0.5, color: color("muted"), callback: (v) => ({ 0.5: "out", 1.5: "in", 2.5: "compute" })[v] || "" }, grid: { color: color("line") } } }), {
      label: (item) => { const row = kinds[item.datasetIndex][3][item.dataIndex];
        return row.name + (row.bytes !== undefined ? ": " + bytes(row.bytes) + ", " + time(row.end_ns - row.start_ns) : ": " + time(row.duration_ns) + (row.stall_ns ? " after a stall of " + time(row.stall_ns) : "")); } });
    make("chart-lanes", { type: "scatter", data: { datasets: kinds.map(([label, c, list]) => boxSet(label, c, list)) }, options: config, plugins: [boxes] });
  }
  function draw() {
    charts.forEach((c) => c.destroy());
    charts = [];
    if (!timeline.length) return;
    drawMemory();
    drawBuffers();
    drawLanes();
  }
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    draw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
  if (peak >= 0) root.dataset.chartPeakBytes = timeline[peak].live_bytes;
  root.dataset.charts = charts.length;
  root.dataset.ready = "1";
})();
