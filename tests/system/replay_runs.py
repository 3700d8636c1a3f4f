"""Runs of small programs on the software GPU with and without the shim, for the replayer's system tests."""

import json
import os

from tap import equal


class Runs:
    def __init__(self, suite):
        self.suite = suite
        self.probe = suite.path("tests/replay_probe")
        self.shim = suite.path("libswapadvisor.so")
        self.plain = {}

    def play(self, command, limit=None, device="memory=2GiB", planner="fast", timeout=300, racecheck=True, **settings):
        """stdout, stderr, exit code, software GPU figures and the shim's reports (one per context) of one run."""
        folder = self.suite.scratch
        stats, report = (os.path.join(folder, name) for name in ("stats.json", "report.txt"))
        for file in os.listdir(folder):
            if file.startswith(("stats.json", "report")):
                os.remove(os.path.join(folder, file))
        env = {"SOFTGPU_OPTIONS": f"{device},stats={stats}" + (",racecheck" if limit and racecheck else "")}
        if limit:
            env |= {"SWAPADVISOR_MEMORY": limit, "SWAPADVISOR_PLANNER": planner, "SWAPADVISOR_REPORT": report}
            env |= {f"SWAPADVISOR_{key.upper()}": value for key, value in settings.items()}
        done = self.suite.run(command, preload=self.shim if limit else None, libraries=self.suite.path("softgpu"), env=env,
                              timeout=timeout)
        done.stats = json.load(open(stats)) if os.path.exists(stats) else {}
        done.reports = [json.load(open(os.path.join(folder, file))) for file in sorted(os.listdir(folder))
                        if file.startswith("report") and file.endswith(".json")]
        done.report = json.load(open(report + ".json")) if os.path.exists(report + ".json") else {}
        done.said = {entry["what"]: entry["count"] for entry in done.report.get("fallbacks", [])}
        return done

    def without(self, command, device="memory=2GiB"):
        key = (tuple(command), device)
        if key not in self.plain:
            self.plain[key] = self.play(command, device=device)
        return self.plain[key]

    def same(self, command, limit, planned=True, device="memory=2GiB", **options):
        """Everything that the program says, with and without the shim, must agree, and no rule of the device be broken."""
        wanted = self.without(command, device)
        done = self.play(command, limit, device=device, **options)
        equal(done.stdout, wanted.stdout, done.stderr)
        equal(done.returncode, wanted.returncode, done.stderr)
        for what in ("races", "strictness_errors", "illegal_accesses"):
            equal(done.stats[what], 0, f"{what}: {done.stats.get('findings')}")
        if planned:
            assert done.report["planned_iterations"] > 0, done.stderr
        return done
