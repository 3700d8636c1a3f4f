#!/usr/bin/env python3
"""Bench of the workloads on the software GPU: wall and processor time of the digits training at default settings, and
of playing the largest graph. One JSON object per line for scripts/bench.py."""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def measure(build, options, command):
    """Seconds by the clock, by the processor, and the device's figures."""
    with tempfile.TemporaryDirectory() as folder:
        stats = os.path.join(folder, "stats.json")
        line = [os.path.join(ROOT, "scripts/softgpu"), "--build", build, *options, "--stats", stats, "--", *command]
        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        done = subprocess.run(line, stdout=subprocess.DEVNULL)
        wall, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode != 0:
            sys.exit(f"{os.path.basename(command[0])} ended with status {done.returncode}")
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return wall, cpu, json.load(open(stats))


def figure(name, value, unit, against=None):
    print(json.dumps({"name": name, "value": round(value, 3), "unit": unit, "against": against}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    build = os.path.abspath(parser.parse_args().build)
    wall, cpu, stats = measure(build, [], [os.path.join(build, "workloads/digits")])
    figure("digits at default settings, software GPU", wall, "s")
    figure("digits, processor time", cpu, "s")
    figure("digits, thread-instructions per processor second", stats["thread_instructions"] / cpu / 1e6, "million/s")
    with tempfile.TemporaryDirectory() as folder:
        table = os.path.join(folder, "kernels")
        with open(table, "w") as file:
            file.write("^opl?_([0-9]+)$ $1\n")
        graph = os.path.join(ROOT, "tests/graphs/resnet152-1280.json")
        wall, _, _ = measure(build, ["--memory", "400GiB", "--kernel-table", table],
                             [os.path.join(build, "workloads/graph_player"), graph, "--iterations", "1"])
        figure("graph_player, one iteration of resnet152-1280", wall, "s")
    # What the shim costs a program that never repeats itself and fits.
    irregular = [os.path.join(build, "tests/turns_probe"), "random", "12", "200000", "1200000"]
    _, _, plain = measure(build, [], irregular)
    _, _, shimmed = measure(build, [], [os.path.join(build, "swapadvisor"), "run", "-q", "--", *irregular])
    figure("irregular work, memory to spare: device's time over that without the shim",
           shimmed["virtual_ns"] / plain["virtual_ns"], "", 1.02)
    figure("irregular work, memory to spare: host time added per launch, software GPU's clock",
           (shimmed["host_ns"] - plain["host_ns"]) / 200000, "ns")


main()
