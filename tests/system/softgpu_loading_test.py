#!/usr/bin/env python3
"""Programs that open the software driver and close it again, as runtimes do that only look whether it is there."""

import sys

from tap import Suite, equal

suite = Suite()

# Opened, used so that its threads run, and closed as often as it was opened; then again.
PROGRAM = """
import ctypes, sys, threading, time
import _ctypes

def use(driver):
    assert driver.cuInit(0) == 0
    if sys.argv[1] == "context":
        context = ctypes.c_void_p()
        assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
        assert driver.cuCtxSetCurrent(context) == 0
        address = ctypes.c_uint64()
        assert driver.cuMemAlloc_v2(ctypes.byref(address), 1 << 20) == 0
        assert driver.cuMemsetD8Async(address, 3, 1 << 20, None) == 0

# In a thread that ends, whose thread-local objects would otherwise keep the library.
for _ in range(3):
    driver = ctypes.CDLL("libcuda.so.1")
    thread = threading.Thread(target=use, args=(driver,))
    thread.start()
    thread.join()
    _ctypes.dlclose(driver._handle)
    time.sleep(0.1)
print("alive")
"""


for what in ("nothing", "context"):
    @suite.test(f"the driver is closed while it holds {what}")
    def _(what=what):
        done = suite.run([sys.executable, "-c", PROGRAM, what], libraries=suite.path("softgpu"))
        equal((done.returncode, done.stdout), (0, "alive\n"), done.stderr)


# Kernels are run by a thread of the driver's, as no call comes, when the program exits.
EXIT = """
import ctypes, sys, time
code = b'''
.version 6.4
.target sm_75
.address_size 64
.visible .entry spin()
{
    .reg .pred %q;
    .reg .b32 %r<3>;
    mov.u32 %r1, 0;
again:
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %q, %r1, 10000;
    @%q bra again;
    ret;
}
'''
driver = ctypes.CDLL("libcuda.so.1")
context, module, kernel = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
assert driver.cuInit(0) == 0
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == 0
assert driver.cuModuleLoadData(ctypes.byref(module), code) == 0
assert driver.cuModuleGetFunction(ctypes.byref(kernel), module, b"spin") == 0
for _ in range(64):
    assert driver.cuLaunchKernel(kernel, 64, 1, 1, 128, 1, 1, 0, None, None, None) == 0
time.sleep(0.35)
"""


@suite.test("a program exits while the device is at work")
def _():
    for _ in range(3):
        done = suite.run([sys.executable, "-c", EXIT], libraries=suite.path("softgpu"),
                         env={"SOFTGPU_OPTIONS": "idle=100ms,threads=2,queue=1000"})
        equal((done.returncode, done.stderr), (0, ""), "exit")


if __name__ == "__main__":
    suite.main()
