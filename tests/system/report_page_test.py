#!/usr/bin/env python3
"""The HTML report in a real browser: it loads without errors, draws its charts, and shows the figures of the JSON."""

import html
import json
import os
import re
import shutil

from tap import Skip, Suite, equal

suite = Suite()
COMMAND = suite.path("swapadvisor")
BROWSER = next((found for name in ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
                if (found := shutil.which(name))), None)


ITERATION = ["memory", "lanes", "buffers"]


def browse(page, *options):
    if not BROWSER:
        raise Skip("no chromium here")
    return suite.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                      "--virtual-time-budget=10000", "--enable-logging=stderr", *options, "file://" + page],
                     env={"HOME": suite.scratch}, timeout=120)


def trace_of(graph, name):
    source, trace = (os.path.join(suite.scratch, name + end) for end in (".json", ".trace"))
    with open(source, "w") as file:
        json.dump(graph, file)
    done = suite.run([COMMAND, "import", source, "-o", trace])
    equal(done.returncode, 0, done.stderr)
    return trace


def page_of(path, name, *options):
    page = os.path.join(suite.scratch, name + ".html")
    done = suite.run([COMMAND, "report", "--html", path, "-o", page, *options], timeout=300)
    equal(done.returncode, 0, done.stderr)
    assert os.path.getsize(page) < 2_000_000, os.path.getsize(page)
    return page


def check_page(page, report, charts):
    shown = browse(page, "--dump-dom")
    complaints = [line for line in shown.stderr.splitlines() if "CONSOLE" in line]
    equal(complaints, [], "errors on the page")
    dom = shown.stdout
    assert 'data-ready="1"' in dom, "the script did not come to its end"
    equal(set(re.search(r'data-charts="([^"]*)"', dom)[1].split()), set(charts))
    for key in ("peak_bytes", "limit_bytes", "infinite_ns_per_iteration", "ops_per_iteration", "in_bytes_per_iteration"):
        if key in report:
            found = re.search(rf'data-field="{key}">(\d+)', dom)
            assert found, f"the page lacks {key}"
            equal(int(found[1]), report[key], key)
    # Figures that the script itself has computed from what it drew.
    if charts:
        equal(int(re.search(r'data-chart-peak-bytes="(\d+)"', dom)[1]), max(s["live_bytes"] for s in report["timeline"]))
    for kind, column in (("ops", "duration_ns"), ("buffers", "bytes")):
        body = re.search(rf'<table id="table-{kind}"[^>]*>.*?<tbody>(.*?)</tbody>', dom, re.S)
        assert body, f"no table of {kind}"
        rows = body[1].count("<tr>")
        equal(rows, min(400, len(report[kind])), f"rows of {kind}")
        titles = {int(t) for t in re.findall(r'title="(\d+)"', body[1])}
        assert max(r[column] for r in report[kind][:1]) in titles or rows == 400, f"{kind}: {column} is not shown"
    return dom


def report_of(path, *options):
    done = suite.run([COMMAND, "report", "--json", path, *options], timeout=300)
    equal(done.returncode, 0, done.stderr)
    return json.loads(done.stdout)


def figures_on(dom):
    """Every figure that the page shows by name, as the number at its front."""
    return {key: int(value) for key, value in re.findall(r'data-field="([a-z0-9_.]+)">(\d+)', dom)}


def embedded(page):
    """The report that a page carries."""
    with open(page) as file:
        return json.loads(re.search(r'<script type="application/json" id="report">(.*?)</script>', file.read(), re.S)[1])


@suite.test("the page of ten million events")
def _():
    trace = os.path.join(suite.scratch, "large.trace")
    done = suite.run([suite.path("tests/recorder_tests"), "ten million events"], env={"LARGE_TRACE": trace}, timeout=300)
    equal(done.returncode, 0, done.stdout)
    written = re.search(r"^(\d+) events: .*$", done.stdout, re.M)
    assert int(written[1]) >= 10_000_000, done.stdout
    print("# " + written[0])
    page = page_of(trace, "large")
    report = embedded(page)
    shown = figures_on(check_page(page, report, [*ITERATION, "run", "what-if"]))
    wanted = {"ops_per_iteration": 902, "in_bytes_per_iteration": 30 * 4 << 20, "stall_ns_per_iteration": 2_100_000,
              "limit_bytes": 5 << 30, "device.memory_bytes": 8 << 30}
    equal({key: shown.get(key) for key in wanted}, wanted)
    for key, value in shown.items():
        name = key.partition(".")[2] or key
        equal((report["device"] if "." in key else report)[name], value, key)


def bert():
    with open(os.path.join(suite.root, "tests/graphs/bert-256.json")) as file:
        return json.load(file)


@suite.test("the page of a recorded BERT iteration")
def _():
    trace = trace_of(bert(), "bert")
    check_page(page_of(trace, "bert"), report_of(trace), [*ITERATION, "run", "what-if"])


USE = """
const tried = {}, at = (id) => document.getElementById(id), rows = (kind) => Number(at("table-" + kind).dataset.rows);
const search = (text) => { at("search").value = text; at("search").dispatchEvent(new Event("input")); };
const click = (element) => element.dispatchEvent(new MouseEvent("click", { bubbles: true }));
tried.rows = rows("buffers");
search("state");
tried.found = rows("buffers");
search("");
const cells = [...document.querySelectorAll("#icicle .cell")];
tried.peak = cells[0].textContent;
click(cells[1]);
tried.of_site = rows("buffers");
tried.path = at("icicle-path").textContent;
click(document.querySelector("#icicle-path a"));
tried.again = rows("buffers");
click(at("icicle-mode"));
tried.modules = [...document.querySelectorAll("#icicle .cell")].map((cell) => cell.textContent);
click(at("zoom-in"));
tried.zoom = document.documentElement.dataset.zoom.split(" ").map(Number);
click(at("zoom-all"));
tried.whole = document.documentElement.dataset.zoom.split(" ").map(Number);
click(at("table-buffers").tBodies[0].rows[0]);
tried.buffer = at("detail").textContent;
const canvas = at("chart-lanes"), box = canvas.getBoundingClientRect(), area = Chart.getChart(canvas).chartArea;
canvas.dispatchEvent(new MouseEvent("click", { bubbles: true, clientX: box.left + (area.left + area.right) / 2, clientY: box.top + area.top + (area.bottom - area.top) / 6 }));
setTimeout(() => { tried.op = at("detail").textContent; document.body.append(Object.assign(document.createElement("pre"), { id: "tried", textContent: JSON.stringify(tried) })); }, 200);
"""


@suite.test("search, zoom, clicks on rows, on call sites and into a chart")
def _():
    graph = bert()
    for i, tensor in enumerate(graph["tensors"]):
        tensor["site"] = f"grow model.py:{i % 3} < Model.forward model.py:9 < main train.py:4"
    trace = trace_of(graph, "used")
    page = page_of(trace, "used")
    report = embedded(page)
    with open(page) as file:
        text = file.read()
    with open(page, "w") as file:
        file.write(text.replace("</body>", f"<script>{USE}</script></body>"))
    shown = browse(page, "--dump-dom")
    equal([line for line in shown.stderr.splitlines() if "CONSOLE" in line], [])
    tried = json.loads(html.unescape(re.search(r'<pre id="tried">(.*?)</pre>', shown.stdout, re.S)[1]))
    buffers, end = report["buffers"], report["timeline"][-1]["ns"]
    equal(tried["rows"], len(buffers))
    equal(tried["found"], sum("state" in b["name"].lower() or "state" in b.get("site", "") for b in buffers))
    assert tried["peak"].startswith("peak"), tried
    equal((tried["of_site"], tried["again"]), (len(buffers), len(buffers)))  # all are of one outermost frame
    assert "main train.py:4" in tried["path"], tried
    assert any(m.startswith("model.py") for m in tried["modules"]) and any(m.startswith("train.py") for m in tried["modules"]), tried
    equal(tried["zoom"], [end / 4, end * 3 / 4])
    equal(tried["whole"], [0, end])
    largest = max(buffers, key=lambda b: b["bytes"])
    assert "Model.forward model.py:9" in tried["buffer"] and "used by" in tried["buffer"] and largest["name"] in tried["buffer"], tried["buffer"]
    middle = next(o for o in reversed(report["ops"]) if o["start_ns"] <= end / 2)
    assert re.search(r"op \d+ ", tried["op"]) and "duration" in tried["op"], tried["op"]
    assert abs(int(re.search(r"op (\d+) ", tried["op"])[1]) - middle["op"]) <= 3, (tried["op"], middle)


@suite.test("names that look like markup stay text")
def _():
    graph = {"format": "swapadvisor-graph", "version": 1, "name": "<img src=x onerror=alert(1)>", "source": "",
             "device": {"memory_bytes": 1 << 30, "h2d_bytes_per_s": 10 ** 10, "d2h_bytes_per_s": 10 ** 10,
                        "duplex_bytes_per_s": 10 ** 10, "transfer_latency_ns": 10000},
             "tensors": [{"id": 0, "bytes": 1 << 20, "persistent": True, "name": "</script><script>document.title='x'</script>"}],
             "ops": [{"id": i, "name": f"<b>op{i}</b>", "duration_ns": 1000 + i, "reads": [0], "writes": [0]} for i in range(40)]}
    trace = trace_of(graph, "markup")
    dom = check_page(page_of(trace, "markup"), report_of(trace), [*ITERATION, "run", "what-if"])
    assert "<img" not in dom and "<b>" not in dom
    title = re.search(r"<title>(.*?)</title>", dom)[1]
    assert title.startswith("SwapAdvisor"), title


@suite.test("a report of which nearly nothing is known")
def _():
    path = os.path.join(suite.scratch, "bare.json")
    with open(path, "w") as file:
        json.dump({"format": "swapadvisor-report", "version": 1, "source": "run", "program": "p", "notes": [],
                   "device": {"memory_bytes": 0, "h2d_bytes_per_s": 0, "d2h_bytes_per_s": 0, "duplex_bytes_per_s": 0,
                              "transfer_latency_ns": 0},
                   **{k: [] for k in ("fallbacks", "unmovable", "peak", "ops", "buffers", "swaps", "timeline")}}, file)
    dom = browse(page_of(path, "bare"), "--dump-dom").stdout
    assert 'data-ready="1"' in dom and 'data-charts=""' in dom


@suite.test("a screenshot can be taken in light and dark")
def _():
    page = page_of(trace_of(bert(), "shot"), "shot")
    shots = []
    for extra in ([], ["--force-dark-mode", "--blink-settings=preferredColorScheme=0"]):
        picture = os.path.join(suite.scratch, "shot.png")
        browse(page, f"--screenshot={picture}", "--window-size=1280,2400", *extra)
        with open(picture, "rb") as file:
            shots.append(file.read())
        assert shots[-1].startswith(b"\x89PNG") and len(shots[-1]) > 20000
    assert shots[0] != shots[1], "dark looks like light"


if __name__ == "__main__":
    suite.main()
