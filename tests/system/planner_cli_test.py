#!/usr/bin/env python3
"""The planner's commands from outside: plan, sweep, simulate, bound; exit codes, error lines, files."""
import json
import os
import random
import signal
import subprocess
import time

from tap import Suite, equal

suite = Suite()
COMMAND = suite.path("swapadvisor")


def swapadvisor(*arguments, code=0, stdin=None):
    done = suite.run([COMMAND, *map(str, arguments)], stdin=stdin)
    equal(done.returncode, code, f"swapadvisor {' '.join(map(str, arguments))}\n{done.stdout}\n{done.stderr}")
    assert "\n" not in done.stderr.strip() or code != 1, f"more than one line on an error:\n{done.stderr}"
    return done


def scratch(name, content=None):
    path = os.path.join(suite.scratch, name)
    if content is not None:
        with open(path, "w") as out:
            out.write(content if isinstance(content, str) else json.dumps(content))
    return path


def layers(count=12, mib=64, seed=1):
    """A training step over layers whose activations do not fit."""
    rng = random.Random(seed)
    tensors, ops = [], []

    def tensor(size, persistent=False):
        tensors.append({"id": len(tensors), "bytes": size << 20, "persistent": persistent})
        return len(tensors) - 1

    def op(name, reads, writes):
        ops.append({"id": len(ops), "name": name, "duration_ns": rng.randrange(1_000_000, 6_000_000), "reads": reads, "writes": writes})

    activations = [tensor(mib)]
    weights = [tensor(mib // 4, True) for _ in range(count)]
    op("load", [], [activations[0]])
    for weight in weights:
        activations.append(tensor(mib))
        op("forward", [activations[-2], weight], [activations[-1]])
    gradient = tensor(mib)
    op("loss", [activations[-1]], [gradient])
    for layer in reversed(range(count)):
        after = tensor(mib)
        op("backward", [gradient, activations[layer], weights[layer]], [after, weights[layer]])
        gradient = after
    return {"format": "swapadvisor-graph", "version": 1, "name": "layers", "source": "test",
            "device": {"memory_bytes": 2 << 30, "h2d_bytes_per_s": 12 * 10**9, "d2h_bytes_per_s": 12 * 10**9,
                       "duplex_bytes_per_s": 20 * 10**9, "transfer_latency_ns": 20_000},
            "tensors": tensors, "ops": ops}


GRAPH = scratch("layers.json", layers())
MEMORY = "512MiB"


@suite.test("plan, then simulate, agree with each other and with the bound")
def _():
    plan = scratch("layers.plan")
    figures = json.loads(swapadvisor("plan", GRAPH, "-o", plan, "--memory", MEMORY, "--seconds", 1, "--threads", 2, "--json").stdout)
    result = json.loads(swapadvisor("simulate", GRAPH, plan, "--json").stdout)
    equal(result["valid"], True)
    equal(result["period_ns"], figures["period_ns"])
    equal(result["predicted_ns"], figures["period_ns"])
    assert result["limit_bytes"] <= 512 << 20
    bound = json.loads(swapadvisor("bound", GRAPH, "--memory", MEMORY, "--json").stdout)
    assert bound["bound_ns"] <= 1.2 * result["period_ns"]
    assert bound["compute_ns"] <= result["period_ns"]
    assert figures["in_bytes"] > 0 and figures["transfers"] > 0
    # The figures that the table must have.
    table = swapadvisor("plan", GRAPH, "-o", plan, "--memory", MEMORY, "--planner", "fast").stdout
    for word in ("compute", "bound", "period", "infinite memory", "traffic", "remaps", "fragmentation", "planning time"):
        assert word in table, f"no {word} in\n{table}"
    text = swapadvisor("simulate", GRAPH, plan).stdout
    assert text.startswith("valid plan"), text


@suite.test("every planner by name makes a valid plan")
def _():
    periods = {}
    for planner in ("ga", "fast", "lru", "belady", "belady-prefetch"):
        plan = scratch(f"{planner}.plan")
        swapadvisor("plan", GRAPH, "-o", plan, "--memory", MEMORY, "--planner", planner, "--seconds", 1, "--bound-seconds", 0)
        periods[planner] = json.loads(swapadvisor("simulate", GRAPH, plan, "--json").stdout)["period_ns"]
    assert periods["ga"] <= periods["fast"] <= periods["lru"], periods


@suite.test("the same seed and generations give the same plan on any number of threads")
def _():
    plans = []
    for threads in (1, 2):
        path = scratch(f"threads{threads}.plan")
        swapadvisor("plan", GRAPH, "-o", path, "--memory", MEMORY, "--generations", 3, "--seconds", 60, "--threads", threads,
                    "--seed", 7, "--bound-seconds", 0)
        with open(path) as text:
            plans.append(text.read())
    assert plans[0] == plans[1]


@suite.test("the machine's options change the machine")
def _():
    plan = scratch("slow.plan")
    swapadvisor("plan", GRAPH, "-o", plan, "--memory", MEMORY, "--planner", "fast", "--bound-seconds", 0)
    periods = [json.loads(swapadvisor("simulate", GRAPH, plan, "--json", *options).stdout)["period_ns"]
               for options in ((), ("--h2d", "3GB/s"), ("--op-speedup", "4"), ("--latency", "2000000"), ("--duplex", "13GB/s"))]
    assert periods[1] > periods[0] and periods[3] > periods[0] and periods[2] < periods[0] and periods[4] >= periods[0], periods


@suite.test("a plan goes to standard output, a graph comes from standard input")
def _():
    with open(GRAPH) as text:
        done = swapadvisor("plan", "-", "-o", "-", "--memory", MEMORY, "--planner", "fast", stdin=text.read())
    equal(json.loads(done.stdout)["format"], "swapadvisor-plan")
    assert "period" in done.stderr


@suite.test("an invalid plan is named and refused")
def _():
    path = scratch("spoiled.plan")
    swapadvisor("plan", GRAPH, "-o", path, "--memory", MEMORY, "--planner", "fast", "--bound-seconds", 0)
    with open(path) as text:
        plan = json.load(text)
    plan["actions"] = [a for a in plan["actions"] if a["action"] != "in"]
    scratch("spoiled.plan", plan)
    done = swapadvisor("simulate", GRAPH, path, code=1)
    assert done.stdout.startswith("invalid plan"), done.stdout
    result = json.loads(swapadvisor("simulate", GRAPH, path, "--json", code=1).stdout)
    equal(result["valid"], False)
    assert result["violations"]


@suite.test("sweep gives period against memory and names the least memory")
def _():
    page = scratch("sweep.html")
    result = json.loads(swapadvisor("sweep", GRAPH, "--points", 4, "--seconds", 0.3, "--json", "--html", page).stdout)
    assert len(result["points"]) >= 4
    limits = [p["limit_bytes"] for p in result["points"]]
    equal(limits, sorted(limits))
    equal(result["points"][-1]["period_ns"], result["points"][-1]["compute_ns"])
    enough = result["enough_bytes"]
    point = next(p for p in result["points"] if p["limit_bytes"] == enough)
    assert point["period_ns"] <= 1.05 * point["compute_ns"]
    with open(page) as text:
        html = text.read()
    assert "prefers-color-scheme: dark" in html and "Chart.js v" in html and "http-equiv" not in html
    assert 'src="http' not in html, "the page must open without a network"
    data = html.split('<script type="application/json" id="data">')[1].split("</script>")[0]
    equal(json.loads(data)["enough_bytes"], enough)
    text = swapadvisor("sweep", GRAPH, "--points", 2, "--planner", "fast", "--bound-seconds", 0).stdout
    assert "least memory for at most 5 % slowdown" in text, text


@suite.test("bad input gets one line and exit code 1")
def _():
    graph = layers(3)

    def refused(change, *words):
        copy = json.loads(json.dumps(graph))
        change(copy)
        line = swapadvisor("bound", scratch("bad.json", copy), code=1).stderr
        for word in words:
            assert word in line, line

    refused(lambda g: g["ops"][2]["reads"].append(999), "ops[2].reads[2]: tensor 999 does not exist")
    refused(lambda g: g["tensors"][1].update(bytes=-1), "tensors[1].bytes", "negative")
    refused(lambda g: g.update(version=2), "version 2 is newer")
    refused(lambda g: g.pop("device"), "\"device\" is missing")
    for content in ("", "{", "[" * 100000, "{}", "\x00\x01trace?", "null"):
        swapadvisor("bound", scratch("bad.json", content), code=1)
    swapadvisor("bound", scratch("missing.json"), code=1)
    swapadvisor("bound", suite.scratch, code=1)
    swapadvisor("simulate", GRAPH, scratch("bad.json", "{}"), code=1)
    line = swapadvisor("plan", GRAPH, "-o", scratch("no.plan"), "--memory", "1MiB", code=1).stderr
    assert "limit" in line, line
    assert not os.path.exists(scratch("no.plan"))
    # Said before the search, not after it.
    line = swapadvisor("plan", GRAPH, "-o", "/proc/nonexistent/plan", "--memory", MEMORY, "--seconds", 100000, code=1).stderr
    assert "/proc/nonexistent/plan" in line, line


@suite.test("what if the device had more memory")
def more_memory():
    graph = layers()
    graph["device"]["memory_bytes"] = 400 << 20
    path, plan = scratch("small-device.json", graph), scratch("what-if.plan")
    figures = json.loads(swapadvisor("plan", path, "-o", plan, "--memory", "100GiB", "--json").stdout)
    equal(figures["period_ns"], figures["compute_ns"])
    equal(figures["transfers"], 0)
    done = swapadvisor("simulate", path, plan, code=1)  # on the device as it is, it is no plan
    assert "more than the device's memory" in done.stdout + done.stderr, done.stdout + done.stderr


@suite.test("SIGTERM and Ctrl-C end a search with its best plan; one that comes later finds the plan written")
def signals():
    for number, words, ended in ((signal.SIGTERM, ["--seconds", "1000"], 0), (signal.SIGINT, ["--seconds", "1000"], 0),
                                 (signal.SIGTERM, ["--planner", "fast", "--bound-seconds", "1000"], -signal.SIGTERM)):
        plan = scratch("stopped.plan")
        if os.path.exists(plan):
            os.remove(plan)
        process = subprocess.Popen([suite.path("swapadvisor"), "plan", GRAPH, "-o", plan, "--memory", MEMORY, *words], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        if ended:
            while process.poll() is None and not os.path.exists(plan):
                time.sleep(0.02)
        else:
            time.sleep(1)
        process.send_signal(number)
        out, _ = process.communicate(timeout=60)
        assert process.returncode in (0, ended), process.returncode  # a bound may be quick
        assert ended or "period" in out, out
        swapadvisor("simulate", GRAPH, plan)


@suite.test("the best plan against processor time, which can be the budget")
def processor_time():
    done = swapadvisor("plan", GRAPH, "-o", scratch("spent.plan"), "--memory", MEMORY, "--seconds", 100, "--processor-seconds", 0.2,
                       "--threads", 1, "--json")
    figures = json.loads(done.stdout)
    best = figures["best_after"]
    equal(best[-1]["period_ns"], figures["period_ns"])
    for before, after in zip(best, best[1:]):
        assert after["period_ns"] < before["period_ns"] and after["processor_s"] >= before["processor_s"], best
    assert best[-1]["processor_s"] <= figures["processor_s"], figures


@suite.test("wrong usage gets exit code 2")
def _():
    for arguments in (["plan"], ["plan", GRAPH], ["plan", GRAPH, "-o", "x", "--memory", "12 apples"], ["plan", GRAPH, "-o", "x", "--planner", "best"],
                      ["bound"], ["bound", GRAPH, "--memory"], ["simulate", GRAPH], ["sweep", GRAPH, "--points", "1"],
                      ["bound", GRAPH, "--no-such-option"], ["bound", GRAPH, "--h2d", "-5"], ["nonsense"], []):
        swapadvisor(*arguments, code=2)
    for command in ("plan", "bound", "simulate", "sweep"):
        assert "--help" in swapadvisor(command, "--help").stdout


@suite.test("sizes and rates are read as people write them")
def _():
    def limit(text):
        return json.loads(swapadvisor("bound", GRAPH, "--memory", text, "--seconds", 5, "--json").stdout)["limit_bytes"]

    for text, wanted in (("1GiB", 1 << 30), ("1024MiB", 1 << 30), ("1.5GB", 1_500_000_000), ("1g", 1 << 30), ("1073741824", 1 << 30),
                         ("1e9", 10**9), ("1 GiB", 1 << 30), ("0.5GiB", 1 << 29)):
        equal(limit(text), wanted, text)


@suite.test("files appear whole or not at all")
def _():
    plan = scratch("old.plan", "precious")
    swapadvisor("plan", GRAPH, "-o", plan, "--memory", "1MiB", code=1)
    with open(plan) as text:
        equal(text.read(), "precious")
    assert not [name for name in os.listdir(suite.scratch) if name.startswith("old.plan.")]


def training_step(layers=10, mib=32):
    """Forward, backward, and the updates last: what an order of its own makes faster. As a trace gives it to the planner."""
    tensors = [{"id": i, "bytes": mib << 20, "persistent": i < layers} for i in range(3 * layers)]  # weights, activations, gradients
    ops = [{"name": "forward", "reads": [i] + ([layers + i - 1] if i else []), "writes": [layers + i]} for i in range(layers)]
    ops += [{"name": "backward", "reads": [i, layers + i], "writes": [2 * layers + i]} for i in reversed(range(layers))]
    ops += [{"name": "update", "reads": [2 * layers + i, i], "writes": [i]} for i in range(layers)]
    ops = [{"id": k, "duration_ns": 1_000_000, **op} for k, op in enumerate(ops)]
    program = [[str(op["id"]), op["name"], op["reads"] + op["writes"]] for op in ops]
    return {**layers_header("step"), "tensors": tensors, "ops": ops, "resident_bytes": 4 << 20, "program": program}


def layers_header(name):
    return {k: v for k, v in layers(1).items() if k not in ("tensors", "ops", "name")} | {"name": name}


@suite.test("what a run can follow is planned by default: no other order unless the runtime may, no remaps; --ideal frees both")
def runnable():
    step = training_step()
    count = len(step["ops"])
    waiting = [{**op, "issue_ns": 5_000 * k, **({"host_waits": True} if k == 20 else {})} for k, op in enumerate(step["ops"])]
    keeping = [{**op, **({"keeps_order": 1} if op["name"] != "forward" else {})} for op in step["ops"]]
    found = {}
    for title, graph, options in (("plain", step, []), ("may", step | {"may_reorder": True}, []), ("must not", step | {"may_reorder": False}, []),
                                  ("asked not to", step | {"may_reorder": True}, ["--no-reorder"]), ("ideal", step, ["--ideal"]),
                                  ("waits", step | {"may_reorder": True, "ops": waiting}, []),
                                  ("keeps", step | {"may_reorder": True, "ops": keeping}, [])):
        path, plan = scratch("step.json", graph), scratch("step.plan")
        figures = json.loads(swapadvisor("plan", path, "-o", plan, "--memory", "480MiB", "--generations", 2, "--bound-seconds", 0, "--json",
                                         *options).stdout)
        swapadvisor("simulate", path, plan)
        with open(plan) as text:
            found[title] = json.load(text) | {"period": figures["period_ns"]}
        if title != "ideal":
            equal((figures["remaps"], found[title]["resident_bytes"], len(found[title]["program"])), (0, 4 << 20, count), title)
            equal(found[title]["pool"]["chunk_bytes"] % (2 << 20), 0, title)
    for title in ("plain", "must not", "asked not to"):
        equal(found[title]["schedule"], list(range(count)), title)
    for title in ("may", "ideal", "keeps", "waits"):
        equal(found[title].get("ideal", False), title == "ideal", title)
        assert found[title]["period"] <= 1.02 * found["plain"]["period"], (title, found[title]["period"], found["plain"]["period"])
    for title in ("may", "ideal"):
        assert found[title]["schedule"] != list(range(count)), title
        assert found[title]["period"] < 0.95 * found["plain"]["period"], (title, found[title]["period"], found["plain"]["period"])
    equal(sorted(found["waits"]["schedule"][:20]), list(range(20)), "no op crosses the wait")
    equal([op for op in found["keeps"]["schedule"] if op >= 10], list(range(10, count)), "those that keep their order")


suite.main()
