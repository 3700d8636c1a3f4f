"""Runs the tinygrad examples with enough memory and at a quarter of their peak, and compares.

For each case: once on a software GPU with plenty of memory, without SwapAdvisor (losses, peak); once under
`swapadvisor run` on a software GPU that has a quarter of that peak. Every loss and the hash of the weights must be
the same to the last bit. Prints a table; exit status 1 when a case differs. Times are virtual device times.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
MIB = 1 << 20

# Sizes at which activations are buffers of their own (1 MiB and more) and the interpreter still keeps up.
FULL = {
    "convnet": ["--steps", "8", "--batch", "512", "--width", "16", "--depth", "4"],
    "transformer": ["--steps", "8", "--batch", "64", "--width", "64", "--depth", "2"],
    "recurrent": ["--steps", "8", "--batch", "2048", "--width", "64", "--depth", "1"],
}
SMALL = {
    "convnet": ["--steps", "3", "--batch", "256", "--width", "16", "--depth", "2"],
    "transformer": ["--steps", "3", "--batch", "32", "--width", "32", "--depth", "1"],
    "recurrent": ["--steps", "3", "--batch", "2048", "--width", "32", "--depth", "1"],
}


class Runner:
    def __init__(self, build, timeout):
        self.build, self.timeout = build, timeout
        self.folder = build / "tinygrad"
        self.folder.mkdir(parents=True, exist_ok=True)

    def run(self, name, program, arguments, environment, memory, cc, launcher=()):
        stats = self.folder / f"{name}.stats.json"
        stats.unlink(missing_ok=True)
        command = [sys.executable, str(ROOT / "scripts/softgpu"), "--build", str(self.build), "--memory", str(memory),
                   "--cc", cc, "--stats", str(stats), "--", *map(str, launcher), sys.executable,
                   str(HERE / f"{program}.py"), *arguments]
        env = dict(os.environ, DEV="CUDA", LRU="0", CACHEDB=str(self.folder / "kernels.db"), **environment)
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              cwd=self.folder, timeout=self.timeout)
        (self.folder / f"{name}.log").write_text(done.stdout + done.stderr)
        figures = json.loads(stats.read_text()) if stats.exists() else {}
        return {
            "exit": done.returncode,
            "results": re.findall(r"^(?:loss|weights) .*$", done.stdout, re.M),
            "last_error": (done.stderr.strip().splitlines() or ["no error text"])[-1],
            "stats": figures,
            "virtual_ns": figures.get("virtual_ns", 0),
        }

    def compare(self, program, arguments, jit, half, share):
        name = f"{program}{'-jit' if jit else ''}{'-half' if half else ''}"
        arguments = arguments + ["--jit"] * jit + ["--half"] * half
        environment = {"JIT": "1" if jit else "0", "TC": "1" if half else "0"}
        cc = "8.0" if half else "7.5"
        row = {"case": name, "jit": jit, "tensor_cores": half}
        ample = self.run(name + "-ample", program, arguments, environment, "16GiB", cc)
        if ample["exit"] != 0 or not ample["results"]:
            return row | {"same": False, "why": f"without SwapAdvisor it failed: {ample['last_error']}"}
        peak = ample["stats"]["devices"][0]["peak_bytes"]
        limit = peak // share
        report = self.folder / f"{name}.report.txt"
        tight = self.run(name + "-tight", program, arguments, environment, limit, cc,
                         [self.build / "swapadvisor", "run", "-q", "--memory", limit, "--seconds", "3", "-o", report, "--"])
        same = tight["exit"] == 0 and tight["results"] == ample["results"]
        why = "" if same else (tight["last_error"] if tight["exit"] else "losses or weights differ")
        return row | {"peak_bytes": peak, "limit_bytes": limit, "losses": len(ample["results"]) - 1, "same": same, "why": why,
                      "ns_ample": ample["virtual_ns"], "ns_limited": tight["virtual_ns"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--small", action="store_true", help="the small cases that `make test` runs")
    parser.add_argument("--share", type=int, default=4, help="limit = peak / SHARE (4)")
    parser.add_argument("--case", action="append", help="only cases whose name starts with this; may be repeated")
    parser.add_argument("--timeout", type=float, default=900, help="seconds for one run (900)")
    options = parser.parse_args()
    runner = Runner(options.build.resolve(), options.timeout)
    sizes = SMALL if options.small else FULL
    rows = []
    for program, arguments in sizes.items():
        for jit, half in ((False, False), (True, False), (True, True)) if options.small else \
                ((False, False), (True, False), (False, True), (True, True)):
            name = f"{program}{'-jit' if jit else ''}{'-half' if half else ''}"
            if options.case and name not in options.case:
                continue
            row = runner.compare(program, arguments, jit, half, options.share)
            rows.append(row)
            print(f"{'ok' if row['same'] else 'not ok'} tinygrad {name} "
                  + (f"peak {row['peak_bytes'] / MIB:.1f} MiB limit {row['limit_bytes'] / MIB:.1f} MiB" if "peak_bytes" in row else "")
                  + (f"\n# {row['why']}" if row["why"] else ""), flush=True)
    (runner.folder / "summary.json").write_text(json.dumps(rows, indent=1))
    print(f"# {'case':22} {'peak':>10} {'limit':>10} {'losses':>7} {'virtual time':>12} {'limited':>9}  same")
    for row in rows:
        if "peak_bytes" in row:
            print(f"# {row['case']:22} {row['peak_bytes'] / MIB:6.1f} MiB {row['limit_bytes'] / MIB:6.1f} MiB {row['losses']:7} "
                  f"{row['ns_ample'] / 1e9:10.3f} s {row['ns_limited'] / max(1, row['ns_ample']):8.2f}x  {'yes' if row['same'] else 'NO'}")
    sys.exit(0 if rows and all(row["same"] for row in rows) else 1)


if __name__ == "__main__":
    main()
