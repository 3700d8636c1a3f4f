#!/usr/bin/env python3
"""A slice of the random programs of scripts/random_programs.py: every buffer as the model on the host has it, at three limits."""

import os
import sys

from tap import Suite, equal

suite = Suite()
SCRIPT = os.path.join(suite.root, "scripts/random_programs.py")
# Tables of addresses, nodes of graphs that are disabled, and gated streams are drawn by the script; they join this slice as each
# is right throughout.
FEATURES = ["arguments", "graphs", "pools", "captures", "threads"]


@suite.test("30 random programs at three limits, in rotating modes")
def _():
    done = suite.run([sys.executable, SCRIPT, "--build", suite.build, "--count", "30", "--features", *FEATURES])
    equal((done.returncode, done.stdout), (0, "30 programs at 3 limits: 90 right, 0 DIFFERENT, 0 ERROR, 0 hung\n"), done.stderr)


@suite.test("a wrong use of the script: one line and status 2")
def _():
    done = suite.run([sys.executable, SCRIPT, "--build", suite.build, "--count", "0"])
    equal(done.returncode, 2, done.stderr)
    assert "--count and --iterations take a number from 1" in done.stderr, done.stderr


if __name__ == "__main__":
    suite.main()
