#!/usr/bin/env python3
"""Every way to the driver, on a driver that only counts its calls: the hook is found where the driver's own symbol
would be, leads to the same function, and nothing else changes."""

import os
import re
import shutil
import sys

from tap import Suite, equal

suite = Suite()
SHIM = suite.path("tests/interpose/libroutes_only.so")
DRIVER = suite.path("tests/fakedriver")
OLD_DRIVER = suite.path("tests/fakedriver/old")
PROBE = suite.path("tests/interpose/dl_probe")


def hooked_symbols():
    with open(os.path.join(suite.build, "generated/interpose/generated/exports.map")) as file:
        return set(re.findall(r"\b(cu[A-Z]\w+);", file.read()))


def entry_points():
    """(name, variant, first version, symbol) as the generator found them."""
    with open(os.path.join(suite.build, "generated/interpose/generated/entries.inc")) as file:
        return re.findall(r'\{"(\w+)", Variant::(\w+), (\d+), "(\w+)"', file.read())


def probe(*words, preload=SHIM, libraries=DRIVER, **more):
    done = suite.run([PROBE, *words], preload=preload, libraries=libraries, **more)
    assert done.returncode == 0, f"{words}: status {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def same_but_owner(*words, hooked, **more):
    """With and without the shim: the same lines, except that the named symbols are found in it."""
    plain = probe(*words, preload=None, **more).stdout.splitlines()
    shimmed = probe(*words, **more).stdout.splitlines()
    equal(len(shimmed), len(plain))
    for before, after in zip(plain, shimmed):
        symbol = before.split()[1].rstrip(":") if len(before.split()) > 1 else ""
        if symbol in hooked and before.startswith(("dlsym", "dlvsym", "default", "next", "main")):
            before = re.sub(r"(libcuda\.so\.1|renamed\.so)", "libroutes_only.so", before)
        equal(after, before, words)
    return shimmed


@suite.test("exported symbols of a program linked with the driver")
def _():
    plain = suite.run([suite.path("tests/interpose/linked_probe")], libraries=DRIVER)
    shimmed = suite.run([suite.path("tests/interpose/linked_probe")], preload=SHIM, libraries=DRIVER)
    equal(shimmed.stdout, plain.stdout)
    assert "arrived 1 1 1" in shimmed.stdout, shimmed.stdout


NAMES = ["cuMemAlloc_v2", "cuLaunchKernel", "cuLaunchKernel_ptsz", "cuMemAlloc", "cuInit", "cuGetProcAddress_v2",
         "cuNoSuchCall", "cuMemAlloc_v2x", "cuMemAllo", "cuGetExportTable"]
HOOKED = ["cuMemAlloc_v2", "cuMemAlloc", "cuLaunchKernel", "cuLaunchKernel_ptsz", "cuGetProcAddress_v2"]


@suite.test("dlsym and dlvsym by SONAME")
def _():
    lines = same_but_owner("dlsym", "libcuda.so.1", *NAMES, hooked=HOOKED)
    assert any(line.startswith("dlsym cuMemAlloc_v2: libroutes_only.so") for line in lines), lines


@suite.test("dlsym by absolute path")
def _():
    same_but_owner("dlsym", os.path.join(DRIVER, "libcuda.so.1"), *NAMES, hooked=HOOKED, libraries=None)


@suite.test("dlsym on a driver under another name")
def _():
    renamed = os.path.join(suite.scratch, "renamed.so")
    shutil.copy(os.path.join(DRIVER, "libcuda.so.1"), renamed)
    lines = same_but_owner("dlsym", renamed, *NAMES, hooked=HOOKED, libraries=None)
    assert any(line.startswith("dlsym cuMemAlloc_v2: libroutes_only.so") for line in lines), lines


@suite.test("every name that is exported is found as without the shim")
def _():
    symbols = sorted({symbol for _, _, _, symbol in entry_points()})
    hooked = hooked_symbols()
    assert len(symbols) > 600 and len(hooked) > 50
    same_but_owner("dlsym", "libcuda.so.1", *symbols, hooked=hooked)


@suite.test("RTLD_DEFAULT, RTLD_NEXT and the main program, driver in the global scope")
def _():
    same_but_owner("global", "libcuda.so.1", *NAMES, hooked=HOOKED)


@suite.test("RTLD_DEFAULT, RTLD_NEXT and the main program, driver in a local scope")
def _():
    same_but_owner("local", "libcuda.so.1", *NAMES, hooked=HOOKED)


@suite.test("RTLD_DEFAULT, RTLD_NEXT and the main program, no driver")
def _():
    same_but_owner("local", "", *NAMES, hooked=HOOKED, libraries=None)


@suite.test("dlsym from Python's ctypes")
def _():
    code = ("import ctypes, sys\n"
            "cuda = ctypes.CDLL(sys.argv[1])\n"
            "p = ctypes.c_uint64()\n"
            "print(cuda.cuInit(0), cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(4096)), p.value != 0)\n"
            "cuda.fake_count.restype = ctypes.c_ulong\n"
            "print(cuda.fake_count(b'cuMemAlloc_v2'), hasattr(cuda, 'cuNoSuchCall'))\n")
    for preload in (None, SHIM):
        done = suite.run(["/usr/bin/python3", "-c", code, os.path.join(DRIVER, "libcuda.so.1")], preload=preload)
        equal((done.stdout, done.returncode), ("0 0 True\n1 False\n", 0), done.stderr)


def all_requests():
    requests = []
    for name in sorted({name for name, _, _, _ in entry_points()}):
        versions = sorted({int(v) for n, _, v, _ in entry_points() if n == name})
        asked = set()
        for version in versions:
            asked |= {version, version - 1, version + 1}
        asked |= {13000, 2000, 99990}
        requests += [f"{name} {version}" for version in sorted(asked)]
    return "\n".join(requests) + "\n"


def check_look_up(**more):
    hooked = hooked_symbols()
    requests = all_requests()
    plain = probe("look-up", "libcuda.so.1", preload=None, stdin=requests, **more).stdout.splitlines()
    shimmed = probe("look-up", "libcuda.so.1", stdin=requests, **more).stdout.splitlines()
    equal(shimmed[0], "self libroutes_only.so")
    equal(len(shimmed), len(plain))
    answers = 0
    for before, after in zip(plain[1:], shimmed[1:]):
        request, _, answer = before.partition(": ")
        words = answer.split()
        if len(words) > 3 and words[3] in hooked:
            # A hook of that very symbol: the call arrived there, and returned the same.
            words[2] = "libroutes_only.so"
            answers += 1
        equal(after, f"{request}: {' '.join(words)}", request)
    return answers, len(plain)


@suite.test("cuGetProcAddress: every ABI of every name with every flag")
def _():
    answers, requests = check_look_up()
    assert answers > 400 and requests > 4000, (answers, requests)


@suite.test("cuGetProcAddress answering with addresses that no symbol has")
def _():
    # Version 99990 is beyond the header: the answer is told by asking for the header's version again.
    answers, _ = check_look_up(env={"FAKE_DRIVER_PRIVATE": "1"})
    assert answers > 400, answers


@suite.test("an older driver: no cuGetProcAddress_v2, and lacking symbols")
def _():
    answers, _ = check_look_up(libraries=OLD_DRIVER)
    assert answers > 400, answers
    same_but_owner("dlsym", "libcuda.so.1", "cuMemAllocAsync", "cuGetProcAddress", "cuGetProcAddress_v2",
                   hooked=["cuGetProcAddress"], libraries=OLD_DRIVER)


@suite.test("cuGetProcAddress with NULL, empty, unknown and too old names")
def _():
    equal(probe("bad-look-up", "libcuda.so.1", "x").stdout, probe("bad-look-up", "libcuda.so.1", "x", preload=None).stdout)


@suite.test("an unknown entry point passes through and is named once")
def _():
    done = probe("bad-look-up", "libcuda.so.1", "x")
    equal(done.stdout.count("future 0 libcuda.so.1"), 3)
    equal(done.stderr.count("cuFutureCall"), 1, done.stderr)


@suite.test("two copies by dlmopen and by path: each call arrives where it was asked")
def _():
    second = os.path.join(suite.scratch, "second.so")
    shutil.copy(os.path.join(DRIVER, "libcuda.so.1"), second)
    words = ("copies", os.path.join(DRIVER, "libcuda.so.1"), second)
    equal(probe(*words).stdout, probe(*words, preload=None).stdout)


@suite.test("another preload object that uses RTLD_NEXT, before and after ours")
def _():
    other = suite.path("tests/interpose/next_preload.so")
    linked = [suite.path("tests/interpose/linked_probe")]
    plain = suite.run(linked, preload=other, libraries=DRIVER)
    equal(plain.stderr.count("saw a memset"), 1)
    before = suite.run(linked, preload=f"{other}:{SHIM}", libraries=DRIVER)
    equal((before.stdout, before.stderr), (plain.stdout, plain.stderr))
    after = suite.run(linked, preload=f"{SHIM}:{other}", libraries=DRIVER)
    equal(after.stdout, plain.stdout)


@suite.test("threads that meet at the first look-up")
def _():
    for _ in range(20):
        equal(probe("threads", "libcuda.so.1").stdout, "failed 0\n")


@suite.test("an object that is no driver keeps its own functions")
def _():
    same_but_owner("dlsym", suite.path("tests/interpose/not_a_driver.so"), "cuMemAlloc_v2", "cuMemAlloc_v2x",
                   "cuMemAllocator", "cudnnCreate", hooked=[])


@suite.test("SWAPADVISOR_LOG=routes says who asked for what")
def _():
    done = probe("dlsym", "libcuda.so.1", "cuMemAlloc_v2", "cuInit", env={"SWAPADVISOR_LOG": "routes"})
    assert re.search(r"dlsym +cuMemAlloc_v2 .* hooked +/.*dl_probe", done.stderr), done.stderr
    assert re.search(r"dlsym +cuInit .* passed through +/.*dl_probe", done.stderr), done.stderr
    done = probe("look-up", "libcuda.so.1", "x", stdin="cuMemAlloc 12000\n", env={"SWAPADVISOR_LOG": "routes"})
    assert re.search(r"cuGetProcAddress +cuMemAlloc +12000 +2 hooked +/.*dl_probe", done.stderr), done.stderr
    equal(done.stderr.count("asked by"), 1)


@suite.test("names with several ABIs: each answered with a function of ours of that ABI, and no two the same")
def _():
    versions = {}
    for name, variant, version, symbol in entry_points():
        versions.setdefault(name, {}).setdefault((variant, int(version)), symbol)
    several = {name: abis for name, abis in versions.items() if len({v for _, v in abis}) > 1}
    assert len(several) > 100, len(several)
    requests = "".join(f"{name} {version}\n" for name, abis in several.items() for version in sorted({v for _, v in abis}))
    lines = probe("look-up", "libcuda.so.1", stdin=requests).stdout.splitlines()[1:]
    for line in lines:
        request, _, answer = line.partition(": ")
        words = answer.split()
        # result, status, owner, symbol that the call is to reach, calls that reached it
        equal((words[0], words[2], words[4]), ("0", "libroutes_only.so", "1"), line)
    equal(len(lines), 3 * requests.count("\n"))


@suite.test("the generated table is what the toolkit's link stub exports")
def _():
    stub = "/usr/local/cuda/lib64/stubs/libcuda.so"
    home = os.environ.get("CUDA_HOME")
    if home:
        stub = os.path.join(home, "lib64/stubs/libcuda.so")
    if not os.path.exists(stub):
        from tap import Skip
        raise Skip("no link stub in this toolkit")
    listed = suite.run(["nm", "-D", stub]).stdout
    exported = {line.split()[2] for line in listed.splitlines() if " T " in line}
    equal(sorted({symbol for _, _, _, symbol in entry_points()}), sorted(exported))


@suite.test("a profiler's library gets the driver's own functions, any other the hooks")
def _():
    driver = os.path.join(DRIVER, "libcuda.so.1")
    other = os.path.join(suite.scratch, "libother.so")
    shutil.copy(suite.path("tests/interpose/libcupti_caller.so"), other)
    for library, wanted in ((suite.path("tests/interpose/libcupti_caller.so"), "libcuda.so.1"), (other, "libroutes_only.so")):
        code = ("import ctypes\nwhose = ctypes.CDLL(%r).whose\nwhose.restype = ctypes.c_char_p\n"
                "print(whose(%r, b'cuMemAlloc_v2').decode())" % (library, driver.encode()))
        done = suite.run([sys.executable, "-c", code], preload=SHIM)
        equal((done.stdout, done.returncode), (wanted + "\n", 0), done.stderr)


if __name__ == "__main__":
    suite.main()
