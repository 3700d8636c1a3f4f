#include "interpose/left_to_driver.h"

#include <algorithm>
#include <atomic>

#include "interpose/config.h"
#include "interpose/driver.h"

namespace swapadvisor {

namespace {

std::atomic<bool> g_peers{false};

}  // namespace

CUdevice current_device() {
    using GetDevice = CUresult(CUDAAPI*)(CUdevice*);
    CUdevice device = -1;
    const auto get_device = reinterpret_cast<GetDevice>(real_symbol(managed_copy(), "cuCtxGetDevice"));
    return get_device && get_device(&device) == CUDA_SUCCESS ? device : -1;
}

bool allocation_stays(std::size_t bytes) {
    if (g_peers.load(std::memory_order_relaxed)) [[unlikely]]
        return true;
    const auto& plain = config().plain_bytes;
    return !plain.empty() && std::find(plain.begin(), plain.end(), bytes) != plain.end();
}

CUdevice peers_reach_in() {
    g_peers.store(true, std::memory_order_relaxed);
    return current_device();
}

}  // namespace swapadvisor
