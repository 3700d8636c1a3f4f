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


if __name__ == "__main__":
    suite.main()
