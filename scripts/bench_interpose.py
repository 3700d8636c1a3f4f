#!/usr/bin/env python3
"""Time that the shim adds to driver calls, on a driver whose calls do nothing, over the same program without the shim,
in one run. Prints one JSON object per figure."""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

PLANNED_ITERATIONS = (6000, 24000, 96000)  # until a plan was followed
LIMIT = "64MiB"  # call_bench holds 104 MiB and touches 32 MiB at a time


def measure(build, mode, threads, shim, folder, env=()):
    """Figures of one run, the best of three (others use the machine too), and the text of its report."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith("SWAPADVISOR")}
    variables["LD_LIBRARY_PATH"] = os.path.join(build, "tests/fakedriver")
    variables["FAKE_DRIVER_COUNT"] = "0"  # threads would take its counters from each other
    report = os.path.join(folder, "report.txt")
    if shim:
        variables["LD_PRELOAD"] = os.path.join(build, "libswapadvisor.so")
        variables.update({"SWAPADVISOR_REPORT": report, "SWAPADVISOR_QUIET": "1"}, **dict(env))
    best = None
    for _ in range(3):
        done = subprocess.run([os.path.join(build, "tests/interpose/call_bench"), mode, str(threads)], env=variables,
                              stdout=subprocess.PIPE, text=True, check=True)
        figures = json.loads(done.stdout)
        best = figures if best is None else {k: min(best[k], figures[k]) for k in figures}
    text = ""
    if shim and os.path.exists(report):
        with open(report) as file:
            text = file.read()
    return best, text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    args = parser.parse_args()
    build = os.path.abspath(args.build)

    def show(name, value, against):
        print(json.dumps({"name": name, "value": round(value, 1), "unit": "ns", "against": against}), flush=True)

    with tempfile.TemporaryDirectory() as folder:
        recording = {"SWAPADVISOR_PLANNER": "none"}
        planned = {"SWAPADVISOR_MEMORY": LIMIT, "SWAPADVISOR_PLANNER": "fast", "SWAPADVISOR_SECONDS": "1"}
        single = {}
        for threads, many in ((1, ""), (4, ", 4 threads")):
            plain_idle, _ = measure(build, "idle", threads, False, folder)
            plain, _ = measure(build, "working", threads, False, folder)
            idle, _ = measure(build, "idle", threads, True, folder)
            recorded, _ = measure(build, "working", threads, True, folder, recording)
            added = {
                "unhooked call": (idle["unhooked_ns"] - plain_idle["unhooked_ns"], 0),
                "launch, idle": (idle["launch_ns"] - plain_idle["launch_ns"], 50),
                "launch, recording": (recorded["launch_ns"] - plain["launch_ns"], 400),
            }
            # The planner works in the background at the lowest priority: on a busy machine its plan comes late.
            for iterations in PLANNED_ITERATIONS:
                planned["CALL_BENCH_ITERATIONS"] = str(iterations)
                replayed, report = measure(build, "working", threads, True, folder, planned)
                followed = re.search(r"iterations that followed a plan\s+(\d+)", report)
                followed = int(followed.group(1)) if followed else 0
                if followed:
                    break
            state = "planned replay" if followed else "on demand under a limit (no plan was followed)"
            added[f"launch, {state}"] = (replayed["launch_ns"] - plain["launch_ns"], 400)
            added[f"allocate + free 8 MiB, {state}"] = (replayed["pair_ns"] - plain["pair_ns"], 300)
            if threads == 1:
                single = added
            for name, (value, aim) in added.items():
                if threads > 1:
                    aim = round(1.5 * max(single.get(name, (value, 0))[0], 0), 1)
                show(f"added per {name}{many}", value, aim)
    return 0


if __name__ == "__main__":
    sys.exit(main())
