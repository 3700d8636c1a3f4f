#!/usr/bin/env python3
"""The launcher, and the preload object in programs that never touch CUDA."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from tap import Skip, Suite, equal

suite = Suite()
COMMAND = suite.path("swapadvisor")
SHIM = suite.path("libswapadvisor.so")
FAKE = suite.path("tests/fakedriver")
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable


def launch(*words, libraries=FAKE, **more):
    return suite.run([COMMAND, *words], libraries=libraries, **more)


@suite.test("preloaded, other programs run as ever")
def _():
    for command in (["bash", "-c", "echo hello; exit 5"], [PYTHON, "-c", "pass"], ["gcc", "--version"],
                    ["/bin/true"], ["/bin/false"], ["sh", "-c", "ls / | wc -l"],
                    [PYTHON, "-c", "import ctypes, json, socket; print(ctypes.CDLL(None).getpid() > 0)"]):
        plain = suite.run(command)
        shimmed = suite.run(command, preload=SHIM)
        equal((shimmed.returncode, shimmed.stdout, shimmed.stderr), (plain.returncode, plain.stdout, plain.stderr), command)


@suite.test("preload object needs libc alone")
def _():
    text = suite.run(["readelf", "-d", SHIM]).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", text)
    allowed = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2"}
    assert needed and set(needed) <= allowed, needed


@suite.test("preload object exports only hooks, dlopen, dlsym, dlvsym and two entries of its own")
def _():
    text = suite.run(["nm", "-D", "--defined-only", SHIM]).stdout
    names = {line.split()[2].split("@")[0] for line in text.splitlines() if len(line.split()) == 3 and line.split()[1] != "A"}
    others = {n for n in names if not re.match(r"cu[A-Z]\w+$", n)}
    equal(others, {"dlopen", "dlsym", "dlvsym", "swapadvisor_iteration", "InitializeInjectionNvtx2"})


@suite.test("exit status is the program's")
def _():
    for status in (0, 1, 7, 255):
        equal(launch("run", "-q", "--", "sh", "-c", f"exit {status}").returncode, status)


@suite.test("a signal that ends the program ends the launcher")
def _():
    equal(launch("run", "-q", "--", "sh", "-c", "kill -TERM $$").returncode, -signal.SIGTERM)


@suite.test("signals reach the program")
def _():
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    env["LD_LIBRARY_PATH"] = FAKE
    code = ("import signal, sys\n"
            "signal.signal(signal.SIGUSR1, lambda *_: sys.exit(33))\n"
            "print('ready', flush=True)\n"
            "signal.pause()\n")
    process = subprocess.Popen([COMMAND, "run", "-q", "--", PYTHON, "-c", code], stdout=subprocess.PIPE, env=env, text=True)
    equal(process.stdout.readline(), "ready\n")
    process.send_signal(signal.SIGUSR1)
    equal(process.wait(30), 33)


@suite.test("standard input and output are the program's")
def _():
    done = launch("run", "-q", "--", "cat", stdin="some text\n")
    equal((done.stdout, done.stderr), ("some text\n", ""))


@suite.test("missing and unusable programs as shells say it")
def _():
    done = launch("run", "--", "no-such-program-here")
    equal(done.returncode, 127)
    assert "no-such-program-here" in done.stderr and done.stderr.count("\n") == 1, done.stderr
    equal(launch("run", "--", "./no/such/file").returncode, 127)
    path = os.path.join(suite.scratch, "not-executable")
    open(path, "w").close()
    equal(launch("run", "--", path).returncode, 126)


@suite.test("wrong usage is status 2 and one line")
def _():
    for words in (["run"], ["run", "--"], ["run", "--no-such-option", "--", "true"], ["run", "--memory", "12Q", "--", "true"],
                  ["run", "--memory", "1K", "--", "true"], ["run", "--memory", "150%", "--", "true"],
                  ["run", "--memory"], ["run", "--log", "everything", "--", "true"], ["run", "--seconds", "-1", "--", "true"],
                  ["replay"], ["replay", "plan-only"], ["replay", "/no/such.plan", "--", "true"], ["no-such-command"],
                  ["doctor", "--what"]):
        done = launch(*words)
        equal((done.returncode, done.stdout), (2, ""), words)
        assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, (words, done.stderr)


@suite.test("help has examples and goes to standard output")
def _():
    for words in (["--help"], ["run", "--help"], ["record", "--help"], ["replay", "--help"]):
        done = launch(*words)
        equal((done.returncode, done.stderr), (0, ""), words)
        assert "swapadvisor " in done.stdout and "--" in done.stdout
    equal(launch().returncode, 2)
    assert launch("--version").stdout.startswith("swapadvisor ")


@suite.test("-- separates, and the program's own options stay its own")
def _():
    done = launch("run", "-q", "--memory", "64M", "--", "echo", "--memory", "1G", "--")
    equal(done.stdout, "--memory 1G --\n")
    done = launch("run", "-q", "echo", "-n", "--help")
    equal(done.stdout, "--help")


@suite.test("options become variables")
def _():
    done = launch("run", "-q", "--strict", "--memory", "64M", "--host-memory", "1G", "-o", "out.txt", "--planner", "fast",
                  "--seconds", "3", "--", "env")
    env = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    equal(env["NVTX_INJECTION64_PATH"], SHIM)
    assert not os.path.exists(env.pop("SWAPADVISOR_RUN")), "the run's folder is still there"
    equal({k: v for k, v in env.items() if k.startswith("SWAPADVISOR")},
          {"SWAPADVISOR_QUIET": "1", "SWAPADVISOR_STRICT": "1", "SWAPADVISOR_MEMORY": "64M", "SWAPADVISOR_HOST_MEMORY": "1G",
           "SWAPADVISOR_REPORT": "out.txt", "SWAPADVISOR_PLANNER": "fast", "SWAPADVISOR_SECONDS": "3"})


@suite.test("several processes of one run write several reports, a second run overwrites")
def _():
    report = os.path.join(suite.scratch, "several.txt")
    probe = suite.path("tests/interpose/call_bench")
    script = f"{probe} working 1 && {probe} working 1 && {probe} working 1"
    for _ in range(2):
        done = launch("run", "-q", "-o", report, "--planner", "none", "--", "sh", "-c", script,
                      env={"CALL_BENCH_ITERATIONS": "4"})
        equal(done.returncode, 0, done.stderr)
    names = [n for n in os.listdir(suite.scratch) if re.fullmatch(r"several(\.\d+)?\.txt", n)]
    # The first process of each run has the name itself; the other two of each run have their own.
    equal(len(names), 1 + 2 * 2, names)
    with open(report) as file:
        assert "limit" in file.read()


@suite.test("several processes of one run write several traces")
def _():
    trace = os.path.join(suite.scratch, "run.trace")
    probe = suite.path("tests/interpose/call_bench")
    for script in (f"{probe} working 1 && {probe} working 1", f"{probe} working 1 & {probe} working 1; wait"):
        before = set(os.listdir(suite.scratch))
        done = launch("record", "-q", "-o", trace, "--planner", "none", "--", "sh", "-c", script,
                      env={"CALL_BENCH_ITERATIONS": "4"})
        equal(done.returncode, 0, done.stderr)
        new = [n for n in set(os.listdir(suite.scratch)) - before if "trace" in n]
        assert os.path.getsize(trace) > 0
        assert all(os.path.getsize(os.path.join(suite.scratch, n)) > 0 for n in new), new
        # The first round makes the name itself and one more; the second writes the name again, and one more.
        equal(len(new), 2 if "&&" in script else 1, new)


@suite.test("no driver: nothing is said of a program that wants none, one line of one that does")
def _():
    done = launch("run", "--", "sh", "-c", "echo ran; exit 3", libraries=None)
    equal((done.returncode, done.stdout, done.stderr), (3, "ran\n", ""))
    done = launch("run", "--", suite.path("tests/interpose/dl_probe"), "dlsym", "libcuda.so.1", libraries=None)
    if done.returncode == 0:
        raise Skip("this machine has a driver")
    equal((done.returncode, done.stdout), (3, "dlopen failed\n"))
    assert "no CUDA driver" in done.stderr and done.stderr.count("\n") == 1, done.stderr
    # Found in the end, through a script that sets the path.
    done = launch("run", "--", "env", f"LD_LIBRARY_PATH={FAKE}", suite.path("tests/interpose/dl_probe"), "dlsym",
                  "libcuda.so.1", "cuInit", libraries=None)
    equal((done.returncode, done.stderr), (0, ""))


@suite.test("no driver: one line and what to do, whatever way the program would have taken to it")
def _():
    probe = os.path.join(suite.scratch, "no_driver.py")
    with open(probe, "w") as file:  # looks for the file by itself, as tinygrad does, and opens nothing
        file.write("# tinygrad\nimport os\nprint(os.path.exists('/no/such/libcuda.so'))\n")
    if launch("doctor", libraries=None).stdout.find("no usable CUDA driver") < 0:
        raise Skip("this machine has a driver")
    opens = "import ctypes, sys\ntry: ctypes.CDLL('libcuda.so.1')\nexcept OSError: sys.exit(3)"
    for command, status in (([PYTHON, probe], 0), ([PYTHON, "-c", opens + " # tinygrad"], 3), ([PYTHON, "-c", opens], 3),
                            ([suite.path("tests/interpose/linked_probe")], 127), ([suite.path("workloads/digits")], 3)):
        done = launch("run", "--", *command, libraries=None)
        equal(done.returncode, status, done.stderr)
        lines = [line for line in done.stderr.splitlines() if line.startswith("swapadvisor:") and "driver" in line]
        equal(len(lines), 1, (command, done.stderr))
        assert "no CUDA driver was found (libcuda.so.1" in lines[0] and "doctor" in lines[0], lines
        assert "driver was found" not in launch("run", "-q", "--", *command, libraries=None).stderr


@suite.test("framework settings: set where unset, said, and left alone where set")
def _():
    script = os.path.join(suite.scratch, "train.py")
    with open(script, "w") as file:
        file.write("import os\n# uses torch and tinygrad\n"
                   "print(os.environ.get('PYTORCH_NO_CUDA_MEMORY_CACHING'), os.environ.get('DEV'), os.environ.get('LRU'))\n")
    done = launch("run", "--", PYTHON, script)
    equal(done.stdout, "1 CUDA 0\n")
    assert "PYTORCH_NO_CUDA_MEMORY_CACHING=1" in done.stderr, done.stderr
    done = launch("run", "--", PYTHON, script, env={"LRU": "1", "DEV": "CPU"})
    equal(done.stdout, "1 CPU 1\n")
    assert "DEV=CPU LRU=1 left as you set it" in done.stderr and "only with DEV=CUDA (tinygrad) LRU=0 (tinygrad)" in done.stderr, done.stderr
    done = launch("run", "--no-settings", "--", PYTHON, script)
    equal(done.stdout, "None None None\n")
    done = launch("run", "--", PYTHON, script, env={"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"})
    equal(done.stdout, "None CUDA 0\n")
    assert "DEV" not in launch("run", "--", "sh", "-c", "env").stdout


@suite.test("framework settings: PATH script with a Python first line counts")
def _():
    script = os.path.join(suite.scratch, "train-tool")
    with open(script, "w") as file:
        file.write(f"#!{PYTHON}\n# tinygrad\nimport os\nprint(os.environ.get('LRU'))\n")
    os.chmod(script, 0o755)
    # The script has no .py name: only its interpreter's packages tell, or nothing.
    assert launch("run", "--", script).returncode == 0


@suite.test("doctor describes the machine, as text and JSON")
def _():
    done = launch("doctor", "--json")
    facts = json.loads(done.stdout)
    equal(facts["format"], "swapadvisor-doctor")
    equal(facts["devices"][0]["name"], "Fake device")
    assert facts["driver"]["version"] == 13000 and facts["devices"][0]["vmm"]
    equal(done.returncode, 0 if facts["can_manage"] else 1)
    text = launch("doctor").stdout
    assert "both ways at once" in text and "Fake device" in text
    no_vmm = json.loads(launch("doctor", "--json", env={"FAKE_DRIVER_NO_VMM": "1"}).stdout)
    assert not no_vmm["can_manage"] and any("virtual memory" in line for line in no_vmm["shortcomings"])


@suite.test("doctor measures the software GPU's copy rates")
def _():
    done = launch("doctor", "--json", libraries=suite.path("softgpu"))
    device = json.loads(done.stdout)["devices"][0]
    assert device["vmm"] and device["aliasing"] and not device["problem"], device
    assert 0 < device["h2d_bytes_per_s"] < device["duplex_bytes_per_s"] <= 2.01 * device["h2d_bytes_per_s"], device


@suite.test("bad settings by hand: one line each, and the program runs")
def _():
    done = suite.run([suite.path("tests/interpose/linked_probe")], preload=SHIM, libraries=FAKE,
                     env={"SWAPADVISOR_MEMORY": "12 potatoes", "SWAPADVISOR_STRICT": "maybe", "SWAPADVISOR_QUIET": "1"})
    equal(done.returncode, 0)
    for name in ("SWAPADVISOR_MEMORY", "SWAPADVISOR_STRICT"):
        equal(len([line for line in done.stderr.splitlines() if name in line]), 1, done.stderr)


@suite.test("the watcher leaves nothing behind")
def _():
    own = os.path.join(suite.scratch, "swapadvisor-copy")  # other tests may be running the command itself
    shutil.copy(COMMAND, own)
    suite.run([own, "run", "-q", "--", "sleep", "0.1"], libraries=FAKE, env={"SWAPADVISOR_LIBRARY": SHIM})
    time.sleep(0.3)
    left = [pid for pid in os.listdir("/proc") if pid.isdigit() and os.path.exists(f"/proc/{pid}/exe") and
            os.path.realpath(f"/proc/{pid}/exe") == os.path.realpath(own)]
    equal(left, [])


if __name__ == "__main__":
    suite.main()
