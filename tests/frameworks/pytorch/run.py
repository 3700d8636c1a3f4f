#!/usr/bin/env python3
"""Trains PyTorch workloads with enough memory and, under the shim, at shares of their peak, and compares.

For each case: once natively on a software GPU with plenty of memory (losses, digest of all state, peak); then under `swapadvisor run`
on one that has a half and a quarter of that peak. Every loss and the digest must be the same to the last bit. Prints a table; exit
status 1 if a case differs. Times are virtual device times of the software GPU."""
import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
MIB = 1 << 20

NO_CACHE = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
ASYNC = {"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}
# name: (arguments of train.py, environment, shares of the peak)
CASES = {
    "autoencoder": (["autoencoder", "--steps", "16", "--optimizer", "adam-each"], NO_CACHE, (2, 4)),
    "autoencoder, short": (["autoencoder", "--steps", "3"], NO_CACHE, (4,)),
    "autoencoder, foreach Adam, reloaded": (["autoencoder", "--steps", "6", "--reload"], NO_CACHE, (2, 4)),
    "autoencoder, fused Adam": (["autoencoder", "--steps", "6", "--optimizer", "adam-fused"], NO_CACHE, (2, 4)),
    "autoencoder, accumulated": (["autoencoder", "--steps", "4", "--accumulate", "2"], NO_CACHE, (2, 4)),
    "autoencoder, evaluated": (["autoencoder", "--steps", "6", "--evaluate"], NO_CACHE, (2, 4)),
    "autoencoder, workers": (["autoencoder", "--steps", "4", "--workers", "2"], NO_CACHE, (2, 4)),
    "autoencoder, checkpointing": (["autoencoder", "--steps", "5", "--checkpointing"], NO_CACHE, (2, 4)),
    "autoencoder, bfloat16": (["autoencoder", "--steps", "5", "--autocast", "bfloat16"], NO_CACHE, (2, 4)),
    "autoencoder, float16": (["autoencoder", "--steps", "5", "--autocast", "float16"], NO_CACHE, (2, 4)),
    "autoencoder, graph": (["autoencoder", "--steps", "6", "--graph"], {}, (2,)),
    "autoencoder, cudaMallocAsync": (["autoencoder", "--steps", "5"], ASYNC, (2, 4)),
    "autoencoder, compiled": (["autoencoder", "--steps", "4", "--compile"], NO_CACHE, (2,)),
    "autoencoder, caching": (["autoencoder", "--steps", "5"], {}, (2,)),
    # A quarter is less than what one kernel needs beside the small allocations, which stay.
    "gpt": (["gpt", "--steps", "6", "--optimizer", "adam-each"], NO_CACHE, (2,)),
    "resnet": (["resnet", "--steps", "5", "--optimizer", "sgd"], NO_CACHE, (2,)),
    "lstm": (["lstm", "--steps", "5"], NO_CACHE, (2,)),
    "unet": (["unet", "--steps", "5"], NO_CACHE, (2,)),
}


class Runner:
    def __init__(self, build, timeout):
        self.build, self.timeout, self.folder = build, timeout, build / "pytorch/runs"
        self.folder.mkdir(parents=True, exist_ok=True)

    def run(self, name, arguments, environment, memory, launcher=()):
        for former in self.folder.glob(f"{name}.stats.*.json"):
            former.unlink()
        command = [ROOT / "scripts/frameworks/pytorch/softgpu.sh", "--memory", memory, "--stats", self.folder / f"{name}.stats.%p.json", "--", *launcher,
                   "python", HERE / "train.py", *arguments]
        try:
            done = subprocess.run(list(map(str, command)), env=dict(os.environ, BUILD=str(self.build), **environment), capture_output=True, text=True,
                                  cwd=self.folder, timeout=self.timeout)
            status, out, err = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as expired:
            status, out, err = 124, (expired.stdout or b"").decode(), (expired.stderr or b"").decode() + f"\nstopped after {self.timeout:.0f} s"
        (self.folder / f"{name}.log").write_text(out + err)
        stats = [json.loads(path.read_text()) for path in self.folder.glob(f"{name}.stats.*.json")]
        figures = max(stats, key=lambda each: each.get("kernels", 0), default={})
        return {"exit": status, "results": re.findall(r"^(?:loss|state) .*$", out, re.M), "ns": figures.get("virtual_ns", 0),
                "peak": figures["devices"][0]["peak_bytes"] if figures.get("devices") else 0,
                "error": (err.strip().splitlines() or ["no error text"])[-1]}


def figure(report, text):
    found = re.search(rf"^ *{text} +(\S+)", report, re.M)
    return found[1] if found else "-"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--case", action="append", help="only this case; may be repeated")
    parser.add_argument("--share", type=int, action="append", help="limit = peak / SHARE, instead of the case's own; may be repeated")
    parser.add_argument("--steps", type=int, help="instead of the case's own")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one run (600)")
    args = parser.parse_args()
    runner = Runner(args.build.resolve(), args.timeout)
    bad, number = 0, 0
    for name, (arguments, environment, shares) in CASES.items():
        if (args.case and name not in args.case) or (not args.case and name.endswith("short")):
            continue
        if args.steps:
            arguments = [*arguments, "--steps", args.steps]
        file = re.sub(r"\W+", "-", name)
        ample = runner.run(file, arguments, environment, "16GiB")
        if ample["exit"] or not ample["results"]:
            bad += 1
            print(f"not ok pytorch {name}\n# natively: {ample['error']}", flush=True)
            continue
        for share in args.share or shares:
            number += 1
            limit = ample["peak"] // share
            report = runner.folder / f"{file}-{share}.report.txt"
            report.unlink(missing_ok=True)
            tight = runner.run(f"{file}-{share}", arguments, environment, "16GiB",
                               [runner.build / "swapadvisor", "run", "-q", "--memory", limit, "--seconds", "2", "-o", report, "--"])
            same = not tight["exit"] and tight["results"] == ample["results"]
            bad += not same
            text = report.read_text() if report.exists() else ""
            print(f"{'ok' if same else 'not ok'} pytorch {name}, {limit / MIB:.1f} of {ample['peak'] / MIB:.1f} MiB: virtual time {ample['ns'] / 1e9:.3f} s, "
                  f"limited {tight['ns'] / max(1, ample['ns']):.2f}x, iterations by plan {figure(text, 'iterations that followed a plan')}"
                  + ("" if same else f"\n# {tight['error'] if tight['exit'] else 'losses or state differ'}"), flush=True)
    print(f"# {number - bad} of {number} the same" if number else "# nothing ran")
    sys.exit(bad > 0)


main()
