// A small driver of the tests' own: device memory is memfd + mmap (aliases behave), streams are queues of
// tasks that a random scheduler runs as late and as mixed up as their order allows, so that an ordering that
// is missing shows as wrong bytes or as a use of unmapped memory. Single-threaded use except cuMemHostAlloc.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "recorder/driver_api.h"

namespace swapadvisor::fake {

struct Span {
    CUdeviceptr address = 0;
    std::uint64_t bytes = 0;
};

/// Resets everything. `laziness` 0: tasks run at once; 1: only when something waits for them.
void reset(std::uint64_t seed, double laziness, std::uint64_t device_bytes = 1ull << 40);
const DriverApi& api();
CUcontext context();
CUstream new_stream();
/// Enqueues a kernel that touches `spans` (checked to be mapped when it runs).
void launch(CUstream stream, std::vector<Span> spans, std::function<void()> body);
/// The program's own synchronisation.
void synchronize(CUstream stream);
/// Everything issued so far is done.
void drain();

/// Any of these bytes can be reached by the device.
bool reachable(CUdeviceptr address, std::uint64_t bytes);
/// Broken rules so far, one line each; empty is good.
const std::vector<std::string>& errors();
struct Calls {
    std::uint64_t create = 0, release = 0, map = 0, unmap = 0, set_access = 0, sync = 0, host_alloc = 0,
                  reserve = 0, changed_copies = 0;
    std::uint64_t mapping() const { return create + release + map + unmap + set_access; }
};
Calls& calls();
/// The n-th next call (from 1) of that entry point fails once with `error`.
void fail(const std::string& entry, int nth, CUresult error);
/// What fail() asked for and did not happen yet will not happen.
void fail_no_more();

}  // namespace swapadvisor::fake
