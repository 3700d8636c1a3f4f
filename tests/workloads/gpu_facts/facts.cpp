// Measures on the driver at hand what FACTS leaves second-hand: mapping costs by size, aliasing, copy rates
// alone and together, pinned allocation, the cost of a launch. A plain driver program that knows nothing of
// the product. One JSON line per figure: {"name","value","unit"}. Host times are wall times of this machine:
// the median of several.
#include <cuda.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kMiB = 1u << 20;

void check(CUresult result, const char* what) {
    if (result == CUDA_SUCCESS) return;
    const char* text = nullptr;
    cuGetErrorString(result, &text);
    std::fprintf(stderr, "gpu_facts: %s failed: %s\n", what, text ? text : "unknown error");
    std::exit(3);
}
#define CHECK(call) check(call, #call)

void figure(const std::string& name, double value, const char* unit) {
    std::printf("{\"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"}\n", name.c_str(), value, unit);
    std::fflush(stdout);
}

template <class Work>
double median_us(int times, Work work) {
    std::vector<double> all;
    for (int i = 0; i < times; ++i) {
        const auto begin = Clock::now();
        work();
        all.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
    }
    std::nth_element(all.begin(), all.begin() + all.size() / 2, all.end());
    return all[all.size() / 2];
}

CUmemAllocationProp device_memory() {
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    return prop;
}

void mapping_costs(std::size_t free_bytes) {
    const CUmemAllocationProp prop = device_memory();
    CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    for (std::size_t mib : {2, 8, 32, 128, 512, 2048}) {
        const std::size_t bytes = mib * kMiB;
        if (bytes > free_bytes / 2) break;
        CUdeviceptr address = 0;
        CUmemGenericAllocationHandle handle = 0;
        CHECK(cuMemAddressReserve(&address, bytes, 0, 0, 0));
        std::vector<double> create, map, set_access, unmap, release;
        const auto timed = [](std::vector<double>& all, auto work) { all.push_back(median_us(1, work)); };
        for (int i = 0; i < 9; ++i) {
            timed(create, [&] { CHECK(cuMemCreate(&handle, bytes, &prop, 0)); });
            timed(map, [&] { CHECK(cuMemMap(address, bytes, 0, handle, 0)); });
            timed(set_access, [&] { CHECK(cuMemSetAccess(address, bytes, &access, 1)); });
            timed(unmap, [&] { CHECK(cuMemUnmap(address, bytes)); });
            timed(release, [&] { CHECK(cuMemRelease(handle)); });
        }
        const auto middle = [](std::vector<double>& all) {
            std::sort(all.begin(), all.end());
            return all[all.size() / 2];
        };
        const std::string size = " of " + std::to_string(mib) + " MiB";
        figure("create" + size, middle(create), "us");
        figure("map" + size, middle(map), "us");
        figure("set access" + size, middle(set_access), "us");
        figure("unmap" + size, middle(unmap), "us");
        figure("release" + size, middle(release), "us");
        CHECK(cuMemAddressFree(address, bytes));
    }
}

/// One handle under two addresses: is a write through one read through the other, across operations?
void aliasing() {
    const std::size_t bytes = 2 * kMiB;
    const CUmemAllocationProp prop = device_memory();
    CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr range = 0;
    CUmemGenericAllocationHandle handle = 0;
    CHECK(cuMemAddressReserve(&range, 2 * bytes, 0, 0, 0));
    CHECK(cuMemCreate(&handle, bytes, &prop, 0));
    CHECK(cuMemMap(range, bytes, 0, handle, 0));
    CHECK(cuMemMap(range + bytes, bytes, 0, handle, 0));
    CHECK(cuMemSetAccess(range, 2 * bytes, &access, 1));
    bool good = true;
    for (unsigned i = 1; i <= 64; ++i) {
        unsigned seen = 0;
        CHECK(cuMemsetD32(range + (i % 2) * bytes + 4 * i, i * 2654435761u, 1));
        CHECK(cuMemcpyDtoH(&seen, range + ((i + 1) % 2) * bytes + 4 * i, 4));
        good &= seen == i * 2654435761u;
    }
    figure("aliases agree", good, "1 = yes");
    CHECK(cuMemUnmap(range, 2 * bytes));
    CHECK(cuMemRelease(handle));
    CHECK(cuMemAddressFree(range, 2 * bytes));
}

double rate(CUstream a, CUstream b, CUdeviceptr device, char* host, std::size_t bytes, bool in, bool out) {
    CUevent begin, end_in, end_out;
    CHECK(cuEventCreate(&begin, 0));
    CHECK(cuEventCreate(&end_in, 0));
    CHECK(cuEventCreate(&end_out, 0));
    CHECK(cuEventRecord(begin, a));
    CHECK(cuStreamWaitEvent(b, begin, 0));
    for (int i = 0; i < 4; ++i) {
        if (in) CHECK(cuMemcpyHtoDAsync(device, host, bytes, a));
        if (out) CHECK(cuMemcpyDtoHAsync(host + bytes, device + bytes, bytes, b));
    }
    CHECK(cuEventRecord(end_in, a));
    CHECK(cuEventRecord(end_out, b));
    CHECK(cuCtxSynchronize());
    float in_ms = 0, out_ms = 0;
    CHECK(cuEventElapsedTime(&in_ms, begin, end_in));
    CHECK(cuEventElapsedTime(&out_ms, begin, end_out));
    const double ms = std::max(in ? in_ms : 0.f, out ? out_ms : 0.f);
    return 4.0 * static_cast<double>(bytes) * (in + out) / (ms * 1e6);
}

void copies() {
    const std::size_t bytes = 256 * kMiB;
    char* host = nullptr;
    CUdeviceptr device = 0;
    CUstream a, b;
    const double pinned_us =
        median_us(1, [&] { CHECK(cuMemHostAlloc(reinterpret_cast<void**>(&host), 2 * bytes, 0)); });
    figure("pinned allocation", 2.0 * static_cast<double>(bytes) / (pinned_us * 1e3), "GB/s");
    CHECK(cuMemAlloc(&device, 2 * bytes));
    CHECK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    std::memset(host, 1, 2 * bytes);
    rate(a, b, device, host, bytes, true, true);
    figure("host to device", rate(a, b, device, host, bytes, true, false), "GB/s");
    figure("device to host", rate(a, b, device, host, bytes, false, true), "GB/s");
    figure("both ways together", rate(a, b, device, host, bytes, true, true), "GB/s");
    CHECK(cuStreamDestroy(a));
    CHECK(cuStreamDestroy(b));
    CHECK(cuMemFree(device));
    CHECK(cuMemFreeHost(host));
}

constexpr char kEightArguments[] = R"(
.version 7.5
.target sm_75
.address_size 64
.visible .entry eight(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d,
                      .param .u64 e, .param .u64 f, .param .u64 g, .param .u32 h)
{ ret; }
)";

void launches() {
    CUmodule module;
    CUfunction function;
    CUdeviceptr buffers[7];
    CHECK(cuModuleLoadData(&module, kEightArguments));
    CHECK(cuModuleGetFunction(&function, module, "eight"));
    for (CUdeviceptr& buffer : buffers) CHECK(cuMemAlloc(&buffer, 4 * kMiB));
    unsigned number = 7;
    void* arguments[8];
    for (int i = 0; i < 7; ++i) arguments[i] = &buffers[i];
    arguments[7] = &number;
    const auto burst = [&] {
        for (int i = 0; i < 500; ++i)
            CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr));
    };
    for (int i = 0; i < 10; ++i) burst(), CHECK(cuCtxSynchronize());  // also the recorder's warm-up
    std::vector<double> all;
    for (int i = 0; i < 21; ++i) {
        all.push_back(median_us(1, burst));
        CHECK(cuCtxSynchronize());
    }
    std::sort(all.begin(), all.end());
    figure("launch with 8 arguments", all[all.size() / 2] / 500 * 1e3, "ns");
    std::size_t free_bytes = 0, total = 0;
    figure("cuMemGetInfo", median_us(101, [&] { CHECK(cuMemGetInfo(&free_bytes, &total)); }), "us");
    for (CUdeviceptr buffer : buffers) CHECK(cuMemFree(buffer));
    CHECK(cuModuleUnload(module));
}

}  // namespace

/// `gpu_facts` measures everything; `gpu_facts launches` the launch costs alone (to compare with and without
/// a preload).
int main(int count, char** words) {
    CUdevice device;
    CUcontext context;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    launches();
    if (count > 1 && std::strcmp(words[1], "launches") == 0) return 0;
    std::size_t free_bytes = 0, total = 0;
    CHECK(cuMemGetInfo(&free_bytes, &total));
    int vmm = 0;
    CHECK(cuDeviceGetAttribute(&vmm, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device));
    figure("virtual memory management", vmm, "1 = yes");
    if (vmm) mapping_costs(free_bytes), aliasing();
    copies();
    return 0;
}
