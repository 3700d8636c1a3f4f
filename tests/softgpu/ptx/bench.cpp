// Speed of the PTX engine: thread-instructions per second of a tiled single-precision matrix product, on one
// host thread and on two. One JSON line per metric.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <ctime>

#include "tests/softgpu/ptx/handlers.h"
#include "tests/unit/softgpu/ptx_memory.h"

using namespace softgpu::ptx;
using namespace softgpu::ptx::test;

namespace {

double wall() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
double cpu() {
    rusage u{};
    getrusage(RUSAGE_SELF, &u);
    return double(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * double(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

void report(const char* name, double value, const char* unit, const char* against) {
    std::printf("{\"name\": \"%s\", \"value\": %.4g, \"unit\": \"%s\", \"against\": \"%s\"}\n", name, value,
                unit, against);
}

}  // namespace

int main(int argc, char** argv) {
    std::string dir = argc > 1 ? argv[1] : "build/softgpu/kernels";
    TestMemory memory;
    auto module = load({read_file(dir + "/training.ptx")}, memory);
    int n = 256;
    Array<float> a(memory, std::size_t(n * n)), b(memory, std::size_t(n * n)), c(memory, std::size_t(n * n));
    for (int k = 0; k < n * n; ++k)
        a[std::size_t(k)] = float(k % 17) / 16, b[std::size_t(k)] = float(k % 13) / 12;
    auto measure = [&](int threads, double& per_wall, double& per_cpu) {
        per_wall = per_cpu = 0;
        for (int k = 0; k < 5; ++k) {
            double w = wall(), u = cpu();
            LaunchResult r = run(*module, "sgemm", memory, {unsigned(n / 16), unsigned(n / 16), 1},
                                 {16, 16, 1}, Params(a, b, c, n, n, n), 0, threads);
            w = wall() - w, u = cpu() - u;
            if (r.fault != Fault::none) std::fprintf(stderr, "%s\n", r.detail.c_str());
            per_wall = std::max(per_wall, double(r.thread_instructions) / w);
            per_cpu = std::max(per_cpu, double(r.thread_instructions) / u);
        }
    };
    double wall1, cpu1, wall2, cpu2;
    measure(1, wall1, cpu1);
    measure(2, wall2, cpu2);
    report("ptx_sgemm_one_thread", wall1, "thread-instructions/s", "aim 5e8");
    report("ptx_sgemm_two_threads", wall2, "thread-instructions/s", "aim 9e8");
    report("ptx_sgemm_per_cpu_second", std::max(cpu1, cpu2), "thread-instructions/s", "aim 5e8");
}
