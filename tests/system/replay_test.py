#!/usr/bin/env python3
"""The replayer on the software GPU: same bytes as without the shim, whatever the program does under a plan; a steady
state without mapping, waiting or allocating calls; iteration times as the plan predicts. SWAPADVISOR_TEST_LONG=1: more."""

import json
import os
import re
import statistics

from tap import Suite, equal

suite = Suite()
PROBE = suite.path("tests/replay_probe")
DIGITS = suite.path("workloads/digits")
SHIM = suite.path("libswapadvisor.so")
LONG = os.environ.get("SWAPADVISOR_TEST_LONG") == "1"


def play(command, limit=None, device="memory=2GiB", planner="fast", timeout=300, racecheck=True, **settings):
    """stdout, stderr, exit code, software GPU figures and the shim's report of one run."""
    stats, report = (os.path.join(suite.scratch, name) for name in ("stats.json", "report.txt"))
    for file in (stats, report, report + ".json"):
        if os.path.exists(file):
            os.remove(file)
    env = {"SOFTGPU_OPTIONS": f"{device},stats={stats}" + (",racecheck" if limit and racecheck else "")}
    if limit:
        env |= {"SWAPADVISOR_MEMORY": limit, "SWAPADVISOR_PLANNER": planner, "SWAPADVISOR_REPORT": report}
        env |= {f"SWAPADVISOR_{key.upper()}": value for key, value in settings.items()}
    done = suite.run(command, preload=SHIM if limit else None, libraries=suite.path("softgpu"), env=env, timeout=timeout)
    done.stats = json.load(open(stats)) if os.path.exists(stats) else {}
    done.report = json.load(open(report + ".json")) if os.path.exists(report + ".json") else {}
    return done


plain = {}


def same(command, limit, planned=True, **options):
    """Runs with and without the shim; everything that the program says must agree."""
    key = tuple(command)
    if key not in plain:
        plain[key] = play(command)
    done = play(command, limit, **options)
    equal(done.stdout, plain[key].stdout, done.stderr)
    equal(done.returncode, plain[key].returncode, done.stderr)
    for what in ("races", "strictness_errors", "illegal_accesses"):
        equal(done.stats[what], 0, f"{what}: {done.stats.get('findings')}")
    if planned:
        assert done.report["planned_iterations"] > 0, done.stderr
    return done


def near(measured, predicted, what):
    assert abs(measured - predicted) <= 0.03 * predicted, f"{what}: measured {measured} ns, predicted {predicted} ns"


@suite.test("a hundred steady iterations without a mapping, waiting or allocating call, as fast as predicted")
def _():
    done = same([PROBE, "steady", "14"], "28MiB")
    counts = dict(re.findall(r"^count (\S+) (\d+)$", done.stderr, re.M))
    assert len(counts) >= 10, done.stderr
    equal({name: int(n) for name, n in counts.items() if int(n)}, {})
    time = done.report
    near(time["measured_ns_per_iteration"], time["predicted_ns"], "iteration")
    print(f"# predicted {time['predicted_ns']} ns, measured {time['measured_ns_per_iteration']} ns, "
          f"infinite memory {time['infinite_ns_per_iteration']} ns")


for name, words in {
    "batch size, evaluation, exceptions and extra work under a plan": ["change", "1"],
    "a layer added under a plan": ["grow"],
    "cudaDeviceReset under a plan, and training again": ["reset"],
}.items():
    @suite.test(name)
    def _(words=words):
        done = same([PROBE, *words], "28MiB")
        if words[0] != "reset":
            assert done.report["divergences"] > 0
            assert done.report["fallbacks"], "the report says what happened"


@suite.test("exit in the middle of a step without freeing anything: exit code kept, report written")
def _():
    done = same([PROBE, "exit"], "28MiB", planned=False)
    equal(done.returncode, 3)
    assert done.report


for name, words, limit in (
    ("graphs: captured kernels, copies and memsets at less memory than the graph uses", ["graphs"], "20MiB"),
    ("threads that launch at once", ["threads", "3"], "16MiB"),
    ("a table of addresses in device memory", ["table"], "28MiB"),
    ("streams that come and go, memory handed between them", ["streams"], "20MiB"),
    ("stream-ordered allocation", ["async"], "20MiB"),
):
    @suite.test(name)
    def _(words=words, limit=limit):
        same([PROBE, *words], limit, planned=False)


@suite.test("an op that needs more than the limit is out of memory and says both sizes; the program's own error handling runs")
def _():
    done = play([PROBE, "graphs"], "8MiB")
    equal(done.returncode, 7)
    assert re.search(r"out of memory: \S*mix\S* needs \d+ bytes on the device at once, the limit is 8388608 bytes", done.stderr), done.stderr


@suite.test("record, plan, replay: a plan from a trace is followed; a damaged one, or another program's, is refused and survived")
def _():
    tool = suite.path("swapadvisor")
    trace, plan, bad, report = (os.path.join(suite.scratch, name) for name in ("run.trace", "run.plan", "bad.plan", "replayed.txt"))
    env = {"SOFTGPU_OPTIONS": "memory=2GiB", "SWAPADVISOR_LOG": "plan", "SWAPADVISOR_REPORT": report}
    softgpu = suite.path("softgpu")
    wanted = play([PROBE, "steady", "6"]).stdout

    def tool_run(*words):
        return suite.run([tool, *words], libraries=softgpu, env=env, timeout=200)

    recorded = tool_run("record", "-o", trace, "--", PROBE, "steady", "6")
    equal(recorded.stdout, wanted, recorded.stderr)
    planned = suite.run([tool, "plan", trace, "-o", plan, "--memory", "28MiB", "--no-reorder", "--no-remaps", "--chunk", "2MiB",
                         "--planner", "fast", "--bound-seconds", "0"])
    equal(planned.returncode, 0, planned.stderr)
    replayed = tool_run("replay", plan, "--", PROBE, "steady", "6")
    equal(replayed.stdout, wanted, replayed.stderr)
    figures = json.load(open(report + ".json"))
    equal(figures["predicted_ns"], json.load(open(plan))["predicted_ns"])
    assert figures["planned_iterations"] > 50, replayed.stderr

    open(bad, "w").write(open(plan).read().replace('"at":[[', '"at":[[9', 1).replace('"at": [[', '"at": [[9', 1))
    env["SWAPADVISOR_MEMORY"] = "28MiB"
    for wrong, program in ((bad, "steady"), (plan, "grow")):
        done = suite.run([PROBE, program, "6"], preload=SHIM, libraries=softgpu,
                         env=env | {"SWAPADVISOR_PLAN": wrong, "SWAPADVISOR_PLANNER": "fast"}, timeout=200)
        equal(done.stdout, play([PROBE, program, "6"]).stdout, done.stderr)
        assert "refused" in done.stderr or "does not fit" in done.stderr or "could not be installed" in done.stderr, done.stderr


@suite.test("digits trains to the same weights at a fraction of its memory, at the predicted speed")
def _():
    words = ["--width", "32", "--batch", "256", "--depth", "6" if LONG else "3", "--eval-every", "0", "--epochs", "8" if LONG else "3"]
    timings = os.path.join(suite.scratch, "timings")
    plain_run = play([DIGITS, *words, "--timings", timings])
    peak = plain_run.stats["devices"][0]["peak_bytes"]
    infinite = statistics.median(int(line) for line in open(timings))
    for part in (2, 4) if LONG else (2,):
        limit = peak // part
        done = play([DIGITS, *words, "--timings", timings], f"{limit}", racecheck=LONG)
        equal(done.stdout, plain_run.stdout, done.stderr)
        for what in ("races", "strictness_errors", "illegal_accesses"):
            equal(done.stats[what], 0, what)
        predicted = done.report["predicted_ns"]
        steady = [int(line) for line in open(timings)][-8:]
        near(statistics.median(steady), predicted, f"peak/{part}")
        print(f"# peak {peak}, limit 1/{part}: predicted {predicted} ns, measured {statistics.median(steady)} ns, "
              f"infinite memory {infinite} ns")


suite.main()
