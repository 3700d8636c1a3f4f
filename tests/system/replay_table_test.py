#!/usr/bin/env python3
"""scripts/replay_table.py on its cheap rows: digits at a twelfth of its memory, two graphs at an eighth and a quarter of
theirs; same bits, an iteration as long as predicted, never more memory in use than the limit."""

import json
import os

from tap import Suite, equal

suite = Suite()
rows = os.path.join(suite.scratch, "rows.json")


@suite.test("digits and graphs at parts of their peak: same bits, and an iteration within 3 % of what the plan predicts")
def _():
    done = suite.run([os.path.join(suite.root, "scripts/replay_table.py"), "--build", suite.build, "--quick", "-v", "--json", rows],
                     timeout=800)
    equal(done.returncode, 0, done.stderr[-3000:])
    found = json.load(open(rows))
    equal([(row["workload"].split(",")[0], row["part"]) for row in found],
          [("digits", 12), ("bert-256", 8), ("inceptionv3-1536", 4)])
    for row in found:
        what = f"{row['workload']} at 1/{row['part']}"
        assert row["identical"], what
        assert abs(row["deviation"]) <= 0.03, (what, row["predicted_ns"], row["measured_ns"])
        assert row["peak_in_use_bytes"] <= row["limit_bytes"], what
        if not row["workload"].startswith("digits"):
            # Every op's time came in before the plan was made: together they are what an iteration takes.
            assert abs(row["infinite_ns"] / row["unmanaged_ns"] - 1) < 0.001, (what, row["infinite_ns"], row["unmanaged_ns"])
        # No iteration beats the lower bound (which judges compute by the op times that were measured).
        assert row["ratio"] >= row["bound_ratio"] * 0.99, (what, row["ratio"], row["bound_ratio"])


@suite.test("a limit that one op exceeds is told apart from a plan that was not found")
def _():
    done = suite.run([os.path.join(suite.root, "scripts/replay_table.py"), "--build", suite.build, "--quick", "--only",
                      "inceptionv3-1536", "--parts", "12", "--iterations", "1", "--json", rows])
    equal(done.returncode, 0, done.stderr)
    equal(json.load(open(rows))[0]["mode"], "cannot run")
    assert "an op needs more than the limit" in done.stdout, done.stdout


suite.main()
