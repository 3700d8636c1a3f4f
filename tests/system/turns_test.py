#!/usr/bin/env python3
"""Loops whose buffers take turns, however many: found, planned and followed within less memory than they need, with the
results that enough memory gives. On the software GPU."""

from replay_runs import Runs
from tap import Suite, equal

suite = Suite()
runs = Runs(suite)
PROBE = suite.path("tests/turns_probe")
SIZE = 1200000


def followed(arguments, limit, ops):
    # Steps enough for a plan to be made meanwhile, however busy the machine is.
    done = runs.same([PROBE, *map(str, arguments)], limit, seconds="0.2", racecheck=False)
    equal(done.report["ops_per_iteration"], ops)
    equal(done.report["mode"], "planned")


for turns in (5, 8, 20, 64):
    suite.test(f"a ring of {turns}, two kinds of step on each")(
        lambda turns=turns: followed(("ring", turns, 1, 40 * turns, SIZE), "9MiB" if turns < 9 else "24MiB", 2 * turns))
suite.test("a ring of 8, nine launches that look alike on each")(
    lambda: followed(("ring", 8, 9, 400, SIZE), "10MiB", 80))
suite.test("a chain of 40 equal layers, at a quarter of its memory")(
    lambda: followed(("chain", 40, 40, SIZE), "20MiB", 40))


@suite.test("irregular work while all of it is resident: no events, and the device's time is as without the shim")
def _():
    arguments = [PROBE, "random", "12", "40000", "1200000"]
    wanted, done = runs.without(arguments), runs.play(arguments, "1GiB", racecheck=False)
    equal((done.returncode, done.stdout), (0, wanted.stdout), done.stderr)
    assert done.stats["calls"].get("cuEventRecord", 0) < 200, done.stats["calls"]
    assert done.stats["virtual_ns"] <= 1.02 * wanted.stats["virtual_ns"], (done.stats, wanted.stats)


if __name__ == "__main__":
    suite.main()
