// The charts. Those of the iteration stand one above the other and show the same stretch of it: drag to zoom in, wheel, double-click for
// all. Boxes are buffers, ops and copies; a click shows what is known of one.
(() => {
  const { report, root, color, bytes, time, timeline, end, state, make, press } = page;
  let peak = -1;
  timeline.forEach((s, i) => { if (peak < 0 || s.live_bytes > timeline[peak].live_bytes) peak = i; });
  let charts = {};
  const ofIteration = ["memory", "lanes", "buffers"];

  // Round steps in binary units.
  function byteStep(most) {
    let step = 1;
    while (step * 7 < most) step *= 2;
    return step;
  }
  const byteTicks = (most) => ({ color: color("muted"), stepSize: byteStep(most), callback: (v) => bytes(v) });
  const timeAxis = () => ({ type: "linear", min: state.from, max: state.to, ticks: { color: color("muted"), maxRotation: 0, callback: (v) => time(v) }, grid: { color: color("line") } });
  const title = (text) => ({ display: !!text, text, color: color("muted") });
  // The charts stand one above the other: their time axes must, too.
  const alignLeft = (scale) => { scale.width = 86; };
  function options(x, y, tooltip, mode) {
    y.afterFit = alignLeft;
    return { animation: false, maintainAspectRatio: false, parsing: false, normalized: true, scales: { x, y },
             interaction: { mode: mode || "nearest", intersect: false, axis: mode === "index" ? "x" : "xy" },
             plugins: { legend: { labels: { color: color("ink"), boxWidth: 14, usePointStyle: true } }, tooltip: { callbacks: tooltip } } };
  }
  function draw(name, config) {
    const canvas = document.getElementById("chart-" + name);
    if (canvas) charts[name] = new Chart(canvas, config);
  }
  // Boxes [start, end] x [low, high] of rows as one data set with its own drawing; `colors` by row where they differ.
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
        set.boxes.forEach((b, i) => {
          ctx.fillStyle = set.backgroundColor;
          ctx.globalAlpha = page.matches(set.rows[i]) ? 1 : 0.12;
          const left = x.getPixelForValue(b[0]), top = y.getPixelForValue(b[3]);
          const width = Math.max(1, x.getPixelForValue(b[1]) - left), height = Math.max(1, y.getPixelForValue(b[2]) - top - 0.5);
          ctx.fillRect(left, top, width > 3 ? width - 0.5 : width, height);
        });
      });
      ctx.restore();
    },
  };
  // The box under the pointer.
  Chart.Interaction.modes.box = (chart, event) => {
    const x = chart.scales.x.getValueForPixel(event.x), y = chart.scales.y.getValueForPixel(event.y);
    const slack = (state.to - state.from) / 400;
    const found = [];
    chart.data.datasets.forEach((set, datasetIndex) => {
      if (!set.boxes || !chart.isDatasetVisible(datasetIndex)) return;
      const index = set.boxes.findIndex((b) => x >= b[0] - slack && x <= b[1] + slack && y >= b[2] && y <= b[3]);
      if (index >= 0) found.push({ element: chart.getDatasetMeta(datasetIndex).data[index], datasetIndex, index });
    });
    return found.slice(0, 1);
  };
  const boxSet = (label, background, list, rows) =>
    ({ type: "scatter", label, pointStyle: "rect", borderColor: background, backgroundColor: background, data: list.map((b) => ({ x: (b[0] + b[1]) / 2, y: (b[2] + b[3]) / 2 })),
       pointRadius: 0, boxes: list, rows });
  function boxOptions(y, label, click) {
    const all = options(timeAxis(), y, { label: (item) => label(item.dataset.rows[item.dataIndex]) }, "box");
    all.onClick = (event, items, chart) => { if (items.length && !chart.dragged) click(chart.data.datasets[items[0].datasetIndex].rows[items[0].index]); };
    return all;
  }

  const line = (label, data, colorName, more) => ({ label, data, borderColor: color(colorName), backgroundColor: color(colorName), pointStyle: "line", pointRadius: 0, borderWidth: 1.5, ...more });
  const level = (label, y, to, colorName, from) => line(label, [{ x: from || 0, y }, { x: to, y }], colorName, { borderDash: [6, 4] });

  function drawMemory() {
    const of = (field) => timeline.map((s) => ({ x: s.ns, y: s[field] }));
    const sets = [line("live", of("live_bytes"), "live", { stepped: "after" }),
                  line("resident on the device", of("resident_bytes"), "resident", { stepped: "after", fill: true, pointStyle: "rect", backgroundColor: color("resident") + "40" }),
                  line("swapped out", of("swapped_bytes"), "swapped", { stepped: "after" })];
    const most = Math.max(...timeline.map((s) => s.live_bytes));
    // A limit far above all that happens would flatten it.
    if (report.limit_bytes && report.limit_bytes < 3 * most) sets.push(level("limit", report.limit_bytes, end, "limit"));
    if (peak >= 0)
      sets.push({ type: "scatter", label: "peak " + bytes(timeline[peak].live_bytes), data: [{ x: timeline[peak].ns, y: timeline[peak].live_bytes }],
                  borderColor: color("peak"), backgroundColor: color("peak"), pointRadius: 6, pointStyle: "triangle" });
    draw("memory", { type: "line", data: { datasets: sets }, options: options(timeAxis(), { min: 0, ticks: byteTicks(most), grid: { color: color("line") } }, {
      title: (items) => (items.length ? time(items[0].parsed.x) : ""), label: (item) => item.dataset.label + ": " + bytes(item.parsed.y) }) });
  }
  function drawBuffers() {
    const most = 1000; // boxes
    const shown = report.buffers.filter((b) => !b.page).sort((a, b) => b.bytes - a.bytes).slice(0, most).sort((a, b) => a.born_ns - b.born_ns || b.dead_ns - a.dead_ns);
    const placed = [];
    const spansOf = (b) => (b.dead_ns >= b.born_ns ? [[b.born_ns, b.dead_ns]] : [[0, b.dead_ns], [b.born_ns, end]]);
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
    let top = 1;
    const bySite = new Map();
    for (const b of [...shown.filter((s) => s.persistent), ...shown.filter((s) => !s.persistent)]) {
      const spans = spansOf(b), low = lowest(spans, b.bytes);
      const site = b.site || "", paint = page.ownerColor(site);
      const own = paint === color("owner-rest") ? "" : site;
      const key = own || paint;
      if (!bySite.has(key)) bySite.set(key, { label: own ? page.brief(site) : "others", paint, boxes: [], rows: [], sum: 0 });
      const set = bySite.get(key);
      for (const [from, to] of spans) {
        set.boxes.push([from, to, low, low + b.bytes]);
        set.rows.push(b);
        placed.push({ from, to, low, high: low + b.bytes });
      }
      set.sum += b.bytes;
      top = Math.max(top, low + b.bytes);
    }
    const sets = [...bySite.values()].sort((a, b) => (a.label === "others") - (b.label === "others") || b.sum - a.sum).map((s) => boxSet(s.label, s.paint, s.boxes, s.rows));
    const y = { min: 0, max: Math.ceil(top / byteStep(top)) * byteStep(top), title: title(report.buffers.length > most ? "the " + most + " largest of " + report.buffers.length : ""), ticks: byteTicks(top), grid: { display: false } };
    const all = boxOptions(y, (b) => [b.name + ": " + bytes(b.bytes) + ", " + time(b.born_ns) + " to " + time(b.dead_ns), ...page.frames(b.site).slice(0, 4)], (b) => page.showBuffer(b.tensor));
    all.plugins.legend.labels.filter = (item) => item.index === undefined;
    all.plugins.legend.align = "start";
    all.plugins.legend.display = window.innerWidth > 640;
    draw("buffers", { type: "scatter", data: { datasets: sets }, options: all, plugins: [boxes] });
  }
  function drawLanes() {
    const ops = report.ops.filter((o) => o.start_ns !== undefined), stalled = ops.filter((o) => o.stall_ns > 0);
    const ins = report.swaps.filter((s) => s.kind === "in"), outs = report.swaps.filter((s) => s.kind !== "in" && s.kind !== "drop");
    const lane = (at) => (s) => [s.start_ns, s.end_ns, at + 0.12, at + 0.88];
    const sets = [boxSet("compute", color("op"), ops.map((o) => [o.start_ns, o.start_ns + o.duration_ns, 2.12, 2.88]), ops),
      boxSet("waiting for copies", color("stall"), stalled.map((o) => [o.start_ns - o.stall_ns, o.start_ns, 2.12, 2.88]), stalled),
      boxSet("in", color("in"), ins.map(lane(1)), ins), boxSet("out", color("out"), outs.map(lane(0)), outs)];
    const why = new Map(report.stalls.map((s) => [s.op, s.why]));
    const y = { min: 0, max: 3, ticks: { stepSize: 0.5, color: color("muted"), callback: (v) => ({ 0.5: "out", 1.5: "in", 2.5: "compute" })[v] || "" }, grid: { color: color("line") } };
    draw("lanes", { type: "scatter", data: { datasets: sets }, plugins: [boxes], options: boxOptions(y,
      (row) => (row.bytes !== undefined ? row.kind + " " + row.name + ": " + bytes(row.bytes) + ", " + time(row.end_ns - row.start_ns)
        : ["op " + row.op + " " + row.name + ": " + time(row.duration_ns), ...(row.stall_ns ? ["after waiting " + time(row.stall_ns) + ": " + (why.get(row.op) || "")] : [])]),
      (row) => (row.op !== undefined ? page.showOp(row.op) : page.showBuffer(row.tensor))) });
  }
  function drawRun() {
    if (report.run.length < 2) return;
    const perIteration = report.ops_per_iteration || 0;
    let ops = 0;
    const points = report.run.map((s) => ({ ...s, x: (ops += s.ops) }));
    const of = (value) => points.map((s) => ({ x: s.x, y: value(s) }));
    const sets = [line("live at most", of((s) => s.most_live_bytes), "live"), line("live at least", of((s) => s.least_live_bytes), "live", { borderDash: [2, 3] }),
                  line("on the device at most", of((s) => s.most_resident_bytes), "resident")];
    // Over the last whole iteration: within one, copies come in bursts.
    const each = (field) => {
      let first = 0, sum = 0, covered = 0;
      return points.map((s) => {
        sum += s[field];
        covered += s.ops;
        while (covered - points[first].ops >= perIteration) { sum -= points[first][field]; covered -= points[first].ops; first++; }
        return { x: s.x, y: (sum * perIteration) / covered };
      }).filter((p) => p.x >= perIteration);
    };
    const copies = points.some((s) => s.in_bytes + s.out_bytes > 0);
    if (copies && perIteration)
      sets.push(line("copied in per iteration", each("in_bytes"), "in", { borderDash: [1, 2] }), line("copied out per iteration", each("out_bytes"), "out", { borderDash: [1, 2] }));
    const most = Math.max(...points.map((s) => s.most_live_bytes));
    if (report.limit_bytes && report.limit_bytes < 3 * most) sets.push(level("limit", report.limit_bytes, ops, "limit"));
    if (report.plan_began_op !== undefined)
      sets.push(line("plan followed from here", [{ x: report.plan_began_op, y: 0 }, { x: report.plan_began_op, y: most }], "peak", { borderDash: [4, 3] }));
    const last = points[points.length - 1].end_ns;
    draw("run", { type: "line", data: { datasets: sets }, options: options(
      { type: "linear", min: 0, max: ops, title: title("operations" + (last ? ", " + time(last) + " by the host's clock" : "")), ticks: { color: color("muted"), maxRotation: 0 }, grid: { color: color("line") } },
      { min: 0, ticks: byteTicks(most), grid: { color: color("line") } },
      { title: (items) => (items.length ? "op " + items[0].parsed.x + (perIteration ? ", iteration " + Math.floor(items[0].parsed.x / perIteration) : "") : ""), label: (item) => item.dataset.label + ": " + bytes(item.parsed.y) }) });
  }
  function drawWhatIf() {
    const points = report.what_if;
    if (points.length < 2) return;
    const now = report.measured_ns_per_iteration || report.predicted_ns, alone = report.infinite_ns_per_iteration;
    const from = Math.min(points[0].limit_bytes, report.least_limit_bytes || Infinity), to = points[points.length - 1].limit_bytes;
    const sets = [line("quick plans", points.map((p) => ({ x: p.limit_bytes, y: p.period_ns })), "resident", { pointRadius: 4, pointStyle: "circle" })];
    if (alone) sets.push(level("enough memory", alone, to, "live", from));
    if (report.enough_bytes && alone)
      sets.push({ type: "scatter", label: "95 % of the speed", data: points.filter((p) => p.limit_bytes === report.enough_bytes).map((p) => ({ x: p.limit_bytes, y: p.period_ns })), borderColor: color("op"), backgroundColor: color("op"), pointRadius: 7, pointStyle: "rectRot" });
    if (now && report.limit_bytes >= from && report.limit_bytes <= to)
      sets.push({ type: "scatter", label: "this run", data: [{ x: report.limit_bytes, y: now }], borderColor: color("limit"), backgroundColor: color("limit"), pointRadius: 7, pointStyle: "triangle" });
    draw("what-if", { type: "line", data: { datasets: sets }, options: options(
      { type: "linear", min: from, max: to, title: title("device memory"), ticks: { ...byteTicks(to - from), maxRotation: 0 }, grid: { color: color("line") } },
      { min: 0, title: title("iteration"), ticks: { color: color("muted"), callback: (v) => time(v) }, grid: { color: color("line") } },
      { title: (items) => (items.length ? bytes(items[0].parsed.x) : ""), label: (item) => item.dataset.label + ": " + time(item.parsed.y) }) });
  }

  function drawAll() {
    Object.values(charts).forEach((c) => c.destroy());
    charts = {};
    if (timeline.length) [drawMemory, drawLanes, drawBuffers].forEach((f) => f());
    drawRun();
    drawWhatIf();
    root.dataset.charts = Object.keys(charts).join(" ");
  }

  // --- zoom ---
  function zoom(from, to) {
    const least = Math.max(end / 1e5, 1);
    from = Math.max(0, from);
    to = Math.min(end, to);
    if (to - from < least) return;
    page.change({ from, to });
  }
  function watch(name) {
    const canvas = document.getElementById("chart-" + name);
    if (!canvas) return;
    const at = (e) => charts[name].scales.x.getValueForPixel(e.clientX - canvas.getBoundingClientRect().left);
    const shade = make("div", { class: "shade", hidden: "" });
    canvas.parentElement.append(shade);
    let began = null;
    canvas.addEventListener("wheel", (e) => {
      if (!e.ctrlKey && !e.shiftKey) return; // a page that is scrolled stays one
      e.preventDefault();
      const x = at(e), factor = e.deltaY + e.deltaX > 0 ? 1.25 : 0.8;
      zoom(x - (x - state.from) * factor, x + (state.to - x) * factor);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (e) => { began = { x: e.clientX, at: at(e) }; charts[name].dragged = false; });
    canvas.addEventListener("pointermove", (e) => {
      if (!began || Math.abs(e.clientX - began.x) < 5) return;
      charts[name].dragged = true;
      const left = canvas.getBoundingClientRect().left;
      shade.hidden = false;
      shade.style.left = Math.min(began.x, e.clientX) - left + "px";
      shade.style.width = Math.abs(e.clientX - began.x) + "px";
    });
    window.addEventListener("pointerup", (e) => {
      if (began && charts[name].dragged && !shade.hidden) zoom(Math.min(began.at, at(e)), Math.max(began.at, at(e)));
      began = null;
      shade.hidden = true;
    });
    canvas.addEventListener("dblclick", () => zoom(0, end));
  }
  const by = (factor) => () => { const middle = (state.from + state.to) / 2, half = ((state.to - state.from) / 2) * factor; zoom(middle - half, middle + half); };
  const move = (share) => () => { const d = (state.to - state.from) * share; if (state.from + d >= 0 && state.to + d <= end) zoom(state.from + d, state.to + d); };
  const shows = document.getElementById("zoom-shows");
  for (const [id, act] of [["zoom-in", by(0.5)], ["zoom-out", by(2)], ["zoom-left", move(-0.25)], ["zoom-right", move(0.25)], ["zoom-all", () => zoom(0, end)]])
    document.getElementById(id)?.addEventListener("click", act);
  document.getElementById("search")?.addEventListener("input", (e) => page.change({ search: e.target.value.trim().toLowerCase() }));
  page.heard.push((what) => {
    const moved = what.includes("from");
    for (const name of ofIteration)
      if (charts[name]) {
        charts[name].options.scales.x.min = state.from;
        charts[name].options.scales.x.max = state.to;
        charts[name].update("none");
      }
    if (moved && shows) shows.textContent = time(state.from) + " to " + time(state.to);
    root.dataset.zoom = state.from + " " + state.to;
  });

  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    drawAll();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  drawAll();
  ofIteration.forEach(watch);
  if (shows) shows.textContent = time(0) + " to " + time(end);
  if (peak >= 0) root.dataset.chartPeakBytes = timeline[peak].live_bytes;
  root.dataset.ready = "1";
})();
