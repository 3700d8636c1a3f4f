#!/usr/bin/env python3
"""The recorded iteration of the digits workload against the log that the workload itself writes: buffers, sizes,
lives and dependencies. And the reports of that trace, in every form. On the software GPU."""

import html
import json
import os
import re
import sys

from tap import Suite, equal

suite = Suite()
SHIM = suite.path("libswapadvisor.so")
COMMAND = suite.path("swapadvisor")
RUNS = {
    # Enough memory; and so little that swapping happens, with evaluation in between.
    "ample": (["--epochs", "2", "--batch", "128", "--width", "16", "--depth", "2"], "2GiB"),
    "tight": (["--epochs", "2", "--batch", "128", "--width", "64", "--depth", "2"], "12MiB"),
}
_recorded = {}


def recorded(name):
    """Runs the workload once; returns the paths of its trace and its own log."""
    if name not in _recorded:
        options, memory = RUNS[name]
        trace, log = (os.path.join(suite.scratch, f"{name}.{end}") for end in ("trace", "log"))
        done = suite.run([sys.executable, os.path.join(suite.root, "scripts/softgpu"), "--build", suite.build, "--",
                          suite.path("workloads/digits"), *options, "--alloc-log", log],
                         preload=SHIM, env={"SWAPADVISOR_MEMORY": memory, "SWAPADVISOR_TRACE": trace,
                                            "SWAPADVISOR_REPORT": os.path.join(suite.scratch, name + ".report")})
        assert done.returncode == 0, done.stdout + done.stderr
        _recorded[name] = trace, log
    return _recorded[name]


def graph_of(trace):
    done = suite.run([COMMAND, "export", trace])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Log:
    """The workload's own account: operations with what they touch, buffers with sizes and lives."""

    def __init__(self, path):
        self.ops, self.bytes, self.persistent, self.marks = [], {}, {}, []
        self.born, self.dead = {}, {}
        with open(path) as lines:
            for line in lines:
                event = json.loads(line)
                kind = event["event"]
                if kind == "alloc":
                    self.bytes[event["buffer"]] = event["bytes"]
                    self.born[event["buffer"]] = len(self.ops)
                elif kind == "free":
                    self.dead[event["buffer"]] = len(self.ops)
                elif kind == "mark":
                    self.marks.append(len(self.ops))
                elif kind == "op":
                    self.ops.append(event)

    def touched(self, op):
        return set(self.ops[op]["reads"]) | set(self.ops[op]["writes"])


def shape(kind, sizes):
    return kind, tuple(sorted(sizes))


def graph_kind(name):
    return name if name in ("memset",) else "copy" if name.startswith("memcpy") else "kernel"


def align(graph, log):
    """The place in the log of an instance of the graph's iteration in the midst of others."""
    mine = [shape(graph_kind(op["name"]), [graph["tensors"][t]["bytes"] for t in set(op["reads"]) | set(op["writes"])])
            for op in graph["ops"]]
    logged = [shape(op["kind"], [log.bytes[b] for b in log.touched(i)]) for i, op in enumerate(log.ops)]
    n = len(mine)
    for start in range(2 * n, len(logged) - 3 * n):
        if all(logged[start + k * n:start + (k + 1) * n] == mine for k in (-2, -1, 0, 1, 2)):
            return start
    raise AssertionError("the exported iteration is nowhere in the program's own log")


def check_graph(name):
    trace, log_path = recorded(name)
    graph, log = graph_of(trace), Log(log_path)
    n = len(graph["ops"])
    period = {b - a for a, b in zip(log.marks, log.marks[1:])}
    assert n in period, f"{n} ops exported, the program's iterations have {sorted(period)}"
    start = align(graph, log)

    # Buffers: a tensor is the buffer of the same size that is touched by the same ops. (Two that agree in both may
    # be taken for each other.) A tensor whose life wraps the boundary is two buffers: one that dies in the iteration
    # and one that is born in it.
    uses_of_tensor, uses_of_buffer = {}, {}
    for i, op in enumerate(graph["ops"]):
        for t in set(op["reads"]) | set(op["writes"]):
            uses_of_tensor.setdefault(t, set()).add(i)
        for b in log.touched(start + i):
            uses_of_buffer.setdefault(b, set()).add(i)
    end = start + n
    free_of = {}
    for b, uses in uses_of_buffer.items():
        free_of.setdefault((log.bytes[b], frozenset(uses)), []).append(b)
    buffers_of = {}
    wraps = {t["id"] for t in graph["tensors"] if t.get("wraps")}
    for t, uses in uses_of_tensor.items():
        size = graph["tensors"][t]["bytes"]
        if t not in wraps:
            free = free_of.get((size, frozenset(uses)), [])
            assert free, f"tensor {t} of {size} bytes, used by ops {sorted(uses)}, is no buffer of the program"
            buffers_of[t] = [free.pop(0)]
            continue
        # The dying one may have had its last use before the iteration.
        pairs = [(old, new) for old in log.bytes for new in uses_of_buffer
                 if log.bytes[old] == log.bytes[new] == size and log.born[old] <= start <= log.dead.get(old, end) <= end
                 and log.born[new] >= start and log.dead.get(new, end) >= end and old != new
                 and uses_of_buffer.get(old, set()) | uses_of_buffer[new] == uses]
        assert pairs, f"tensor {t} wraps, but no two buffers of the program are it"
        buffers_of[t] = list(pairs[0])
        for b in pairs[0]:
            if b in uses_of_buffer:
                free_of[(size, frozenset(uses_of_buffer[b]))].remove(b)
    left = [b for free in free_of.values() for b in free]
    equal(left, [], "buffers that the iteration touches and the graph lacks")

    # Lives: persistent in the graph is what the program holds on both sides of the iteration.
    for t, (buffer, *_) in buffers_of.items():
        if t not in wraps:
            lives_on = log.born[buffer] <= start and log.dead.get(buffer, len(log.ops)) >= end
            equal(graph["tensors"][t]["persistent"], lives_on, f"tensor {t}, buffer {buffer}")
    tensor_of = {b: t for t, buffers in buffers_of.items() for b in buffers}

    # Dependencies: which earlier op of the iteration each op must follow. Kernel arguments may be written for all
    # that can be seen from outside, so the exported hazards contain the true ones, and are exactly those of the
    # program's log when its kernels are read in the same way.
    def hazards(accesses):
        last_write, readers, edges = {}, {}, set()
        for i, (reads, writes) in enumerate(accesses):
            for b in reads:
                if b in last_write:
                    edges.add((last_write[b], i))
                readers.setdefault(b, []).append(i)
            for b in writes:
                edges |= {(r, i) for r in readers.get(b, []) if r != i}
                if b in last_write:
                    edges.add((last_write[b], i))
                last_write[b], readers[b] = i, []
        closure = {i: set() for i in range(len(accesses))}
        for i in range(len(accesses)):
            for a, b in edges:
                if b == i:
                    closure[i] |= {a} | closure[a]
        return closure

    mine = hazards([([t for t in op["reads"]], op["writes"]) for op in graph["ops"]])
    true, careful = [], []
    for i in range(n):
        op = log.ops[start + i]
        reads, writes = ([tensor_of[b] for b in op[k]] for k in ("reads", "writes"))
        true.append((reads, writes))
        both = sorted(set(reads) | set(writes))
        careful.append((both, both) if op["kind"] == "kernel" else (reads, writes))
    equal(mine, hazards(careful))
    for i, before in hazards(true).items():
        assert before <= mine[i], f"op {i} must follow {sorted(before - mine[i])}"


@suite.test("the exported graph is what the program's own log says")
def _():
    check_graph("ample")


@suite.test("the same when memory is tight and swapping goes on")
def _():
    check_graph("tight")


@suite.test("call sites name the program's functions")
def _():
    sites = {t.get("site", "") for t in graph_of(recorded("ample")[0])["tensors"]}
    assert any("Network::" in site for site in sites), sites


def check_forms(path, *options):
    """Text, JSON and HTML of one input say the same, figure by figure and row by row. Returns the JSON."""
    forms = {}
    for form in ("", "--json", "--html", "--perfetto"):
        done = suite.run([COMMAND, "report", path, *options, *([form] if form else [])])
        equal((done.returncode, done.stderr), (0, ""), form)
        forms[form] = done.stdout
    text, page, report = forms[""], forms["--html"], json.loads(forms["--json"])
    equal(report["format"], "swapadvisor-report")
    assert forms["--json"] in page, "the page embeds the JSON as it is"
    assert len(page) < 5_000_000
    # All that the text shows is in the JSON: made from that again, it is the same to the byte, and so is the page.
    again = os.path.join(suite.scratch, "again.json")
    with open(again, "w") as file:
        file.write(forms["--json"])
    for form in ("", "--json", "--html"):
        equal(suite.run([COMMAND, "report", again, *([form] if form else [])]).stdout, forms[form], form)
    # Figures by name: the same number in all three, the same words in text and page.
    shown = dict(re.findall(r'data-field="([a-z0-9_.]+)">([^<]*)</dd>', page))
    numbers = {key: value for key, value in shown.items() if key not in ("device.name", "mode", "peak_op", "plan")}
    for key, value in numbers.items():
        wanted = report["device"][key.partition(".")[2]] if "." in key else report[key]
        equal(int(value.split()[0]), wanted, key)
        assert re.search(rf"^  [^\n]+  {re.escape(html.unescape(value))}$", text, re.M), f"{key}: {value} is not in the text"
    figures = {key for key, value in report.items() if isinstance(value, int) and key not in ("version", "pid", "rank")}
    equal(figures - set(shown), set(), "figures of the JSON that text and page do not show")
    # Rows of tables: each cell of the page's tables, in the text's order.
    for row in re.findall(r"<tr>(<td.*?)</tr>", page):
        cells = [html.unescape(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)]
        pattern = r"\s+".join(re.escape(cell) for cell in cells if cell)
        assert re.search(rf"^ +{pattern}$", text, re.M), f"the row {cells} is not in the text"
    phases = {e["ph"] for e in json.loads(forms["--perfetto"])["traceEvents"]}
    assert {"X", "C", "M"} <= phases, phases
    return report


@suite.test("text, JSON and HTML of a trace agree; Perfetto parses")
def _():
    report = check_forms(recorded("tight")[0])
    for key in ("peak_bytes", "limit_bytes", "in_bytes_per_iteration", "out_bytes_per_iteration", "infinite_ns_per_iteration",
                "measured_ns_per_iteration", "stall_ns_per_iteration", "lower_bound_ns"):
        assert report.get(key, 0) > 0, f"{key}: {report.get(key)}"
    # What ops waited for is what the iteration takes longer than the ops alone (but for the driver's calls).
    excess = report["measured_ns_per_iteration"] - report["infinite_ns_per_iteration"]
    assert abs(report["stall_ns_per_iteration"] - excess) < 0.1 * report["measured_ns_per_iteration"], report
    equal(sum(op["stall_ns"] for op in report["ops"]), report["stall_ns_per_iteration"])
    for kind in ("in", "out"):
        total = report[f"{kind}_bytes_per_iteration"]
        equal(sum(op[f"{kind}_bytes"] for op in report["ops"]), total)
        equal(sum(swap["bytes"] for swap in report["swaps"] if swap["kind"] == kind), total)


@suite.test("the report at exit: its two files, text, JSON and HTML agree, and with the trace")
def _():
    trace = recorded("tight")[0]
    path = os.path.join(suite.scratch, "tight.report")
    report = check_forms(path + ".json")
    with open(path) as file:
        equal(file.read(), suite.run([COMMAND, "report", path + ".json"]).stdout)
    other = json.loads(suite.run([COMMAND, "report", "--json", trace]).stdout)
    for key in ("infinite_ns_per_iteration", "stall_ns_per_iteration", "measured_ns_per_iteration", "predicted_ns", "peak_bytes",
                "ops_per_iteration", "in_bytes_per_iteration", "out_bytes_per_iteration", "in_bytes_total", "lower_bound_ns"):
        equal(report.get(key), other.get(key), key)
    equal(report["ops"], other["ops"])
    equal([(b["bytes"], b["born_ns"], b["dead_ns"]) for b in report["buffers"]],
          [(b["bytes"], b["born_ns"], b["dead_ns"]) for b in other["buffers"]])
    equal(report["swaps"], other["swaps"])


@suite.test("text, JSON and HTML of a plan agree")
def _():
    trace = recorded("tight")[0]
    plan = os.path.join(suite.scratch, "tight.plan")
    done = suite.run([COMMAND, "plan", trace, "-o", plan, "--memory", "12MiB", "--planner", "fast", "--bound-seconds", "0"])
    equal(done.returncode, 0, done.stderr)
    report = check_forms(plan, "--graph", trace)
    assert report["predicted_ns"] >= report["lower_bound_ns"] > 0, report


@suite.test("export, import, export gives the same graph")
def _():
    graph = graph_of(recorded("ample")[0])
    again = os.path.join(suite.scratch, "again.trace")
    done = suite.run([COMMAND, "import", "/dev/stdin", "-o", again], stdin=json.dumps(graph))
    equal((done.returncode, done.stderr), (0, ""))
    back = graph_of(again)
    equal([(o["name"], o["duration_ns"], len(o["reads"]), len(o["writes"])) for o in back["ops"]],
          [(o["name"], o["duration_ns"], len(o["reads"]), len(o["writes"])) for o in graph["ops"]])
    equal(sorted((t["bytes"], t["persistent"]) for t in back["tensors"]),
          sorted((t["bytes"], t["persistent"]) for t in graph["tensors"]))


@suite.test("diff of two runs, and of a run with itself")
def _():
    ample, tight = recorded("ample")[0], recorded("tight")[0]
    same = suite.run([COMMAND, "diff", ample, ample])
    equal(same.returncode, 0)
    assert "No figure differs." in same.stdout, same.stdout
    other = json.loads(suite.run([COMMAND, "diff", "--json", ample, tight]).stdout)
    peak = next(f for f in other["fields"] if f["name"] == "peak_bytes")
    assert peak["after"] > peak["before"], peak


@suite.test("bad files: one clear line and status 1, wrong usage status 2")
def _():
    bad = os.path.join(suite.scratch, "bad")
    for content, words in ((b"", "neither"), (b"SWAPTRC\n\x09\0\0\0\0\0\0\0", "version 9"), (b"{}", "neither"),
                           (b'{"format":"swapadvisor-report","version":1}', "lacks"),
                           (b'{"format":"swapadvisor-plan","version":1}', "plan")):
        with open(bad, "wb") as file:
            file.write(content)
        done = suite.run([COMMAND, "report", bad])
        equal((done.returncode, done.stdout, done.stderr.count("\n")), (1, "", 1), done.stderr)
        assert words in done.stderr, done.stderr
    equal(suite.run([COMMAND, "report"]).returncode, 2)
    equal(suite.run([COMMAND, "report", bad, "--json", "--html"]).returncode, 2)
    equal(suite.run([COMMAND, "report", "/proc/nonexistent"]).returncode, 1)
    done = suite.run([COMMAND, "import", bad, "-o", bad + ".trace"])
    equal((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)


if __name__ == "__main__":
    suite.main()
