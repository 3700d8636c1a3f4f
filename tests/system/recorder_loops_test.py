#!/usr/bin/env python3
"""The iteration of real CUDA loops of every habit, with its exact period and boundary: what the recorder exports is
what the program itself says its iteration is. On the software GPU, with enough memory and with too little."""

import json
import os
import sys

from tap import Suite, equal

suite = Suite()
SHIM = suite.path("libswapadvisor.so")


# The program's own NVTX ranges: what happens in them, and so what is born in them, bears their name.
RANGES = {"forward": "forward", "loss": "backward", "backward": "backward", "update": "update"}


def check_names(graph, wanted):
    equal([op.get("range") for op in graph["ops"]], [RANGES.get(name) for name in wanted])
    met = set()
    for op in graph["ops"]:
        for t in sorted(set(op["reads"]) | set(op["writes"])):
            tensor = graph["tensors"][t]
            if t in met or tensor["persistent"]:
                continue
            met.add(t)
            equal(tensor["name"], " ".join(filter(None, (op.get("range"), f"tensor{t}"))))


def check(pattern, memory):
    trace = os.path.join(suite.scratch, f"{pattern}-{memory}.trace")
    done = suite.run([sys.executable, os.path.join(suite.root, "scripts/softgpu"), "--build", suite.build, "--",
                      suite.path("workloads/loops"), pattern, "16"],
                     preload=SHIM, env={"NVTX_INJECTION64_PATH": SHIM, "SWAPADVISOR_MEMORY": memory, "SWAPADVISOR_TRACE": trace, "SWAPADVISOR_QUIET": "1",
                                        "SWAPADVISOR_REPORT": os.path.join(suite.scratch, "report.txt")})
    equal(done.returncode, 0, done.stdout + done.stderr)
    wanted = done.stdout.split()
    exported = suite.run([suite.path("swapadvisor"), "export", trace])
    equal(exported.returncode, 0, exported.stderr)
    graph = json.loads(exported.stdout)
    equal([op["name"].split("(")[0] for op in graph["ops"]], wanted)
    check_names(graph, wanted)
    for tensor in graph["tensors"]:
        assert not tensor.get("wraps"), f"{tensor} lives across the boundary"


for name in ("plain", "first", "evaluate", "accumulate", "turns", "turns5", "short", "sizes"):
    suite.test(f"{name}: period and boundary")(lambda name=name: check(name, "1GiB"))
suite.test("evaluate, memory tight: period and boundary")(lambda: check("evaluate", "40MiB"))
suite.test("accumulate, memory tight: period and boundary")(lambda: check("accumulate", "48MiB"))


@suite.test("the launcher lets NVTX name operations and buffers, and the report tells them by it")
def _():
    trace = os.path.join(suite.scratch, "launched.trace")
    done = suite.run([suite.path("swapadvisor"), "record", "-q", "-o", trace, "--", suite.path("workloads/loops"), "plain", "16"],
                     libraries=suite.path("softgpu"))
    equal(done.returncode, 0, done.stdout + done.stderr)
    exported = suite.run([suite.path("swapadvisor"), "export", trace])
    equal(exported.returncode, 0, exported.stderr)
    check_names(json.loads(exported.stdout), done.stdout.split())
    report = json.loads(suite.run([suite.path("swapadvisor"), "report", "--json", trace]).stdout)
    named = {op["name"].partition(": ")[0] for op in report["ops"]}
    assert set(RANGES.values()) <= named, named
    assert any(buffer["name"].startswith("backward tensor") for buffer in report["buffers"]), report["buffers"]


@suite.test("whatever times the operations: the same program, the same times")
def _():
    seen, times = set(), []
    for timing in ("auto", "cupti", "events"):
        report = os.path.join(suite.scratch, f"timing-{timing}")
        done = suite.run([sys.executable, os.path.join(suite.root, "scripts/softgpu"), "--build", suite.build, "--",
                          suite.path("workloads/loops"), "plain", "16"],
                         preload=SHIM, env={"SWAPADVISOR_MEMORY": "1GiB", "SWAPADVISOR_TIMING": timing, "SWAPADVISOR_QUIET": "1",
                                            "SWAPADVISOR_REPORT": report})
        equal((done.returncode, done.stderr), (0, ""))
        with open(report + ".json") as file:
            figures = json.load(file)
        # No NVIDIA driver here: CUPTI, where it is installed, refuses, and events do the work.
        equal([note for note in figures["notes"] if "CUPTI" in note] != [], timing == "cupti")
        seen.add((done.stdout, figures["ops_per_iteration"]))
        times.append(figures["infinite_ns_per_iteration"])
    equal(len(seen), 1, seen)
    # The shim's threads share the virtual clock with the program: a few nanoseconds, not more.
    assert max(times) - min(times) < 1e-4 * max(times), times


if __name__ == "__main__":
    suite.main()
