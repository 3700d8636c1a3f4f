// Memory, copies, questions, mappings of the program's own, capture, threads: right calls and wrong ones,
// every result printed. Run with and without the shim, the lines must be the same.
#include <cstdint>
#include <cstring>
#include <thread>

#include "tests/unit/interpose/programs/differential.h"

using namespace differential;

namespace {

void without_context() {
    CUdeviceptr address = 77;
    size_t a = 78, b = 79;
    CALL(cuMemAlloc, &address, kSmall);
    CALL(cuMemAlloc, nullptr, kSmall);
    CALL(cuMemGetInfo, &a, &b);
    CALL(cuMemFree, CUdeviceptr{0});
    CALL(cuMemFree, CUdeviceptr{12345});
    CALL(cuMemcpyHtoD, CUdeviceptr{0}, &a, 8);
    CALL(cuMemsetD8, CUdeviceptr{0}, 1, 8);
    CALL(cuLaunchKernel, nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
    CALL(cuMemAllocAsync, &address, kSmall, nullptr);
    CALL(cuStreamDestroy, nullptr);
    CALL(cuMemGetAddressRange, &address, &a, CUdeviceptr{4096});
    value("outputs untouched", address == 77 && a == 78 && b == 79);
}

void allocations(size_t device_bytes) {
    CUdeviceptr p = 77, q = 0, base = 0;
    size_t bytes = 0, pitch = 7;
    CALL(cuMemAlloc, &p, 0);
    CALL(cuMemAlloc, nullptr, kBig);
    CALL(cuMemAlloc, &p, size_t{1} << 60);
    CALL(cuMemAlloc, &p, 4 * device_bytes + 8 * kBig * kBig);
    value("pointer after errors", p);
    for (const size_t size : {size_t{1}, size_t{512}, kSmall, size_t{1} << 20, kBig, kBig + 1}) {
        if (CALL(cuMemAlloc, &p, size) != CUDA_SUCCESS) continue;
        value("aligned to 256", p % 256 == 0);
        CALL(cuMemGetAddressRange, &base, &bytes, p + size / 2);
        value("range starts there", base == p);
        value("range bytes", bytes);
        CALL(cuMemGetAddressRange, nullptr, &bytes, p);
        CALL(cuMemGetAddressRange, &base, nullptr, p);
        CALL(cuMemFree, p + 1);
        CALL(cuMemFree, p);
    }
    CALL(cuMemFree, CUdeviceptr{0});
    CALL(cuMemFree, CUdeviceptr{1} << 44);
    CALL(cuMemAllocPitch, &p, &pitch, 100, 10, 3);
    CALL(cuMemAllocPitch, nullptr, &pitch, 100, 10, 4);
    CALL(cuMemAllocPitch, &p, nullptr, 100, 10, 4);
    CALL(cuMemAllocPitch, &p, &pitch, 0, 10, 4);
    if (CALL(cuMemAllocPitch, &p, &pitch, 1000, 3000, 4) == CUDA_SUCCESS) {
        value("pitch holds the width", pitch >= 1000);
        CALL(cuMemFree, p);
    }
    size_t before = 0, after = 0, total = 0;
    CALL(cuMemGetInfo, &before, &total);
    CALL(cuMemAlloc, &p, kBig);
    CALL(cuMemGetInfo, &after, &total);
    value("free went down by the size or a little more",
          before >= after + kBig && before - after <= 2 * kBig);
    CALL(cuMemGetInfo, nullptr, &total);
    CALL(cuMemGetInfo, &after, nullptr);
    CALL(cuMemGetInfo, nullptr, nullptr);
    CALL(cuMemFree, p);
    CUstream stream = nullptr;
    CALL(cuStreamCreate, &stream, 0);
    CALL(cuMemAllocAsync, nullptr, kBig, stream);
    CALL(cuMemAllocAsync, &p, size_t{1} << 60, stream);
    CALL(cuMemAllocAsync, &p, kBig, stream);
    CALL(cuMemAllocAsync, &q, kSmall, nullptr);
    CALL(cuMemsetD8Async, p, 3, kBig, stream);
    unsigned char byte = 0;
    CALL(cuMemcpyDtoHAsync, &byte, p + kBig - 1, 1, stream);
    CALL(cuStreamSynchronize, stream);
    value("byte", byte);
    CALL(cuMemFreeAsync, p, stream);
    CALL(cuMemFree, q);
    CALL(cuMemFreeAsync, CUdeviceptr{0}, stream);
    CALL(cuStreamSynchronize, stream);
    CALL(cuStreamDestroy, stream);
}

void copies() {
    std::vector<unsigned char> host(kBig), back(kBig);
    for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<unsigned char>(i * 7 + i / 251);
    CUdeviceptr a = 0, b = 0;
    CALL(cuMemAlloc, &a, kBig);
    CALL(cuMemAlloc, &b, kBig);
    CALL(cuMemcpyHtoD, a, host.data(), kBig);
    CALL(cuMemcpyDtoD, b, a, kBig);
    CALL(cuMemcpyDtoH, back.data(), b, kBig);
    value("sum", sum(back));
    CALL(cuMemcpyHtoD, a, nullptr, 8);
    CALL(cuMemcpyHtoD, CUdeviceptr{0}, host.data(), 8);
    CALL(cuMemcpyHtoD, a, host.data(), 0);
    CALL(cuMemcpyHtoD, a + (size_t{1} << 42), host.data(), 8);
    CALL(cuMemcpyDtoH, nullptr, a, 8);
    CALL(cuMemcpyDtoH, back.data(), CUdeviceptr{4096}, 8);
    CALL(cuMemcpy, b + 100, a + 10, 1000);
    CALL(cuMemcpy, reinterpret_cast<CUdeviceptr>(back.data()), b, kBig);
    value("sum", sum(back));
    CALL(cuMemcpyAsync, a, b, kBig / 2, nullptr);
    CALL(cuMemcpyHtoDAsync, a + 5, host.data(), 1000, nullptr);
    CALL(cuMemcpyDtoDAsync, b + 1000, a, 5000, nullptr);
    CALL(cuMemcpyDtoHAsync, back.data(), b, kBig, nullptr);
    CALL(cuStreamSynchronize, nullptr);
    value("sum", sum(back));
    CALL(cuMemsetD8, a, 0x11, 1000);
    CALL(cuMemsetD16, a + 1000, 0x2233, 500);
    CALL(cuMemsetD32, a + 2000, 0x44556677, 250);
    CALL(cuMemsetD16, a + 1, 1, 8);
    CALL(cuMemsetD8, a, 1, 0);
    CALL(cuMemsetD2D8, a + 4096, 256, 9, 100, 20);
    CALL(cuMemsetD2D32, a + 65536, 512, 9, 100, 20);
    CALL(cuMemsetD8Async, a + 100000, 1, 100, nullptr);
    CALL(cuMemsetD32Async, a + 200000, 1, 100, nullptr);
    CALL(cuMemcpyDtoH, back.data(), a, kBig);
    value("sum", sum(back));

    CUDA_MEMCPY2D flat{};
    flat.srcMemoryType = CU_MEMORYTYPE_HOST;
    flat.srcHost = host.data();
    flat.srcPitch = 1000;
    flat.srcXInBytes = 10;
    flat.srcY = 3;
    flat.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    flat.dstDevice = a;
    flat.dstPitch = 2048;
    flat.dstXInBytes = 20;
    flat.WidthInBytes = 500;
    flat.Height = 40;
    CALL(cuMemcpy2D, &flat);
    CALL(cuMemcpy2DUnaligned, &flat);
    CALL(cuMemcpy2DAsync, &flat, nullptr);
    CALL(cuMemcpy2D, nullptr);
    flat.srcPitch = 4;
    CALL(cuMemcpy2D, &flat);
    CUDA_MEMCPY3D deep{};
    deep.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    deep.srcDevice = b;
    deep.srcPitch = 512;
    deep.srcHeight = 32;
    deep.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    deep.dstDevice = a;
    deep.dstPitch = 1024;
    deep.dstHeight = 64;
    deep.dstZ = 2;
    deep.WidthInBytes = 300;
    deep.Height = 16;
    deep.Depth = 5;
    CALL(cuMemcpy3D, &deep);
    CALL(cuMemcpy3DAsync, &deep, nullptr);
    CALL(cuMemcpy3D, nullptr);
    CALL(cuMemcpyDtoH, back.data(), a, kBig);
    value("sum", sum(back));

    CUdeviceptr to[3] = {a, b + 64, a + 4096}, from[3] = {b, a + 128, b + 8192};
    size_t sizes[3] = {100, 200, 300}, indices[1] = {0};
    CUmemcpyAttributes attributes{};
    attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    CUstream stream = nullptr;
    CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    CALL(cuMemcpyBatchAsync, to, from, sizes, 3, &attributes, indices, 1, stream);
    CALL(cuStreamSynchronize, stream);
    CALL(cuMemcpyBatchAsync, nullptr, from, sizes, 3, &attributes, indices, 1, stream);
    CALL(cuMemcpyDtoH, back.data(), a, kBig);
    value("sum", sum(back));
    CALL(cuStreamDestroy, stream);
    CALL(cuMemFree, a);
    CALL(cuMemFree, b);
    CALL(cuMemFree, b);
}

void questions() {
    CUdeviceptr p = 0;
    CALL(cuMemAlloc, &p, kBig);
    CUmemorytype type{};
    CUdeviceptr start = 0;
    size_t bytes = 0;
    int ordinal = -1;
    unsigned managed = 9;
    CALL(cuPointerGetAttribute, &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 100);
    value("type", type);
    CALL(cuPointerGetAttribute, &start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, p + 100);
    value("start", start == p);
    CALL(cuPointerGetAttribute, &bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, p + 100);
    value("bytes", bytes);
    CALL(cuPointerGetAttribute, &ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p);
    value("ordinal", static_cast<unsigned>(ordinal));
    CALL(cuPointerGetAttribute, &managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p);
    value("managed", managed);
    CALL(cuPointerGetAttribute, nullptr, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p);
    CALL(cuPointerGetAttribute, &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CUdeviceptr{1} << 44);
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_POINTER};
    void* places[] = {&type, &start};
    CALL(cuPointerGetAttributes, 2, wanted, places, p);
    value("device pointer", start == p);
    CUmemGenericAllocationHandle handle = 0;
    CALL(cuMemRetainAllocationHandle, &handle, reinterpret_cast<void*>(p));
    CALL(cuMemFree, p);
    CALL(cuPointerGetAttribute, &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p);
}

/// The program's own virtual memory management goes past everything.
void own_mappings(int device) {
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    size_t granule = 0;
    CALL(cuMemGetAllocationGranularity, &granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    value("granularity", granule);
    CUdeviceptr range = 0;
    CUmemGenericAllocationHandle handle = 0, again = 0;
    CALL(cuMemAddressReserve, &range, granule, 0, 0, 0);
    CALL(cuMemCreate, &handle, granule, &prop, 0);
    CALL(cuMemMap, range, granule, 0, handle, 0);
    CUmemAccessDesc access{};
    access.location = prop.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CALL(cuMemSetAccess, range, granule, &access, 1);
    CALL(cuMemsetD32, range, 5, granule / 4);
    unsigned word = 0;
    CALL(cuMemcpyDtoH, &word, range + granule - 4, 4);
    value("word", word);
    CALL(cuMemRetainAllocationHandle, &again, reinterpret_cast<void*>(range));
    value("same handle", again == handle);
    CALL(cuMemRelease, again);
    CALL(cuMemFree, range);
    CALL(cuMemUnmap, range, granule);
    CALL(cuMemRelease, handle);
    CALL(cuMemAddressFree, range, granule);
    CALL(cuMemCreate, &handle, 1, &prop, 0);
}

void streams_and_graphs() {
    CUstream stream = nullptr;
    CUevent event = nullptr;
    CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    CALL(cuEventCreate, &event, CU_EVENT_DEFAULT);
    CUdeviceptr p = 0;
    CALL(cuMemAlloc, &p, kBig);
    CALL(cuMemsetD8Async, p, 1, kBig, stream);
    CALL(cuEventRecord, event, stream);
    CALL(cuStreamWaitEvent, nullptr, event, 0);
    CALL(cuMemsetD8Async, p, 2, 16, nullptr);
    CALL(cuStreamSynchronize, nullptr);
    CALL(cuLaunchKernel, nullptr, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
    CALL(cuLaunchKernelEx, nullptr, nullptr, nullptr, nullptr);
    CALL(cuGraphLaunch, nullptr, stream);
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    CALL(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    CALL(cuMemsetD8Async, p, 7, kBig, stream);
    CALL(cuMemsetD8Async, p + kBig / 2, 9, kBig / 2, stream);
    CALL(cuStreamEndCapture, stream, &graph);
    CALL(cuStreamEndCapture, stream, &graph);
    size_t nodes = 0;
    CALL(cuGraphGetNodes, graph, nullptr, &nodes);
    value("nodes", nodes);
    CALL(cuGraphInstantiateWithFlags, &exec, graph, 0);
    unsigned char bytes[2] = {0, 0};
    for (int i = 0; i < 2; ++i) {
        CALL(cuMemsetD8, p, 0, kBig);
        CALL(cuGraphLaunch, exec, stream);
        CALL(cuStreamSynchronize, stream);
        CALL(cuMemcpyDtoH, &bytes[0], p, 1);
        CALL(cuMemcpyDtoH, &bytes[1], p + kBig - 1, 1);
        value("first", bytes[0]);
        value("last", bytes[1]);
    }
    CALL(cuGraphExecDestroy, exec);
    CALL(cuGraphDestroy, graph);
    CALL(cuMemFree, p);
    CALL(cuEventDestroy, event);
    CALL(cuStreamDestroy, stream);
    CALL(cuStreamDestroy, nullptr);
}

void threads() {
    CUcontext context = nullptr;
    CALL(cuCtxGetCurrent, &context);
    std::thread([context] {
        CUdeviceptr p = 5;
        CALL(cuMemAlloc, &p, kBig);  // no context is current in this thread
        CALL(cuCtxSetCurrent, context);
        CALL(cuMemAlloc, &p, kBig);
        CALL(cuMemsetD8, p, 4, kBig);
        unsigned char byte = 0;
        CALL(cuMemcpyDtoH, &byte, p + 99, 1);
        value("byte", byte);
        CALL(cuMemFree, p);
    }).join();
}

}  // namespace

int main(int argc, char** argv) {
    if (!open_driver(argc, argv)) return 2;
    without_context();
    CALL(cuInit, 0);
    CUdevice device = 0;
    CUcontext context = nullptr;
    size_t bytes = 0;
    CALL(cuDeviceGet, &device, 0);
    without_context();
    CALL(cuDevicePrimaryCtxRetain, &context, device);
    CALL(cuCtxSetCurrent, context);
    CALL(cuDeviceTotalMem, &bytes, device);
    allocations(bytes);
    copies();
    questions();
    own_mappings(device);
    streams_and_graphs();
    threads();
    CALL(cuModuleUnload, nullptr);
    CALL(cuCtxDestroy, nullptr);
    CALL(cuDevicePrimaryCtxReset, 99);
    CUdeviceptr p = 0;
    CALL(cuMemAlloc, &p, kBig);
    CALL(cuDevicePrimaryCtxReset, device);
    CALL(cuMemFree, p);
    CALL(cuDevicePrimaryCtxRelease, device);
    return 0;
}
