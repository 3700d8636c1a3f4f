#!/usr/bin/env python3
"""Public reports of trouble between programs, loaders and drivers (tests/CASES.md): those that a driver which only
counts its calls can show. Each test is named after the thread it comes from."""

import os
import re
import shutil

from tap import Skip, Suite, equal

suite = Suite()
SHIM = suite.path("libswapadvisor.so")
FAKE = suite.path("tests/fakedriver")
OLD = suite.path("tests/fakedriver/old")
COMMAND = suite.path("swapadvisor")
PROGRAMS = suite.path("tests/interpose")
PYTHON = "/usr/bin/python3"
QUIET = {"SWAPADVISOR_QUIET": "1", "SWAPADVISOR_REPORT": "report.txt"}


def program(name):
    return os.path.join(PROGRAMS, name)


def case(name, preload=SHIM, libraries=FAKE, **env):
    return suite.run([program("cases_probe"), name], preload=preload, libraries=libraries, env={**QUIET, **env})


def same(name, **env):
    plain, shimmed = case(name, preload=None, **env), case(name, **env)
    equal((shimmed.returncode, shimmed.stdout), (plain.returncode, plain.stdout), shimmed.stderr)
    return shimmed.stdout


@suite.test("HAMi-core#215 a front library that forwards to one with the same function")
def _():
    code = (f"import ctypes\nprint(ctypes.CDLL({program('forwarder_front.so')!r}).cudnnCreate(0))")
    done = suite.run([PYTHON, "-c", code], preload=SHIM, env={"FORWARDER_BACK": program("forwarder_back.so")})
    equal((done.stdout, done.returncode), ("1001\n", 0), done.stderr)


@suite.test("HAMi#1834 an unknown driver: fewer and more symbols")
def _():
    for folder in (FAKE, OLD):
        done = suite.run([program("dl_probe"), "dlsym", os.path.join(folder, "libcuda.so.1"), "cuMemAlloc_v2",
                          "cuLaunchKernelEx", "cuFutureCall"], preload=SHIM, timeout=20)
        equal(done.returncode, 0, done.stderr)
    done = suite.run([program("dl_probe"), "bad-look-up", os.path.join(FAKE, "libcuda.so.1"), "x"], preload=SHIM, timeout=20)
    assert "future 0 libcuda.so.1" in done.stdout, done.stdout


@suite.test("HAMi-core#306 a failure after the first steps of an allocation leaves nothing behind")
def _():
    for broken in ("cuMemMap=2", "cuMemSetAccess=2", "cuMemMap=1", "cuMemHostAlloc=2"):
        out = case("repeated-failure", FAKE_DRIVER_FAIL=broken).stdout
        assert "handles kept 0" in out, (broken, out)


@suite.test("memory of a green context is the driver's, that of the device's own context is managed")
def _():
    out = case("green-context").stdout
    equal([line for line in out.splitlines() if line.startswith("left")], [f"left to the driver {n}" for n in (1, 0, 1)], out)


@suite.test("HAMi-core#61 HAMi#1055 preloaded Python imports and runs as ever")
def _():
    done = suite.run([PYTHON, "-c", "import ctypes, multiprocessing, sqlite3; print('fine')"], preload=SHIM)
    equal((done.stdout, done.stderr, done.returncode), ("fine\n", "", 0))


@suite.test("HAMi#1346 an unreadable preload object stops the launcher")
def _():
    copy = os.path.join(suite.scratch, "damaged.so")
    with open(copy, "w") as file:
        file.write("not an object")
    for path in ("/no/such.so", copy):
        done = suite.run([COMMAND, "run", "--", "echo", "ran"], libraries=FAKE, env={"SWAPADVISOR_LIBRARY": path})
        equal((done.returncode, done.stdout), (125, ""))
        assert path in done.stderr and done.stderr.count("\n") == 1, done.stderr


@suite.test("HAMi#1346 a program that cannot load the shim is named, and refused with --strict")
def _():
    static = os.path.join(suite.scratch, "static")
    source = os.path.join(suite.scratch, "static.c")
    with open(source, "w") as file:
        file.write("int main(void) { return 9; }\n")
    built = suite.run(["gcc", "-static", "-o", static, source])
    if built.returncode:
        raise Skip("no static C library here")
    done = suite.run([COMMAND, "run", "--", static], libraries=FAKE)
    equal(done.returncode, 9)
    assert "statically linked" in done.stderr, done.stderr
    equal(suite.run([COMMAND, "run", "--strict", "--", static], libraries=FAKE).returncode, 125)


@suite.test("HAMi#1346 the program confirms that it loaded the shim")
def _():
    # An object that loads but is not ours says nothing: the watcher does.
    done = suite.run([COMMAND, "run", "--", "sleep", "0.2"], libraries=FAKE,
                     env={"SWAPADVISOR_LIBRARY": program("old_dlsym.so")})
    equal(done.returncode, 0)
    assert "has not loaded the shim" in done.stderr, done.stderr


@suite.test("vcuda#20 vcuda#30 vcuda#31 cuGetProcAddress asked for NULL, empty and itself")
def _():
    words = [program("dl_probe"), "bad-look-up", "libcuda.so.1", "x"]
    equal(suite.run(words, preload=SHIM, libraries=FAKE, env=QUIET).stdout, suite.run(words, libraries=FAKE).stdout)
    done = suite.run([program("dl_probe"), "look-up", "libcuda.so.1", "x"], preload=SHIM, libraries=FAKE,
                     stdin="cuGetProcAddress 11030\ncuGetProcAddress 12000\n", env=QUIET)
    equal(done.stdout.count("libswapadvisor.so"), 7, done.stdout)


@suite.test("TMS#24 pytorch#147851 expandable segments are refused with the reason")
def _():
    done = suite.run([COMMAND, "run", "--", PYTHON, "-c", "print('ran')"], libraries=FAKE,
                     env={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})
    equal((done.returncode, done.stdout), (2, ""))
    assert "expandable" in done.stderr and done.stderr.count("\n") == 1, done.stderr


@suite.test("TMS#108 sglang#36533 no needed library beyond the C library; /bin/true runs")
def _():
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", suite.run(["readelf", "-d", SHIM]).stdout))
    assert needed <= {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2"}, needed
    equal(suite.run(["/bin/true"], preload=SHIM, env={"LD_LIBRARY_PATH": "/nowhere"}).returncode, 0)


@suite.test("TMS#33 TMS#64 a preload list that is there already is kept")
def _():
    other = program("next_preload.so")
    done = suite.run([COMMAND, "run", "-q", "--", "sh", "-c", "echo $LD_PRELOAD"], preload=other, libraries=FAKE)
    equal(done.stdout, f"{SHIM}:{other}\n")
    done = suite.run([COMMAND, "run", "-q", "--", COMMAND, "run", "-q", "--", "sh", "-c", "echo $LD_PRELOAD"],
                     preload=other, libraries=FAKE)
    equal(done.stdout, f"{SHIM}:{other}\n")


@suite.test("pytorch#122057 feature detection gets the driver's true answers")
def _():
    requests = "cuMemCreate 10020\ncuMemCreate 9000\ncuMulticastCreate 12010\ncuNoSuchCall 13000\ncuMemAllocAsync 11000\n"
    words = [program("dl_probe"), "look-up", "libcuda.so.1", "x"]
    plain = suite.run(words, libraries=FAKE, stdin=requests).stdout
    shimmed = suite.run(words, preload=SHIM, libraries=FAKE, stdin=requests, env=QUIET).stdout
    equal(shimmed.replace("libswapadvisor.so", "libcuda.so.1"), plain)


@suite.test("ZLUDA#447 a driver found by RPATH is the one that is called")
def _():
    # The program's own search path wins over LD_LIBRARY_PATH; the shim follows it.
    folder = os.path.join(suite.scratch, "rpath")
    os.makedirs(folder, exist_ok=True)
    shutil.copy(os.path.join(FAKE, "libcuda.so.1"), folder)
    root = suite.root
    built = suite.run(["g++", "-std=c++20", "-I" + cuda_include(), os.path.join(root, "tests/unit/interpose/programs/linked_probe.cpp"),
                       "-o", os.path.join(suite.scratch, "rpath-probe"), os.path.join(folder, "libcuda.so.1"), "-ldl",
                       f"-Wl,-rpath,{folder},--disable-new-dtags"])
    equal(built.returncode, 0, built.stderr)
    done = suite.run([os.path.join(suite.scratch, "rpath-probe")], preload=SHIM, libraries=OLD, env=QUIET)
    assert "arrived 1 " in done.stdout and done.returncode == 0, done.stdout + done.stderr


def cuda_include():
    home = os.environ.get("CUDA_HOME")
    if not home:
        nvcc = shutil.which("nvcc")
        home = os.path.dirname(os.path.dirname(os.path.realpath(nvcc))) if nvcc else "/usr/local/cuda"
        if not os.path.exists(os.path.join(home, "include/cuda.h")):
            home = "/usr/local/cuda"
    return os.path.join(home, "include")


@suite.test("lupine#356 launch attributes arrive verbatim")
def _():
    assert "same configuration 1" in same("launch-attributes")


@suite.test("lupine#507 NVBit#40 NVBit#74 parameter layouts are asked for once, their end included")
def _():
    out = case("parameter-questions").stdout
    assert "asked after the first launch 0" in out and "arrived 101" in out, out


@suite.test("modular#6961 no RDMA flag on a device without it")
def _():
    # The driver refuses memory with the flag, as its attribute says.
    assert "cuMemAlloc 0" in case("plain-work").stdout
    equal(case("plain-work").returncode, 0)


@suite.test("xgboost#12217 no virtual memory management: the program runs unmanaged, and is told so")
def _():
    done = case("plain-work", FAKE_DRIVER_NO_VMM="1", SWAPADVISOR_QUIET="0")
    equal(done.stdout, case("plain-work", preload=None).stdout)
    assert "virtual memory" in done.stderr, done.stderr


@suite.test("PECOS#450 two drivers in one process: each call arrives where it was asked")
def _():
    second = os.path.join(suite.scratch, "second.so")
    shutil.copy(os.path.join(FAKE, "libcuda.so.1"), second)
    words = [program("dl_probe"), "copies", os.path.join(FAKE, "libcuda.so.1"), second]
    plain, shimmed = suite.run(words), suite.run(words, preload=SHIM, env={**QUIET, "SWAPADVISOR": "0"})
    equal(shimmed.stdout, plain.stdout)


@suite.test("apitrace#258 dlsym of an older C library, and of a newer one")
def _():
    code = ("import ctypes, sys\n"
            f"old = ctypes.CDLL({program('old_dlsym.so')!r}).find_old_way\n"
            "old.restype = ctypes.c_void_p\nold.argtypes = [ctypes.c_void_p, ctypes.c_char_p]\n"
            "cuda = ctypes.CDLL('libcuda.so.1')\n"
            "new = ctypes.cast(cuda.cuMemAlloc_v2, ctypes.c_void_p).value\n"
            "print(old(cuda._handle, b'cuMemAlloc_v2') == new, old(cuda._handle, b'cuNoSuchCall'))\n")
    for preload in (None, SHIM):
        done = suite.run([PYTHON, "-c", code], preload=preload, libraries=FAKE, env=QUIET)
        equal((done.stdout, done.returncode), ("True None\n", 0), done.stderr)
    exported = suite.run(["nm", "-D", "--with-symbol-versions", SHIM]).stdout
    for name in ("dlsym@@GLIBC_2.34", "dlsym@GLIBC_2.2.5", "dlvsym@@GLIBC_2.34", "dlvsym@GLIBC_2.2.5"):
        assert name in exported, name


@suite.test("cuda-python#1972 numba#5137 plain and per-thread forms have hooks of their own")
def _():
    equal(case("twins-differ").stdout, "distinct 1\n" * 4)


if __name__ == "__main__":
    suite.main()
