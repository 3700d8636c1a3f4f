#!/usr/bin/env python3
"""The replayer on the software GPU: same bytes as without the shim, whatever the program does under a plan; a steady
state without mapping, waiting or allocating calls; iteration times as the plan predicts. SWAPADVISOR_TEST_LONG=1: more."""

import json
import os
import re
import statistics

from replay_runs import Runs
from tap import Suite, equal

suite = Suite()
runs = Runs(suite)
play, same = runs.play, runs.same
PROBE, SHIM = runs.probe, runs.shim
DIGITS = suite.path("workloads/digits")
LONG = os.environ.get("SWAPADVISOR_TEST_LONG") == "1"


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


OTHER_MEMORY, OTHER_OPS = "memory outside of the plan was used", "the program left the planned iteration"

# What the program does, and what the report has to say of it.
for name, words, said in (
    ("batch size, evaluation, exceptions and extra work under a plan, mixed", ["change", "1"], {OTHER_MEMORY}),
    ("a larger batch under a plan, for a while", ["batch"], {OTHER_MEMORY}),
    ("evaluation passes under a plan", ["evaluate"], {OTHER_MEMORY}),
    ("C++ exceptions in the middle of steps under a plan", ["throw"], {OTHER_MEMORY}),
    ("a layer added under a plan", ["grow"], {OTHER_MEMORY, OTHER_OPS}),
    ("thousands of small allocations beside memory that fills the limit, before a plan and under it", ["small"], {OTHER_OPS}),
):
    @suite.test(name)
    def _(words=words, said=said):
        done = same([PROBE, *words], "28MiB")
        assert done.report["divergences"] > 0, done.report
        assert said & set(done.said), done.said
        equal(done.report["mode"], "planned" if words[0] not in ("change", "small") else done.report["mode"], done.report)


@suite.test("cudaDeviceReset under a plan, and training again: a report for each context")
def _():
    done = same([PROBE, "reset"], "28MiB")
    equal(len(done.reports), 2)
    for report in done.reports:
        assert report["planned_iterations"] > 0, report
        equal(report["mode"], "planned")


@suite.test("two devices, each with a pool of its own: in turns, and by threads at once")
def _():
    done = same([PROBE, "devices", "2"], "28MiB", device="memory=2GiB,devices=2")
    equal(len(done.reports), 2)
    for report in done.reports:
        assert report["planned_iterations"] > 0, report
        equal(report["limit_bytes"], 28 << 20)
        assert report["peak_resident_bytes"] <= report["limit_bytes"], report


@suite.test("--strict: under a plan too, a use that cannot be seen stops the program instead of reading wrong bytes")
def _():
    wanted = runs.without([PROBE, "hidden", "24"]).stdout
    for settings in ({"strict": "1"}, {"planner": "none"}):
        done = play([PROBE, "hidden", "24"], "28MiB", **settings)
        equal(done.returncode, 7, done.stderr)
        assert "cudaErrorIllegalAddress" in done.stdout and "sum" not in done.stdout, done.stdout
        assert "peek" in done.stderr, done.stderr
        if "strict" in settings:
            assert done.report["planned_iterations"] > 4, done.report
    # With memory that suffices nothing moves, and nothing is missed.
    equal(play([PROBE, "hidden", "24"], "200MiB", strict="1").stdout, wanted)
    same([PROBE, "steady", "14"], "28MiB", strict="1")


@suite.test("memory that the program frees late, at a tight limit: nothing is copied that the plan does not know of")
def _():
    for limit in ("20MiB", "16MiB") if LONG else ("20MiB",):
        done = same([PROBE, "steady", "14"], limit)
        near(done.report["measured_ns_per_iteration"], done.report["predicted_ns"], f"iteration at {limit}")


@suite.test("the search goes on under its first plan, replaces it by a better one at a boundary, and ends when there is none")
def _():
    done = same([PROBE, "steady", "50", "80"], "20MiB", planner="ga", seconds="60", threads="1", log="plan")
    predicted = [int(ns) for ns in re.findall(r"plan installed: \d+ atoms, predicted (\d+) ns", done.stderr)]
    assert len(predicted) >= 2, done.stderr
    assert all(after <= 0.99 * before for before, after in zip(predicted, predicted[1:])), predicted
    assert "the search ends: nothing worth a change" in done.stderr, done.stderr
    equal(done.report["predicted_ns"], predicted[-1])
    equal(done.report["divergences"], 0)
    counts = dict(re.findall(r"^count (\S+) (\d+)$", done.stderr, re.M))
    equal({name: int(n) for name, n in counts.items() if int(n)}, {})
    near(done.report["measured_ns_per_iteration"], predicted[-1], "iteration")


@suite.test("exit in the middle of a step without freeing anything: exit code kept, report written")
def _():
    done = same([PROBE, "exit"], "28MiB", planned=False)
    equal(done.returncode, 3)
    assert done.report


for name, words, limit in (
    ("graphs: captured kernels, copies and memsets at less memory than the graph uses", ["graphs"], "20MiB"),
    ("work on more memory than there is while another stream is captured", ["capture"], "20MiB"),
    ("threads that launch at once", ["threads", "3"], "16MiB"),
    ("a table of addresses in device memory", ["table"], "28MiB"),
    ("streams that come and go, memory handed between them", ["streams"], "20MiB"),
    ("stream-ordered allocation", ["async"], "20MiB"),
):
    @suite.test(name)
    def _(words=words, limit=limit):
        same([PROBE, *words], limit, planned=False)


@suite.test("training loops of every habit swap without a race")
def _():
    planned = 0
    for pattern in ("plain", "first", "evaluate", "accumulate", "turns", "turns5", "short", "sizes"):
        planned += same([suite.path("workloads/loops"), pattern, "14"], "48MiB", planned=False).report["planned_iterations"] > 0
    print(f"# {planned} of 8 came to follow a plan")


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

    # Made for more memory than there is: another is made, where that is asked for.
    done = play([PROBE, "steady", "6"], "20MiB", plan=plan, plan_or_search="1")
    equal(done.stdout, wanted, done.stderr)
    assert done.report["planned_iterations"] > 50 and done.report["predicted_ns"] != figures["predicted_ns"], done.report

    open(bad, "w").write(open(plan).read().replace('"at":[[', '"at":[[9', 1).replace('"at": [[', '"at": [[9', 1))
    env["SWAPADVISOR_MEMORY"] = "28MiB"
    for wrong, program in ((bad, "steady"), (plan, "grow")):
        done = suite.run([PROBE, program, "6"], preload=SHIM, libraries=softgpu,
                         env=env | {"SWAPADVISOR_PLAN": wrong, "SWAPADVISOR_PLAN_OR_SEARCH": "1", "SWAPADVISOR_PLANNER": "fast"},
                         timeout=200)
        equal(done.stdout, play([PROBE, program, "6"]).stdout, done.stderr)
        assert "refused" in done.stderr or "does not fit" in done.stderr or "could not be installed" in done.stderr, done.stderr


@suite.test("on demand: once an iteration has repeated, what is used next comes under the computing before it")
def _():
    words = [DIGITS, "--width", "32", "--batch", "256", "--depth", "6", "--eval-every", "0", "--epochs", "2"]
    timings = os.path.join(suite.scratch, "timings")
    # Computing takes about as long as the copies.
    device = "memory=2GiB,instructions=3e10,create-call=5us"
    wanted = play([*words, "--timings", timings], device=device)
    peak = wanted.stats["devices"][0]["peak_bytes"]
    for part in (2, 4):
        done = play([*words, "--timings", timings], str(peak // part), device=device, planner="none")
        equal(done.stdout, wanted.stdout, done.stderr)
        for what in ("races", "strictness_errors", "illegal_accesses"):
            equal(done.stats[what], 0, what)
        equal(done.report["planned_iterations"], 0)
        times = [int(line) for line in open(timings)]
        # The first iteration allocates, from the third on the order is known.
        assert max(times[4:]) < 0.95 * times[1], times
        print(f"# limit 1/{part}: {times[1]} ns on demand, {statistics.median(times[4:])} ns when fetching ahead")


@suite.test("digits trains to the same weights at a fraction of its memory, at the predicted speed")
def _():
    words = ["--width", "32", "--batch", "256", "--depth", "6" if LONG else "3", "--eval-every", "0", "--epochs", "8"]
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
        assert predicted >= done.report["lower_bound_ns"] > 0, (predicted, done.report["lower_bound_ns"])
        steady = [int(line) for line in open(timings)][-8:]
        near(statistics.median(steady), predicted, f"peak/{part}")
        print(f"# peak {peak}, limit 1/{part}: predicted {predicted} ns, measured {statistics.median(steady)} ns, "
              f"infinite memory {infinite} ns")


suite.main()
