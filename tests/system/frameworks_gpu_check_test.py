#!/usr/bin/env python3
"""scripts/gpu_check.sh runs to its end on the software GPU, and says of each other part that it needs a real one."""

import json
import os

from tap import Suite, equal

suite = Suite()


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


suite.main()
