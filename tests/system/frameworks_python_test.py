#!/usr/bin/env python3
"""Other users of the driver from PyPI, unmodified, on the software GPU under SwapAdvisor."""

import os
import subprocess
import sys

from tap import Skip, Suite, equal

suite = Suite()
VENV = suite.path("venv-driver-users")

# Each program fills more arrays than the limit has room for, uses each twice, so that it has to come back, and checks them.
# A kernel adds v + i to element i; v is the array's number, and one more in the second round.
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

NUMBA = '''
import numpy as np
from numba import cuda
N, ARRAYS = 1 << 20, 8
@cuda.jit
def add(x, v):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += v + i
arrays = [cuda.to_device(np.zeros(N, np.int32)) for _ in range(ARRAYS)]
for round in range(2):
    for number, array in enumerate(arrays):
        add[N // 256, 256](array, number + round)
for number, array in enumerate(arrays):
    assert (array.copy_to_host() == 2 * np.arange(N, dtype=np.int32) + 2 * number + 1).all(), number
print("same")
'''

TRITON = '''
import ctypes
import numpy as np
import triton
import triton.language as tl
N, ARRAYS = 1 << 20, 8
@triton.jit
def add(x, n, v, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(x + i, tl.load(x + i, mask=inside) + v + i, mask=inside)
cuda = ctypes.CDLL("libcuda.so.1")
def check(result):
    assert result == 0, result
class Array:
    """What Triton asks of an array: its type and its address."""
    dtype = "int32"
    def __init__(self):
        self.address = ctypes.c_uint64()
        check(cuda.cuMemAlloc_v2(ctypes.byref(self.address), ctypes.c_size_t(4 * N)))
        check(cuda.cuMemsetD8_v2(self.address, 0, ctypes.c_size_t(4 * N)))
    def data_ptr(self):
        return self.address.value
    def numpy(self):
        out = np.zeros(N, np.int32)
        check(cuda.cuMemcpyDtoH_v2(ctypes.c_void_p(out.ctypes.data), self.address, ctypes.c_size_t(out.nbytes)))
        return out
triton.runtime.driver.active.set_current_device(0)
arrays = [Array() for _ in range(ARRAYS)]
for round in range(2):
    for number, array in enumerate(arrays):
        add[(N // 1024,)](array, N, number + round, BLOCK=1024)
check(cuda.cuCtxSynchronize())
for number, array in enumerate(arrays):
    assert (array.numpy() == 2 * np.arange(N, dtype=np.int32) + 2 * number + 1).all(), number
print("same")
'''

# The software GPU's machine code is PTX: this in the place of ptxas (TRITON_PTXAS_PATH) hands over the text as it is.
PTXAS = '''#!/bin/sh
for word; do
    case $word in
    --version) exec "${CUDA_HOME:-/usr/local/cuda}/bin/ptxas" --version ;;
    *.ptx) source=$word ;;
    esac
    [ "$last" = -o ] && target=$word
    last=$word
done
exec cp "$source" "$target"
'''


def python(imports, *packages):
    """An interpreter that has the packages; installed on first use, all into one environment."""
    interpreter = os.path.join(VENV, "bin/python")
    wanted = [interpreter, "-c", f"import {imports}"]
    if not os.path.exists(interpreter) and subprocess.run([sys.executable, "-m", "venv", VENV], capture_output=True).returncode:
        raise Skip("no virtual environment can be made")
    if subprocess.run(wanted, stderr=subprocess.DEVNULL).returncode:
        install = [interpreter, "-m", "pip", "install", "-q", "--no-compile", "numpy<3", *packages]
        if subprocess.run(install, capture_output=True, timeout=600).returncode:
            raise Skip(f"{packages[0]} cannot be installed from PyPI")
    return interpreter


def right_in_less_memory(interpreter, program, libraries="", cc="7.5", env=None):
    script, report = os.path.join(suite.scratch, "program.py"), os.path.join(suite.scratch, "report.txt")
    with open(script, "w") as file:
        file.write(program)
    # The device has some more: what the driver itself takes for modules is not the limit's.
    done = suite.run([os.path.join(suite.root, "scripts/softgpu"), "--build", suite.build, "--memory", "24MiB", "--cc", cc, "--",
                      suite.path("swapadvisor"), "run", "--memory", "20MiB", "--planner", "none", "-o", report, "--", interpreter, script],
                     libraries=libraries, env=env, timeout=600)
    equal((done.returncode, done.stdout), (0, "same\n"), done.stderr)
    with open(report) as file:
        assert "on demand" in file.read()


@suite.test("cuda-core and cuda-bindings: right results in 20 of 32 MiB")
def _():
    right_in_less_memory(python("cuda.core, numpy", "cuda-core==1.2.2", "cuda-bindings==13.5.0"), CUDA_CORE)


@suite.test("numba-cuda, linking by the driver: right results in 20 of 32 MiB")
def _():
    interpreter = python("numba.cuda, cuda.core", "numba-cuda==0.30.4", "cuda-core==1.2.2", "cuda-bindings==13.5.0")
    # nvJitLink makes machine code of real GPUs. Where it can't be used, numba-cuda links by the driver: as here, where
    # the library of that name has nothing in it.
    without = os.path.join(suite.scratch, "without-nvjitlink")
    os.makedirs(without)
    subprocess.run(["gcc", "-shared", "-x", "c", "/dev/null", "-o", os.path.join(without, "libnvJitLink.so.13")], check=True)
    right_in_less_memory(interpreter, NUMBA, libraries=without)


@suite.test("Triton without PyTorch: right results in 20 of 32 MiB")
def _():
    interpreter = python("triton, numpy", "triton==3.9.0")
    ptxas = os.path.join(suite.scratch, "ptxas")
    with open(ptxas, "w") as file:
        file.write(PTXAS)
    os.chmod(ptxas, 0o755)
    right_in_less_memory(interpreter, TRITON, cc="8.0", env={
        "TRITON_PTXAS_PATH": ptxas, "TRITON_LIBCUDA_PATH": suite.path("softgpu"), "TRITON_CACHE_DIR": os.path.join(suite.scratch, "triton")})


suite.main()
