#!/usr/bin/env python3
"""A program that calls the driver rightly and wrongly, through every route, on the software GPU: the same results,
errors and order of errors with and without the shim, with ample memory and with little."""

from tap import Suite

suite = Suite()
SHIM = suite.path("libswapadvisor.so")
DRIVER = suite.path("softgpu")
PROBE = suite.path("tests/interpose/differential_probe")

# One copy between two buffers of 8 MiB, and the arena, fit; all buffers of a test at once do not.
LIMITS = {"ample memory": None, "24 MiB": "24MiB", "switched off": "off"}


def lines(route, env=None, preload=None):
    done = suite.run([PROBE, route], preload=preload, libraries=DRIVER, env=env)
    assert done.returncode == 0, f"status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout.splitlines(), done.stderr


for route in ("exported", "dlsym", "look-up", "per-thread"):
    for name, limit in LIMITS.items():
        @suite.test(f"{route}: same results with {name}")
        def _(route=route, limit=limit):
            wanted, _ = lines(route)
            assert len(wanted) > 200, len(wanted)
            absent = [line for line in wanted if line.endswith("absent")]
            assert len(absent) <= 1, absent
            env = {"SWAPADVISOR": "0"} if limit == "off" else {"SWAPADVISOR_MEMORY": limit} if limit else {}
            got, errors = lines(route, env, SHIM)
            different = [f"line {i}: {a} | {b}" for i, (a, b) in enumerate(zip(wanted, got)) if a != b]
            assert len(got) == len(wanted) and not different, "\n".join(different[:20] + [errors[-1000:]])


if __name__ == "__main__":
    suite.main()
