#!/usr/bin/env python3
"""scripts/gpu_check.sh runs to its end on the software GPU, and says of each other part that it needs a real one."""

import argparse
import contextlib
import importlib.util
import json
import os
import pathlib
import sys

from tap import Suite, equal

suite = Suite()
COMPARE = os.path.join(suite.root, "scripts/frameworks/pytorch/compare.py")


@suite.test("gpu_check: to its end on the software GPU, with one table and a JSON file")
def _():
    done = suite.run([os.path.join(suite.root, "scripts/gpu_check.sh"), "--softgpu", "--quick", "--build", suite.build], timeout=600)
    equal(done.returncode, 0, done.stdout + done.stderr)
    with open(suite.path("gpu_check/results.json")) as file:
        results = json.load(file)
    equal(results["device"], "software GPU")
    assert "software GPU: device times are its virtual clock's" in done.stdout, done.stdout
    rows = {(row["part"], row["what"]): row for row in results["rows"]}
    equal(rows["digits", "bit-identical at peak/4"]["value"], "yes")
    for part in ("driver", "digits", "launch", "doctor", "runtime", "pytorch"):
        assert any(row["part"] == part for row in results["rows"]), part
    for row in results["rows"]:
        if row["part"] in ("runtime", "pytorch"):
            equal((row["verdict"], row["value"]), ("skipped", "needs a real GPU"))
        assert row["what"] in done.stdout, row


def load(path):
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@suite.test("gpu_check: where the command lacks its libraries, programs are preloaded by hand")
def _():
    build = pathlib.Path(suite.scratch, "build")
    build.mkdir()
    command = build / "swapadvisor"
    command.write_text("#!/bin/sh\necho 'cannot open libtbb.so.12' >&2\nexit 127\n")
    command.chmod(0o755)
    (build / "libswapadvisor.so").symlink_to(suite.path("libswapadvisor.so"))
    check = load(os.path.join(suite.root, "scripts/gpu_check.py")).Check(
        argparse.Namespace(build=build, softgpu=False, quick=True, seconds=60))
    with contextlib.redirect_stdout(sys.stderr):
        check.part_setup()
    assert "cannot open libtbb.so.12" in check.rows[0]["value"], check.rows
    show = ["sh", "-c", "echo $SWAPADVISOR_MEMORY $SWAPADVISOR_SECONDS $SWAPADVISOR_REPORT $LD_PRELOAD"]
    code, out, err = check.run(show, 20, check.launcher(1 << 20, "--seconds", "3", "-o", build / "r.txt"))
    equal((code, out), (0, f"1048576 3 {build}/r.txt {build}/libswapadvisor.so\n"), err)
    check.deadline = 0
    equal(check.run(["sleep", "60"], 1)[0], 124)


def fake_build(name, digits):
    """A build folder whose programs are shell scripts: the launcher only starts what it is given."""
    build = pathlib.Path(suite.scratch, name)
    (build / "workloads").mkdir(parents=True)
    (build / "libswapadvisor.so").touch()
    for path, text in ((build / "swapadvisor", '[ "$1" = run ] || exit 0\nwhile [ "$1" != -- ]; do shift; done\nshift; exec "$@"'),
                       (build / "workloads/digits", digits), (build / "workloads/gpu_facts", "exit 0")):
        path.write_text("#!/bin/sh\n" + text + "\n")
        path.chmod(0o755)
    return build


LATE = 'case "$*" in *"--width 32"*) exec sleep 60;; esac\necho epoch 1 loss 2; echo weights ab'


@suite.test("gpu_check: where the long training is too slow, the short one is done in the rest of the time")
def _():
    module = load(os.path.join(suite.root, "scripts/gpu_check.py"))
    check = module.Check(argparse.Namespace(build=fake_build("slow", LATE), softgpu=False, quick=False, seconds=20))
    check.deadline -= 12  # 8 s are left
    check.reserved = 4
    with contextlib.redirect_stdout(sys.stderr):
        check.part_digits()
        check.part_eighth()
    rows = {row["what"]: (row["value"], row["verdict"]) for row in check.rows}
    equal(rows["with all memory"], ("stopped after 2 s", "skipped"))
    equal(rows["short run, bit-identical at peak/4"], ("yes", "ok"))
    equal(rows["bit-identical at peak/8"][1], "skipped")


@suite.test("gpu_check: a run that differs or fails is a failure, one that is stopped is none")
def _():
    module = load(os.path.join(suite.root, "scripts/gpu_check.py"))
    for name, digits, verdict in (("differs", "echo epoch 1 loss $$", "FAILED"), ("fails", "exit 3", "FAILED"), ("stuck", "exec sleep 60", "skipped")):
        check = module.Check(argparse.Namespace(build=fake_build(name, digits), softgpu=False, quick=False, seconds=3))
        with contextlib.redirect_stdout(sys.stderr):
            check.part_digits()
        equal({row["verdict"] for row in check.rows} - {"ok"}, {verdict}, check.rows)


@suite.test("gpu_check: with no time left every part is listed all the same")
def _():
    command = [os.path.join(suite.root, "scripts/gpu_check.sh"), "--build", fake_build("timeless", "exit 0"), "--seconds", "0"]
    done = suite.run([str(word) for word in command])
    equal(done.returncode, 0, done.stdout + done.stderr)
    for part in ("setup", "facts", "digits", "launches", "doctor", "runtime", "eighth", "pytorch"):
        assert f"{part}: all: no time left" in done.stdout, (part, done.stdout)


@suite.test("gpu_check: without a build, and the comparison without PyTorch, say so and stop")
def _():
    absent = os.path.join(suite.scratch, "absent")
    done = suite.run([os.path.join(suite.root, "scripts/gpu_check.sh"), "--softgpu", "--build", absent])
    assert not os.path.exists(absent)
    equal((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
    assert "run make first" in done.stderr, done.stderr
    done = suite.run([sys.executable, "-S", COMPARE])  # -S: no installed packages
    equal((done.returncode, done.stderr), (1, "compare: PyTorch is not installed here\n"))


@suite.test("PyTorch comparison: a run that is stopped counts with what it printed, and is no difference")
def _():
    compare = load(COMPARE)
    lines = ["loss 0 0.5 0x1p-1", "loss 1 0.25 0x1p-2"]
    whole = compare.run(["printf", "\\n".join([*lines, "peak_bytes 1000", "weights ab", "iterations_per_second 2.5", ""])], 20)
    equal((whole["exit"], whole["losses"], whole["peak_bytes"], whole["iterations_per_second"]), (0, lines, 1000, 2.5))
    stopped = compare.run(["sh", "-c", f"echo {lines[0]}; exec sleep 60"], 1)
    equal((stopped["exit"], stopped["losses"], stopped["error"]), (compare.LATE, lines[:1], "stopped after 1 s"))
    failed = compare.run(["sh", "-c", "echo no memory >&2; exit 3"], 20)
    equal((failed["exit"], failed["error"]), (3, "no memory"))
    equal([compare.same_bits(run, whole) for run in (whole, stopped, failed)], [True, None, False])
    equal(compare.same_bits(stopped | {"losses": ["loss 0 0.5 0x1.1p-1"]}, whole), False)


suite.main()
