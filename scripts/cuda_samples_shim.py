#!/usr/bin/env python3
"""Runs the samples that scripts/cuda_samples.sh built and passed again under the shim: with ample memory, and with a
limit of half of what each holds at its peak (or its largest kernel's working set, if that is more). A sample is the same if its exit status and its text (without figures
that are times or rates) are those of the run without the shim.

usage: scripts/cuda_samples_shim.py WORK SAMPLES [--build BUILD] [-j JOBS] [NAME...]"""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LEAST = 8 << 20  # the shim's own arena and one large buffer


def compute_capability(folder):
    with open(os.path.join(folder, "CMakeLists.txt")) as file:
        found = re.findall(r"^ *set\(CMAKE_CUDA_ARCHITECTURES *\"?(\d*)", file.read(), re.M)
    arch = max(75, min([int(a) for a in found if a] or [75]))
    return f"{arch // 10}.{arch % 10}"


def arguments(samples, name):
    try:
        with open(os.path.join(samples, "test_args.json")) as file:
            entry = json.load(file).get(name, {})
    except (OSError, ValueError):
        entry = {}
    return entry.get("runs", [{"args": entry.get("args", [])}])


def comparable(text):
    """Without times, rates (and their columns) and addresses, without the shim's own lines, and without the order of lines:
    threads of the program write them as they come."""
    lines = [line for line in text.splitlines() if not line.startswith(("swapadvisor:", "softgpu:"))]
    text = re.sub(r"0x[0-9a-fA-F]+", "#", "\n".join(lines))
    text = re.sub(r"-?\d+(\.\d+)?(e[-+]?\d+)?", "#", text)
    return "\n".join(sorted(re.sub(r"\s+", " ", line) for line in text.splitlines()))


def run(args, folder, name, words, stats, environment):
    command = [os.path.join(ROOT, "scripts/softgpu"), "--build", args.build, "--cc", compute_capability(folder), "--nvrtc-ptx",
               "--devices", "2" if re.search("P2P|p2p|MultiGPU|MultiDevice", name) else "1", "--stats", stats, "--"]
    if environment:
        # In front of what softgpu preloads itself, and for the program alone.
        command += ["sh", "-c", 'LD_PRELOAD="$0${LD_PRELOAD:+:$LD_PRELOAD}" exec "$@"', os.path.join(args.build, "libswapadvisor.so")]
    command += [f"./{name}", *words]
    try:
        done = subprocess.run(command, cwd=folder, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=args.timeout)
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, done.stdout.decode(errors="replace")


def one(args, name):
    folder = os.path.join(args.work, name)
    results, remark, plain_sizes = [], "same", ""
    with tempfile.TemporaryDirectory() as scratch:
        stats = os.path.join(scratch, "stats.json")
        for entry in arguments(args.samples, name):
            words = [str(word) for word in entry.get("args", [])]
            status, text = run(args, folder, name, words, stats, {})
            if status is None:
                return name, "timeout without the shim", ""
            try:
                with open(stats) as file:
                    peak = max(device["peak_bytes"] for device in json.load(file)["devices"])
            except (OSError, ValueError, KeyError):
                peak = 0
            for what, limit in (("ample", None), ("half", max(LEAST, peak // 2))):
                # What one kernel touches must fit at once: where half does not hold that, the least that does.
                for _ in range(4):
                    env = {"SWAPADVISOR_REPORT": os.path.join(scratch, "report.txt")}
                    if plain_sizes:
                        env["SWAPADVISOR_PLAIN"] = plain_sizes
                    if limit:
                        env["SWAPADVISOR_MEMORY"] = str(limit)
                    got, shimmed = run(args, folder, name, words, stats, env)
                    needs = re.findall(r"swapadvisor: out of memory: .* needs (\d+) bytes on the device at once", shimmed)
                    # Memory for other processes has to be named beforehand; the shim says how.
                    plain = re.findall(r"SWAPADVISOR_PLAIN=(\d+)", shimmed)
                    if plain and "SWAPADVISOR_PLAIN" not in env and got != status:
                        plain_sizes, remark = plain[0], f"same with SWAPADVISOR_PLAIN={plain[0]}"
                        continue
                    if not limit or not needs or int(needs[0]) <= limit:
                        break
                    limit = int(needs[0]) + (4 << 20)
                    what = f"working set of {limit >> 20} MiB"
                if got != status:
                    results.append(f"{what}: status {got} instead of {status}")
                elif comparable(shimmed) != comparable(text):
                    lines = [b for a, b in zip(comparable(text).splitlines(), comparable(shimmed).splitlines()) if a != b]
                    results.append(f"{what}: other text: {(lines or ['(length)'])[0][:120]}")
    return name, "; ".join(results) or remark, f"peak {peak >> 20} MiB"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", help="the folder that cuda_samples.sh built in")
    parser.add_argument("samples", help="the checkout of cuda-samples")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("-t", "--timeout", type=float, default=120)
    parser.add_argument("names", nargs="*")
    args = parser.parse_intermixed_args()  # names may stand on either side of the options
    args.work, args.samples, args.build = (os.path.abspath(p) for p in (args.work, args.samples, args.build))
    names = args.names
    if not names:
        folder = os.path.join(args.work, "result")
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name)) as file:
                if file.read().startswith("pass\t"):
                    names.append(name)
    same = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for name, verdict, note in pool.map(lambda n: one(args, n), names):
            same += verdict.startswith("same")
            print(f"{name:<36} {verdict:<60} {note}", flush=True)
    print(f"{same} of {len(names)} samples are the same under the shim")
    return 0 if same == len(names) else 1


if __name__ == "__main__":
    sys.exit(main())
