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
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
MIB = 1 << 20

# Many rows and few channels: activations are buffers of 1 MiB and more (what is mapped and moved by itself), while the
# arithmetic stays small enough for an interpreter. Tensor cores want wider products. Compiling in Python takes most of the time.
SIZES = {
    "convnet": ["--batch", "2048", "--width", "4", "--depth", "8"],
    "convnet-half": ["--batch", "512", "--width", "16", "--depth", "5"],
    "transformer": ["--batch", "512", "--width", "16", "--depth", "2"],
    "recurrent": ["--batch", "65536", "--width", "4", "--depth", "3"],
    "recurrent-half": ["--batch", "32768", "--width", "8", "--depth", "3"],
    "deep": ["--batch", "131072", "--width", "4", "--depth", "16"],
}
PROGRAMS = ("convnet", "transformer", "recurrent")
# (program, JIT, tensor cores): `make test` runs the small ones (the others take a minute and more each), the full run every
# combination.
SMALL = (("deep", True, False), ("recurrent", False, True))
FULL = (("deep", True, False), *((program, jit, half) for program in PROGRAMS for jit in (False, True) for half in (False, True)))
# Long enough that a plan is made and followed; the others end while swaps are still on demand.
PLANNED = {("deep", True, False): 24}


def case_name(program, jit, half):
    return program + "-jit" * jit + "-half" * half


def planned_iterations(report):
    """How many iterations of the run followed a plan, by its report at exit."""
    text = report.read_text() if report.exists() else ""
    return int((re.findall(r"^ *iterations that followed a plan +(\d+)", text, re.M) or ["0"])[0])


def tensor_core_kernels(database):
    """How many of the compiled kernels (PTX) in tinygrad's disk cache multiply on tensor cores."""
    connection = sqlite3.connect(database)
    tables = [name for (name,) in connection.execute("select name from sqlite_master where type='table' and name like 'compile_cuda%'")]
    return sum(b"mma.sync" in bytes(value) for table in tables for (value,) in connection.execute(f'select val from "{table}"'))


class Runner:
    def __init__(self, build, timeout):
        self.build, self.timeout = build, timeout
        self.folder = build / "tinygrad"
        self.folder.mkdir(parents=True, exist_ok=True)

    def run(self, name, program, arguments, environment, memory, cc, launcher=()):
        def stats():
            return list(self.folder.glob(f"{name}.stats.*.json"))

        for former in stats():
            former.unlink()
        command = [sys.executable, str(ROOT / "scripts/softgpu"), "--build", str(self.build), "--memory", str(memory),
                   "--cc", cc, "--stats", str(self.folder / f"{name}.stats.%p.json"), "--", *map(str, launcher), sys.executable,
                   str(HERE / f"{program}.py"), *arguments]
        env = dict(os.environ, DEV="CUDA", LRU="0", NO_MEMORY_PLANNER="1", **environment)
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              cwd=self.folder, timeout=self.timeout)
        (self.folder / f"{name}.log").write_text(done.stdout + done.stderr)
        # Processes that only compile for it look at the device, too: the one that trained is meant.
        figures = max((json.loads(path.read_text()) for path in stats()), key=lambda each: each["kernels"], default={})
        return {
            "exit": done.returncode,
            "results": re.findall(r"^(?:loss|weights) .*$", done.stdout, re.M),
            "last_error": (done.stderr.strip().splitlines() or ["no error text"])[-1],
            "stats": figures,
            "virtual_ns": figures.get("virtual_ns", 0),
        }

    def compare(self, program, jit, half, steps, share):
        name = case_name(program, jit, half)
        # With the JIT the third step is the first that launches a graph with other inputs than it was made with.
        steps = PLANNED.get((program, jit, half), steps + jit)
        arguments = SIZES.get(program + "-half" * half, SIZES[program]) + ["--steps", str(steps)] + ["--jit"] * jit + ["--half"] * half
        database = self.folder / f"{name}.db"
        environment = {"PARALLEL": "0", "JIT": "1" if jit else "0", "TC": "1" if half else "0", "CACHEDB": str(database),
                       "TC_OPT": "2" if program == "recurrent" else "1"}  # 1: several sums at once (convolutions), too; 2: narrow ones
        cc = "8.0" if half else "7.5"
        row = {"case": name, "jit": jit, "tensor_cores": half}
        ample = self.run(name + "-ample", program, arguments, environment, "16GiB", cc)
        if ample["exit"] != 0 or not ample["results"]:
            return row | {"same": False, "why": f"without SwapAdvisor it failed: {ample['last_error']}"}
        row["tensor_core_kernels"] = tensor_core_kernels(database)
        if (row["tensor_core_kernels"] > 0) != half:
            return row | {"same": False, "why": f"{row['tensor_core_kernels']} kernels use tensor cores"}
        peak = ample["stats"]["devices"][0]["peak_bytes"]
        limit = peak // share
        report = self.folder / f"{name}.report.txt"
        report.unlink(missing_ok=True)
        tight = self.run(name + "-tight", program, arguments, environment, limit, cc,
                         [self.build / "swapadvisor", "run", "-q", "--memory", limit, "--seconds", "2", "-o", report, "--"])
        same = tight["exit"] == 0 and tight["results"] == ample["results"]
        why = "" if same else (tight["last_error"] if tight["exit"] else "losses or weights differ")
        planned = planned_iterations(report)
        if same and (program, jit, half) in PLANNED and planned == 0:
            same, why = False, "no iteration followed a plan"
        return row | {"peak_bytes": peak, "limit_bytes": limit, "losses": len(ample["results"]) - 1, "same": same, "why": why,
                      "planned_iterations": planned,
                      "ns_ample": ample["virtual_ns"], "ns_limited": tight["virtual_ns"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--small", action="store_true", help="the small cases that `make test` runs")
    parser.add_argument("--share", type=int, default=4, help="limit = peak / SHARE (4)")
    parser.add_argument("--case", action="append", help="only the case of this name, e.g. convnet-jit-half; may be repeated")
    parser.add_argument("--parallel", type=int, default=2, help="cases at a time (2)")
    parser.add_argument("--timeout", type=float, default=900, help="seconds for one run (900)")
    options = parser.parse_args()
    runner = Runner(options.build.resolve(), options.timeout)
    cases = [case for case in (SMALL if options.small else FULL)
             if not options.case or case_name(*case) in options.case]
    steps = 2 if options.small else 4
    rows = []
    with ThreadPoolExecutor(options.parallel) as pool:
        for row in pool.map(lambda case: runner.compare(*case, steps, options.share), cases):
            rows.append(row)
            sizes = f" peak {row['peak_bytes'] / MIB:.1f} MiB limit {row['limit_bytes'] / MIB:.1f} MiB" if "peak_bytes" in row else ""
            print(f"{'ok' if row['same'] else 'not ok'} tinygrad {row['case']}{sizes}" + (f"\n# {row['why']}" if row["why"] else ""),
                  flush=True)
    (runner.folder / "summary.json").write_text(json.dumps(rows, indent=1))
    print(f"# {'case':22} {'peak':>10} {'limit':>10} {'losses':>7} {'planned':>8} {'virtual time':>12} {'limited':>9}  same")
    for row in rows:
        if "peak_bytes" in row:
            print(f"# {row['case']:22} {row['peak_bytes'] / MIB:6.1f} MiB {row['limit_bytes'] / MIB:6.1f} MiB {row['losses']:7} {row['planned_iterations']:8} "
                  f"{row['ns_ample'] / 1e9:10.3f} s {row['ns_limited'] / max(1, row['ns_ample']):8.2f}x  {'yes' if row['same'] else 'NO'}")
    sys.exit(0 if rows and all(row["same"] for row in rows) else 1)


if __name__ == "__main__":
    main()
