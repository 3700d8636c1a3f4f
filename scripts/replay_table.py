#!/usr/bin/env python3
"""Measures the replayer on the software GPU: is a run at a fraction of its memory the same to the last bit, and does an
iteration take as long as the plan predicts?

usage: scripts/replay_table.py [--quick] [--only digits|bert-256|...] [--parts 2 4 8 12] [--json FILE]

For the digits training and for graph_player with every graph of tests/graphs, at parts of the peak (and at 40 GiB for
the graphs): runs the program without the shim and with enough memory, then under `swapadvisor run` with just that much, and
prints a line per run: what the plan in force at the end predicted, what an iteration then took,
both against an iteration with infinite memory, and what the lower bound allows at best (of the iteration as recorded:
where it is not known whether an op only reads, its tensors count as written). Exit status 1 when a result
differs in a single bit, when an iteration takes more than 3 % longer or shorter than predicted, or when a limit at which
the program can run at all got no plan. Times are virtual: device time of the software GPU, not of hardware.

--quick leaves out all but the cheap: for the tests."""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GIB, MIB, PAGE = 1 << 30, 1 << 20, 2 << 20
GRAPHS = ("bert-256", "inceptionv3-1536", "resnet152-1280")
TOLERANCE = 0.03

# As the graphs' own device (PCIe 3); kernels take the graph's times; host calls cost nothing.
GRAPH_DEVICE = ["--launch", "0", "--call", "0", "--create-call", "0", "--h2d", "15.754GB/s", "--d2h", "15.754GB/s",
                "--duplex", "31.508GB/s", "--latency", "45us"]
STEADY = 4  # iterations that are looked at, from the end; a plan's first ones are slower


class Bench:
    def __init__(self, args, folder):
        self.args, self.folder = args, Path(folder)
        self.build = args.build.resolve()
        self.tool = self.build / "swapadvisor"
        self.kernels = self.folder / "kernels"
        self.kernels.write_text("^opl?_([0-9]+)$ $1\n")

    def play(self, program, memory, device, planner=None, host_memory=None):
        """One run on a device of that memory, under the shim if there is a planner."""
        stats, timings, report, graph = (self.folder / n for n in ("stats.json", "timings", "report.txt", "graph.json"))
        for old in (stats, timings, Path(f"{report}.json"), graph):
            old.unlink(missing_ok=True)
        shim = []
        if planner:
            shim = [self.tool, "run", "-q", "--memory", memory, "--planner", planner, "--seconds", self.args.seconds,
                    "--threads", self.args.threads, "-o", report, "--log", "plan"]
            shim += ["--host-memory", host_memory] if host_memory else []
            shim += ["--"]
        # The device has a little more than the limit, as the driver wants some; the limit is checked by what was in use.
        command = [ROOT / "scripts/softgpu", "--build", self.build, "--memory", memory + GIB, *device, "--stats", stats, "--",
                   *shim, *program, "--timings", timings]
        begin = time.monotonic()
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=self.folder,
                              env=os.environ | ({"SWAPADVISOR_KEEP_GRAPH": str(graph)} if shim else {}))
        if self.args.verbose:
            print(f"# {time.monotonic() - begin:.1f} s, status {done.returncode}\n{done.stderr}", file=sys.stderr, end="")
        last = done.stdout.splitlines()[-1] if done.stdout else ""
        return {
            "exit": done.returncode, "stderr": done.stderr, "seconds": time.monotonic() - begin,
            "result": last if re.fullmatch(r"(weights|stamps) [0-9a-f]{16}", last) else None,
            "stdout": done.stdout,
            "times": [int(line) for line in timings.read_text().split()] if timings.exists() else [],
            "stats": json.loads(stats.read_text()) if stats.exists() else {},
            "report": json.loads(Path(f"{report}.json").read_text()) if Path(f"{report}.json").exists() else {},
            "graph": graph if graph.exists() else None,
        }

    def bound(self, graph, memory):
        """The lower bound's ratio to infinite memory, and the largest op's working set; None where there is none."""
        text = json.loads(Path(graph).read_text())
        text["device"]["memory_bytes"] = max(text["device"]["memory_bytes"], memory)
        copy = self.folder / "bound.json"
        copy.write_text(json.dumps(text))
        done = subprocess.run([str(self.tool), "bound", str(copy), "--memory", str(memory), "--seconds",
                               str(self.args.bound_seconds), "--json"], capture_output=True, text=True)
        if done.returncode != 0:
            return None
        found = json.loads(done.stdout)
        return found["bound_ns"] / max(1, found["compute_ns"])

    def row(self, name, part, limit, peak, ample, program, device, **more):
        """The row of one limit."""
        run = self.play(program, limit, device, planner=self.args.planner, **more)
        report, times = run["report"], run["times"]
        row = {"workload": name, "part": part, "limit_bytes": limit, "peak_bytes": peak,
               "infinite_ns": report.get("infinite_ns_per_iteration"), "unmanaged_ns": statistics.median(ample["times"]),
               "mode": report.get("mode"), "why": report.get("mode_reason", ""), "iterations": len(times),
               "planned_iterations": report.get("planned_iterations", 0), "predicted_ns": None, "measured_ns": None,
               "deviation": None, "ratio": None, "bound_ratio": None, "seconds": run["seconds"],
               "pinned_bytes": report.get("pinned_bytes"), "errors": run["stderr"].strip().splitlines()[-3:],
               "identical": run["result"] is not None and run["result"] == ample["result"] and \
               re.findall(r"^epoch .*", run["stdout"], re.M) == re.findall(r"^epoch .*", ample["stdout"], re.M),
               "peak_in_use_bytes": run["stats"]["devices"][0]["peak_bytes"] if run["stats"] else None,
               "findings": sum(run["stats"].get(what, 0) for what in ("strictness_errors", "illegal_accesses"))}
        if len(times) > STEADY:
            row["measured_ns"] = round(statistics.median(times[-STEADY:]))
            row["ratio"] = row["measured_ns"] / row["infinite_ns"] if (row["infinite_ns"] or 0) > 0 else None
        # What a program reads back at its very end is not part of the plan, and leaves it.
        if row["planned_iterations"] >= 2 * STEADY and report["divergences"] <= 1 and row["measured_ns"]:
            row["predicted_ns"] = report["predicted_ns"]
            row["deviation"] = row["measured_ns"] / row["predicted_ns"] - 1
        if run["graph"]:
            row["bound_ratio"] = self.bound(run["graph"], limit)
        elif run["exit"] != 0 and "bytes on the device at once" in run["stderr"]:
            row["mode"] = "cannot run"
        return row


# --- workloads -------------------------------------------------------------------------------------------------------

def digits(bench, parts):
    """A deep and narrow network has many activations and no operation that needs more than four of them."""
    args = bench.args
    program = [bench.build / "workloads/digits", "--width", args.width, "--batch", "512", "--depth", args.depth, "--epochs",
               args.epochs, "--eval-every", "0"]
    # Interpreted kernels are light for the bytes they touch: a device that computes slower than a GPU makes computing and
    # copying take about as long as they do for real layers.
    device = ["--instructions", "3e10", "--create-call", "5us"]
    ample = bench.play(program, 4 * GIB, device)
    if ample["result"] is None:
        sys.exit(f"replay_table: digits failed with enough memory: {ample['stderr']}")
    peak = ample["stats"]["devices"][0]["peak_bytes"]
    for part in parts:
        yield bench.row(f"digits, depth {args.depth}", part, peak // part, peak, ample, program, device)


def graph(bench, name, parts, pause):
    """A graph's iteration takes no real time to play, so the recorder and the planner are given some: two long pauses."""
    path = ROOT / "tests/graphs" / f"{name}.json"
    player = [bench.build / "workloads/graph_player", path]
    program = [*player, "--iterations", bench.args.iterations]
    device = [*GRAPH_DEVICE, "--kernel-table", bench.kernels]
    ample = bench.play(program, 1024 * GIB, device)
    if ample["result"] is None:
        sys.exit(f"replay_table: {name} failed with enough memory: {ample['stderr']}")
    peak = int(re.search(r"peak (\d+) bytes", ample["stdout"])[1])
    for part in parts:
        limit = 40 * GIB if part == 0 else peak // part // PAGE * PAGE
        for longer in (1, 4):  # on a busy machine the planner may not be done in time
            waiting = [*program, "--pause", pause // 2 * longer, "--pause-before", 3, "--pause-before", 5]
            row = bench.row(name, part, limit, peak, ample, waiting, device, host_memory="4TiB")
            if row["why"] != "no plan was ready":
                break
        yield row


# --- the table -------------------------------------------------------------------------------------------------------

def size(count):
    return f"{count / GIB:.1f} GiB" if count >= GIB else f"{count / MIB:.1f} MiB"


def number(value, form):
    return "-" if value is None else form.format(value)


def verdict(row):
    """What is wrong with a row; empty if nothing is."""
    if row["mode"] == "cannot run":
        return ""
    if not row["identical"]:
        return "not the same bits: " + " / ".join(row["errors"])
    if row["peak_in_use_bytes"] > row["limit_bytes"]:
        return f"{size(row['peak_in_use_bytes'])} of device memory were in use"
    if row["findings"]:
        return "the device found fault"
    if row["deviation"] is None:
        return f"no steady plan ({row['mode']}: {row['why']}) " + " / ".join(row["errors"])
    if abs(row["deviation"]) > TOLERANCE:
        return "not as predicted"
    return ""


HEAD = ("workload", "limit", "of peak", "bits", "predicted ms", "measured ms", "deviation", "x infinite", "bound", "real s", "")


def cells(row):
    part = "" if row["part"] == 0 else f"1/{row['part']}"
    return (row["workload"], size(row["limit_bytes"]), part or f"{row['limit_bytes'] / row['peak_bytes']:.2f}",
            "same" if row["identical"] else "-" if row["mode"] == "cannot run" else "DIFFER",
            number(row["predicted_ns"] and row["predicted_ns"] / 1e6, "{:.3f}"),
            number(row["measured_ns"] and row["measured_ns"] / 1e6, "{:.3f}"),
            number(row["deviation"], "{:+.2%}"),
            number(row["ratio"], "{:.3f}"), number(row["bound_ratio"], "{:.3f}"), f"{row['seconds']:.0f}",
            "an op needs more than the limit" if row["mode"] == "cannot run" else verdict(row)[:90])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="build folder (build)")
    parser.add_argument("--quick", action="store_true", help="a narrower network, few limits, a plan without a search")
    parser.add_argument("--only", nargs="+", choices=("digits", *GRAPHS), help="these workloads alone")
    parser.add_argument("--parts", nargs="+", type=int, help="limits as parts of the peak (2 4 8 12; 0: 40 GiB, graphs only)")
    parser.add_argument("--planner", default="ga", help="of the background search (ga)")
    parser.add_argument("--seconds", type=float, default=10, help="of the background search (10)")
    parser.add_argument("--threads", type=int, default=1, help="of the background search (1)")
    parser.add_argument("--pause", type=float, default=40, help="seconds that a graph waits for its planner (40)")
    parser.add_argument("--bound-seconds", type=float, default=20, help="for each lower bound (20)")
    parser.add_argument("--iterations", type=int, default=16, help="of the graphs (16)")
    parser.add_argument("--width", type=int, default=16, help="of the digits network (16)")
    parser.add_argument("--depth", type=int, default=32, help="of the digits network (32)")
    parser.add_argument("--epochs", type=int, default=14, help="of the digits training, two iterations each (14)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the rows")
    parser.add_argument("-v", "--verbose", action="store_true", help="show what each run says")
    args = parser.parse_args()
    limits = {name: ((0,) if name in GRAPHS else ()) + (2, 4, 8, 12) for name in ("digits", *GRAPHS)}
    if args.quick:
        args.planner, args.seconds, args.bound_seconds, args.pause = "fast", 1, 0.2, 12
        args.width, args.depth, args.epochs = 8, 20, 9
        limits = {"digits": (12,), "bert-256": (8,), "inceptionv3-1536": (4,)}
    if args.parts:
        limits = {name: [part for part in args.parts if part or name in GRAPHS] for name in limits}
    rows, failed = [], []
    with tempfile.TemporaryDirectory(prefix="swapadvisor-replay-") as folder:
        bench = Bench(args, folder)
        print(" | ".join(HEAD), flush=True)
        for name in args.only or limits:
            found = digits(bench, limits[name]) if name == "digits" else graph(bench, name, limits[name], round(args.pause * 1000))
            for row in found:
                rows.append(row)
                print(" | ".join(cells(row)), flush=True)
                if verdict(row):
                    failed.append(f"{row['workload']} at {size(row['limit_bytes'])}: {verdict(row)}")
                if args.json:
                    args.json.write_text(json.dumps(rows, indent=1) + "\n")
    for line in failed:
        print(f"replay_table: {line}", file=sys.stderr)
    sys.exit(1 if failed else 0)


main()
