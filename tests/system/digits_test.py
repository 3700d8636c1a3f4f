#!/usr/bin/env python3
"""The digits workload on the software GPU: it learns, is reproducible, and fails in an orderly way."""

import json
import os
import re
import shutil

from tap import Suite, equal

suite = Suite()
DIGITS = suite.path("workloads/digits")
SOFTGPU = os.path.join(suite.root, "scripts/softgpu")
SMALL = ["--epochs", "2", "--width", "8", "--batch", "128", "--seed", "3"]


def train(*words, device=(), memory="1GiB", env=None, timeout=300):
    return suite.run([SOFTGPU, "--build", suite.build, "--memory", memory, *device, "--", DIGITS, *words], env=env,
                     timeout=timeout)


def weights(done):
    equal(done.returncode, 0, done.stderr)
    last = done.stdout.splitlines()[-1]
    assert re.fullmatch(r"weights [0-9a-f]{16}", last), last
    return last.split()[1]


@suite.test("digits learns: more than 90 % right on unseen digits at default settings")
def _():
    done = train()
    weights(done)
    accuracy = [float(a) for a in re.findall(r"test loss \S+ accuracy (\S+)", done.stdout)]
    losses = [float(a) for a in re.findall(r"^epoch \d+ loss (\S+)", done.stdout, re.M)]
    equal(len(accuracy), 8)
    assert accuracy[-1] > 0.9, accuracy
    assert losses[-1] < 0.1 < 1 < losses[0], losses


@suite.test("digits is the same bit for bit whatever the number of threads")
def _():
    one, two = (train(*SMALL, device=["--threads", n]) for n in ("1", "2"))
    weights(one)
    equal(one.stdout, two.stdout)


@suite.test("digits computes what its source says")
def _():
    # The losses of the same source compiled for a processor (g++, same order of sums); only rounding may differ.
    done = train(*SMALL)
    losses = [float(a) for a in re.findall(r"loss (\S+) accuracy", done.stdout)]
    for got, wanted in zip(losses, (1.9197319, 1.46035538, 1.11468582, 0.98557024), strict=True):
        assert abs(got - wanted) < 1e-4 * wanted, (losses, wanted)
    # And to the bit, for the compiler that this hash was taken with, on every instruction set.
    compiler = shutil.which("nvcc") or os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin/nvcc")
    if "V13.0.88" in suite.run([compiler, "--version"]).stdout:
        for isa in ("base", "avx2"):
            equal(weights(train(*SMALL, env={"SOFTGPU_ISA": isa})), "a26dd454d421fbfe", isa)


@suite.test("digits depends on its seed")
def _():
    assert weights(train(*SMALL)) != weights(train(*SMALL[:-1], "4"))


@suite.test("virtual device times are the same in every run")
def _():
    files = [os.path.join(suite.scratch, f"timings{i}") for i in range(2)]
    for file in files:
        weights(train(*SMALL, "--timings", file))
    first, second = ([int(line) for line in open(file)] for file in files)
    equal(len(first), 22)
    equal(first, second)
    assert min(first) > 0


@suite.test("digits without enough memory: exit code 3 and one line")
def _():
    done = train("--width", "64", "--batch", "512", memory="8MiB")
    equal(done.returncode, 3)
    assert re.fullmatch(r"digits: cudaMalloc of \d+ bytes: out of memory \(cudaErrorMemoryAllocation\)\n", done.stderr), done.stderr


@suite.test("digits reports a failing launch and a failing copy")
def _():
    for fault, what in (("cuLaunchKernel:40=CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"),
                        ("cuMemcpyHtoDAsync_v2:3=CUDA_ERROR_INVALID_VALUE", "copy of images: invalid argument")):
        done = train(*SMALL, device=["--fault", fault])
        equal(done.returncode, 3, done.stderr)
        assert what in done.stderr, done.stderr


@suite.test("digits: wrong usage is exit code 2 and one line")
def _():
    for words in (["--epochs", "0"], ["--width", "6"], ["--nonsense"], ["--batch"], ["--rate", "x"], ["--data", "/dev/null"],
                  ["--data", "/nonexistent"]):
        done = train(*words)
        equal(done.returncode, 2, words)
        equal(len(done.stderr.splitlines()), 1, done.stderr)
    done = train("--help")
    equal(done.returncode, 0)
    for option in ("--epochs", "--batch", "--width", "--depth", "--seed", "--eval-every", "--timings", "--alloc-log"):
        assert option in done.stdout, option


@suite.test("allocation log: ops touch live buffers only, and everything but the weights goes as soon as it is dead")
def _():
    log, stats = (os.path.join(suite.scratch, name) for name in ("alloc.log", "stats.json"))
    weights(train(*SMALL, "--alloc-log", log, device=["--stats", stats]))
    live, peak, now, iterations, ops = {}, 0, 0, 0, 0
    defined, addresses = set(), set()
    for line in open(log):
        event = json.loads(line)
        if event["event"] == "alloc":
            assert event["address"] not in addresses, "two live buffers at one address"
            live[event["buffer"]] = event
            addresses.add(event["address"])
            now += event["bytes"]
            peak = max(peak, now)
        elif event["event"] == "free":
            gone = live.pop(event["buffer"])
            addresses.discard(gone["address"])
            now -= gone["bytes"]
        elif event["event"] == "op":
            ops += 1
            for buffer in event["reads"]:
                assert buffer in live and buffer in defined, f"{event['name']} reads {buffer}"
            for buffer in event["writes"]:
                assert buffer in live, f"{event['name']} writes {buffer}"
                defined.add(buffer)
        else:
            iterations += event["what"] == "iteration"
            if event["what"] == "iteration":
                # Only weights and the batches under way outlive an iteration.
                assert sum(not b["persistent"] for b in live.values()) <= 4, live
    equal(iterations, 22)
    assert ops > 22 * 40, ops
    equal(live, {})
    device = json.load(open(stats))["devices"][0]["peak_bytes"]
    assert peak <= device, (peak, device)


@suite.test("peak memory follows width, depth and batch")
def _():
    peaks = []
    for words in (["--width", "8", "--depth", "1"], ["--width", "32", "--depth", "8"]):
        stats = os.path.join(suite.scratch, "stats.json")
        weights(train(*words, "--batch", "512", "--epochs", "1", "--max-iterations", "1", "--eval-every", "0", device=["--stats", stats]))
        peaks.append(json.load(open(stats))["devices"][0]["peak_bytes"])
    assert peaks[0] < (24 << 20) and peaks[1] > (128 << 20), peaks


suite.main()
