#!/usr/bin/env python3
"""Plans made from a trace, of a program that frees some memory a few operations after its last use: the run takes what
the plan says, so nothing is copied that the plan does not know of. On the software GPU."""

import json
import os

from replay_runs import Runs
from tap import Suite, equal

suite = Suite()
runs = Runs(suite)
COMMAND = [runs.probe, "steady", "6"]
LIMIT, PLANNED = "20MiB", "18MiB"


def tool(*words):
    done = suite.run([suite.path("swapadvisor"), *words], timeout=200)
    equal(done.returncode, 0, done.stderr)


@suite.test("what is freed late is where the plan has it, whether it is made from the trace or from its export")
def _():
    trace, graph = (os.path.join(suite.scratch, name) for name in ("late.trace", "late.json"))
    runs.same(COMMAND, LIMIT, planned=False, planner="none", trace=trace)
    tool("export", trace, "--for-memory", PLANNED, "-o", graph)
    with open(graph) as file:
        sizes = [tensor["bytes"] for tensor in json.load(file)["tensors"]]
    plans = []
    for source in (trace, graph):
        plan = source + ".plan"
        tool("plan", source, "-o", plan, "--memory", PLANNED, "--planner", "fast", "--no-reorder", "--no-remaps",
             "--chunk", "2MiB", "--bound-seconds", "0")
        tool("simulate", source, plan)
        with open(plan) as file:
            plans.append(json.load(file))
        report = runs.same(COMMAND, LIMIT, plan=plan).report
        equal(report["predicted_ns"], plans[-1]["predicted_ns"])
        equal(report["divergences"], 0)
        out = sum(sizes[action["tensor"]] for action in plans[-1]["actions"] if action["action"] in ("out", "save"))
        # What turns out to be clean is not copied; what the plan does not have is not, either.
        assert 0 < report["out_bytes_per_iteration"] <= out, (report["out_bytes_per_iteration"], out)
        assert report["measured_ns_per_iteration"] <= 1.03 * report["predicted_ns"], report["measured_ns_per_iteration"]
        print(f"# {out} bytes out; predicted {report['predicted_ns']} ns, measured {report['measured_ns_per_iteration']} ns")
    equal(plans[0]["actions"], plans[1]["actions"])
    tool("report", trace + ".plan", "--graph", trace)


suite.main()
