#!/usr/bin/env python3
"""What a program is told about its memory under a limit far below what it holds is what it is told on a device that is
large enough: attributes, and refusals of what lies past the end or was freed. On the software GPU."""

import os
import sys

from tap import Suite, equal

suite = Suite()
PROBE = suite.path("tests/answers_probe")


def run(what, memory, *shim):
    return suite.run([sys.executable, os.path.join(suite.root, "scripts/softgpu"), "--build", suite.build, "--memory", memory, "--", *shim,
                      PROBE, what])


def same(what):
    plain = run(what, "1GiB")
    equal(plain.returncode, 0, plain.stdout + plain.stderr)
    for memory in ("64MiB", "1GiB"):
        done = run(what, memory, suite.path("swapadvisor"), "run", "-q", "-o", "report.txt", "--")
        equal((done.returncode, done.stdout), (0, plain.stdout), f"{memory}\n{done.stderr}")
    return plain.stdout


@suite.test("pointer attributes are the same whether a buffer is on the device or not")
def _():
    assert "attributes stay: 1" in same("attributes")


@suite.test("past the end, freed, destroyed: the driver's error, and nothing is written")
def _():
    out = same("bounds").splitlines()
    equal({line.split(": ")[1] for line in out[:15]}, {"1"}, out)
    equal(out[15:], ["within: 0", "within large: 0", "within, rows: 0", "neighbour: 0 wrong"])


@suite.test("the device's memory and pools: totals are the device's, pools count what they give, what is free can be used")
def _():
    out = same("figures")
    assert "the total is the device's: 1" in out and "last byte 1" in out, out


if __name__ == "__main__":
    suite.main()
