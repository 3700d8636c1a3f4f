#!/usr/bin/env python3
"""No output is ever lost: what a run leaves however it ends, under which names, and what is said of it. On the software GPU."""

import json
import os
import re
import signal
import subprocess
import time

from tap import Suite, equal

suite = Suite()
COMMAND = suite.path("swapadvisor")
DEVICE = "memory=1GiB,instructions=3e10"
DIGITS = [suite.path("workloads/digits"), "--width", "32", "--depth", "8", "--batch", "128", "--eval-every", "0", "--epochs"]
ENV = {k: v for k, v in os.environ.items() if not k.startswith("SWAPADVISOR") and k != "LD_PRELOAD"}
ENV |= {"LD_LIBRARY_PATH": suite.path("softgpu"), "SOFTGPU_OPTIONS": DEVICE, "TMPDIR": suite.scratch}
# Fills memory for ever, once it has said so; {end} is what it does after a while, "1" for ever on.
LOOP = """
import ctypes, os, signal, sys
cu = ctypes.CDLL("libcuda.so.1")
device, context, buffers, size = ctypes.c_int(), ctypes.c_void_p(), [ctypes.c_ulonglong() for _ in range(6)], ctypes.c_size_t(2 << 20)
assert cu.cuInit(0) == cu.cuDeviceGet(ctypes.byref(device), 0) == cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
assert cu.cuCtxSetCurrent(context) == 0
for buffer in buffers: assert cu.cuMemAlloc_v2(ctypes.byref(buffer), size) == 0
step = 0
while True:
    for buffer in buffers: assert cu.cuMemsetD8_v2(buffer, step & 255, size) == 0
    step += 1
    if step == 12: print("ready", flush=True)
    if step >= 12: {end}
"""


def file(name):
    return os.path.join(suite.scratch, name)


def launch(*words, env=None):
    return subprocess.run([COMMAND, *words], env=ENV | (env or {}), cwd=suite.scratch, capture_output=True, text=True, timeout=60)


def start(*words):
    process = subprocess.Popen([COMMAND, *words], env=ENV, cwd=suite.scratch, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), text=True)
    equal(process.stdout.readline(), "ready\n")
    return process


def program_of(launcher):
    """The launcher has two children: the program, and the companion, which is of the launcher's own file."""
    with open(f"/proc/{launcher}/task/{launcher}/children") as text:
        children = [int(pid) for pid in text.read().split()]
    own = os.path.realpath(f"/proc/{launcher}/exe")
    return next(pid for pid in children if os.path.realpath(f"/proc/{pid}/exe") != own)


def loop(end="1"):
    return ["/usr/bin/python3", "-c", LOOP.replace("{end}", end)]


def report_of(name):
    with open(file(name)) as text, open(file(name + ".json")) as data:
        return text.read(), json.load(data)


def left_behind():
    return [name for name in os.listdir(suite.scratch) if name.startswith("swapadvisor")]


@suite.test("one line at the end says where report and trace are and how large")
def _():
    done = launch("run", "--memory", "12MiB", "--planner", "fast", "-o", "whole.txt", "--trace", "whole.trace", "--", *DIGITS, "1")
    equal(done.returncode, 0)
    sizes = rf"swapadvisor: report whole\.txt \([\d.]+ KiB\), trace whole\.trace \([\d.]+ KiB\)\n"
    assert re.fullmatch(sizes, done.stderr), done.stderr
    equal(report_of("whole.txt")[1].get("ended"), None)
    equal(launch("run", "-q", "-o", "q.txt", "--", *DIGITS, "1").stderr, "")
    assert os.path.getsize(file("q.txt")) > 0


@suite.test("without outputs nothing is written, and the line says how it went")
def _():
    before = set(os.listdir(suite.scratch))
    done = launch("run", "--memory", "12MiB", "--planner", "fast", "--", *DIGITS, "1")
    assert re.fullmatch(r"swapadvisor: \d+ iterations, \d+ of them by a plan; [\d.]+ MiB held at most, within 12\.0 MiB "
                        r"\(-o FILE: a report\)\n", done.stderr), done.stderr
    equal(set(os.listdir(suite.scratch)), before)


@suite.test("a program without CUDA: said, and no empty file stays")
def _():
    done = launch("run", "-o", "none.txt", "--trace", "none.trace", "--", "sh", "-c", "exit 4")
    equal((done.returncode, done.stderr), (4, "swapadvisor: no CUDA call was seen: nothing was written\n"))
    assert not any(name.startswith("none") for name in os.listdir(suite.scratch))
    with open(file("old.txt"), "w") as text:
        text.write("precious")
    launch("run", "-q", "-o", "old.txt", "--", "true")
    with open(file("old.txt")) as text:
        equal(text.read(), "precious")


@suite.test("however a program is ended, its report says how, and the launcher ends alike")
def _():
    for end, status, how in (("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, "by SIGTERM"),
                             ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, "by SIGKILL"),
                             ("ctypes.string_at(0)", -signal.SIGSEGV, "by SIGSEGV"),
                             ("os.abort()", -signal.SIGABRT, "by SIGABRT"),
                             ("os._exit(7)", 7, r"by _exit\(7\)")):
        done = launch("run", "--memory", "8MiB", "--planner", "none", "-o", "ended.txt", "--trace", "ended.trace", "--", *loop(end))
        equal(done.returncode, status, done.stderr)
        said = re.search(rf"^swapadvisor: ended {how} in (iteration|operation) (\d+).*; report ended\.txt \(.*, trace ended\.trace",
                         done.stderr, re.M)
        assert said and int(said[2]) > 3, done.stderr
        text, report = report_of("ended.txt")
        assert re.match(how, report["ended"]) and "ended" in text, report["ended"]
        equal((report["peak_bytes"], report["limit_bytes"]), (6 * 2 << 20, 8 << 20))
        assert report["in_bytes_total"] > 0 and report["program"].startswith("/usr/bin/python3"), report
        equal(left_behind(), [])


@suite.test("a trace makes the report of a killed program whole")
def _():
    process = subprocess.Popen([COMMAND, "run", "--memory", "12MiB", "--planner", "fast", "-o", "long.txt", "--trace", "long.trace",
                                "--", *DIGITS, "100000"], env=ENV, cwd=suite.scratch, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.time() + 40  # until two blocks at least are there
    while time.time() < deadline and (not os.path.exists(file("long.trace")) or os.path.getsize(file("long.trace")) < 20_000):
        time.sleep(0.1)
    os.kill(program_of(process.pid), signal.SIGTERM)
    equal(process.wait(20), -signal.SIGTERM)
    _, report = report_of("long.txt")
    assert re.fullmatch(r"by SIGTERM in iteration \d+", report["ended"]), report["ended"]
    equal(len(report["ops"]), 216)
    assert report["peak"] and report["buffers"] and report["iterations"] > 0, {k: v for k, v in report.items() if not isinstance(v, list)}


@suite.test("signals sent to the launcher are the program's: Ctrl-C in Python, TERM, and KILL that takes both")
def _():
    for number, status, how in ((signal.SIGINT, -signal.SIGINT, "by SIGINT"), (signal.SIGTERM, -signal.SIGTERM, "by SIGTERM"),
                                (signal.SIGKILL, -signal.SIGKILL, "by SIGKILL to the launcher")):
        process = start("run", "--memory", "8MiB", "--planner", "none", "-o", "sent.txt", "--", *loop())
        program = program_of(process.pid)
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)  # the companion has closed it too
        equal(process.returncode, status)
        equal("KeyboardInterrupt" in errors, number == signal.SIGINT, errors)
        assert report_of("sent.txt")[1]["ended"].startswith(how), report_of("sent.txt")[1]
        assert f"swapadvisor: ended {how}" in errors, errors
        assert not os.path.exists(f"/proc/{program}/exe") or number == signal.SIGKILL  # a zombie, if nobody reaps it
        equal(left_behind(), [])


@suite.test("a Python program that handles Ctrl-C writes its whole report")
def _():
    code = loop()
    code[2] = code[2].replace("while True:", "signal.signal(signal.SIGINT, lambda *_: sys.exit(3))\nwhile True:")
    process = start("run", "-q", "--memory", "8MiB", "--planner", "none", "-o", "handled.txt", "--", *code)
    process.send_signal(signal.SIGINT)
    equal((process.wait(30), report_of("handled.txt")[1].get("ended")), (3, None))


@suite.test("stopped and continued, launcher and program are one")
def _():
    def state(pid):
        with open(f"/proc/{pid}/stat") as text:
            return text.read().rpartition(")")[2].split()[0]

    process = start("run", "-q", "--planner", "none", "--", *loop())
    program = program_of(process.pid)
    os.kill(program, signal.SIGSTOP)  # as the terminal's TSTP would, but for groups without a shell
    equal(os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1]), True)
    equal(state(program), "T")
    process.send_signal(signal.SIGCONT)
    deadline = time.time() + 10
    while state(program) == "T" and time.time() < deadline:
        time.sleep(0.01)
    assert state(program) != "T"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    equal(process.returncode, -signal.SIGTERM)


@suite.test("report and trace of one process go by one name: ranks, then process ids")
def _():
    script = file("ranks.sh")
    with open(script, "w") as text:
        one = f"/usr/bin/python3 -c '{LOOP.replace('{end}', 'break')}'"
        text.write(f"RANK=0 WORLD_SIZE=2 {one} &\nRANK=1 WORLD_SIZE=2 {one} &\nwait\n{one}\n{one}\n")
    done = launch("run", "--planner", "none", "-o", "many.txt", "--trace", "many.trace", "--", "sh", script)
    equal(done.returncode, 0, done.stderr)
    names = {name for name in os.listdir(suite.scratch) if name.startswith("many")}
    tags = {name.removeprefix("many").removesuffix(".trace") for name in names if name.endswith(".trace")}
    equal(len(tags), 4, names)
    assert {"", ".rank0", ".rank1"} <= tags and any(re.fullmatch(r"\.\d+", tag) for tag in tags), tags
    equal(names, {f"many{tag}{end}" for tag in tags for end in (".txt", ".txt.json", ".trace")})
    equal(report_of("many.rank1.txt")[1]["rank"], 1)
    lines = done.stderr.splitlines()
    equal(len(lines), 4, done.stderr)
    assert any(re.fullmatch(r"swapadvisor: process \d+ \(rank 1\): report many\.rank1\.txt \(.*\), trace many\.rank1\.trace \(.*\)", line)
               for line in lines), lines


@suite.test("a disk that is full is said, and costs the program nothing")
def _():
    done = launch("run", "--planner", "none", "-o", "/dev/full", "--", *loop("break"))
    equal((done.returncode, done.stderr), (0, "swapadvisor: the report could not be written to /dev/full: No space left on device\n"))
    done = launch("record", "--planner", "none", "-o", "/dev/full", "--", *loop("break"))
    equal(done.returncode, 0)
    equal(done.stderr, "swapadvisor: the trace /dev/full ends early: cannot write: No space left on device\n")


if __name__ == "__main__":
    suite.main()
