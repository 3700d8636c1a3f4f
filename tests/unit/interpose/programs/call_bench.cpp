// Times driver calls on a driver whose calls do nothing; run with and without the shim, the difference is the
// shim's.
//   call_bench idle|working THREADS
// idle: nothing is allocated. working: iterations that go through twelve buffers of 8 MiB, four at a time,
// with launches of eight arguments, and through pairs of allocate and free; the last quarter of the
// iterations is timed. Prints one JSON object; times are nanoseconds per call, medians over batches.
#include <cuda.h>
#include <dlfcn.h>
#include <time.h>
#include <x86intrin.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

/// Marks an iteration if the shim is there.
extern "C" void swapadvisor_iteration() __attribute__((weak));

namespace {

constexpr std::size_t kBytes = 8u << 20;
constexpr int kBuffers = 12, kAtOnce = 4, kPairs = 16;
constexpr unsigned kLaunchesPerPhase = 40;

double ns_per_tick() {
    static const double value = [] {
        timespec start, now;
        clock_gettime(CLOCK_MONOTONIC, &start);
        const unsigned long long ticks = __rdtsc();
        double elapsed = 0;
        do {
            clock_gettime(CLOCK_MONOTONIC, &now);
            elapsed = static_cast<double>(now.tv_sec - start.tv_sec) * 1e9 +
                      static_cast<double>(now.tv_nsec - start.tv_nsec);
        } while (elapsed < 2e7);
        return elapsed / static_cast<double>(__rdtsc() - ticks);
    }();
    return value;
}

double median(std::vector<double> values) {
    if (values.empty()) return 0;
    std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2), values.end());
    return values[values.size() / 2];
}

double thread_cpu_ns() {
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

void check(CUresult result, const char* what) {
    if (result == CUDA_SUCCESS) return;
    std::fprintf(stderr, "%s: %d\n", what, static_cast<int>(result));
    std::exit(1);
}

struct Arguments {
    void* values[8] = {};
    void* pointers[8] = {};
    Arguments() {
        for (int i = 0; i < 8; ++i) pointers[i] = &values[i];
    }
    void launch(CUstream stream, unsigned blocks) {
        const auto kernel = reinterpret_cast<CUfunction>(0x7000);
        check(cuLaunchKernel(kernel, blocks, 1, 1, 256, 1, 1, 0, stream, pointers, nullptr),
              "cuLaunchKernel");
    }
};

struct Times {
    std::vector<double> launch, pair, unhooked;
    double cpu_ns = 0;  ///< of the timed part
    double calls = 0;   ///< launches in it
};

void idle(CUstream stream, Times& times) {
    Arguments arguments;
    const int batch = 500;
    const double start_cpu = thread_cpu_ns();
    for (int round = 0; round < 4000; ++round) {
        unsigned long long start = __rdtsc();
        for (int i = 0; i < batch; ++i) arguments.launch(stream, 64);
        times.launch.push_back(static_cast<double>(__rdtsc() - start) / batch * ns_per_tick());
    }
    times.cpu_ns = thread_cpu_ns() - start_cpu;
    times.calls = 4000.0 * batch;
    CUevent event = nullptr;
    for (int round = 0; round < 2000; ++round) {
        const unsigned long long start = __rdtsc();
        for (int i = 0; i < batch; ++i) cuEventQuery(event);
        times.unhooked.push_back(static_cast<double>(__rdtsc() - start) / batch * ns_per_tick());
    }
}

void working(CUstream stream, int iterations, Times& times) {
    Arguments arguments;
    CUdeviceptr buffers[kBuffers];
    for (CUdeviceptr& buffer : buffers) check(cuMemAlloc(&buffer, kBytes), "cuMemAlloc");
    double start_cpu = 0;
    for (int iteration = 0; iteration < iterations; ++iteration) {
        if (swapadvisor_iteration) swapadvisor_iteration();
        const bool timed = iteration >= iterations * 3 / 4;
        if (iteration == iterations * 3 / 4) start_cpu = thread_cpu_ns();
        for (int phase = 0; phase + kAtOnce <= kBuffers; ++phase) {
            for (int i = 0; i < kAtOnce; ++i)
                arguments.values[i] = reinterpret_cast<void*>(buffers[phase + i]);
            const unsigned long long start = __rdtsc();
            for (unsigned i = 0; i < kLaunchesPerPhase; ++i) arguments.launch(stream, i + 1);
            if (timed)
                times.launch.push_back(static_cast<double>(__rdtsc() - start) / kLaunchesPerPhase *
                                       ns_per_tick());
        }
        unsigned long long spent = 0;
        for (int i = 0; i < kPairs; ++i) {
            CUdeviceptr temporary = 0;
            const unsigned long long first = __rdtsc();
            check(cuMemAlloc(&temporary, kBytes), "cuMemAlloc");
            const unsigned long long second = __rdtsc();
            arguments.values[0] = reinterpret_cast<void*>(temporary);
            arguments.launch(stream, 64);
            const unsigned long long third = __rdtsc();
            check(cuMemFree(temporary), "cuMemFree");
            spent += second - first + (__rdtsc() - third);
        }
        if (timed) times.pair.push_back(static_cast<double>(spent) / kPairs * ns_per_tick());
    }
    times.cpu_ns = thread_cpu_ns() - start_cpu;
    times.calls =
        (iterations - iterations * 3 / 4) * ((kBuffers - kAtOnce + 1.0) * kLaunchesPerPhase + kPairs);
    for (CUdeviceptr buffer : buffers) cuMemFree(buffer);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) return 2;
    const bool is_idle = !std::strcmp(argv[1], "idle");
    const int threads = std::max(1, std::atoi(argv[2]));
    const char* text = std::getenv("CALL_BENCH_ITERATIONS");
    const int iterations = text ? std::atoi(text) : 400;
    check(cuInit(0), "cuInit");
    CUcontext context = nullptr;
    check(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    ns_per_tick();

    std::vector<Times> times(static_cast<std::size_t>(threads));
    std::vector<std::thread> workers;
    for (Times& own : times) {
        workers.emplace_back([&own, context, is_idle, iterations] {
            CUstream stream = nullptr;
            check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
            check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
            is_idle ? idle(stream, own) : working(stream, iterations, own);
        });
    }
    for (std::thread& worker : workers) worker.join();

    Times all;
    for (const Times& own : times) {
        all.launch.insert(all.launch.end(), own.launch.begin(), own.launch.end());
        all.pair.insert(all.pair.end(), own.pair.begin(), own.pair.end());
        all.unhooked.insert(all.unhooked.end(), own.unhooked.begin(), own.unhooked.end());
        all.cpu_ns += own.cpu_ns;
        all.calls += own.calls;
    }
    std::printf(
        "{\"launch_ns\": %.2f, \"pair_ns\": %.2f, \"unhooked_ns\": %.2f, \"cpu_ns_per_launch\": %.2f}\n",
        median(all.launch), median(all.pair), median(all.unhooked),
        all.calls > 0 ? all.cpu_ns / all.calls : 0.0);
    return 0;
}
