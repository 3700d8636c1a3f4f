// Who holds the peak: call sites from the outermost frame (top) to the innermost, as wide as what they hold. By function, or by module.
(() => {
  const { report, bytes, make, press } = page;
  const box = document.getElementById("icicle");
  if (!box) return;
  const crumbs = document.getElementById("icicle-path"), mode = document.getElementById("icicle-mode");
  const rowHeight = 24, least = 0.002;

  const moduleOf = (frame) => frame.slice(frame.lastIndexOf(" ") + 1).replace(/^\(/, "").replace(/(:\d+|\+0x[0-9a-f]+\)?)$/, "");
  function tree(byModule) {
    const root = { name: "peak", bytes: 0, sites: new Set(), parts: new Map(), depth: 0 };
    for (const entry of report.peak) {
      let path = page.frames(entry.site).slice().reverse();
      if (byModule) path = path.map(moduleOf).filter((m, i, all) => i === 0 || m !== all[i - 1]);
      let node = root;
      for (const name of [null, ...path]) {
        if (name !== null) {
          if (!node.parts.has(name)) node.parts.set(name, { name, bytes: 0, buffers: 0, sites: new Set(), parts: new Map(), above: node });
          node = node.parts.get(name);
        }
        node.bytes += entry.bytes;
        node.buffers = (node.buffers || 0) + entry.buffers;
        node.sites.add(entry.site || "");
      }
    }
    return root;
  }
  let root = tree(false), shown = root;
  const hue = (name) => { let h = 0; for (let i = 0; i < name.length; ++i) h = (h * 31 + name.charCodeAt(i)) % 360; return h; };

  function pick(node) {
    shown = node;
    page.change({ sites: node === root ? null : node.sites });
  }
  function draw() {
    box.replaceChildren();
    let deepest = 0;
    const place = (node, left, width, depth) => {
      if (width < least) return;
      deepest = Math.max(deepest, depth);
      const share = (100 * node.bytes / root.bytes).toFixed(1) + " %";
      const cell = make("div", { class: "cell", title: node.name + "\n" + bytes(node.bytes) + ", " + share + " of the peak, " + node.buffers + " buffers", ...press(() => pick(node === shown && node.above ? node.above : node)) },
        node.name + "  " + bytes(node.bytes));
      cell.style.left = 100 * left + "%";
      cell.style.width = 100 * width + "%";
      cell.style.top = depth * rowHeight + "px";
      if (node !== root) cell.style.setProperty("--hue", hue(mode.dataset.by === "module" ? node.name : node.name.replace(/ [^ ]*$/, "")));
      else cell.classList.add("all");
      if (page.state.search && !node.name.toLowerCase().includes(page.state.search)) cell.classList.add("dim");
      box.append(cell);
      let at = left;
      for (const part of [...node.parts.values()].sort((a, b) => b.bytes - a.bytes)) {
        const w = width * part.bytes / node.bytes;
        place(part, at, w, depth + 1);
        at += w;
      }
    };
    if (root.bytes) place(shown, 0, 1, 0);
    box.style.height = (deepest + 1) * rowHeight + "px";
    const path = [];
    for (let n = shown; n; n = n.above) path.unshift(n);
    crumbs.replaceChildren(...path.flatMap((n, i) => [i ? " > " : "", make("a", press(() => pick(n)), n === root ? "all " + bytes(root.bytes) : n.name)]));
  }
  mode.addEventListener("click", () => {
    const byModule = mode.dataset.by !== "module";
    mode.dataset.by = byModule ? "module" : "function";
    mode.textContent = byModule ? "by function" : "by module";
    root = tree(byModule);
    pick(root);
  });
  page.heard.push((what) => { if (what.includes("sites") || what.includes("search")) draw(); });
  draw();
})();
