#!/usr/bin/env python3
"""Checks SwapAdvisor on a GPU and prints one table; the same figures go to BUILD/gpu_check/results.json after each part.

Parts, most valuable first: facts of the driver, digits at a quarter of its peak, overhead per launch, NVIDIA's runtime,
digits at an eighth, PyTorch bit for bit and its speed against all memory, PyTorch's own means and managed memory. With
--softgpu the parts that can run on the software GPU do so (times are then virtual or of this processor); for each other
part a line says what it needs. A part leaves the later ones the time that they need at least; on a machine that is too slow
for the training as a whole it is repeated in short form. What was stopped or not begun for want of time is listed as such.
"""
import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import typing

ROOT = pathlib.Path(__file__).resolve().parents[1]
MIB = 1 << 20
STOPPED = 124  # the exit status of what was stopped for want of time, as timeout(1) has it


class Digits(typing.NamedTuple):
    """A training run of the digits workload, and the device memory that it has at its peak."""
    arguments: list
    peak: int


LONG_DIGITS = Digits(["--width", "32", "--depth", "16", "--batch", "256", "--epochs", "6"], 136 * MIB)
# Enough to see it train the same at a quarter; too short for a plan.
SHORT_DIGITS = Digits(["--width", "64", "--depth", "4", "--batch", "128", "--epochs", "1"], 50 * MIB)


class Check:
    def __init__(self, options):
        self.build, self.soft, self.quick = options.build.resolve(), options.softgpu, options.quick
        self.deadline = time.monotonic() + options.seconds
        self.folder = self.build / "gpu_check"
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "log.txt").unlink(missing_ok=True)
        self.begin, self.rows, self.by_hand = time.monotonic(), [], False
        self.reserved = 0.0  # seconds that the parts to come need at least
        self.trained = None  # what digits gave with all memory

    def available(self):
        return self.deadline - self.reserved - time.monotonic()

    def left(self, most):
        return max(2.0, min(most, self.available()))

    def row(self, part, what, value, unit="", verdict="ok"):
        self.rows.append({"part": part, "what": what, "value": value, "unit": unit, "verdict": verdict})
        so_far = {"device": "software GPU" if self.soft else "GPU", "seconds": round(time.monotonic() - self.begin, 1), "rows": self.rows}
        (self.folder / "results.json.new").write_text(json.dumps(so_far, indent=1))
        os.replace(self.folder / "results.json.new", self.folder / "results.json")  # whole, whenever this is stopped
        print(f"{part}: {what}: {value} {unit} {'' if verdict == 'ok' else '[' + verdict + ']'}", flush=True)

    def run(self, command, most, launcher=(), memory=None, env=None):
        """(exit status, output, error output); STOPPED where that was done after `most` seconds or because all time is used up."""
        soft = []
        if self.soft:
            soft = [ROOT / "scripts/softgpu", "--build", self.build, *(["--memory", memory] if memory else []),
                    "--stats", self.folder / "stats.json", "--"]
        words = [str(w) for w in (*soft, *launcher, *command)]
        limit = self.left(most)
        # A process group of its own: what is late ends with all that it has started, and nothing stays on the device.
        try:
            process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", cwd=self.folder,
                                       env=dict(os.environ, **(env or {})), start_new_session=True)
        except OSError as problem:
            return 127, "", str(problem)
        try:
            out, err = process.communicate(timeout=limit)
            code = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            code, err = STOPPED, f"{err}\nstopped after {limit:.0f} s"
        with open(self.folder / "log.txt", "a") as log:
            log.write(f"$ {' '.join(words)}\n{out}{err}\n")
        return code, out, err

    def failure(self, part, what, code, err):
        """A run that was stopped says nothing about the result; every other status but 0 does."""
        last = (err.strip().splitlines() or [""])[-1]
        if code == STOPPED:
            self.row(part, what, last, verdict="skipped")
        else:
            self.row(part, what, f"exit {code}: {last}", verdict="FAILED")

    def part_setup(self):
        """The command needs libraries that a borrowed machine may lack; the preload object needs none."""
        code, _, err = self.run([self.build / "swapadvisor", "--help"], 20)
        self.by_hand = code != 0
        if self.by_hand:
            why = (err.strip().splitlines() or [f"exit {code}"])[-1]
            self.row("setup", "swapadvisor", f"does not start, so preloaded by hand (perhaps without plans): {why}")

    def launcher(self, limit, *more):
        """What starts a program under SwapAdvisor; `more`: --seconds N, -o FILE."""
        if not self.by_hand:
            return [self.build / "swapadvisor", "run", "-q", "--memory", limit, *more, "--"]
        variable = {"--seconds": "SWAPADVISOR_SECONDS", "-o": "SWAPADVISOR_REPORT"}
        return ["env", f"LD_PRELOAD={self.build / 'libswapadvisor.so'}", "SWAPADVISOR_QUIET=1", f"SWAPADVISOR_MEMORY={limit}",
                *(f"{variable[option]}={value}" for option, value in zip(more[::2], more[1::2]))]

    def figures(self, part, arguments=(), env=None):
        code, out, err = self.run([self.build / "workloads/gpu_facts", *arguments], 90, env=env)
        if code:
            self.failure(part, "gpu_facts", code, err)
        return [json.loads(line) for line in out.splitlines() if line.startswith("{")]

    def part_facts(self):
        for fact in self.figures("driver"):
            self.row("driver", fact["name"], fact["value"], fact["unit"])

    def train(self, digits, most, limit=None):
        """(exit status, epochs and weights as printed, median time of an iteration, error output)"""
        timings = self.folder / "timings"
        timings.unlink(missing_ok=True)
        launcher = self.launcher(limit, "--seconds", "3", "-o", self.folder / "digits.report.txt") if limit else []
        code, out, err = self.run([self.build / "workloads/digits", *digits.arguments, "--timings", timings], most, launcher,
                                  memory=limit or "4GiB")
        times = [int(t) for t in timings.read_text().split()] if timings.exists() else []
        tail = sorted(times[len(times) // 2:])
        return code, re.findall(r"^(?:epoch|weights).*$", out, re.M), tail[len(tail) // 2] if tail else 0, err

    def part_digits(self):
        # A machine that is too slow for the long run still has the time for the short one.
        for digits in (SHORT_DIGITS,) if self.quick else (LONG_DIGITS, SHORT_DIGITS):
            long = digits is LONG_DIGITS
            code, lines, ns, err = self.train(digits, self.available() / 4 if long else 120)
            if code:
                self.failure("digits", self.named(digits, "with all memory"), code, err)
            else:
                self.row("digits", self.named(digits, "iteration with all memory"), ns, "ns")
                self.trained = digits, lines, ns
                code = self.compare(4, self.available() * 2 / 3 if long else 120)
            if code != STOPPED:
                break

    def named(self, digits, what):
        return what if self.quick or digits is LONG_DIGITS else f"short run, {what}"

    def compare(self, share, most):
        """Trains again at this share of the peak: its exit status."""
        digits, lines, all_memory_ns = self.trained
        code, limited, ns, err = self.train(digits, most, digits.peak // share)
        what = self.named(digits, f"bit-identical at peak/{share}")
        if code == STOPPED:
            self.failure("digits", what, code, err)
            return code
        same = code == 0 and limited == lines
        self.row("digits", what, "yes" if same else f"no (exit {code})", verdict="ok" if same else "FAILED")
        if same and digits is LONG_DIGITS:
            self.row("digits", f"iteration at peak/{share}", ns, "ns")
            self.row("digits", f"against all memory at peak/{share}", round(ns / max(1, all_memory_ns), 3), "x")
        return code

    def part_eighth(self):
        if self.trained and self.trained[0] is LONG_DIGITS:
            self.compare(8, 300 if self.soft else 120)
        else:
            self.row("digits", "bit-identical at peak/8", "after the long run at peak/4 only", verdict="skipped")

    def part_launches(self):
        def launch(env):
            return next((f["value"] for f in self.figures("launch", ["launches"], env) if f["name"].startswith("launch")), None)
        plain = launch({})
        shim = {"LD_PRELOAD": str(self.build / "libswapadvisor.so"), "SWAPADVISOR_QUIET": "1", "SWAPADVISOR_PLANNER": "none",
                "SWAPADVISOR_REPORT": str(self.folder / "launch.report.txt")}
        managed = launch(dict(shim, SWAPADVISOR_MEMORY="1GiB"))
        if plain and managed:
            self.row("launch", "8 arguments, no preload", plain, "ns")
            self.row("launch", "8 arguments, managed", managed, "ns")
            self.row("launch", "added", round(managed - plain, 1), "ns")

    def part_pytorch(self):
        if self.soft:
            return self.row("pytorch", "bit-exactness and speed", "needs a real GPU", verdict="skipped")
        code, _, _ = self.run([sys.executable, "-c", "import torch; assert torch.cuda.is_available()"], 60)
        if code:
            return self.row("pytorch", "bit-exactness and speed", "needs PyTorch with CUDA", verdict="skipped")
        result = self.folder / "pytorch.json"
        for model in ("gpt2", "resnet152", "recurrent"):
            if time.monotonic() > self.deadline - 30:
                self.row("pytorch", model, "no time left", verdict="skipped")
                continue
            result.unlink(missing_ok=True)
            code, _, err = self.run([sys.executable, ROOT / "scripts/frameworks/pytorch/compare.py", "--build", self.build, "--model", model,
                                     "--seconds", str(int(self.left(150))), "--json", result, *["--preload"] * self.by_hand], 165)
            entries = json.loads(result.read_text()) if result.exists() else []
            if not entries:
                self.row("pytorch", model, (err.strip().splitlines() or [f"exit {code}"])[-1], verdict="FAILED")
            for entry in entries:
                swapped = entry["what"].startswith("Swap")
                verdict = "ok" if entry["exit"] == 0 else "no time left" if entry["exit"] == 124 else "did not run"
                if swapped and entry["bit_identical"] is False:
                    verdict = "FAILED"
                self.row("pytorch", f"{model}, {entry['what']}", entry["iterations_per_second"] or entry["error"], "it/s", verdict)
                if swapped and verdict == "ok":
                    self.row("pytorch", f"{model}, {entry['what']}: iterations by plan", entry["planned_iterations"])

    def part_doctor(self):
        if not self.by_hand:
            code, out, err = self.run([self.build / "swapadvisor", "doctor", "--json"], 60)
            self.row("doctor", "exit", code, verdict="ok" if code == 0 else "FAILED")
            (self.folder / "doctor.json").write_text(out)

    def part_runtime(self):
        """The route that the software GPU can't show: through NVIDIA's own runtime."""
        if self.soft:
            return self.row("runtime", "NVIDIA's static runtime", "needs a real GPU", verdict="skipped")
        source, program = self.folder / "static.cu", self.folder / "static"
        source.write_text('#include <cstdio>\n__global__ void f(int* p) { *p = 42; }\nint main() { int* p; int v = 0;\n'
                          'if (cudaMalloc(&p, 8 << 20)) return 1; f<<<1, 1>>>(p); cudaMemcpy(&v, p, 4, cudaMemcpyDefault);\n'
                          'std::printf("%d\\n", v); return v != 42; }\n')
        nvcc = os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/bin/nvcc"
        if self.run([nvcc, "-o", program, source], 90)[0]:
            return self.row("runtime", "NVIDIA's static runtime", "needs nvcc", verdict="skipped")
        code, out, _ = self.run([program], 60, self.launcher("1GiB"))
        self.row("runtime", "NVIDIA's static runtime under the shim", out.strip() or f"exit {code}", verdict="ok" if code == 0 else "FAILED")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--softgpu", action="store_true", help="on the software GPU: what can run there")
    parser.add_argument("--quick", action="store_true", help="a short form that only shows that everything works")
    parser.add_argument("--seconds", type=float, default=460, help="stop starting work after this long (460)")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    options = parser.parse_args()
    if not (options.build / "libswapadvisor.so").exists():
        sys.exit(f"gpu_check: {options.build}/libswapadvisor.so is missing: run make first")
    check = Check(options)
    # With what each needs at least; what has no figure takes what is left.
    parts = ((check.part_setup, 5), (check.part_facts, 15), (check.part_digits, 60), (check.part_launches, 15), (check.part_doctor, 10),
             (check.part_runtime, 0 if check.soft else 15), (check.part_eighth, 0), (check.part_pytorch, 0))
    for number, (part, _) in enumerate(parts):
        check.reserved = sum(seconds for _, seconds in parts[number + 1:])
        says_what_it_needs = check.soft and part in (check.part_runtime, check.part_pytorch)
        if time.monotonic() > check.deadline and not says_what_it_needs:
            check.row(part.__name__[5:], "all", "no time left", verdict="skipped")
            continue
        try:
            part()
        except Exception as problem:  # one part must not take the others' results with it
            check.row(part.__name__[5:], "stopped", repr(problem), verdict="FAILED")
    if check.soft:
        print("\nsoftware GPU: device times are its virtual clock's, others this processor's; none says anything about hardware")
    print(f"\n{'part':9} {'what':44} {'value':>14} unit")
    for row in check.rows:
        print(f"{row['part']:9} {row['what']:44} {str(row['value']):>14} {row['unit']}  {'' if row['verdict'] == 'ok' else row['verdict']}")
    print(f"{time.monotonic() - check.begin:.0f} s in all; results: {check.folder / 'results.json'}, output of every run: log.txt beside it")
    sys.exit(1 if any(row["verdict"] == "FAILED" for row in check.rows) else 0)


if __name__ == "__main__":
    main()
