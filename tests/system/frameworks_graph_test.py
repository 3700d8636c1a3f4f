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


NODES = '''
import ctypes as c
cuda = c.CDLL("libcuda.so.1")
u64, size = c.c_uint64, c.c_size_t
def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    assert result == 0, (name, result)
def side(name):
    return [*((name + n, size) for n in ("X", "Y", "Z", "LOD")), (name + "Type", c.c_int), (name + "Host", c.c_void_p), (name + "Device", u64),
            (name + "Array", c.c_void_p), (name + "Reserved", c.c_void_p), (name + "Pitch", size), (name + "Height", size)]
class Copy(c.Structure):
    _fields_ = [*side("src"), *side("dst"), ("width", size), ("height", size), ("depth", size)]
class Set(c.Structure):
    _fields_ = [("dst", u64), ("pitch", size), ("value", c.c_uint), ("element", c.c_uint), ("width", size), ("height", size)]
class AnyNode(c.Structure):
    class Body(c.Union):
        class CopyBody(c.Structure):
            _fields_ = [("flags", c.c_int), ("reserved", c.c_int), ("context", c.c_void_p), ("copy", Copy)]
        class SetBody(c.Structure):
            _fields_ = [("set", Set), ("context", c.c_void_p)]
        _fields_ = [("copy", CopyBody), ("set", SetBody), ("all", c.c_longlong * 29)]
    _fields_ = [("type", c.c_int), ("reserved0", c.c_int * 3), ("body", Body), ("reserved1", c.c_longlong)]
context = c.c_void_p()
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", c.byref(context), 0)
call("cuCtxSetCurrent", context)
N = 1 << 20
host = (c.c_uint * N)(*([7] * N))
def allocate():
    address = u64()
    call("cuMemAlloc_v2", c.byref(address), size(4 * N))
    return address.value
def copy_to(address):
    return Copy(srcType=1, srcHost=c.addressof(host), dstType=2, dstDevice=address, width=4 * N, height=1, depth=1)
def set_to(address, value):
    return Set(address, 0, value, 4, N, 1)
def add(name, params, *more):
    node = c.c_void_p()
    call(name, c.byref(node), graph, None, *more, size(0), c.byref(params), *([context] if name != "cuGraphAddNode_v2" else []))
    return node
def crowd_out():
    for address in others:
        call("cuMemsetD32_v2", u64(address), c.c_uint(1), size(N))
graph, instance = c.c_void_p(), c.c_void_p()
call("cuGraphCreate", c.byref(graph), 0)
# None of these has been used by anything when its node is made.
buffers, others = [allocate() for _ in range(8)], [allocate() for _ in range(6)]
copying, setting = add("cuGraphAddMemcpyNode", copy_to(buffers[0])), add("cuGraphAddMemsetNode", set_to(buffers[1], 3))
any_copy, any_set = AnyNode(type=1), AnyNode(type=2)
any_copy.body.copy.copy, any_set.body.set.set = copy_to(buffers[2]), set_to(buffers[3], 4)
add("cuGraphAddNode_v2", any_copy, None)
add("cuGraphAddNode_v2", any_set, None)
call("cuGraphMemcpyNodeSetParams", copying, c.byref(copy_to(buffers[4])))
call("cuGraphMemsetNodeSetParams", setting, c.byref(set_to(buffers[5], 5)))
call("cuGraphInstantiateWithFlags", c.byref(instance), graph, c.c_ulonglong(0))
call("cuGraphLaunch", instance, None)
crowd_out()
call("cuGraphExecMemcpyNodeSetParams", instance, copying, c.byref(copy_to(buffers[6])), context)
call("cuGraphExecMemsetNodeSetParams", instance, setting, c.byref(set_to(buffers[7], 6)), context)
crowd_out()
# Back to what is swapped out by now.
call("cuGraphExecMemcpyNodeSetParams", instance, copying, c.byref(copy_to(buffers[4])), context)
call("cuGraphLaunch", instance, None)
def words(address):
    out = (c.c_uint * 2)()
    call("cuMemcpyDtoH_v2", out, u64(address + 4 * (N - 2)), size(8))
    return list(out)
assert [words(buffers[i])[1] for i in (2, 3, 4, 5, 7)] == [7, 4, 7, 5, 6], [words(b) for b in buffers]
print("same")
'''


def run(memory, program=PROGRAM):
    script, report = os.path.join(suite.scratch, "graph.py"), os.path.join(suite.scratch, "report.txt")
    with open(script, "w") as file:
        file.write(program)
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


@suite.test("graphs: copies and memsets become nodes, and change, while their memory has no mapping")
def _():
    run("60MiB", NODES)
    run("22MiB", NODES)


suite.main()
