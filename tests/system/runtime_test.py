#!/usr/bin/env python3
"""The software runtime as a library: its symbols against NVIDIA's, programs without a driver, per-thread streams."""

import os
import re
import shutil

from tap import Skip, Suite, equal

suite = Suite()
SOFTGPU = os.path.join(suite.root, "scripts/softgpu")
RUNTIME = suite.path("softgpu/libcudart.so.13")
CUDA = os.environ.get("CUDA_HOME") or (os.path.realpath(shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc").removesuffix("/bin/nvcc"))


def exported(library):
    lines = suite.run(["nm", "-D", "--defined-only", library]).stdout.splitlines()
    return {line.split()[-1] for line in lines if len(line.split()) == 3 and line.split()[1] in "TW"}


@suite.test("exports only what NVIDIA's runtime exports, under the same version")
def _():
    theirs = exported(os.path.join(CUDA, "lib64/libcudart.so.13"))
    if not theirs:
        raise Skip("the toolkit has no libcudart.so.13")
    ours = exported(RUNTIME)
    equal(ours - theirs, set())
    assert len(ours) > 300, len(ours)
    assert all(name.endswith("@@libcudart.so.13") for name in ours)


@suite.test("all that is imported by nvcc's programs is there")
def _():
    ours = {name.split("@")[0] for name in exported(RUNTIME)}
    text = suite.run(["nm", "-D", "--undefined-only", suite.path("workloads/digits")]).stdout
    wanted = {name for name in re.findall(r"U (_*cuda\w+)@libcudart", text)}
    assert len(wanted) > 20, wanted
    equal(wanted - ours, set())


@suite.test("the name of the library is NVIDIA's, and it needs no CUDA library")
def _():
    text = suite.run(["readelf", "-d", RUNTIME]).stdout
    equal(re.search(r"SONAME.*\[(.*)\]", text)[1], "libcudart.so.13")
    assert not re.search(r"NEEDED.*cuda", text), text


@suite.test("without a driver a program is told so")
def _():
    folder = os.path.join(suite.scratch, "alone")
    os.mkdir(folder)
    os.symlink(RUNTIME, os.path.join(folder, "libcudart.so.13"))
    if "libcuda.so.1" in suite.run(["ldconfig", "-p"]).stdout:
        raise Skip("this machine has a driver")
    done = suite.run([suite.path("workloads/digits")], libraries=folder)
    equal(done.returncode, 3)
    equal(done.stderr, "digits: cudaSetDevice: CUDA driver version is insufficient for CUDA runtime version "
                       "(cudaErrorInsufficientDriver)\n")


@suite.test("the per-thread default stream of --default-stream per-thread")
def _():
    done = suite.run([SOFTGPU, "--build", suite.build, "--", suite.path("tests/runtime_per_thread")])
    equal((done.returncode, done.stdout), (0, "ok\n"), done.stderr)


suite.main()
