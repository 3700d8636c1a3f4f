#!/usr/bin/env python3
"""Public reports about graph capture (tests/CASES.md), on the software GPU under a limit."""

from tap import Suite, equal

suite = Suite()
SHIM = suite.path("libswapadvisor.so")


@suite.test("pytorch#159594 pytorch#187795 pytorch#183780 csarofeen#810 vgpu-manager#65 vgpu-manager#69 "
            "freeing, allocating and running out of memory inside a capture")
def _():
    command = [suite.path("tests/interpose/cases_probe"), "in-capture"]
    plain = suite.run(command, libraries=suite.path("softgpu"))
    assert "a 3" in plain.stdout and "c 4" in plain.stdout, plain.stdout + plain.stderr
    for limit in ("256MiB", "32MiB", "20MiB"):
        shimmed = suite.run(command, libraries=suite.path("softgpu"), preload=SHIM,
                            env={"SWAPADVISOR_MEMORY": limit, "SWAPADVISOR_QUIET": "1"})
        equal((shimmed.returncode, shimmed.stdout), (plain.returncode, plain.stdout), f"{limit}\n{shimmed.stderr}")


if __name__ == "__main__":
    suite.main()
