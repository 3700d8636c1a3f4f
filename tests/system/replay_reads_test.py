#!/usr/bin/env python3
"""Arguments that kernels were seen to leave alone (SWAPADVISOR_PROVE_READS): the export calls them reads, a plan drops
them without a copy, and where that turns out wrong the copy is made and every byte is right."""

import json
import os

from replay_runs import Runs
from tap import Suite, equal

suite = Suite()
runs = Runs(suite)
PIECES, PIECE = 10, (4 << 20) - 5
LIMIT = "28MiB"


# A device whose arithmetic keeps up with its memory, as hardware's does.
DEVICE = "memory=2GiB,instructions=5e12"


def run(*command, **settings):
    done = runs.same([runs.probe, *map(str, command)], LIMIT, device=DEVICE, **settings)
    return done.report


@suite.test("what kernels only read is copied out by nobody")
def _():
    copied, proved = run("read-only"), run("read-only", prove_reads="1")
    assert copied["out_bytes_per_iteration"] >= 4 * PIECE, copied["out_bytes_per_iteration"]
    equal(proved["out_bytes_per_iteration"], 0)
    equal(proved["in_bytes_per_iteration"], copied["in_bytes_per_iteration"])
    assert proved["measured_ns_per_iteration"] < copied["measured_ns_per_iteration"]
    print(f"# out {copied['out_bytes_per_iteration']} bytes per iteration, then none; iteration "
          f"{copied['measured_ns_per_iteration']} ns, then {proved['measured_ns_per_iteration']} ns")


@suite.test("every iteration brings what the plan says, also when the first ones were late")
def _():
    report = run("read-only")
    equal(report["in_bytes_per_iteration"], 5 * PIECE)
    assert abs(report["measured_ns_per_iteration"] / report["predicted_ns"] - 1) < 0.03, report["measured_ns_per_iteration"]


@suite.test("what changes later, against all that was seen, is copied out and right")
def _():
    for change in ("every page", "the last byte alone"):
        report = run("read-only", 60, 25, 1 if change == "every page" else 2, prove_reads="1")
        assert report["out_bytes_per_iteration"] >= 4 * PIECE, (change, report["out_bytes_per_iteration"])


@suite.test("training under a plan: the same bytes, more dropped, sooner done")
def _():
    copied, proved = run("steady", 14), run("steady", 14, prove_reads="1")
    assert proved["clean_drops"] > copied["clean_drops"] + 100, (copied["clean_drops"], proved["clean_drops"])
    assert proved["measured_ns_per_iteration"] < copied["measured_ns_per_iteration"]
    print(f"# iteration {copied['measured_ns_per_iteration']} ns, then {proved['measured_ns_per_iteration']} ns")


@suite.test("the export of a trace calls them reads, and without the setting reads and writes")
def _():
    for setting, written in (("0", 2), ("1", 1)):
        trace, graph = (os.path.join(suite.scratch, f"reads{setting}.{end}") for end in ("trace", "json"))
        run("read-only", prove_reads=setting, trace=trace, planner="none", planned=False)
        done = suite.run([suite.path("swapadvisor"), "export", trace, "-o", graph])
        equal(done.returncode, 0, done.stderr)
        with open(graph) as file:
            ops = [op for op in json.load(file)["ops"] if op["name"].startswith("gather_up")]
        equal(len(ops), PIECES)
        for op in ops:
            equal((len(op["reads"]), len(op["writes"])), (2, written), op)
        equal(len(set.intersection(*(set(op["writes"]) for op in ops))), 1)


suite.main()
