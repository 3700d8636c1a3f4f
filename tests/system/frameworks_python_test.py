#!/usr/bin/env python3
"""Other users of the driver from PyPI, unmodified, on the software GPU under SwapAdvisor."""

import os
import subprocess
import sys

from tap import Skip, Suite, equal

suite = Suite()
VENV = suite.path("venv-cuda-python")
PACKAGES = ("cuda-core==1.2.2", "cuda-bindings==13.5.0", "numpy<3")

# More arrays than the limit has room for; each is used twice, so that it has to come back.
CUDA_CORE = '''
import ctypes
import numpy as np
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch
N, ARRAYS = 1 << 20, 8
device = Device()
device.set_current()
stream = device.create_stream()
source = 'extern "C" __global__ void add(int* x, int n, int v) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] += v + i; }'
kernel = Program(source, "c++", ProgramOptions(arch="sm_75")).compile("ptx").get_kernel("add")
def check(answer):
    assert int(answer[0]) == 0, answer
    return answer[1] if len(answer) > 1 else None
arrays = [int(check(driver.cuMemAlloc(4 * N))) for _ in range(ARRAYS)]
for array in arrays:
    check(driver.cuMemsetD8(array, 0, 4 * N))
for round in range(2):
    for number, array in enumerate(arrays):
        launch(stream, LaunchConfig(grid=N // 256, block=256), kernel, array, ctypes.c_int(N), ctypes.c_int(number + round))
stream.sync()
for number, array in enumerate(arrays):
    out = np.zeros(N, np.int32)
    check(driver.cuMemcpyDtoH(out.ctypes.data, array, 4 * N))
    assert (out == 2 * np.arange(N, dtype=np.int32) + 2 * number + 1).all(), number
print("same")
'''


def python():
    """An interpreter that has the packages; installed on first use."""
    interpreter = os.path.join(VENV, "bin/python")
    wanted = [interpreter, "-c", "import cuda.core, numpy"]
    if not os.path.exists(interpreter) or subprocess.run(wanted, stderr=subprocess.DEVNULL).returncode:
        made = subprocess.run([sys.executable, "-m", "venv", VENV], capture_output=True)
        if made.returncode or subprocess.run([interpreter, "-m", "pip", "install", "-q", *PACKAGES], capture_output=True, timeout=600).returncode:
            raise Skip("cuda-core cannot be installed from PyPI")
    return interpreter


@suite.test("cuda-core and cuda-bindings: right results in half of the memory")
def _():
    script, report = os.path.join(suite.scratch, "core.py"), os.path.join(suite.scratch, "report.txt")
    with open(script, "w") as file:
        file.write(CUDA_CORE)
    done = suite.run([os.path.join(suite.root, "scripts/softgpu"), "--build", suite.build, "--memory", "20MiB", "--", suite.path("swapadvisor"),
                      "run", "--memory", "20MiB", "--planner", "none", "-o", report, "--", python(), script], timeout=600)
    equal((done.returncode, done.stdout), (0, "same\n"), done.stderr)
    with open(report) as file:
        assert "on demand" in file.read()


suite.main()
