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
LATE = 124  # exit status of a run that was stopped because its time was up, as timeout(1) has it


def run(command, timeout, env=None):
    """Figures of one training run. One that takes too long is ended; what it printed until then counts."""
    begin = time.monotonic()
    process = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=dict(os.environ, PYTHONUNBUFFERED="1", **(env or {})))
    try:
        out, err = process.communicate(timeout=timeout)
        code = process.returncode
    except subprocess.TimeoutExpired:
        process.kill()
        out, _ = process.communicate()
        code, err = LATE, f"stopped after {timeout:.0f} s"

    def figure(name):
        return (re.findall(rf"^{name} (\S+)$", out, re.M) or [None])[-1]

    return {"exit": code, "seconds": round(time.monotonic() - begin, 1), "losses": re.findall(r"^loss .*$", out, re.M),
            "weights": figure("weights"), "iterations_per_second": float(figure("iterations_per_second") or 0),
            "peak_bytes": int(figure("peak_bytes") or 0), "error": (err.strip().splitlines() or [""])[-1] if code else ""}


def planned_iterations(report):
    """How many iterations of the run followed a plan, by its report at exit."""
    text = report.read_text() if report.exists() else ""
    return int((re.findall(r"^ *iterations that followed a plan +(\d+)", text, re.M) or ["0"])[0])


def same_bits(result, base):
    """Whether a run has the losses and weights of the one with all memory; None where it had no time to show it."""
    if base is None:
        return None
    if result["exit"] == LATE:
        shown = result["losses"] == base["losses"][:len(result["losses"])]
        return None if shown else False
    return result["exit"] == 0 and result["losses"] == base["losses"] and result["weights"] == base["weights"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--model", action="append", choices=["resnet152", "gpt2", "recurrent"])
    parser.add_argument("--batch", type=int, help="batch size (32, 8, 256 by model)")
    parser.add_argument("--steps", type=int, default=24, help="training steps (24: enough for a plan to be made and followed)")
    parser.add_argument("--share", action="append", type=int, help="limits: peak / SHARE (2 and 4)")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop starting runs after this long")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--preload", action="store_true", help="preload by hand rather than by the swapadvisor command")
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
    modes = ["checkpoint", "save_on_cpu"]
    try:
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", managed, HERE / "managed_allocator.c", "-ldl"], check=True)
        modes.append("managed")
    except (OSError, subprocess.CalledProcessError) as problem:
        print(f"compare: no managed memory: {problem}", file=sys.stderr)

    def keep(model, what, result, base=None):
        same = same_bits(result, base)
        rows.append({"model": model, "what": what, "bit_identical": same} | result)
        speed = f"{result['iterations_per_second']:.3f} it/s" if result["iterations_per_second"] else "-"
        relative = f"{result['iterations_per_second'] / base['iterations_per_second']:.2f}" if base and base["iterations_per_second"] else "1.00"
        if base is None:
            verdict = result["error"][:60]
        elif same is None:
            verdict = f"{result['error']}: {len(result['losses'])} of {len(base['losses'])} losses, all the same"
        else:
            planned = f", {result['planned_iterations']} iterations by plan" if "planned_iterations" in result else ""
            verdict = "same bits" + planned if same else ("differs" if result["exit"] in (0, LATE) else result["error"][:60])
        print(f"{model:10} {what:28} {speed:>14} {relative:>6}  {verdict}", flush=True)
        if options.json:
            fresh = options.json.with_suffix(".new")
            fresh.write_text(json.dumps(rows, indent=1))
            os.replace(fresh, options.json)  # whole, whenever this is stopped

    for model in options.model or ["resnet152", "gpt2", "recurrent"]:
        batch = options.batch or {"resnet152": 32, "gpt2": 8, "recurrent": 256}[model]
        command = [sys.executable, HERE / "train.py", "--model", model, "--batch", batch, "--steps", options.steps]

        def left():
            return max(5.0, min(300.0, deadline - time.monotonic()))

        base = run(command, left())
        keep(model, "all memory", base)
        if base["exit"] != 0 or not base["peak_bytes"]:
            continue
        for share in options.share or [2, 4]:
            if time.monotonic() < deadline:
                limit = base["peak_bytes"] // share
                report = options.build.resolve() / f"{model}-{share}.report.txt"
                report.unlink(missing_ok=True)
                if options.preload:
                    result = run(command, left(), {
                        "LD_PRELOAD": str(launcher.parent / "libswapadvisor.so"), "PYTORCH_NO_CUDA_MEMORY_CACHING": "1",
                        "SWAPADVISOR_QUIET": "1", "SWAPADVISOR_MEMORY": str(limit), "SWAPADVISOR_SECONDS": "4",
                        "SWAPADVISOR_REPORT": str(report)})
                else:
                    result = run([launcher, "run", "-q", "--memory", limit, "--seconds", "4", "-o", report, "--", *command], left())
                keep(model, f"SwapAdvisor, peak/{share}", result | {"planned_iterations": planned_iterations(report)}, base)
        for mode in modes:
            if time.monotonic() < deadline:
                extra = ["--managed-allocator", managed] if mode == "managed" else []
                keep(model, mode, run([*command, "--mode", mode, *extra], left()), base)
    sys.exit(0 if all(r["bit_identical"] is not False or not r["what"].startswith("Swap") for r in rows) else 1)


if __name__ == "__main__":
    main()
