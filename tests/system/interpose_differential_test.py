#!/usr/bin/env python3
"""A program that calls the driver rightly and wrongly, through every route, on the software GPU: the same results,
errors and order of errors with and without the shim, with ample memory and with little."""

from tap import Suite

suite = Suite()
SHIM = suite.path("libswapadvisor.so")
DRIVER = suite.path("softgpu")
PROBES = {"memory": "differential_probe", "work": "differential_work_probe"}

# One copy between two buffers of 8 MiB, and the arena, fit; all buffers of a test at once do not.
LIMITS = {"ample memory": None, "24 MiB": "24MiB", "switched off": "off"}


def lines(probe, route, env=None, preload=None):
    program = suite.path("tests/interpose", PROBES[probe])
    done = suite.run([program, route], preload=preload, libraries=DRIVER, env={"SOFTGPU_OPTIONS": "devices=2", **(env or {})})
    assert done.returncode == 0, f"status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout.splitlines(), done.stderr


plain = {}  # by program and route: each runs once without the shim

for probe in PROBES:
    for route in ("exported", "dlsym", "look-up", "per-thread"):
        for name, limit in LIMITS.items():
            @suite.test(f"{probe}, {route}: same results with {name}")
            def _(probe=probe, route=route, limit=limit):
                if (probe, route) not in plain:
                    plain[probe, route], _ = lines(probe, route)
                wanted = plain[probe, route]
                assert len(wanted) > 200, len(wanted)
                absent = [line for line in wanted if line.endswith("absent")]
                assert len(absent) <= 1, absent
                env = {"SWAPADVISOR": "0"} if limit == "off" else {"SWAPADVISOR_MEMORY": limit} if limit else {}
                got, errors = lines(probe, route, env, SHIM)
                different = [f"line {i}: {a} | {b}" for i, (a, b) in enumerate(zip(wanted, got)) if a != b]
                assert len(got) == len(wanted) and not different, "\n".join(different[:20] + [errors[-1000:]])


if __name__ == "__main__":
    suite.main()
