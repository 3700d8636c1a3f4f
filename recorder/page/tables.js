// The tables of ops, buffers and swaps: sorted by any column, filtered by the search and by the picked call sites.
(() => {
  const { report, bytes, time, make, press } = page;
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
  const open = { ops: (row) => page.showOp(row.op), buffers: (row) => page.showBuffer(row.tensor), swaps: (row) => page.showBuffer(row.tensor) };

  function fill(kind) {
    const table = document.getElementById("table-" + kind);
    if (!table) return;
    let key = firstSort[kind], descending = true;
    const body = table.createTBody(), head = table.createTHead().insertRow();
    const more = document.getElementById("more-" + kind);
    const draw = () => {
      const rows = report[kind].filter(page.matches);
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
        tr.addEventListener("click", () => open[kind](row));
        for (const [field, , numeric, format] of columns[kind]) {
          const td = tr.insertCell();
          const value = row[field];
          if (numeric) { td.className = "n"; td.title = value === undefined ? "" : value; }
          td.textContent = value === undefined ? "" : format ? format(value) : value === true ? "yes" : value === false ? "" : value;
        }
      }
      table.dataset.rows = rows.length;
      more.textContent = rows.length > rowsShown ? "The first " + rowsShown + " of " + rows.length + " rows in this order."
        : rows.length < report[kind].length ? rows.length + " of " + report[kind].length + " match." : "";
      for (const th of head.cells)
        th.setAttribute("aria-sort", th.dataset.key !== key ? "none" : descending ? "descending" : "ascending");
    };
    for (const [field, label, numeric] of columns[kind]) {
      const sort = () => { descending = key === field ? !descending : numeric !== undefined; key = field; draw(); };
      head.append(make("th", { class: "sortable" + (numeric ? " n" : ""), "data-key": field, ...press(sort), role: "columnheader" }, label));
    }
    page.heard.push((what) => { if (what.includes("search") || what.includes("sites")) draw(); });
    draw();
  }
  ["ops", "buffers", "swaps"].forEach(fill);
})();
