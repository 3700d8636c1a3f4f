#!/usr/bin/env python3
"""Streams that wait for the host, calls in progress in other threads, and queues that come and go: nothing hangs, nothing
is refused, and memory holds what it holds without a limit. On the software GPU."""

from tap import Suite, equal

suite = Suite()
PROBE = suite.path("tests/waiting_probe")
SHIM = suite.path("libswapadvisor.so")


def same(*arguments, memory="64MiB", **settings):
    env = {"SOFTGPU_OPTIONS": "memory=1GiB"}
    plain = suite.run([PROBE, *arguments], libraries=suite.path("softgpu"), env=env)
    equal(plain.returncode, 0, plain.stdout + plain.stderr)
    shimmed = suite.run([PROBE, *arguments], libraries=suite.path("softgpu"), preload=SHIM,
                        env={**env, "SWAPADVISOR_MEMORY": memory, "SWAPADVISOR_QUIET": "1", **settings})
    equal((shimmed.returncode, shimmed.stdout), (plain.returncode, plain.stdout), f"{arguments}\n{shimmed.stderr}")
    return plain.stdout


@suite.test("whatever a stream waits for, other streams' work goes on in the memory of what does not wait")
def _():
    for gate in ("host", "callback", "value32", "value64", "batch", "event"):
        same(gate, "own", "use")


@suite.test("on every kind of stream")
def _():
    for kind in ("blocking", "thread"):
        for gate in ("host", "value32"):
            same(gate, kind, "use")


@suite.test("allocations while a stream is gated, and memory that is freed there is not handed on")
def _():
    for gate in ("host", "value64", "event"):
        for what in ("alloc", "freeasync"):
            same(gate, "own", what)


@suite.test("where nothing else can leave, the thread that opens the gate gets to do so")
def _():
    for gate in ("host", "value32"):
        for what in ("thread", "only"):
            same(gate, "own", what)


@suite.test("a followed plan is left around what waits for the program")
def _():
    for gate in ("host", "value32"):
        same("plan", gate, memory="32MiB", SWAPADVISOR_PLANNER="fast", SWAPADVISOR_SECONDS="0.3")


@suite.test("a launch waits for a buffer that another thread's copy holds")
def _():
    same("copies", memory="20MiB")


@suite.test("freeing waits for what the host can see, as the driver's does")
def _():
    for memory in ("64MiB", "1GiB"):
        plain = same("frees", memory=memory)
        assert plain.count(": 0 wrong") == 5, plain


@suite.test("queues end with their threads and streams")
def _():
    for kind in ("threads", "streams"):
        assert "flat" in same(kind, "3000", memory="24MiB")


if __name__ == "__main__":
    suite.main()
