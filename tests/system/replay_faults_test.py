#!/usr/bin/env python3
"""Driver calls that fail while the shim is in control: the program gets an error it can make sense of, or nothing went
wrong; never other results, a crash or a hang."""

import re
import signal

from replay_runs import Runs
from tap import Suite, equal

suite = Suite()
runs = Runs(suite)
LIMIT = "16MiB"
COMMAND = [runs.probe, "little"]


def faulty(fault, **settings):
    wanted = runs.without(COMMAND).stdout
    done = runs.play(COMMAND, LIMIT, device=f"memory=2GiB,fault={fault}", timeout=60, **settings)
    assert done.returncode in (0, 7), f"{fault}: status {done.returncode} {done.stderr}"
    if done.returncode == 0:
        equal(done.stdout, wanted, f"{fault}: {done.stderr}")
    else:
        # What was said before the error is right.
        lines = done.stdout.splitlines()
        assert re.fullmatch(r"line \d+: .*: cudaError\w+", lines[-1]), f"{fault}: {done.stdout}"
        equal(lines[:-1], wanted.splitlines()[:len(lines) - 1], fault)
    for what in ("races", "strictness_errors", "illegal_accesses"):
        equal(done.stats.get(what, 0), 0, f"{fault}: {what}: {done.stats.get('findings')}")
    return done


@suite.test("a call that fails once, on demand and under a plan")
def _():
    ends = set()
    for entry, error, counts in (
        ("cuMemCreate", "OUT_OF_MEMORY", (3, 14)),
        ("cuMemMap", "OUT_OF_MEMORY", (20, 100)),
        ("cuMemSetAccess", "UNKNOWN", (31, 90)),
        ("cuMemUnmap", "UNKNOWN", (12, 80)),
        ("cuMemcpyHtoDAsync_v2", "UNKNOWN", (9, 80)),
        ("cuMemcpyDtoHAsync_v2", "OUT_OF_MEMORY", (8, 110)),
        ("cuEventRecord", "OUT_OF_MEMORY", (60, 700)),
        ("cuEventCreate", "OUT_OF_MEMORY", (30,)),
        ("cuEventSynchronize", "UNKNOWN", (20, 100)),
        ("cuStreamWaitEvent", "OUT_OF_MEMORY", (60, 250)),
        ("cuMemAddressReserve", "OUT_OF_MEMORY", (1,)),
        ("cuStreamCreate", "OUT_OF_MEMORY", (1,)),
    ):
        for count in counts:
            ends.add(faulty(f"{entry}:{count}=CUDA_ERROR_{error}").returncode)
    equal(ends, {0, 7})


@suite.test("device memory that another process takes: the run goes on with less, or is out of memory")
def _():
    for fault in ("cuMemCreate:7=CUDA_ERROR_OUT_OF_MEMORY", "cuMemCreate:7+=CUDA_ERROR_OUT_OF_MEMORY"):
        done = faulty(fault)
        assert "the device has less free memory than the limit allows" in done.stderr, done.stderr
        if done.returncode:
            assert "cudaErrorMemoryAllocation" in done.stdout, done.stdout


@suite.test("low host memory: out of memory that says so, or enough of it")
def _():
    for fault in ("cuMemHostAlloc:1+=CUDA_ERROR_OUT_OF_MEMORY", "hostmem=20MiB"):
        done = faulty(fault)
        equal(done.returncode, 7)
        assert "cudaErrorMemoryAllocation" in done.stdout, done.stdout
        # Once, by the op that it stopped.
        said = re.findall(r"out of memory: (.*)", done.stderr)
        assert len(said) == 1 and "could not get the device memory it uses: pinned host memory ran out" in said[0], done.stderr
    equal(faulty("hostmem=200MiB").returncode, 0)


@suite.test("a slow copy changes nothing, a kernel that fails is the program's to hear of")
def _():
    for count in (5, 120):
        equal(faulty(f"copy:{count}=slow*100").returncode, 0)
    done = faulty("cuLaunchKernel:220=CUDA_ERROR_LAUNCH_FAILED")
    assert "cudaErrorLaunchFailure" in done.stdout, done.stdout


@suite.test("a copy that never ends keeps its waiter waiting, and a signal ends the program")
def _():
    command = ["timeout", "--signal=TERM", "--kill-after=20", "3", *COMMAND]
    done = runs.play(command, LIMIT, device="memory=2GiB,fault=copy:150=stuck", timeout=60)
    assert done.returncode in (124, 128 + signal.SIGTERM, 7), (done.returncode, done.stderr)


suite.main()
