#include "replayer/copy_rates.h"

#include <algorithm>

namespace swapadvisor {
namespace {

struct Probe {
    const DriverApi& api;
    CUstream in, out;
    CUdeviceptr to, from;
    std::byte *host_in, *host_out;
    CUevent start = nullptr, stop_in = nullptr, stop_out = nullptr;

    double elapsed_ns(CUevent stop) {
        float ms = 0;
        if (api.cuEventSynchronize_(stop) != CUDA_SUCCESS ||
            api.cuEventElapsedTime_(&ms, start, stop) != CUDA_SUCCESS)
            return 0;
        return static_cast<double>(ms) * 1e6;
    }
    // Best of three: what else runs on the device only makes it slower.
    double one_way(bool inward, std::uint64_t bytes) {
        double best = 0;
        for (int i = 0; i < 3; ++i) {
            CUstream stream = inward ? in : out;
            api.cuEventRecord_(start, stream);
            CUresult result = inward ? api.cuMemcpyHtoDAsync_(to, host_in, bytes, stream)
                                     : api.cuMemcpyDtoHAsync_(host_out, from, bytes, stream);
            if (result != CUDA_SUCCESS) return 0;
            api.cuEventRecord_(stop_in, stream);
            const double t = elapsed_ns(stop_in);
            if (best == 0 || t < best) best = t;
        }
        return best;
    }
};

}  // namespace

CopyRates measure_copy_rates(Residency& r) {
    CopyRates rates;
    const DriverApi& api = r.api();
    ContextScope scope(api, r.context());
    const std::uint64_t page = r.addresses().page_bytes();
    const std::uint64_t pages = std::clamp<std::uint64_t>(r.memory_limit_bytes() / page / 8, 1,
                                                          std::max<std::uint64_t>(1, (16ull << 20) / page));
    const std::uint64_t large = pages * page, small = large / 4;
    Buffer *a = nullptr, *b = nullptr;
    const ResidencyCounts before = r.counts();
    HostBlock host = r.host().take(2 * large);
    if (host && r.allocate(large, kNoBuffer, a) == CUDA_SUCCESS &&
        r.allocate(large, kNoBuffer, b) == CUDA_SUCCESS) {
        const BufferUse uses[] = {{a, Access::read_write, false}, {b, Access::read_write, false}};
        if (r.begin(uses, 2, r.in_queue()) == CUDA_SUCCESS &&
            r.timeline().wait_all(r.context()) == CUDA_SUCCESS) {
            Probe p{api,
                    r.timeline().stream(r.in_queue()),
                    r.timeline().stream(r.out_queue()),
                    a->address,
                    b->address,
                    host.data,
                    host.data + large};
            api.cuEventCreate_(&p.start, CU_EVENT_DEFAULT);
            api.cuEventCreate_(&p.stop_in, CU_EVENT_DEFAULT);
            api.cuEventCreate_(&p.stop_out, CU_EVENT_DEFAULT);
            const double in_small = p.one_way(true, small), in_large = p.one_way(true, large);
            const double out_small = p.one_way(false, small), out_large = p.one_way(false, large);
            if (in_large > in_small && in_small > 0 && out_large > out_small && out_small > 0) {
                const double in_rate =
                    static_cast<double>(large - small) / (in_large - in_small);  // bytes per ns
                const double out_rate = static_cast<double>(large - small) / (out_large - out_small);
                const double latency = std::max(0.0, (in_large - static_cast<double>(large) / in_rate +
                                                      out_large - static_cast<double>(large) / out_rate) /
                                                         2);
                // Both ways at once: while both are busy each is scaled by the same factor, which the first
                // to end tells.
                constexpr int kCopies = 4;
                api.cuEventRecord_(p.start, p.in);
                api.cuStreamWaitEvent_(p.out, p.start, CU_EVENT_WAIT_DEFAULT);
                for (int i = 0; i < kCopies; ++i) {
                    api.cuMemcpyHtoDAsync_(p.to, p.host_in, large, p.in);
                    api.cuMemcpyDtoHAsync_(p.host_out, p.from, large, p.out);
                }
                api.cuEventRecord_(p.stop_in, p.in);
                api.cuEventRecord_(p.stop_out, p.out);
                const double in_both = p.elapsed_ns(p.stop_in), out_both = p.elapsed_ns(p.stop_out);
                const double first = std::min(in_both, out_both) - kCopies * latency;
                const double rate = in_both <= out_both ? in_rate : out_rate;
                double factor = first > 0 ? kCopies * static_cast<double>(large) / (first * rate) : 1;
                factor = factor > 0.98 ? 1 : std::max(factor, 0.1);
                rates.h2d_bytes_per_s = static_cast<std::int64_t>(in_rate * 1e9 + 0.5);
                rates.d2h_bytes_per_s = static_cast<std::int64_t>(out_rate * 1e9 + 0.5);
                rates.duplex_bytes_per_s =
                    static_cast<std::int64_t>(factor * (in_rate + out_rate) * 1e9 + 0.5);
                rates.latency_ns = static_cast<std::int64_t>(latency + 0.5);
                rates.measured = true;
            }
            api.cuEventDestroy_(p.start);
            api.cuEventDestroy_(p.stop_in);
            api.cuEventDestroy_(p.stop_out);
        }
    }
    if (a != nullptr) r.release(*a);
    if (b != nullptr) r.release(*b);
    r.host().give(host);
    r.counts().peak_live_bytes = before.peak_live_bytes;  // the probe's buffers are not the program's
    return rates;
}

}  // namespace swapadvisor
