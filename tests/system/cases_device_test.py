#!/usr/bin/env python3
"""Public reports of trouble with memory managers in front of the driver (tests/CASES.md): those that need a device,
on the software GPU, under a limit far below what the program holds where that matters."""

import os
import sys

from tap import Suite, equal

suite = Suite()
SHIM = suite.path("libswapadvisor.so")
PROBE = suite.path("tests/interpose/cases_probe")
CONTEXTS = suite.path("tests/interpose/contexts_probe")
LIMIT = {"SWAPADVISOR_MEMORY": "32MiB", "SWAPADVISOR_QUIET": "1", "SWAPADVISOR_REPORT": "report.txt"}


def case(name, shim=True, options=(), **env):
    probe = CONTEXTS if name in ("two-contexts", "peers", "opened-pool", "context-cycles", "managed-memory") else PROBE
    command = [sys.executable, os.path.join(suite.root, "scripts/softgpu"), "--build", suite.build, *options, "--", probe, name]
    if shim:
        # Only the program itself gets the shim, not the interpreter of the script.
        command[command.index("--") + 1:] = ["env", f"LD_PRELOAD={SHIM}", probe, name]
    return suite.run(command, env={**LIMIT, **env} if shim else env)


def same(name, **more):
    plain, shimmed = case(name, shim=False, options=more.get("options", ())), case(name, **more)
    assert plain.returncode >= 0 and plain.stdout, (plain.returncode, plain.stdout, plain.stderr)
    equal((shimmed.returncode, shimmed.stdout), (plain.returncode, plain.stdout), shimmed.stderr)
    return shimmed.stdout


@suite.test("HAMi-core#333 cuMemGetInfo with NULL")
def _():
    same("null-mem-info")


@suite.test("HAMi-core#312 HAMi-core#313 pytorch#185240 outputs are left alone on errors, and the error is out of memory")
def _():
    done = case("outputs-after-errors")
    equal(done.stdout.splitlines()[3:], ["cuMemAlloc 2", "cuMemAllocPitch 2", "address 1234", "pitch 99"], done.stderr)


@suite.test("HAMi-core#187 cuMemCreate on the host passes through")
def _():
    same("host-location")


@suite.test("HAMi-core#172 a thread without a context")
def _():
    same("thread-without-context")


@suite.test("HAMi-core#217 HAMi-core#93 freeing what the shim did not allocate")
def _():
    same("foreign-free")


@suite.test("HAMi-core#12 HAMi#409 stream-ordered allocations are counted")
def _():
    assert "counted 1" in same("async-is-counted")


@suite.test("nvshare#14 calls before cuInit")
def _():
    probe = suite.path("tests/interpose/differential_probe")
    runs = [suite.run([probe, "exported"], libraries=suite.path("softgpu"), preload=preload, env=LIMIT if preload else {})
            for preload in (None, SHIM)]
    equal(runs[1].stdout.splitlines()[:12], runs[0].stdout.splitlines()[:12])
    assert runs[0].stdout.startswith("cuMemAlloc(&address, kSmall): 3"), runs[0].stdout[:200]


@suite.test("nvshare#26 memory that the program takes past the shim leaves less, never a failure")
def _():
    done = case("other-consumer", options=["--memory", "256MiB"], SWAPADVISOR_MEMORY="")
    equal(done.returncode, 0, done.stderr)
    equal([int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("byte")], list(range(1, 13)), done.stdout)


@suite.test("vllm#42609 vllm#43923 vllm#45611 pytorch#130330 memory for other processes is refused cleanly, or left plain")
def _():
    done = case("ipc", SWAPADVISOR_QUIET="0")
    assert "cuIpcGetMemHandle 1" in done.stdout and "SWAPADVISOR_PLAIN=8388608" in done.stderr, done.stdout + done.stderr
    plain = case("ipc", shim=False)
    equal(case("ipc", SWAPADVISOR_PLAIN="8MiB").stdout, plain.stdout)


@suite.test("pytorch#186213 llama.cpp#27918 no addresses left")
def _():
    done = case("address-space-gone")
    plain = case("address-space-gone", shim=False)
    equal(done.stdout, plain.stdout, done.stderr)


@suite.test("pytorch#124351 pytorch#110194 ComfyUI#6831 stream-ordered memory keeps stream order under a limit")
def _():
    assert "wrong bytes 0" in same("async-order")


@suite.test("cuda-checkpoint#28 pytorch#40403 a forked child is inert")
def _():
    out = same("fork-child")
    assert "child status 17" in out and "byte 9" in out, out


@suite.test("rocm-systems#11693 what is written after mapping is there")
def _():
    assert "wrong bytes 0" in case("async-order", SWAPADVISOR_MEMORY="20MiB").stdout


@suite.test("nvtop#213 pynvml#63 the report tells the program's memory and the device's")
def _():
    # Figures of the program itself, not of what a monitor sees of the device.
    report = os.path.join(suite.scratch, "figures.txt")
    case("async-order", SWAPADVISOR_REPORT=report)
    with open(report) as file:
        text = file.read()
    assert "peak" in text and "limit" in text, text


@suite.test("two contexts on one device")
def _():
    for options, limit in (((), "20MiB"), (("--memory", "96MiB"), "")):
        out = case("two-contexts", options=options, SWAPADVISOR_MEMORY=limit)
        bytes_read = [int(line.split()[1]) for line in out.stdout.splitlines() if line.startswith("byte")]
        equal(bytes_read, 2 * list(range(1, 13)), f"{options} {limit}\n{out.stdout}{out.stderr}")


@suite.test("several threads at once")
def _():
    for limit in ("64MiB", "36MiB"):
        done = case("many-threads", SWAPADVISOR_MEMORY=limit)
        equal(done.stdout.splitlines()[3:], ["wrong 0"] * 6, f"{limit}\n{done.stderr}")


@suite.test("two devices: copies between them, and one reaching into the other's memory")
def _():
    for limit in ("32MiB", "20MiB"):
        out = same("peers", options=["--devices", "2"], SWAPADVISOR_MEMORY=limit)
        assert "copied 10" in out and "kept 11" in out and "reached in 77" in out, out
        assert "reached in 55" in out and "came back 55" in out and "came back 56" in out, out


@suite.test("two devices: a pool that is opened to the other after it has given memory")
def _():
    for limit in ("32MiB", "20MiB"):
        out = same("opened-pool", options=["--devices", "2"], SWAPADVISOR_MEMORY=limit)
        assert "reached in 22" in out and "kept 11" in out, out


@suite.test("contexts that come and go leave nothing behind")
def _():
    for limit in ("64MiB", "14MiB"):
        out = same("context-cycles", options=["--memory", "64MiB"], SWAPADVISOR_MEMORY=limit)
        assert "wrong 0" in out, out


@suite.test("nvtop#213 managed memory is listed as what cannot be moved")
def _():
    report = os.path.join(suite.scratch, "managed.txt")
    same("managed-memory", SWAPADVISOR_REPORT=report)
    with open(report) as file:
        text = file.read()
    assert "24.00 MiB" in text and "managed memory" in text, text


@suite.test("process exit at any moment, with threads at work")
def _():
    for _ in range(5):
        done = case("sudden-exit")
        equal(done.returncode, 21, done.stderr)


if __name__ == "__main__":
    suite.main()
