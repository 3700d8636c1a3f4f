#!/usr/bin/env python3
"""Who allocates, by name: lines of Python, inlined C++ functions; what is always the same on the way to an allocation is left out."""

import json
import os
import pickle
import re
import subprocess

from tap import Suite, equal

suite = Suite()
COMMAND = suite.path("swapadvisor")

PYTHON = '''
import ctypes, threading
cuda = ctypes.CDLL("libcuda.so.1")
def ok(result):
    assert result == 0, result
def grab(size):
    address = ctypes.c_uint64()
    ok(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)))
    return address
class Model:
    def forward(self):
        return (grab(4 << 20),
                grab(6 << 20))
def worker(out):
    out.append(grab(8 << 20))
def grabs():
    yield grab(10 << 20)
def step():
    out = []
    thread = threading.Thread(target=worker, args=(out,))
    thread.start()
    thread.join()
    for address in [*Model().forward(), *out, *grabs()]:
        ok(cuda.cuMemsetD8_v2(address, 0, ctypes.c_size_t(1 << 20)))
        ok(cuda.cuMemFree_v2(address))
ok(cuda.cuInit(0))
context = ctypes.c_void_p()
ok(cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0))
thread_ok = threading.Thread.run
def run(self):
    ok(cuda.cuCtxSetCurrent(context))
    thread_ok(self)
threading.Thread.run = run
for _ in range(30):
    step()
'''

CPP = '''
extern "C" { int cuInit(unsigned); int cuCtxCreate_v2(void**, unsigned, int); int cuMemAlloc_v2(unsigned long*, unsigned long);
int cuMemFree_v2(unsigned long); int cuMemsetD8_v2(unsigned long, unsigned char, unsigned long); }
template <class T> struct Buffer {
    unsigned long data = 0;
    __attribute__((always_inline)) explicit Buffer(unsigned long n) {
        cuMemAlloc_v2(&data, n * sizeof(T));
    }
    __attribute__((always_inline)) ~Buffer() { cuMemFree_v2(data); }
};
static inline __attribute__((always_inline)) void layer(int n) {
    Buffer<float> b(n);
    cuMemsetD8_v2(b.data, 0, 4096);
}
__attribute__((noinline)) void step(int n) {
    layer(n);
}
int main() {
    void* context;
    cuInit(0);
    cuCtxCreate_v2(&context, 0, 0);
    for (int i = 0; i < 30; ++i) step(1 << 20);
}
'''


def write(name, text):
    path = os.path.join(suite.scratch, name)
    with open(path, "w") as file:
        file.write(text)
    return path


def report_of(*program):
    """Of the trace, and of the run at its exit."""
    trace, report = (os.path.join(suite.scratch, name) for name in ("run.trace", "run.txt"))
    for words in (["record", "-q", "-o", trace], ["run", "-q", "-o", report]):
        done = suite.run([COMMAND, *words, "--", *program], libraries=suite.path("softgpu"))
        equal(done.returncode, 0, done.stderr)
    with open(report + ".json") as file:
        at_exit = json.load(file)
    return json.loads(suite.run([COMMAND, "report", "--json", trace]).stdout), at_exit


@suite.test("Python's functions and lines, in every thread")
def _():
    line = {number: text for number, text in enumerate(PYTHON.splitlines(), 1)}
    for report in report_of("python3", write("model.py", PYTHON)):
        sites = {entry["bytes"] >> 20: entry["site"] for entry in report["peak"]}
        equal(set(sites), {4, 6, 8, 10}, sites)
        for size, place in ((4, "Model.forward"), (6, "Model.forward"), (8, "worker"), (10, "grabs")):
            frames = sites[size].split(" < ")
            assert re.fullmatch(r"grab model\.py:\d+", frames[0]) and "cuMemAlloc" in line[int(frames[0].split(":")[1])], frames
            at = re.fullmatch(rf"{re.escape(place)} model\.py:(\d+)", frames[1])
            assert at and f"grab({size} <<" in line[int(at[1])], frames
            assert "ffi" not in sites[size] and "threading.py" not in sites[size] and ".so" not in sites[size], frames


@suite.test("PyTorch's snapshot of the same: what is live at most is the report's peak, by Python's frames; Perfetto has the counters")
def _():
    trace, snapshot, perfetto = (os.path.join(suite.scratch, name) for name in ("run.trace", "snapshot.pickle", "perfetto.json"))
    report_of("python3", write("model.py", PYTHON))
    for words in (["--memory-viz", "-o", snapshot], ["--perfetto", "-o", perfetto]):
        equal(suite.run([COMMAND, "report", trace, *words]).returncode, 0)
    with open(snapshot, "rb") as file:
        shot = pickle.load(file)
    live = peak = 0
    frames = set()
    for event in shot["device_traces"][0]:
        live += {"alloc": event["size"], "free_completed": -event["size"]}.get(event["action"], 0)
        peak = max(peak, live)
        frames |= {(f["name"], f["filename"], f["line"]) for f in event["frames"]}
    equal((peak, live), (28 << 20, sum(s["active_size"] for s in shot["segments"])))
    assert ("grab", "model.py", 8) in frames and any(f[0] == "Model.forward" for f in frames), frames
    with open(perfetto) as file:
        events = json.load(file)["traceEvents"]
    counters = {e["name"] for e in events if e["ph"] == "C"}
    assert {"live", "resident", "limit"} <= counters, counters
    equal(max(e["args"]["bytes"] for e in events if e["name"] == "live"), 28 << 20)


@suite.test("what grows with each iteration is named, and nothing else")
def _():
    leaking = PYTHON.replace("def step():", "kept = []\ndef leak():\n    kept.append(grab(1 << 20))\ndef step():\n    leak()").replace("range(30)", "range(80)")
    for report in report_of("python3", write("leak.py", leaking)):
        equal([g["site"].split(":")[0] for g in report["growing"]], ["grab leak.py"], report["growing"])
        grown = report["growing"][0]
        assert "leak leak.py" in grown["site"] and grown["to_bytes"] - grown["from_bytes"] > 40 << 20, grown
        run = report["run"]
        assert sum(sample["ops"] for sample in run) > 300, run
        assert max(s["most_live_bytes"] for s in run) == report["peak_bytes"] and run[-1]["least_live_bytes"] > run[0]["least_live_bytes"] + (60 << 20), run[-1]
    for report in report_of("python3", write("model.py", PYTHON.replace("range(30)", "range(80)"))):
        equal(report["growing"], [])
    text = suite.run([COMMAND, "report", os.path.join(suite.scratch, "run.trace")]).stdout
    assert "grows" not in text and "More and more" not in text, text


@suite.test("inlined C++ functions, each with its line; none of the C library's")
def _():
    source, program = write("inlined.cpp", CPP), os.path.join(suite.scratch, "inlined")
    subprocess.run(["g++", "-g", "-O2", source, "-o", program, suite.path("softgpu/libcuda.so.1")], check=True, timeout=60)
    report, _ = report_of(program)
    equal([entry["site"] for entry in report["peak"]],
          ["Buffer inlined.cpp:7 < layer inlined.cpp:12 < step inlined.cpp:16 < main inlined.cpp:22"])


if __name__ == "__main__":
    suite.main()
