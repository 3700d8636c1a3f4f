#!/usr/bin/env python3
"""Addresses that reach kernels otherwise than by a plain pointer argument: with data, and in arguments of every form. Right, or
loud: the program sees what it sees on a device that is large enough, or an error and a line that says why."""

import json
import os
import sys

from tap import Suite, equal

suite = Suite()
PROBE = suite.path("tests/hidden_addresses_probe")
MODES = {"on demand": [], "strict": ["--strict"], "without a planner": ["--planner", "none"]}


def native(*what):
    return suite.run([sys.executable, os.path.join(suite.root, "scripts/softgpu"), "--build", suite.build, "--memory", "1GiB", "--", PROBE, *what])


def small(*what, options=()):
    """On a device that holds seven of the thirteen buffers."""
    return suite.run([sys.executable, os.path.join(suite.root, "scripts/softgpu"), "--build", suite.build, "--memory", "64MiB", "--",
                      suite.path("swapadvisor"), "run", "-o", "report.txt", *options, "--", PROBE, *what])


def same(what):
    plain = native(what)
    equal(plain.returncode, 0, plain.stdout + plain.stderr)
    assert all(line.endswith(": 2") for line in plain.stdout.splitlines()), plain.stdout
    for mode, options in MODES.items():
        done = small(what, options=options)
        equal((done.returncode, done.stdout), (0, plain.stdout), f"{mode}\n{done.stderr}")


@suite.test("what travels: copies, memsets and memory operations of every kind, to memory of every kind")
def _():
    same("travel")


@suite.test("what is there already: stored by host or kernel, in memory of every kind")
def _():
    same("stored")


@suite.test("arguments: at any byte, in halves, tagged and shifted, in launches of every kind")
def _():
    same("arguments")


@suite.test("a plan: arguments that are shifted and packed, and a variable that is used now and then")
def _():
    plain = native("iterate", "0")
    equal(plain.stdout.splitlines()[:2], ["a 61", "b 64"], plain.stdout)
    for options in ([], ["--strict"]):
        for rest in ("400", "2000", "8000"):  # on a busy machine the planner needs more of it
            done = small("iterate", rest, options=["--planner", "fast", "--seconds", "0.3", *options])
            equal((done.returncode, done.stdout), (0, plain.stdout), done.stderr)
            with open(os.path.join(suite.scratch, "report.txt.json")) as file:
                planned = json.load(file)["planned_iterations"]
            if planned > 0:
                break
        assert planned > 0, f"no plan was followed {options}"


@suite.test("what has to stay is more than fits: the copy is refused, and a line says why")
def _():
    done = small("refused")
    equal((done.returncode, done.stdout), (1, "refused 2\n"), done.stderr)
    lines = [line for line in done.stderr.splitlines() if "must stay on the device does not fit the limit" in line]
    equal(len(lines), 1, done.stderr)
    assert "its address was copied to the device" in lines[0], lines
    equal(native("refused").stdout, "all copied\n")


@suite.test("an argument that leads to no memory: all that fits is there, and a line says what happens to the rest")
def _():
    equal(native("spread").stdout, "spread 0\nvalue 2\n")
    done = small("spread")
    equal(done.stdout, "spread 700\n", done.stderr)
    assert "points into our addresses, but to no memory that there is" in done.stderr, done.stderr
    fits = small("spread", "4")
    equal(fits.stdout, "spread 0\nvalue 2\n", fits.stderr)


if __name__ == "__main__":
    suite.main()
