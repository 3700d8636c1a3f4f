#!/usr/bin/env python3
"""Runs the bench programs, prints a table and writes BUILD/bench/summary.json.

A bench program prints one JSON object per line: {"name", "value", "unit", "against"} (against: the aim, or null)."""

import argparse
import json
import os
import subprocess
import sys

# Relative to the build folder; the first word is looked for there, or in scripts/ if it ends in .py.
BENCHES = [
    ["bench_interpose.py"],
    ["bench_workloads.py"],
    ["bench/recorder_bench"],
    ["softgpu/ptx_bench"],
    ["bench/planner_bench"],
]


def run(command, build):
    """The figures that one program prints, or None if it is not there."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), command[0])
    program = os.path.join(build, command[0])
    if command[0].endswith(".py") and os.path.exists(script):
        line = [sys.executable, script, "--build", build] + command[1:]
    elif os.access(program, os.X_OK):
        line = [program] + command[1:]
    else:
        return None
    done = subprocess.run(line, stdout=subprocess.PIPE, text=True)
    figures = []
    for text in done.stdout.splitlines():
        if text.startswith("{"):
            figures.append(json.loads(text))
    if done.returncode != 0:
        print(f"bench: {command[0]} ended with status {done.returncode}", file=sys.stderr)
        figures.append({"name": f"{command[0]}: exit status", "value": done.returncode, "unit": "", "against": 0})
    return figures


def text_of(value):
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.3f}" if abs(value) < 10 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    args = parser.parse_args()
    rows = []
    for command in BENCHES:
        figures = run(command, args.build)
        if figures is None:
            print(f"bench: {command[0]} is not built, left out", file=sys.stderr)
            continue
        rows.extend(figures)
    widths = [max([len(r["name"]) for r in rows] + [4]), max([len(text_of(r["value"])) for r in rows] + [5])]
    print(f"{'name':<{widths[0]}}  {'value':>{widths[1]}}  {'unit':<12}  aim")
    for r in rows:
        print(f"{r['name']:<{widths[0]}}  {text_of(r['value']):>{widths[1]}}  {r.get('unit') or '':<12}  "
              f"{text_of(r.get('against'))}")
    out = os.path.join(args.build, "bench")
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "summary.json"), "w") as file:
        json.dump(rows, file, indent=1)
        file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
