#include "interpose/command/machine.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "interpose/command/preload.h"
#include "interpose/command/sizes.h"
#include "recorder/driver_api.h"

namespace swapadvisor::command {

namespace {

using Clock = std::chrono::steady_clock;

std::int64_t elapsed_ns(Clock::time_point start) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

/// Thrown by check(): what failed, with the driver's words.
struct Failure {
    std::string text;
};

struct Driver {
    void* handle = nullptr;
    DriverApi api;

    void check(CUresult result, const char* what) const {
        if (result == CUDA_SUCCESS) return;
        const char* words = nullptr;
        if (api.cuGetErrorString_) api.cuGetErrorString_(result, &words);
        throw Failure{
            fmt::format("{}: {}", what, words ? words : fmt::format("error {}", static_cast<int>(result)))};
    }

    template <class Function>
    Function find(const char* symbol) const {
        return reinterpret_cast<Function>(dlsym(handle, symbol));
    }
};

/// Everything that is tried on a device, released in any case.
class Trial {
  public:
    Trial(const Driver& driver, DeviceFacts& facts) : driver_(driver), api_(driver.api), facts_(facts) {}
    Trial(const Trial&) = delete;
    ~Trial() {
        if (device_) api_.cuMemFree_(device_);
        if (host_) api_.cuMemFreeHost_(host_);
        for (CUstream stream : streams_) {
            if (stream) api_.cuStreamDestroy_(stream);
        }
        for (CUevent event : events_) {
            if (event) api_.cuEventDestroy_(event);
        }
        if (retained_)
            driver_.find<CUresult(CUDAAPI*)(CUdevice)>("cuDevicePrimaryCtxRelease_v2")(facts_.ordinal);
    }

    void run() {
        properties();
        memory();
        virtual_memory();
        copies();
    }

  private:
    int attribute(CUdevice_attribute which) const {
        int value = 0;
        return api_.cuDeviceGetAttribute_(&value, which, device_number_) == CUDA_SUCCESS ? value : 0;
    }

    void properties() {
        driver_.check(api_.cuDeviceGet_(&device_number_, facts_.ordinal), "cuDeviceGet");
        char name[256] = "";
        if (auto get_name = driver_.find<CUresult(CUDAAPI*)(char*, int, CUdevice)>("cuDeviceGetName")) {
            get_name(name, sizeof name, device_number_);
        }
        facts_.name = name;
        facts_.compute_capability = 10 * attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                                    attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
        facts_.vmm = attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) != 0;
        CUcontext context = nullptr;
        const auto retain =
            driver_.find<CUresult(CUDAAPI*)(CUcontext*, CUdevice)>("cuDevicePrimaryCtxRetain");
        driver_.check(retain ? retain(&context, device_number_) : CUDA_ERROR_NOT_FOUND,
                      "cuDevicePrimaryCtxRetain");
        retained_ = true;
        driver_.check(api_.cuCtxSetCurrent_(context), "cuCtxSetCurrent");
    }

    void memory() {
        std::size_t free_bytes = 0, total = 0;
        driver_.check(api_.cuMemGetInfo_(&free_bytes, &total), "cuMemGetInfo");
        facts_.free_bytes = free_bytes;
        facts_.memory_bytes = total;
    }

    void virtual_memory() {
        if (!facts_.vmm || !api_.cuMemCreate_ || !api_.cuMemMap_) return;
        CUmemAllocationProp prop{};
        prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {facts_.ordinal}};
        std::size_t granule = 0;
        driver_.check(
            api_.cuMemGetAllocationGranularity_(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
            "cuMemGetAllocationGranularity");
        facts_.granularity_bytes = granule;
        CUdeviceptr range = 0;
        CUmemGenericAllocationHandle handle = 0;
        driver_.check(api_.cuMemAddressReserve_(&range, 2 * granule, 0, 0, 0), "cuMemAddressReserve");
        driver_.check(api_.cuMemCreate_(&handle, granule, &prop, 0), "cuMemCreate");
        const CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        auto start = Clock::now();
        for (int i = 0; i < 2; ++i) {
            driver_.check(api_.cuMemMap_(range + i * granule, granule, 0, handle, 0), "cuMemMap");
            driver_.check(api_.cuMemSetAccess_(range + i * granule, granule, &access, 1), "cuMemSetAccess");
        }
        facts_.map_ns = elapsed_ns(start) / 2;
        std::uint32_t written = 0x5a5a5a5a, read = 0;
        driver_.check(api_.cuMemsetD8Async_(range, 0x5a, sizeof written, nullptr), "cuMemsetD8Async");
        driver_.check(api_.cuCtxSynchronize_(), "cuCtxSynchronize");
        driver_.check(api_.cuMemcpyDtoHAsync_(&read, range + granule, sizeof read, nullptr),
                      "cuMemcpyDtoHAsync");
        driver_.check(api_.cuCtxSynchronize_(), "cuCtxSynchronize");
        facts_.aliasing = read == written;
        start = Clock::now();
        driver_.check(api_.cuMemUnmap_(range, 2 * granule), "cuMemUnmap");
        facts_.unmap_ns = elapsed_ns(start) / 2;
        api_.cuMemRelease_(handle);
        api_.cuMemAddressFree_(range, 2 * granule);
    }

    /// Bytes per second of `rounds` copies on each stream that is used.
    std::uint64_t rate(bool in, bool out) {
        const int rounds = 4;
        const std::size_t half = bytes_ / 2;
        char* host = static_cast<char*>(host_);
        for (int pass = 0; pass < 2; ++pass) {  // the first only warms up
            driver_.check(api_.cuCtxSynchronize_(), "cuCtxSynchronize");
            driver_.check(api_.cuEventRecord_(events_[0], streams_[0]), "cuEventRecord");
            driver_.check(api_.cuStreamWaitEvent_(streams_[1], events_[0], 0), "cuStreamWaitEvent");
            for (int i = 0; i < (pass ? rounds : 1); ++i) {
                if (in)
                    driver_.check(api_.cuMemcpyHtoDAsync_(device_, host, half, streams_[0]),
                                  "cuMemcpyHtoDAsync");
                if (out)
                    driver_.check(api_.cuMemcpyDtoHAsync_(host + half, device_ + half, half, streams_[1]),
                                  "cuMemcpyDtoHAsync");
            }
            driver_.check(api_.cuEventRecord_(events_[1], streams_[1]), "cuEventRecord");
            driver_.check(api_.cuStreamWaitEvent_(streams_[0], events_[1], 0), "cuStreamWaitEvent");
            driver_.check(api_.cuEventRecord_(events_[2], streams_[0]), "cuEventRecord");
            driver_.check(api_.cuCtxSynchronize_(), "cuCtxSynchronize");
        }
        float milliseconds = 0;
        driver_.check(api_.cuEventElapsedTime_(&milliseconds, events_[0], events_[2]), "cuEventElapsedTime");
        const double moved = static_cast<double>(half) * rounds * (in && out ? 2 : 1);
        return milliseconds > 0 ? static_cast<std::uint64_t>(moved / (milliseconds * 1e-3)) : 0;
    }

    void copies() {
        bytes_ = std::min<std::size_t>(128u << 20, facts_.free_bytes / 4) / 4096 * 4096;
        const auto start = Clock::now();
        driver_.check(api_.cuMemHostAlloc_(&host_, bytes_, 0), "cuMemHostAlloc");
        facts_.pinned_bytes_per_s = static_cast<std::uint64_t>(
            static_cast<double>(bytes_) / (static_cast<double>(elapsed_ns(start)) * 1e-9));
        driver_.check(api_.cuMemAlloc_(&device_, bytes_), "cuMemAlloc");
        for (CUstream& stream : streams_)
            driver_.check(api_.cuStreamCreate_(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
        for (CUevent& event : events_)
            driver_.check(api_.cuEventCreate_(&event, CU_EVENT_DEFAULT), "cuEventCreate");
        facts_.h2d_bytes_per_s = rate(true, false);
        facts_.d2h_bytes_per_s = rate(false, true);
        facts_.duplex_bytes_per_s = rate(true, true);
    }

    const Driver& driver_;
    const DriverApi& api_;
    DeviceFacts& facts_;
    CUdevice device_number_ = 0;
    bool retained_ = false;
    std::size_t bytes_ = 0;
    void* host_ = nullptr;
    CUdeviceptr device_ = 0;
    CUstream streams_[2] = {};
    CUevent events_[3] = {};
};

void* open_driver(std::string& problem) {
    void* handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!handle) problem = dlerror();
    return handle;
}

void try_devices(MachineFacts& facts) {
    Driver driver;
    driver.handle = open_driver(facts.driver_problem);
    if (!driver.handle) return;
    Dl_info info;
    void* init_address = dlsym(driver.handle, "cuInit");
    if (init_address && dladdr(init_address, &info) && info.dli_fname) facts.driver_path = info.dli_fname;
    fill_driver_api(
        driver.api, [](void* handle, const char* symbol) { return dlsym(handle, symbol); }, driver.handle);
    facts.parameter_layouts = driver.api.cuFuncGetParamInfo_ != nullptr;
    try {
        const auto version = driver.find<CUresult(CUDAAPI*)(int*)>("cuDriverGetVersion");
        if (version) version(&facts.driver_version);
        const auto init = driver.find<CUresult(CUDAAPI*)(unsigned)>("cuInit");
        driver.check(init ? init(0) : CUDA_ERROR_NOT_FOUND, "cuInit");
        int count = 0;
        driver.check(
            driver.api.cuDeviceGetCount_ ? driver.api.cuDeviceGetCount_(&count) : CUDA_ERROR_NOT_FOUND,
            "cuDeviceGetCount");
        for (int i = 0; i < count; ++i) {
            DeviceFacts& device = facts.devices.emplace_back();
            device.ordinal = i;
            try {
                Trial(driver, device).run();
            } catch (const Failure& failure) {
                device.problem = failure.text;
            }
        }
    } catch (const Failure& failure) {
        facts.driver_problem = failure.text;
    }
}

std::uint64_t available_host_bytes() {
    std::ifstream file("/proc/meminfo");
    for (std::string word; file >> word;) {
        std::uint64_t kilobytes = 0;
        if (word == "MemAvailable:" && file >> kilobytes) return kilobytes * 1024;
    }
    return 0;
}

std::string find_cupti() {
    for (const char* name : {"libcupti.so.13", "libcupti.so.12", "libcupti.so"}) {
        void* handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
        if (!handle) continue;
        Dl_info info;
        void* address = dlsym(handle, "cuptiActivityEnable");
        return address && dladdr(address, &info) && info.dli_fname ? info.dli_fname : name;
    }
    std::error_code error;
    for (const char* folder : {"/usr/local/cuda/extras/CUPTI/lib64", "/usr/local/cuda/lib64"}) {
        const std::string path = std::string(folder) + "/libcupti.so";
        if (std::filesystem::exists(path, error)) return path;
    }
    return "";
}

}  // namespace

MachineFacts find_machine_facts() {
    MachineFacts facts;
    std::string problem;
    facts.preload_path = find_preload_object(problem);
    std::error_code error;
    const auto planner =
        std::filesystem::path(facts.preload_path).parent_path() / "libswapadvisor_planner.so";
    if (!facts.preload_path.empty() && std::filesystem::exists(planner, error)) facts.planner_path = planner;
    facts.host_available_bytes = available_host_bytes();
    rlimit limit{};
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        facts.locked_limit_bytes = limit.rlim_cur;
    try_devices(facts);
    facts.cupti_path = find_cupti();
    return facts;
}

std::string driver_missing() {
    std::string problem;
    if (void* handle = open_driver(problem)) dlclose(handle);
    return problem;
}

bool can_manage(const MachineFacts& facts) {
    return !facts.preload_path.empty() && facts.driver_problem.empty() &&
           std::any_of(facts.devices.begin(), facts.devices.end(),
                       [](const DeviceFacts& device) { return device.vmm && device.problem.empty(); });
}

std::vector<std::string> shortcomings(const MachineFacts& facts) {
    std::vector<std::string> lines;
    const auto add = [&](std::string text) { lines.push_back(std::move(text)); };
    if (facts.preload_path.empty())
        add("libswapadvisor.so is not beside the command: build or install again");
    if (facts.planner_path.empty())
        add("libswapadvisor_planner.so is missing: programs run, swapping on demand only");
    if (!facts.driver_problem.empty()) {
        add("no usable CUDA driver (" + facts.driver_problem +
            "): programs run as if the shim were not there");
        return lines;
    }
    if (facts.devices.empty()) add("the driver shows no device (CUDA_VISIBLE_DEVICES?)");
    if (facts.driver_version < 12040 || !facts.parameter_layouts) {
        add("the driver is older than 12.4 and does not tell the layout of kernel arguments: kernels cannot "
            "be watched; "
            "update the driver");
    }
    for (const DeviceFacts& device : facts.devices) {
        const std::string who = fmt::format("device {}", device.ordinal);
        if (!device.problem.empty()) add(who + ": " + device.problem);
        if (!device.vmm) {
            add(who + " has no virtual memory management (some virtual GPUs): programs run unmanaged");
        } else if (device.problem.empty() && !device.aliasing) {
            add(who +
                ": one piece of memory under two addresses does not show the same bytes: please report this");
        }
        if (device.memory_bytes > 0 && facts.host_available_bytes < device.memory_bytes) {
            add(fmt::format(
                "{}: {} of host memory are free for {} of device memory: models much larger than the device "
                "may not fit",
                who, format_bytes(static_cast<std::int64_t>(facts.host_available_bytes)),
                format_bytes(static_cast<std::int64_t>(device.memory_bytes))));
        }
    }
    if (facts.cupti_path.empty())
        add("CUPTI was not found: op times come from event pairs (add its folder to LD_LIBRARY_PATH)");
    return lines;
}

}  // namespace swapadvisor::command
