#!/usr/bin/env python3
"""The graphs of scripts/model_graphs.py: iterations that make sense, which the planner reads and plans."""
import json
import os
import sys

from tap import Suite, equal

suite = Suite()
sys.path.insert(0, os.path.join(suite.root, "scripts"))
import model_graphs  # noqa: E402
import planner_bench  # noqa: E402


def swapadvisor(*arguments):
    done = suite.run([suite.path("swapadvisor"), *map(str, arguments)])
    equal(done.returncode, 0, done.stderr)
    return json.loads(done.stdout)


@suite.test("an iteration reads what was written before, and ends with the updates of every parameter")
def shape():
    for name in model_graphs.MODELS:
        for group in (1, 30):
            graph = model_graphs.make(name, group, small=True)
            tensors, ops = graph["tensors"], graph["ops"]
            live = {t["id"] for t in tensors if t["persistent"]}
            for op in ops:
                for t in op["reads"]:
                    assert t in live, f"{graph['name']}: op {op['id']} ({op['name']}) reads tensor {t} ({tensors[t]['name']}) before it is written"
                live.update(op["writes"])
            used = {t for op in ops for t in op["reads"]}
            unread = {tensors[t]["name"] for t in range(len(tensors)) if t not in used}
            assert unread <= {"h", "c"}, f"{graph['name']}: nothing reads {unread}"
            updates = [op for op in ops if op["name"] == "update"]
            equal(ops[-len(updates):], updates, f"{graph['name']}: the updates come last")
            updated = [t for op in updates for t in op["writes"]]
            equal(sorted(updated), sorted(t["id"] for t in tensors if t["persistent"]), f"{graph['name']}: each once")
            parameters = sum(".weight" in t["name"] or ".bias" in t["name"] or t["name"] in ("embedding", "positions") for t in tensors)
            equal(len(updates), -(-parameters // group), graph["name"])


@suite.test("the planner reads every model, and agrees on its peak")
def peak():
    for name in model_graphs.MODELS:
        graph = model_graphs.make(name, small=True)
        path = os.path.join(suite.scratch, name + ".json")
        with open(path, "w") as out:
            json.dump(graph, out)
        bound = swapadvisor("bound", path, "--memory", model_graphs.peak_bytes(graph), "--seconds", 0, "--json")
        equal(bound["peak_memory_bytes"], model_graphs.peak_bytes(graph), name)
        equal(bound["compute_ns"], sum(op["duration_ns"] for op in graph["ops"]), name)


@suite.test("more freedom gives no worse plans: order of the program, of a window, any; with and without remaps")
def freedom():
    for name in ("unet", "lstm"):  # places are hard to find in both
        graph = model_graphs.make(name, small=True)
        path = os.path.join(suite.scratch, name + ".json")
        with open(path, "w") as out:
            json.dump(graph, out)
        periods = {}
        for mode, (options, less) in planner_bench.FREEDOM.items():
            found = swapadvisor("plan", planner_bench.with_host(path, suite.scratch) if mode == "window" else path, "-o",
                                os.path.join(suite.scratch, "plan"), "--memory", model_graphs.peak_bytes(graph) // 3,
                                "--generations", 3, "--bound-seconds", 0, *options, "--json")
            periods[mode] = found["period_ns"]
            for other in less:
                # In a window the search has fewer orders to look at, which is worth something in so short a time.
                worse = 1.03 if other == "window" else planner_bench.WORSE
                assert periods[mode] <= worse * periods[other], f"{name}: {mode} {periods[mode]} ns, {other} {periods[other]} ns"


suite.main()
