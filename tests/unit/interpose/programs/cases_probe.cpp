// Small programs after public bug reports of tools between programs and the driver: each does what went wrong
// there, and prints what a correct tool leaves unchanged. Knows nothing of the shim. Named by its first
// argument.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/interpose/programs/case_tools.h"

using namespace case_tools;

namespace {

CUmemAllocationProp device_prop(CUmemLocationType type = CU_MEM_LOCATION_TYPE_DEVICE) {
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = type;
    return prop;
}

void null_mem_info() {
    use_device();
    std::size_t total = 0;
    SHOW(cuMemGetInfo, nullptr, &total);
    show("total known", total > 0);
    SHOW(cuMemGetInfo, nullptr, nullptr);
}

void outputs_after_errors() {
    use_device();
    CUdeviceptr p = 1234;
    std::size_t pitch = 99;
    SHOW(cuMemAlloc, &p, std::size_t{1} << 58);
    SHOW(cuMemAllocPitch, &p, &pitch, std::size_t{1} << 40, std::size_t{1} << 18, 4);
    show("address", p);
    show("pitch", pitch);
}

void host_location() {
    use_device();
    CUmemGenericAllocationHandle handle = 0;
    for (const auto type :
         {CU_MEM_LOCATION_TYPE_HOST, CU_MEM_LOCATION_TYPE_HOST_NUMA, CU_MEM_LOCATION_TYPE_INVALID}) {
        const CUmemAllocationProp prop = device_prop(type);
        SHOW(cuMemCreate, &handle, 2u << 20, &prop, 0);
    }
}

void thread_without_context() {
    use_device();
    std::thread([] {
        const CUmemAllocationProp prop = device_prop();
        CUmemGenericAllocationHandle handle = 0;
        SHOW(cuMemCreate, &handle, 2u << 20, &prop, 0);
        SHOW(cuMemRelease, handle);
        CUdeviceptr p = 0;
        SHOW(cuMemAlloc, &p, kBig);
        SHOW(cuMemAllocAsync, &p, kBig, nullptr);
    }).join();
}

void repeated_failure() {
    use_device();
    const auto count = function<unsigned long(const char*)>("fake_count");
    CUdeviceptr p = 0;
    std::map<int, int> results;
    for (int i = 0; i < 50; ++i) ++results[CU(cuMemAlloc)(&p, 64u << 20)];
    for (const auto& [result, times] : results) std::printf("result %d\n", result);
    show("handles kept", count("cuMemCreate") - count("cuMemRelease") > 40);
}

/// Memory of a green context, before and after some of the device's own.
void green_context() {
    const CUcontext own = use_device();
    const auto count = function<unsigned long(const char*)>("fake_count");
    CUcontext green = nullptr;
    CUdeviceptr p = 0;
    SHOW(cuCtxFromGreenCtx, &green, reinterpret_cast<CUgreenCtx>(0x5000));
    for (const CUcontext context : {green, own, green}) {
        SHOW(cuCtxSetCurrent, context);
        const unsigned long before = count("cuMemAlloc_v2");
        SHOW(cuMemAlloc, &p, kBig);
        show("left to the driver", count("cuMemAlloc_v2") - before);
    }
}

void foreign_free() {
    use_device();
    CUmemPoolProps props{};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemoryPool pool = nullptr;
    CUdeviceptr p = 0;
    show("pool", CU(cuMemPoolCreate)(&pool, &props));
    SHOW(cuMemAllocFromPoolAsync, &p, kBig, pool, nullptr);
    SHOW(cuMemsetD8, p, 5, kBig);
    show("byte", byte_at(p + kBig - 1));
    SHOW(cuMemFree, p);
    SHOW(cuMemFree, CUdeviceptr{0x123456789});
    SHOW(cuMemFreeAsync, CUdeviceptr{0x123456789}, nullptr);
}

void async_is_counted() {
    use_device();
    std::size_t before = 0, after = 0, total = 0;
    CUdeviceptr p = 0;
    SHOW(cuMemGetInfo, &before, &total);
    SHOW(cuMemAllocAsync, &p, kBig, nullptr);
    SHOW(cuMemGetInfo, &after, &total);
    show("counted", before >= after + kBig);
    SHOW(cuMemFreeAsync, p, nullptr);
}

/// Frees and allocations between begin and end of a capture; the graph uses both.
void in_capture() {
    use_device();
    CUdeviceptr a = 0, b = 0, c = 0;
    CUstream stream = nullptr;
    SHOW(cuMemAlloc, &a, kBig);
    SHOW(cuMemAlloc, &b, kBig);
    SHOW(cuMemsetD8, b, 7, kBig);
    SHOW(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    SHOW(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    SHOW(cuMemsetD8Async, a, 3, kBig, stream);
    SHOW(cuMemFree, b);
    SHOW(cuMemAlloc, &c, kBig);
    SHOW(cuMemsetD8Async, c, 4, kBig, stream);
    SHOW(cuMemAlloc, &b, std::size_t{1} << 50);  // too much: an error, and the capture goes on
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    SHOW(cuStreamEndCapture, stream, &graph);
    SHOW(cuGraphInstantiate, &exec, graph, 0);
    for (int i = 0; i < 3; ++i) {
        SHOW(cuMemsetD8, a, 0, kBig);
        SHOW(cuMemsetD8, c, 0, kBig);
        SHOW(cuGraphLaunch, exec, stream);
        SHOW(cuStreamSynchronize, stream);
        show("a", byte_at(a + kBig - 1));
        show("c", byte_at(c + kBig - 1));
    }
    SHOW(cuGraphExecDestroy, exec);
    SHOW(cuGraphDestroy, graph);
    SHOW(cuMemFree, a);
    SHOW(cuMemFree, c);
}

/// The program takes most of the device behind the manager's back; what is left must do.
void other_consumer() {
    use_device();
    std::size_t free_bytes = 0, total = 0;
    CU(cuMemGetInfo)(&free_bytes, &total);
    CUdeviceptr first = 0;
    SHOW(cuMemAlloc, &first, kBig);
    const CUmemAllocationProp prop = device_prop();
    const std::size_t share = 160u << 20;
    CUmemGenericAllocationHandle handle = 0;
    SHOW(cuMemCreate, &handle, share, &prop, 0);
    std::vector<CUdeviceptr> buffers(12);
    for (std::size_t i = 0; i < buffers.size(); ++i) {
        SHOW(cuMemAlloc, &buffers[i], kBig);
        SHOW(cuMemsetD8, buffers[i], static_cast<unsigned char>(i + 1), kBig);
    }
    for (const CUdeviceptr buffer : buffers) show("byte", byte_at(buffer + 12345));
}

void ipc() {
    use_device();
    CUdeviceptr p = 0;
    CUipcMemHandle handle{};
    SHOW(cuMemAlloc, &p, kBig);
    SHOW(cuIpcGetMemHandle, &handle, p);
    SHOW(cuMemFree, p);
}

void address_space_gone() {
    use_device();
    CUdeviceptr range = 0;
    int reserved = 0;
    while (reserved < 400 && CU(cuMemAddressReserve)(&range, std::size_t{1} << 40, 0, 0, 0) == CUDA_SUCCESS)
        ++reserved;
    CUdeviceptr p = 0;
    SHOW(cuMemAlloc, &p, kBig);
    SHOW(cuMemsetD8, p, 1, kBig);
    show("byte", byte_at(p));
    SHOW(cuMemFree, p);
}

void parameter_questions() {
    use_device();
    const auto count = function<unsigned long(const char*)>("fake_count");
    CUdeviceptr p = 0;
    CU(cuMemAlloc)(&p, kBig);
    void* values[8] = {reinterpret_cast<void*>(p)};
    void* params[8];
    for (int i = 0; i < 8; ++i) params[i] = &values[i];
    const auto launch = CU(cuLaunchKernel);
    const auto kernel = reinterpret_cast<CUfunction>(0x7000);
    launch(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr);
    const unsigned long first = count("cuFuncGetParamInfo") + count("cuKernelGetParamInfo");
    for (int i = 0; i < 100; ++i) launch(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr);
    show("asked after the first launch", count("cuFuncGetParamInfo") + count("cuKernelGetParamInfo") - first);
    show("arrived", count("cuLaunchKernel"));
}

void launch_attributes() {
    use_device();
    CUdeviceptr p = 0;
    CU(cuMemAlloc)(&p, kBig);
    CUlaunchAttribute attributes[2] = {};
    attributes[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attributes[0].value.clusterDim = {2, 1, 1};
    attributes[1].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
    CUlaunchConfig config{};
    config.gridDimX = config.gridDimY = config.gridDimZ = 2;
    config.blockDimX = config.blockDimY = config.blockDimZ = 1;
    config.attrs = attributes;
    config.numAttrs = 2;
    void* values[8] = {reinterpret_cast<void*>(p)};
    void* params[8];
    for (int i = 0; i < 8; ++i) params[i] = &values[i];
    SHOW(cuLaunchKernelEx, &config, reinterpret_cast<CUfunction>(0x7000), params, nullptr);
    show("same configuration", function<const void*()>("fake_last_config")() == &config);
}

void plain_work() {
    use_device();
    CUdeviceptr p = 0;
    SHOW(cuMemAlloc, &p, kBig);
    SHOW(cuMemsetD8, p, 1, kBig);
    SHOW(cuMemFree, p);
}

void fork_child() {
    use_device();
    CUdeviceptr p = 0;
    SHOW(cuMemAlloc, &p, kBig);
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        // A data-loading worker: it leaves the device alone, but drops what it inherited.
        CU(cuMemFree)(p);
        CUdeviceptr q = 0;
        CU(cuMemAlloc)(&q, kBig);
        std::thread([] {}).join();
        std::exit(17);  // runs exit handlers and static destructors
    }
    int status = 0;
    waitpid(child, &status, 0);
    show("child exited", WIFEXITED(status));
    show("child status", static_cast<unsigned>(WEXITSTATUS(status)));
    SHOW(cuMemsetD8, p, 9, kBig);
    show("byte", byte_at(p));
    SHOW(cuMemFree, p);
}

/// Stream-ordered memory that passes from stream to stream by events, more of it than the limit.
void async_order() {
    use_device();
    CUstream one = nullptr, two = nullptr;
    CUevent event = nullptr;
    SHOW(cuStreamCreate, &one, CU_STREAM_NON_BLOCKING);
    SHOW(cuStreamCreate, &two, CU_STREAM_NON_BLOCKING);
    SHOW(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
    std::vector<unsigned char> host(kBig);
    unsigned long long wrong = 0;
    for (unsigned i = 0; i < 24; ++i) {
        CUdeviceptr p = 0, q = 0;
        CU(cuMemAllocAsync)(&p, kBig, one);
        CU(cuMemsetD8Async)(p, static_cast<unsigned char>(i), kBig, one);
        CU(cuEventRecord)(event, one);
        CU(cuStreamWaitEvent)(two, event, 0);
        CU(cuMemAllocAsync)(&q, kBig, two);
        CU(cuMemcpyDtoDAsync)(q, p, kBig, two);
        CU(cuMemFreeAsync)(p, two);
        CU(cuMemcpyDtoHAsync)(host.data(), q, kBig, two);
        CU(cuMemFreeAsync)(q, two);
        CU(cuStreamSynchronize)(two);
        for (const unsigned char byte : host) wrong += byte != static_cast<unsigned char>(i);
    }
    show("wrong bytes", wrong);
}

void twins_differ() {
    for (const char* name :
         {"cuMemcpyHtoDAsync_v2", "cuLaunchKernel", "cuMemAllocAsync", "cuMemsetD8Async"}) {
        const std::string twin = std::string(name) + "_ptsz";
        show("distinct", dlsym(driver, name) != dlsym(driver, twin.c_str()) && dlsym(driver, twin.c_str()));
    }
}

/// Several threads of one context launch, allocate and free at once.
void many_threads() {
    CUcontext context = use_device();
    std::vector<std::thread> threads;
    std::vector<unsigned long long> wrong(6);
    for (unsigned t = 0; t < 6; ++t) {
        threads.emplace_back([&, t] {
            CU(cuCtxSetCurrent)(context);
            CUstream stream = nullptr;
            CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING);
            CUdeviceptr kept = 0;
            CU(cuMemAlloc)(&kept, kBig);
            std::vector<unsigned char> host(kBig);
            for (unsigned i = 0; i < 12; ++i) {
                CUdeviceptr p = 0;
                if (CU(cuMemAlloc)(&p, kBig) != CUDA_SUCCESS) ++wrong[t];
                CU(cuMemsetD8Async)(kept, static_cast<unsigned char>(t * 16 + i), kBig, stream);
                CU(cuMemcpyDtoDAsync)(p, kept, kBig, stream);
                CU(cuMemcpyDtoHAsync)(host.data(), p, kBig, stream);
                CU(cuStreamSynchronize)(stream);
                for (std::size_t at = 0; at < kBig; at += 4097)
                    wrong[t] += host[at] != static_cast<unsigned char>(t * 16 + i);
                CU(cuMemFree)(p);
            }
            CU(cuMemFree)(kept);
            CU(cuStreamDestroy)(stream);
        });
    }
    for (std::thread& thread : threads) thread.join();
    for (const unsigned long long count : wrong) show("wrong", count);
}

/// Exits in the middle of everything, nothing freed.
void sudden_exit() {
    CUcontext context = use_device();
    std::thread worker([context] {
        CU(cuCtxSetCurrent)(context);
        for (;;) {
            CUdeviceptr p = 0;
            if (CU(cuMemAlloc)(&p, kBig) != CUDA_SUCCESS) break;
            CU(cuMemsetD8)(p, 1, kBig);
            CU(cuMemFree)(p);
        }
        pause();
    });
    worker.detach();
    CUdeviceptr p = 0;
    CU(cuMemAlloc)(&p, kBig);
    usleep(50000);
    std::exit(21);
}

const std::map<std::string, void (*)()> kCases = {
    {"null-mem-info", null_mem_info},
    {"outputs-after-errors", outputs_after_errors},
    {"host-location", host_location},
    {"thread-without-context", thread_without_context},
    {"repeated-failure", repeated_failure},
    {"green-context", green_context},
    {"foreign-free", foreign_free},
    {"async-is-counted", async_is_counted},
    {"in-capture", in_capture},
    {"other-consumer", other_consumer},
    {"ipc", ipc},
    {"address-space-gone", address_space_gone},
    {"parameter-questions", parameter_questions},
    {"launch-attributes", launch_attributes},
    {"plain-work", plain_work},
    {"fork-child", fork_child},
    {"async-order", async_order},
    {"twins-differ", twins_differ},
    {"many-threads", many_threads},
    {"sudden-exit", sudden_exit},
};

}  // namespace

int main(int argc, char** argv) {
    return run_case(argc, argv, kCases);
}
