#!/usr/bin/env python3
"""What a framework does with a graph built by hand, tinygrad's JIT for one: each step brings fresh inputs, names them in
the executable graph in place of the former ones, and frees those."""

import os
import re
import sys

from tap import Suite, equal

suite = Suite()

PROGRAM = '''
import ctypes as c
cuda = c.CDLL("libcuda.so.1")
u64 = c.c_uint64
def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    assert result == 0, (name, result)
PTX = b""".version 7.0
.target sm_75
.address_size 64
.visible .entry add(.param .u64 to, .param .u64 from, .param .u64 input) {
    .reg .b32 %r<5>; .reg .b64 %a<5>; .reg .b32 %v<4>;
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r4, %r1, %r2, %r3;
    mul.wide.u32 %a1, %r4, 4;
    ld.param.u64 %a2, [to]; ld.param.u64 %a3, [from]; ld.param.u64 %a4, [input];
    add.u64 %a2, %a2, %a1; add.u64 %a3, %a3, %a1; add.u64 %a4, %a4, %a1;
    ld.global.u32 %v1, [%a3]; ld.global.u32 %v2, [%a4]; add.u32 %v3, %v1, %v2;
    st.global.u32 [%a2], %v3;
    ret;
}"""
class Node(c.Structure):
    _fields_ = [("function", c.c_void_p), *((n, c.c_uint) for n in "gx gy gz bx by bz shared".split()), ("params", c.c_void_p), ("extra", c.c_void_p)]
class Arguments(c.Structure):
    _fields_ = [("to", u64), ("source", u64), ("input", u64)]
context, module, function = c.c_void_p(), c.c_void_p(), c.c_void_p()
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", c.byref(context), 0)
call("cuCtxSetCurrent", context)
call("cuModuleLoadData", c.byref(module), PTX)
call("cuModuleGetFunction", c.byref(function), module, b"add")
N, CHAIN, STEPS = 1 << 20, 6, 24
def allocate():
    address = u64()
    call("cuMemAlloc_v2", c.byref(address), c.c_size_t(4 * N))
    return address.value
def fill(address, value):
    call("cuMemsetD32_v2", u64(address), c.c_uint(value), c.c_size_t(N))
state = [allocate() for _ in range(CHAIN + 1)]
for address in state:
    fill(address, 0)
graph, instance, nodes = c.c_void_p(), c.c_void_p(), []
call("cuGraphCreate", c.byref(graph), 0)
inputs = allocate()
for i in range(CHAIN):
    arguments = Arguments(state[i + 1], state[i], inputs)
    size = c.c_size_t(c.sizeof(arguments))
    extra = (c.c_void_p * 5)(1, c.cast(c.byref(arguments), c.c_void_p), 2, c.cast(c.byref(size), c.c_void_p), 0)
    node = Node(function.value, N // 256, 1, 1, 256, 1, 1, 0, None, c.cast(extra, c.c_void_p))
    handle = c.c_void_p()
    before = (c.c_void_p * 1)(nodes[-1][0].value) if nodes else None
    call("cuGraphAddKernelNode", c.byref(handle), graph, before, c.c_size_t(len(nodes) and 1), c.byref(node))
    nodes.append((handle, node, arguments, size, extra))
call("cuGraphInstantiateWithFlags", c.byref(instance), graph, c.c_ulonglong(0))
for step in range(STEPS):
    fresh = allocate()
    fill(fresh, step + 1)
    call("cuMemFree_v2", u64(inputs))
    inputs = fresh
    for handle, node, arguments, _, _ in nodes:
        arguments.input = inputs
        call("cuGraphExecKernelNodeSetParams_v2" if hasattr(cuda, "cuGraphExecKernelNodeSetParams_v2") else "cuGraphExecKernelNodeSetParams",
             instance, handle, c.byref(node))
    call("cuGraphLaunch", instance, None)
    out = (c.c_uint * 2)()
    call("cuMemcpyDtoH_v2", out, u64(state[CHAIN] + 4 * (N - 2)), c.c_size_t(8))
    assert list(out) == [CHAIN * (step + 1)] * 2, (step, list(out))
print("same")
'''


def run(memory):
    script, report = os.path.join(suite.scratch, "graph.py"), os.path.join(suite.scratch, "report.txt")
    with open(script, "w") as file:
        file.write(PROGRAM)
    done = suite.run([os.path.join(suite.root, "scripts/softgpu"), "--build", suite.build, "--memory", "64MiB", "--", suite.path("swapadvisor"),
                      "run", "--memory", memory, "--planner", "none", "-o", report, "--", sys.executable, script])
    equal((done.returncode, done.stdout), (0, "same\n"), done.stderr)
    with open(report) as file:
        return file.read()


def peak_mib(text):
    return int(re.search(r"peak of the program +(\d+)", text)[1]) >> 20


@suite.test("graphs: what a changed node no longer names is freed, with room for all of it")
def _():
    # 7 buffers of state, the input, and the next one.
    equal(peak_mib(run("60MiB")), 36)


@suite.test("graphs: what a changed node no longer names is freed, with room for half; the steps are recognised")
def _():
    text = run("18MiB")
    equal(peak_mib(text), 36)
    assert "graph launched node by node" in text, text
    assert int(re.search(r"ops per iteration +(\d+)", text)[1]) in (8, 16, 24, 32), text


suite.main()
