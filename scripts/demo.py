#!/usr/bin/env python3
"""The demonstration: a training program past its memory limit, bit for bit the same.

usage: scripts/demo.py [--build DIR]

Trains the digits workload on the software GPU (tests/softgpu) with all the memory it wants, then without the shim at a
quarter of that (it fails), then under `swapadvisor run` at a quarter and at an eighth. Closes with a table and writes
BUILD/demo/summary.json. Exit status 1 when a result differs from that with enough memory in a single bit.
Times are the virtual clock's of the software GPU, not of hardware."""
import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MIB = 1 << 20
EPOCHS = 6

# 64 activations of 2 MiB are alive at the peak; no operation touches more than four buffers of that size.
WORKLOAD = ["--width", "32", "--depth", "16", "--batch", "256", "--epochs", str(EPOCHS), "--eval-every", "0"]
LARGEST_WORKING_SET = 4 * 2 * MIB
# The interpreted kernels are light for the bytes they touch; a device that computes slower than a GPU makes computing
# and copying take about as long as they do for real layers. Copies: the defaults, 12 GB/s each way, 20 GB/s together.
DEVICE = ["--instructions", "3e10", "--create-call", "5us"]


class Demo:
    def __init__(self, build):
        self.build = build
        self.folder = build / "demo"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.digits = build / "workloads" / "digits"
        for needed in (self.digits, build / "swapadvisor", build / "libswapadvisor.so", build / "softgpu" / "libcuda.so.1"):
            if not needed.exists():
                sys.exit(f"demo: {needed} is missing: run make first")

    def train(self, name, memory, under=()):
        """Runs the training on a software GPU of that memory; `under` is the launcher's command line, if any."""
        stats, timings = self.folder / f"{name}.stats.json", self.folder / f"{name}.timings"
        for old in (stats, timings):
            old.unlink(missing_ok=True)
        command = [str(ROOT / "scripts" / "softgpu"), "--build", str(self.build), "--memory", str(memory), *DEVICE,
                   "--stats", str(stats), "--", *map(str, under), str(self.digits), *WORKLOAD, "--timings", str(timings)]
        begin = time.monotonic()
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder)
        (self.folder / f"{name}.log").write_text(done.stdout + done.stderr)
        run = {
            "exit": done.returncode,
            "seconds": time.monotonic() - begin,
            "errors": done.stderr.strip().splitlines(),
            "losses": re.findall(r"^epoch \d+ loss (\S+)", done.stdout, re.M),
            "results": re.findall(r"^epoch .*$", done.stdout, re.M),
            "weights": (re.findall(r"^weights ([0-9a-f]+)$", done.stdout, re.M) or [None])[-1],
            "ns": None,
            "first_ns": None,
        }
        if done.returncode == 0:
            per_iteration = [int(line) for line in timings.read_text().split()]
            run["ns"] = round(statistics.median(per_iteration[len(per_iteration) // 2:]))  # steady state
            run["first_ns"] = round(statistics.median(per_iteration[1:4]))
        if stats.exists():
            run["stats"] = json.loads(stats.read_text())
        return run

    def managed(self, name, limit):
        report = self.folder / f"{name}.report.txt"
        for old in (report, Path(f"{report}.json")):
            old.unlink(missing_ok=True)
        run = self.train(name, limit, [self.build / "swapadvisor", "run", "-q", "--memory", limit, "--seconds", "3",
                                       "--output", report, "--"])
        run["report"] = report
        figures = Path(f"{report}.json")
        run["figures"] = json.loads(figures.read_text()) if figures.exists() else {}
        return run


def mib(count):
    return f"{count / MIB:.1f} MiB"


def ms(ns, of=None):
    if ns is None:
        return "-"
    return f"{ns / 1e6:.3f} ms" + (f" ({ns / of:.2f}x)" if of else "")


def table(rows):
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(rows[0]))]
    rule = "+".join("-" * (w + 2) for w in widths)
    print(rule)
    for n, row in enumerate(rows):
        print("|".join(f" {str(cell).ljust(w)} " for cell, w in zip(row, widths)).rstrip())
        if n == 0:
            print(rule)
    print(rule)


def mode_of(run):
    mode, reason = run["figures"].get("mode", "?"), run["figures"].get("mode_reason", "")
    return f"{mode}: {reason}" if reason and mode != "planned" else mode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="build folder (build)")
    demo = Demo(parser.parse_args().build.resolve())
    begin = time.monotonic()

    print("Training with enough memory ...", flush=True)
    ample = demo.train("ample", "1GiB")
    if ample["exit"] != 0:
        sys.exit(f"demo: training with enough memory failed, see {demo.folder}/ample.log")
    peak = ample["stats"]["devices"][0]["peak_bytes"]
    limits = [max(peak // share, LARGEST_WORKING_SET) for share in (4, 8)]

    print(f"Without the shim at {mib(limits[0])} ...", flush=True)
    bare = demo.train("bare", limits[0])
    runs = []
    for share, limit in zip((4, 8), limits):
        print(f"Under swapadvisor at {mib(limit)}, 1/{share} of the peak ...", flush=True)
        runs.append(demo.managed(f"limit-{share}", limit))

    for run in runs:
        run["identical"] = (run["exit"] == 0 and run["results"] == ample["results"] and
                            run["weights"] is not None and run["weights"] == ample["weights"])
    show(demo, peak, limits, ample, bare, runs, time.monotonic() - begin)
    summary = {
        "peak_bytes": peak,
        "infinite_ns_per_iteration": ample["ns"],
        "unmanaged_at_limit": bare["exit"],
        "runs": [{
            "limit_bytes": limit,
            "bit_identical": run["identical"],
            "ns_per_iteration": run["ns"],
            "h2d_bytes_per_iteration": run["figures"].get("in_bytes_per_iteration"),
            "d2h_bytes_per_iteration": run["figures"].get("out_bytes_per_iteration"),
            "mode": run["figures"].get("mode"),
        } for limit, run in zip(limits, runs)],
    }
    (demo.folder / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    failed = [f"the run at {mib(limit)} is not bit-identical, see {demo.folder}/limit-{share}.log"
              for share, limit, run in zip((4, 8), limits, runs) if not run["identical"]]
    if bare["exit"] == 0:
        failed.append("the program was expected to run out of memory without the shim, but did not")
    for line in failed:
        print(f"demo: {line}", file=sys.stderr)
    sys.exit(1 if failed else 0)


def show(demo, peak, limits, ample, bare, runs, seconds):
    print(f"\nA convolutional network learns handwritten digits; {EPOCHS} epochs of 5 iterations.")
    print(f"Peak of the program: {mib(peak)} of device memory. Times are virtual: device time of the software GPU")
    print("(30 billion thread-instructions/s; copies at 12 GB/s each way, 20 GB/s together).\n")
    names = ["enough memory", "no shim, 1/4", "swapadvisor, 1/4", "swapadvisor, 1/8"]
    columns = [ample, bare, *runs]
    sizes = [None, limits[0], *limits]
    rows = [["", *names]]
    rows.append(["device memory = limit", *(mib(s) if s else "1024.0 MiB" for s in sizes)])
    rows.append(["limit, of the peak", "-", *(f"{s / peak:.3f}" for s in sizes[1:])])
    rows.append(["exit code", *(run["exit"] for run in columns)])
    for epoch in range(EPOCHS):
        rows.append([f"loss, epoch {epoch + 1}", *(run["losses"][epoch] if epoch < len(run["losses"]) else "-" for run in columns)])
    rows.append(["hash of the weights", *(run["weights"] or "-" for run in columns)])
    rows.append(["same to the last bit", "-", "-", *("yes" if run["identical"] else "NO" for run in runs)])
    for label, field in (("copied in per iteration", "in_bytes_per_iteration"), ("copied out per iteration", "out_bytes_per_iteration")):
        rows.append([label, "0", "-", *(mib(run["figures"][field]) if run["figures"].get(field, -1) >= 0 else "-" for run in runs)])
    rows.append(["device time per iteration", ms(ample["ns"]), "-", *(ms(run["ns"], ample["ns"]) for run in runs)])
    rows.append(["before the plan, on demand", "-", "-", *(ms(run["first_ns"], ample["ns"]) for run in runs)])
    accuracy = [(re.findall(r"test loss \S+ accuracy (\S+)", "".join(run["results"])) or ["-"])[-1] for run in columns]
    rows.append(["right on unseen digits", *(a if a == "-" else f"{100 * float(a):.1f} %" for a in accuracy)])
    rows.append(["mode", "-", "-", *(run["figures"].get("mode", "?") for run in runs)])
    table(rows)
    if bare["errors"]:
        print(f"\nWithout the shim: {bare['errors'][-1]}")
    for share, run in zip((4, 8), runs):
        if run["exit"] != 0:
            print(f"At 1/{share}: exit code {run['exit']}: {(run['errors'] or ['no message'])[-1]}")
        elif run["figures"].get("mode") != "planned":
            print(f"At 1/{share}: {mode_of(run)}")
    if any(run["ns"] and run["ns"] < ample["ns"] for run in runs):
        print("Below 1x: with enough memory the driver's cudaFree waits for the device; under the shim it need not.")
    print("\nReports: " + ", ".join(str(run["report"]) for run in runs))
    print(f"Figures: {demo.folder}/summary.json ({seconds:.0f} s)")


main()
