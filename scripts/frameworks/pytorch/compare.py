"""Compares PyTorch training with and without SwapAdvisor on a real GPU, at several limits, beside PyTorch's own means.

For each model: a run with all memory (losses, peak, speed); then under `swapadvisor run` at fractions of that peak: are
all losses and weights the same to the last bit, and how fast; then activation checkpointing, save_on_cpu and managed
memory. Prints a table, and with --json writes what it has after every run, so that a stop loses nothing.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]


def run(command, timeout, env=None):
    begin = time.monotonic()
    try:
        done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout,
                              env=dict(os.environ, **(env or {})))
        code, out, err = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        code, out, err = 124, (late.stdout or b"").decode(), f"stopped after {timeout:.0f} s"
    figure = lambda name: (re.findall(rf"^{name} (\S+)$", out, re.M) or [None])[-1]
    return {"exit": code, "seconds": round(time.monotonic() - begin, 1), "losses": re.findall(r"^loss .*$", out, re.M),
            "weights": figure("weights"), "iterations_per_second": float(figure("iterations_per_second") or 0),
            "peak_bytes": int(figure("peak_bytes") or 0), "error": (err.strip().splitlines() or [""])[-1] if code else ""}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--model", action="append", choices=["resnet152", "gpt2", "recurrent"])
    parser.add_argument("--batch", type=int, help="batch size (32, 8, 256 by model)")
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--share", action="append", type=int, help="limits: peak / SHARE (2 and 4)")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop starting runs after this long")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    try:
        import torch
        usable = torch.cuda.is_available()
    except ImportError:
        sys.exit("compare: PyTorch is not installed here")
    if not usable:
        sys.exit("compare: PyTorch finds no CUDA device: this needs a real GPU")
    deadline, rows = time.monotonic() + options.seconds, []
    launcher = options.build.resolve() / "swapadvisor"
    managed = options.build.resolve() / "managed_allocator.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", managed, HERE / "managed_allocator.c", "-ldl"], check=False)

    def keep(model, what, result, base=None):
        same = base is not None and result["losses"] == base["losses"] and result["weights"] == base["weights"] and result["exit"] == 0
        rows.append({"model": model, "what": what, "bit_identical": same if base else None} | result)
        speed = f"{result['iterations_per_second']:.3f} it/s" if result["iterations_per_second"] else "-"
        relative = f"{result['iterations_per_second'] / base['iterations_per_second']:.2f}" if base and base["iterations_per_second"] else "1.00"
        verdict = "" if base is None else ("same bits" if same else ("differs" if result["exit"] == 0 else result["error"][:60]))
        print(f"{model:10} {what:28} {speed:>14} {relative:>6}  {verdict}", flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1))

    for model in options.model or ["resnet152", "gpt2", "recurrent"]:
        batch = options.batch or {"resnet152": 32, "gpt2": 8, "recurrent": 256}[model]
        command = [sys.executable, HERE / "train.py", "--model", model, "--batch", batch, "--steps", options.steps]
        left = lambda: max(20.0, min(300.0, deadline - time.monotonic()))
        base = run(command, left())
        keep(model, "all memory", base)
        if base["exit"] != 0 or not base["peak_bytes"]:
            continue
        for share in options.share or [2, 4]:
            if time.monotonic() < deadline:
                limit = base["peak_bytes"] // share
                keep(model, f"SwapAdvisor, peak/{share}", run([launcher, "run", "-q", "--memory", limit, "--", *command], left()), base)
        for mode in ("checkpoint", "save_on_cpu", "managed"):
            if time.monotonic() < deadline:
                extra = ["--managed-allocator", managed] if mode == "managed" else []
                keep(model, mode, run([*command, "--mode", mode, *extra], left()), base)
    sys.exit(0 if all(r["bit_identical"] is not False or not r["what"].startswith("Swap") for r in rows) else 1)


if __name__ == "__main__":
    main()
