#!/usr/bin/env python3
"""Record, plan, replay with the commands' defaults: the plan of the file is what runs, within its memory, or the run ends
with one line. On the software GPU."""

import json
import os
import re
import signal
import subprocess
import time

from tap import Suite, equal

suite = Suite()
COMMAND = suite.path("swapadvisor")
DIGITS = [suite.path("workloads/digits"), "--width", "32", "--depth", "8", "--batch", "128", "--epochs", "2", "--eval-every", "0"]
DEVICE = "memory=1GiB,instructions=3e10"
MIB = 1 << 20


def file(name):
    return os.path.join(suite.scratch, name)


def tool(*words, rc=0):
    done = suite.run([COMMAND, *words], timeout=200)
    equal(done.returncode, rc, done.stderr)
    return done


def launch(*words, device=DEVICE):
    return suite.run([COMMAND, *words], libraries=suite.path("softgpu"), env={"SOFTGPU_OPTIONS": device}, timeout=200)


def replayed(plan, program, *options, tag=None):
    report = file("report.txt")
    done = launch("replay", plan, "-q", "-o", report, *options, "--", *program)
    equal(done.returncode, 0, done.stderr)
    with open((file(f"report.{tag}.txt") if tag else report) + ".json") as text:
        return done, json.load(text)


plain = suite.run(DIGITS, libraries=suite.path("softgpu"), env={"SOFTGPU_OPTIONS": DEVICE}, timeout=200)


@suite.test("the plan that is printed is the one that runs, within its memory, however the trace was recorded")
def _():
    for name, limited in (("all", []), ("limited", ["--memory", "14MiB"])):
        trace, plan = file(name + ".trace"), file(name + ".plan")
        equal(launch("record", "-q", *limited, "-o", trace, "--", *DIGITS).stdout, plain.stdout)
        figures = json.loads(tool("plan", trace, "-o", plan, "--memory", "12MiB", "--planner", "fast", "--bound-seconds", "0",
                                  "--json").stdout)
        equal((figures["limit_bytes"], figures["remaps"]), (12 * MIB, 0))
        tool("simulate", trace, plan)
        done, report = replayed(plan, DIGITS)
        equal(done.stdout, plain.stdout)
        equal((report["plan"], report["predicted_ns"]), (plan, figures["period_ns"]))
        assert report["planned_iterations"] > 10, report
        assert report["limit_bytes"] == 12 * MIB and report["peak_resident_bytes"] <= 12 * MIB, report
        measured = report["measured_ns_per_iteration"]
        assert measured <= 1.03 * figures["period_ns"], (measured, figures["period_ns"])


@suite.test("a plan of a trace from another device is followed as well")
def _():
    trace, plan = file("other.trace"), file("other.plan")
    launch("record", "-q", "-o", trace, "--", *DIGITS, device="memory=4GiB,instructions=6e10,h2d=20GB/s,d2h=20GB/s")
    tool("plan", trace, "-o", plan, "--memory", "12MiB", "--planner", "fast", "--bound-seconds", "0")
    done, report = replayed(plan, DIGITS)
    equal((done.stdout, report["plan"]), (plain.stdout, plan))


@suite.test("sweep plans for what runs: its figure at a limit is that of plan")
def _():
    options = ["--planner", "fast", "--bound-seconds", "0", "--json"]
    points = json.loads(tool("sweep", file("all.trace"), "--from", "12MiB", "--to", "12MiB", "--points", "2",
                             *options).stdout)["points"]
    plan = json.loads(tool("plan", file("all.trace"), "-o", file("again.plan"), "--memory", "12MiB", *options).stdout)
    equal({point["period_ns"] for point in points}, {plan["period_ns"]})


@suite.test("a plan that does not fit ends the run with one line and 2, or gives way to a search if that was asked for")
def _():
    plan = file("all.plan")
    other = [word if word != "8" else "7" for word in DIGITS]
    done = launch("replay", plan, "-q", "--", *other)
    equal(done.returncode, 2)
    equal(done.stderr, f"error: plan {plan} does not fit this program: it is for iterations of 216 operations, the program's "
                       "have 192 (--or-search: go on, and search one)\n")
    other = ["256" if word == "128" else word for word in DIGITS]
    done = launch("replay", plan, "-q", "--", *other)
    equal((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
    assert "buffers of other sizes" in done.stderr, done.stderr
    _, report = replayed(plan, other, "--or-search", "--memory", "24MiB", "--planner", "fast")
    equal(report["plan"], "own search")


@suite.test("so is a program with buffers of 100 kB, and each of several processes")
def _():
    layers = 40
    tensors = [{"id": i, "bytes": 100_000 if i < layers else 1_500_000, "persistent": i < layers} for i in range(2 * layers)]
    forward = [{"id": i, "name": f"f{i}", "duration_ns": 60_000, "reads": [i] + ([layers + i - 1] if i else []), "writes": [layers + i]}
               for i in range(layers)]
    backward = [{"id": layers + k, "name": f"b{i}", "duration_ns": 90_000, "reads": [i, layers + i], "writes": [i]}
                for k, i in enumerate(reversed(range(layers)))]
    graph, trace, plan = file("small.json"), file("small.trace"), file("small.plan")
    with open(graph, "w") as text:
        json.dump({"format": "swapadvisor-graph", "version": 1, "name": "small", "source": "test",
                   "device": {"memory_bytes": 1 << 30, "h2d_bytes_per_s": 10**10, "d2h_bytes_per_s": 10**10,
                              "duplex_bytes_per_s": 2 * 10**10, "transfer_latency_ns": 1000},
                   "tensors": tensors, "ops": forward + backward}, text)
    program = [suite.path("workloads/graph_player"), graph, "--iterations", "40", "--pause", "5"]
    wanted = suite.run(program, libraries=suite.path("softgpu"), env={"SOFTGPU_OPTIONS": DEVICE}).stdout.splitlines()[-1]
    equal(launch("record", "-q", "-o", trace, "--", *program).returncode, 0)
    tool("plan", trace, "-o", plan, "--memory", "24MiB", "--planner", "fast", "--bound-seconds", "0")
    done, report = replayed(plan, program)
    equal((done.stdout.splitlines()[-1], report["plan"]), (wanted, plan))
    assert report["planned_iterations"] > 10 and report["peak_resident_bytes"] <= 24 * MIB, report
    # Two processes after one plan, each on the device with its own runtime and report.
    both = " ".join(program)
    done, report = replayed(plan, ["sh", "-c", f"RANK=0 WORLD_SIZE=2 {both} & RANK=1 WORLD_SIZE=2 {both}; wait"], tag="rank1")
    equal([line for line in done.stdout.splitlines() if line.startswith("stamps")], [wanted, wanted])
    with open(file("report.rank0.txt.json")) as text:
        first = json.load(text)
    for rank, each in ((0, first), (1, report)):
        equal((each["plan"], each["rank"]), (plan, rank))
        assert each["planned_iterations"] > 5 and each["peak_resident_bytes"] <= 24 * MIB, each


@suite.test("what no run can follow is told before the program starts")
def _():
    tool("plan", file("all.trace"), "-o", file("ideal.plan"), "--memory", "12MiB", "--ideal", "--planner", "fast",
         "--bound-seconds", "0")
    tool("simulate", file("all.trace"), file("ideal.plan"))
    for words, line in (([file("ideal.plan")], "--ideal, which no run can follow"),
                        ([file("all.trace")], "is no plan"),
                        ([file("none.plan")], "No such file"),
                        (["--memory", "8MiB", file("all.plan")], "less than the 12.0 MiB"),
                        ([], "PLAN")):
        done = launch("replay", *words, "--", *DIGITS)
        equal((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
        assert line in done.stderr, done.stderr


@suite.test("Ctrl-C stays the program's while plans are searched, installed and followed")
def _():
    program = [*DIGITS[:-4], "--epochs", "1000"]
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    env |= {"LD_LIBRARY_PATH": suite.path("softgpu"), "SOFTGPU_OPTIONS": DEVICE}
    for words in (["run", "-q", "--memory", "12MiB"], ["replay", "-q", file("all.plan")]):
        script = f"echo $$ >&2; exec {' '.join(program)}"
        process = subprocess.Popen([COMMAND, *words, "--", "sh", "-c", script], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env,
                                   text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        pid = process.stderr.readline().strip()
        caught = 0
        for _ in range(75):
            time.sleep(0.02)
            with open(f"/proc/{pid}/status") as status:
                caught |= int(re.search(r"SigCgt:\s*(\w+)", status.read())[1], 16)
        process.send_signal(signal.SIGINT)
        equal((process.wait(30), caught >> (signal.SIGINT - 1) & 1), (-signal.SIGINT, 0), words)


if __name__ == "__main__":
    suite.main()
