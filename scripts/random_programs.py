#!/usr/bin/env python3
"""Runs random CUDA programs (tests/system/random_programs_probe.cu) under the shim on the software GPU, each at three limits in
rotating modes, and compares every buffer with a model on the host. Prints what is not right and last the counts; exit status 1
if a result was different without a word (DIFFERENT), a program hung, or failed where it has to be right (ERROR).

usage: scripts/random_programs.py --count 3000 [--seed 1] [--features arguments pools ...] [--build build]"""
import argparse
import os
import subprocess
import sys
import tempfile

FEATURES = ["arguments", "tables", "graphs", "disabled", "pools", "captures", "gates", "threads"]
LIMITS = ["16MiB", "20MiB", "24MiB"]
MODES = {
    "on demand": {},
    "planned": {"SWAPADVISOR_PLANNER": "fast", "SWAPADVISOR_SECONDS": "0.05"},
    "strict": {"SWAPADVISOR_STRICT": "1"},
    "little host memory": {"SWAPADVISOR_HOST_MEMORY": "64MiB"},
    "no planner": {"SWAPADVISOR_PLANNER": "none"},
}
BATCH = 10  # programs of one process: its start is what costs


def run_once(build, seed, count, iterations, features, settings, shim=True):
    """Lines of the probe, its exit status (None: it hung) and what the shim said."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("SWAPADVISOR") and k != "LD_PRELOAD"}
    env |= {"LD_LIBRARY_PATH": os.path.join(build, "softgpu"), "SOFTGPU_OPTIONS": "memory=1GiB", "SWAPADVISOR_QUIET": "1", **settings}
    if shim:
        env["LD_PRELOAD"] = os.path.join(build, "libswapadvisor.so")
    command = [os.path.join(build, "tests/random_programs_probe"), str(seed), str(count), str(iterations), *(features or ["none"])]
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(command, env=env, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
        try:
            out, err = process.communicate(timeout=20 + 3 * count)
            return out.splitlines(), process.returncode, err
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            return (out or "").splitlines(), None, err or ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser.add_argument("--build", default=os.path.join(root, "build"), help="build folder")
    parser.add_argument("--count", type=int, default=30, help="number of programs (30)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first program (1)")
    parser.add_argument("--iterations", type=int, default=12, help="how often each repeats its operations (12)")
    parser.add_argument("--features", nargs="*", choices=FEATURES, default=FEATURES, help="what programs may do besides plain work (all)")
    args = parser.parse_args()
    if args.count < 1 or args.seed < 0 or args.iterations < 1:
        parser.error("--count and --iterations take a number from 1, --seed one from 0")
    build = os.path.abspath(args.build)
    if not os.path.exists(os.path.join(build, "tests/random_programs_probe")):
        parser.error(f"{build}/tests/random_programs_probe is not built: run make build/tests/random_programs_probe")

    counts = {"right": 0, "DIFFERENT": 0, "ERROR": 0, "hung": 0}
    names = list(MODES)
    end = args.seed + args.count
    for batch, first in enumerate(range(args.seed, end, BATCH)):  # the modes shift from batch to batch
        for turn, limit in enumerate(LIMITS):
            mode = names[(batch * len(LIMITS) + turn) % len(names)]
            seed, last = first, min(first + BATCH, end)
            while seed < last:  # a program that fails ends its process: go on after it
                settings = {"SWAPADVISOR_MEMORY": limit, **MODES[mode]}
                lines, status, err = run_once(build, seed, last - seed, args.iterations, args.features, settings)
                done = [line for line in lines if line.split()[1:2] and line.split()[0].isdigit()]
                for line in done:
                    verdict = line.split()[1]
                    counts[verdict] += 1
                    if verdict != "right":
                        said = [s for s in err.splitlines() if s.startswith("swapadvisor")][-1:] if verdict == "ERROR" else []
                        print(f"{line} [{mode}, {limit}]", *said, flush=True)
                if len(done) < last - seed and not (done and done[-1].split()[1] == "ERROR"):
                    counts["hung" if status is None else "ERROR"] += 1
                    print(f"{seed + len(done)} {'hung' if status is None else f'ended with status {status}'} [{mode}, {limit}]",
                          *err.strip().splitlines()[-1:], flush=True)
                    seed += 1
                seed += len(done)
    print(f"{args.count} programs at {len(LIMITS)} limits:", ", ".join(f"{n} {what}" for what, n in counts.items()))
    sys.exit(0 if counts["right"] == args.count * len(LIMITS) else 1)


if __name__ == "__main__":
    main()
