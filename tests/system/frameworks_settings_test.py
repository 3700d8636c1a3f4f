#!/usr/bin/env python3
"""A framework whose setting did not take effect is noticed: said at the end of the run and in the report."""

import os
import sys

from tap import Suite, equal

suite = Suite()
MIB = 1 << 20

# Stands for a framework: the launcher goes by the word in the script. Modes: `tensors` asks the driver for each tensor
# and gives it back; `pool` slices one big allocation; `cache` reuses what it once allocated.
PROGRAM = '''
# tinygrad
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
def check(result):
    assert result == 0, result
context, u64 = ctypes.c_void_p(), ctypes.c_uint64
check(cuda.cuInit(0))
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(cuda.cuCtxSetCurrent(context))
def allocate(mib):
    address = u64()
    check(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(mib << 20)))
    return address.value
def use(address):
    check(cuda.cuMemsetD8_v2(u64(address), ctypes.c_ubyte(1), ctypes.c_size_t(1 << 20)))
mode = sys.argv[1]
kept = [allocate(4) for _ in range(8)]
pool = allocate(40) if mode == "pool" else 0
for step in range(40):
    tensors = [allocate(4) for _ in range(5)] if mode == "tensors" else [pool + (i << 22) for i in range(5)] if pool else kept[:5]
    for tensor in tensors:
        use(tensor)
    use(kept[step % 8])
    if mode == "tensors":
        for tensor in tensors:
            check(cuda.cuMemFree_v2(u64(tensor)))
print("done")
'''


def run(mode, limit, *options, status=0):
    script, report = os.path.join(suite.scratch, "train.py"), os.path.join(suite.scratch, "report.txt")
    with open(script, "w") as file:
        file.write(PROGRAM)
    done = suite.run([os.path.join(suite.root, "scripts/softgpu"), "--build", suite.build, "--", suite.path("swapadvisor"), "run",
                      "--memory", str(limit * MIB), "--planner", "none", "-o", report, *options, "--", sys.executable, script, mode])
    equal((done.returncode, done.stdout), (status, "" if status else "done\n"), done.stderr)
    with open(report) as file:
        return done.stderr, file.read()


def noticed(mode, limit, why, *options, **more):
    for text in run(mode, limit, *options, **more):
        text = " ".join(text.split())
        assert "DEV=CUDA LRU=0 NO_MEMORY_PLANNER=1 (tinygrad) does not seem to have taken effect: " + why in text, text


@suite.test("framework settings: an allocation for each tensor raises no suspicion")
def _():
    for text in run("tensors", 24):
        assert "taken effect" not in text, text


@suite.test("framework settings: a program that slices one big allocation is noticed")
def _():
    noticed("pool", 56, "one allocation of 40.0 MiB out of 72.0 MiB is used by 83 % of the operations", "--no-settings")


@suite.test("framework settings: a program that never frees is noticed")
def _():
    noticed("cache", 24, "none of 8 large allocations was ever freed over 240 operations")


@suite.test("framework settings: a pool that no operation can use, because it is larger than the limit, is noticed")
def _():
    noticed("pool", 24, "one allocation of 40.0 MiB is larger than the limit of 24.0 MiB", "--no-settings", status=1)


@suite.test("framework settings: no word where all memory fits")
def _():
    for text in run("cache", 256):
        assert "taken effect" not in text, text


suite.main()
