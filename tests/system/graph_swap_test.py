#!/usr/bin/env python3
"""Graphs played on a software GPU that is too small for them, under the shim: every stamp must be as the graph says.
SWAPADVISOR_TEST_LONG=1 plays many more random graphs."""

import json
import os
import random
import re

from graph_model import model, random_graph, working_set
from tap import Suite, equal

suite = Suite()
PLAYER = suite.path("workloads/graph_player")
SOFTGPU = os.path.join(suite.root, "scripts/softgpu")
MIB = 1 << 20
SEEDS = range(60 if os.environ.get("SWAPADVISOR_TEST_LONG") == "1" else 8)
TABLE = os.path.join(suite.scratch, "kernels")
with open(TABLE, "w") as file:
    file.write("^opl?_([0-9]+)$ $1\n")
# As the graphs' own device: PCIe 3; host calls cost nothing.
DEVICE = ["--launch", "0", "--call", "0", "--create-call", "0", "--kernel-table", TABLE, "--h2d", "15.754GB/s",
          "--d2h", "15.754GB/s", "--duplex", "31.508GB/s", "--latency", "45us"]


def play(graph, memory, *words, under=(), device=()):
    """One run on a device of exactly that memory; with the device's and the shim's figures."""
    stats, report = (os.path.join(suite.scratch, name) for name in ("stats.json", "report.txt"))
    for old in (stats, report + ".json"):
        if os.path.exists(old):
            os.remove(old)
    shim = [suite.path("swapadvisor"), "run", "-q", "--memory", str(memory), "-o", report, *under, "--"] if under else []
    done = suite.run([SOFTGPU, "--build", suite.build, "--memory", str(memory), *DEVICE, *device, "--stats", stats, "--", *shim,
                      PLAYER, graph, *words], timeout=300)
    equal(done.returncode, 0, done.stderr)
    done.stats = json.load(open(stats))
    done.report = json.load(open(report + ".json")) if under else {}
    done.stamps = re.fullmatch(r"stamps ([0-9a-f]{16})", done.stdout.splitlines()[-1])[1]
    done.times = [int(ns) for ns in re.findall(r"^iteration \d+ device ns (\d+)$", done.stdout, re.M)]
    return done


def swappable_graph(seed):
    rng = random.Random(seed)
    return random_graph(seed, tensors=rng.randrange(8, 30), ops=rng.randrange(10, 60), width=rng.randrange(3, 6),
                        sizes=[4096, 2 * MIB, 2 * MIB + 8, 5 * MIB, 12 * MIB])


def fuzz(name, under, words):
    @suite.test(name)
    def _():
        planned = 0
        for seed in SEEDS:
            graph = swappable_graph(seed)
            path = os.path.join(suite.scratch, "graph.json")
            json.dump(graph, open(path, "w"))
            # From barely enough for the largest op (and the arena of small tensors) upwards.
            limit = working_set(graph) + random.Random(seed).choice([6, 10, 24]) * MIB
            done = play(path, limit, "--iterations", "10", *words, under=under, device=["--racecheck"])
            equal(done.stamps, model(graph, 10), f"seed {seed}, limit {limit}: {done.stderr}")
            for what in ("races", "strictness_errors", "illegal_accesses"):
                equal(done.stats[what], 0, f"seed {seed}: {what}: {done.stats['findings']}")
            planned += done.report["planned_iterations"] > 0
        if "none" not in under:
            assert planned >= len(SEEDS) // 4, f"only {planned} of {len(SEEDS)} runs came to follow a plan"


fuzz("random graphs, swapped on demand", ["--planner", "none"], [])
fuzz("random graphs, following plans", ["--planner", "fast", "--seconds", "0.2"], ["--pause", "80"])


@suite.test("bert-256 needs 48 GiB and plays on 40, with and without a plan")
def _():
    path = os.path.join(suite.root, "tests/graphs/bert-256.json")
    wanted = play(path, 60 << 30, "--iterations", "10").stamps
    demand = play(path, 40 << 30, "--iterations", "10", under=["--planner", "none", "--host-memory", "100GiB"])
    equal(demand.stamps, wanted)
    for pause in ("500", "4000"):  # playing takes no real time: on a busy machine the planner needs more of it
        plan = play(path, 40 << 30, "--iterations", "10", "--pause", pause,
                    under=["--planner", "fast", "--seconds", "1", "--host-memory", "100GiB"])
        equal(plan.stamps, wanted)
        if plan.report["planned_iterations"] > 0:
            break
    assert plan.report["planned_iterations"] > 0, plan.report.get("mode_reason")
    # A plan is installed piece by piece: no iteration takes much longer for it.
    assert max(plan.times[1:]) < 1.06 * max(demand.times[1:]), (plan.times, demand.times)
    # On demand it fetches ahead; a plan wins once its first two iterations, which are strict, are over.
    assert plan.times[-1] < demand.times[-1], (plan.times, demand.times)


@suite.test("resnet152-1280 has 1,086 GiB of tensors, needs 275 GiB at once, and plays on 40 GiB")
def _():
    path = os.path.join(suite.root, "tests/graphs/resnet152-1280.json")
    wanted = play(path, 300 << 30, "--iterations", "4").stamps
    done = play(path, 40 << 30, "--iterations", "4", "--pause", "800",
                under=["--planner", "fast", "--seconds", "1", "--host-memory", "500GiB"])
    equal(done.stamps, wanted)
    assert done.report["in_bytes_total"] > 4 * 100 << 30, done.report["in_bytes_total"]


suite.main()
