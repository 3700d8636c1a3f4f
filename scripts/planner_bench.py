#!/usr/bin/env python3
"""Measures the planner on recorded graphs: ratio of its period to the lower bound, against memory, machine and
planning time, and what each part of the search adds. Prints markdown tables; --json keeps the raw figures.

Every figure is one run of `swapadvisor plan --json`, whose plan the slow checker has judged. Planning times are wall
time of this machine; those of the table `freedom` are processor time, which does not hang on how busy it is.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

import model_graphs

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GIB = 1 << 30
GRAPHS = ["bert-256", "inceptionv3-1536", "resnet152-1280"]
MACHINES = {
    "15.754 GB/s each way": ["--h2d", "15.754GB/s", "--d2h", "15.754GB/s"],
    "25 GB/s one way, 36 GB/s both": ["--h2d", "25GB/s", "--d2h", "25GB/s", "--duplex", "36GB/s"],
}
FIRST_MACHINE = next(iter(MACHINES))
ABLATION = [
    ("fast: one pass, no search", ["--planner", "fast"]),
    ("lru", ["--planner", "lru"]),
    ("belady", ["--planner", "belady"]),
    ("belady-prefetch", ["--planner", "belady-prefetch"]),
    ("all three", []),
    ("all three, program order", ["--no-reorder"]),
    ("order only", ["--vary", "order"]),
    ("allocation only", ["--vary", "allocation"]),
    ("swaps only", ["--vary", "swaps"]),
    ("all three, without the genetic part", ["--no-genetic"]),
    ("all three, not guided by the bound's programme", ["--no-guide"]),
    ("swaps only, not guided", ["--vary", "swaps", "--no-guide"]),
    ("all three, classes as in the paper", ["--classes", "paper"]),
]

# From the least freedom to the most; each may do all that the ones named with it may.
FREEDOM = {
    "program order, no remaps": (["--no-reorder", "--no-remaps"], []),
    "program order": (["--no-reorder"], ["program order, no remaps"]),
    "window": (["--no-remaps"], ["program order, no remaps"]),
    "free order, no remaps": (["--no-remaps"], ["program order, no remaps", "window"]),
    "free order": ([], ["program order, no remaps", "program order", "window", "free order, no remaps"]),
}
PROCESSOR_SECONDS = (2, 5, 10)
WORSE = 1.005  # more than this: not noise
LAUNCH_NS = 5_000  # what a launch costs the host of the window's graphs


class Bench:
    def __init__(self, args):
        self.args = args
        self.command = os.path.join(args.build, "swapadvisor")
        self.bounds = {}
        self.folder = tempfile.TemporaryDirectory()
        self.records = []

    def run(self, *arguments):
        done = subprocess.run([self.command, *arguments], capture_output=True, text=True)
        if done.returncode != 0:
            return None, done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit code {done.returncode}"
        return json.loads(done.stdout), None

    def graph(self, name, memory):
        """The graph's file, or a copy whose device is large enough for the limit."""
        path = os.path.join(ROOT, "tests", "graphs", name + ".json")
        with open(path) as text:
            graph = json.load(text)
        if graph["device"]["memory_bytes"] >= memory:
            return path
        graph["device"]["memory_bytes"] = memory
        path = os.path.join(self.folder.name, f"{name}-{memory}.json")
        with open(path, "w") as out:
            json.dump(graph, out)
        return path

    def bound(self, name, memory, speedup, machine):
        key = (name, memory, speedup, machine)
        if key not in self.bounds:
            self.bounds[key] = self.run("bound", self.graph(name, memory), "--memory", str(memory), "--op-speedup", str(speedup),
                                        "--seconds", str(self.args.bound_seconds), *MACHINES[machine], "--json")
        return self.bounds[key]

    def plan(self, name, memory, speedup, machine=FIRST_MACHINE, seconds=None, extra=(), table=""):
        """A record of one run, or (None, why)."""
        bound, why = self.bound(name, memory, speedup, machine)
        if bound is None:
            return None, why
        seconds = self.args.seconds if seconds is None else seconds
        with tempfile.TemporaryDirectory() as folder:
            result, why = self.run("plan", self.graph(name, memory), "-o", os.path.join(folder, "plan.json"), "--memory", str(memory),
                                   "--op-speedup", str(speedup), "--seconds", str(seconds), "--threads", str(self.args.threads),
                                   "--seed", str(self.args.seed), "--bound-seconds", "0", *MACHINES[machine], *extra, "--json")
        if result is None:
            return None, why
        record = {"table": table, "graph": name, "memory_bytes": memory, "op_speedup": speedup, "machine": machine,
                  "seconds": seconds, "extra": list(extra), **{k: result[k] for k in (
                      "period_ns", "compute_ns", "in_bytes", "out_bytes", "transfers", "remaps", "planning_s")},
                  "bound_ns": bound["bound_ns"], "bound": bound["best"], "bound_note": bound["note"],
                  "ratio": result["period_ns"] / max(1, bound["bound_ns"])}
        self.records.append(record)
        print(f"# {table} {name} {memory / GIB:.1f} GiB {speedup}x {machine} {' '.join(extra)}: "
              f"{record['ratio']:.4f} ({record['planning_s']:.1f} s)", file=sys.stderr, flush=True)
        return record, None


def cell(record):
    return "-" if record is None else f"{record['ratio']:.3f}"


def table(title, head, rows):
    print(f"\n### {title}\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    sys.stdout.flush()


def planner_options(args):
    return [] if args.planners[0] == "ga" else ["--planner", args.planners[0]]


def cells(bench, args):
    for planner in args.planners:
        extra = [] if planner == "ga" else ["--planner", planner]
        rows = [[name] + [cell(bench.plan(name, 40 * GIB, s, extra=extra, table="cells")[0]) for s in args.speedups]
                for name in args.graphs]
        table(f"Period / bound, 40 GiB, 15.754 GB/s each way, {planner}", ["graph"] + [f"{s}x" for s in args.speedups], rows)


def limits(bench, args):
    extra = planner_options(args)
    for machine in MACHINES:
        rows = []
        for name in args.graphs:
            peak = bench.bound(name, 40 * GIB, 1, machine)[0]["peak_memory_bytes"]
            for part in (2, 4, 8, 12):
                row = [f"{name} 1/{part} ({peak / part / GIB:.1f} GiB)"]
                for speedup in args.speedups:
                    record, why = bench.plan(name, peak // part, speedup, machine, extra=extra, table="limits")
                    row.append(cell(record) if record else ("cannot run" if "cannot run" in why else "-"))
                    if record is None:
                        print(f"# {row[0]} {speedup}x: {why}", file=sys.stderr)
                rows.append(row)
        table(f"Period / bound at parts of the peak, {machine}", ["graph and limit"] + [f"{s}x" for s in args.speedups], rows)


def machine(bench, args):
    other = list(MACHINES)[1]
    extra = planner_options(args)
    rows = [[name] + [cell(bench.plan(name, 40 * GIB, s, other, extra=extra, table="machine")[0]) for s in args.speedups]
            for name in args.graphs]
    table(f"Period / bound, 40 GiB, {other}", ["graph"] + [f"{s}x" for s in args.speedups], rows)


def curve(bench, args):
    budgets = [0, 0.5, 1, 2, 5, 10, 20, 60]
    rows = []
    for name in args.graphs:
        records = [bench.plan(name, 40 * GIB, args.speedups[-1], seconds=s, extra=["--planner", "fast"] if s == 0 else [],
                              table="curve")[0] for s in budgets]
        rows.append([name] + [cell(r) for r in records] + [f"{records[0]['planning_s']:.2f} s" if records[0] else "-"])
    table(f"Period / bound against planning time, {args.speedups[-1]}x",
          ["graph", "fast"] + [f"{s} s" for s in budgets[1:]] + ["time of fast"], rows)


def ablation(bench, args):
    rows = []
    for title, extra in ABLATION:
        rows.append([title] + [cell(bench.plan(name, 40 * GIB, s, extra=extra, table="ablation")[0])
                               for name in args.graphs for s in args.speedups[-1:]])
    table(f"What each part adds, {args.speedups[-1]}x", ["search"] + args.graphs, rows)


def freedom_cells(bench, args):
    """(title, graph's file, limit, options of the machine): the 40 GiB table, and models at parts of their peaks."""
    machine = MACHINES[FIRST_MACHINE]
    for name in args.graphs:
        for speedup in args.speedups:
            yield f"{name} {speedup}x", bench.graph(name, 40 * GIB), 40 * GIB, [*machine, "--op-speedup", str(speedup)]
    for model in args.models:
        for group in (1, 30):
            graph = model_graphs.make(model, group)
            path = os.path.join(bench.folder.name, graph["name"] + ".json")
            with open(path, "w") as out:
                json.dump(graph, out)
            for part in args.parts:
                yield f"{graph['name']} 1/{part}", path, model_graphs.peak_bytes(graph) // part, []
            if model_graphs.peak_bytes(graph) > 40 * GIB:
                yield f"{graph['name']} 5x", path, 40 * GIB, ["--op-speedup", "5"]


def with_host(path, folder):
    """The same iteration as a host issues it: one launch after the other, after a wait for the iteration before."""
    with open(path) as text:
        graph = json.load(text)
    graph["ops"][0]["host_waits"] = True
    for i, op in enumerate(graph["ops"]):
        op["issue_ns"] = (i + 1) * LAUNCH_NS
    path = os.path.join(folder, "window-" + os.path.basename(path))
    with open(path, "w") as out:
        json.dump(graph, out)
    return path


def best_by(result, processor_s):
    """Period of the best plan that was found within so much processor time; None: there was none yet."""
    found = [b["period_ns"] for b in result["best_after"] if b["processor_s"] <= processor_s]
    return found[-1] if found else None


def freedom(bench, args):
    rows, worse = [], []
    for title, path, limit, machine in freedom_cells(bench, args):
        if args.only and not re.fullmatch(args.only, title):
            continue
        bound, why = bench.run("bound", path, "--memory", str(limit), "--seconds", str(args.bound_seconds), *machine, "--json")
        if bound is None:
            print(f"# {title}: {why}", file=sys.stderr)
            continue
        row, ratios = [f"{title} ({limit / GIB:.2f} GiB)"], {}
        for mode in args.modes:
            result, why = bench.run("plan", with_host(path, bench.folder.name) if mode == "window" else path, "-o", os.path.join(bench.folder.name, "plan"),
                                    "--memory", str(limit), "--seconds", "1000", "--processor-seconds", str(PROCESSOR_SECONDS[-1]),
                                    "--threads", str(args.threads), "--seed", str(args.seed), "--bound-seconds", "0", *machine,
                                    *FREEDOM[mode][0], "--json")
            if result is None:
                print(f"# {title}, {mode}: {why}", file=sys.stderr)
                row.append("-")
                continue
            found = [best_by(result, s) for s in PROCESSOR_SECONDS]
            ratios[mode] = [f / max(1, bound["bound_ns"]) if f else float("inf") for f in found]
            row.append(" ".join(f"{r:.3f}" for r in ratios[mode]))
            for less in FREEDOM[mode][1]:
                for s, r, other in zip(PROCESSOR_SECONDS, ratios[mode], ratios.get(less, [])):
                    if r > WORSE * other:
                        worse.append(f"{title} after {s} s: {mode} {r:.3f}, {less} {other:.3f}")
            bench.records.append({"table": "freedom", "cell": title, "mode": mode, "limit_bytes": limit, "ratios": ratios[mode],
                                  **{k: result[k] for k in ("period_ns", "compute_ns", "remaps", "processor_s", "best_after")},
                                  "bound_ns": bound["bound_ns"], "bound_note": bound["note"]})
        print("# " + " | ".join(row), file=sys.stderr, flush=True)
        rows.append(row)
    table(f"Period / bound (program order) after {', '.join(map(str, PROCESSOR_SECONDS))} processor seconds", ["graph and limit", *args.modes], rows)
    print(f"\nMore freedom is worse by over {100 * (WORSE - 1):.1f} % in {len(worse)} places" + "".join(f"\n- {w}" for w in worse))


TABLES = {"freedom": freedom, "cells": cells, "limits": limits, "machine": machine, "curve": curve, "ablation": ablation}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=["cells"])
    parser.add_argument("--graphs", nargs="*", default=GRAPHS)
    parser.add_argument("--speedups", nargs="+", type=float, default=[1, 5, 10, 20])
    parser.add_argument("--models", nargs="*", default=list(model_graphs.MODELS), help="of the table freedom")
    parser.add_argument("--parts", nargs="+", type=int, default=[2, 3, 6], help="of the peak, of the table freedom")
    parser.add_argument("--modes", nargs="+", choices=FREEDOM, default=list(FREEDOM), help="of the table freedom")
    parser.add_argument("--only", metavar="PATTERN", help="of the table freedom: cells whose whole title matches")
    parser.add_argument("--planners", nargs="+", default=["ga"])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--bound-seconds", type=float, default=60)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", metavar="FILE", help="keep the raw figures")
    args = parser.parse_args()
    args.speedups = [int(s) if s == int(s) else s for s in args.speedups]
    bench = Bench(args)
    for name in args.tables:
        TABLES[name](bench, args)
    if args.json:
        with open(args.json, "w") as out:
            json.dump(bench.records, out, indent=1)


if __name__ == "__main__":
    main()
