#include "player.h"

#include <cmath>
#include <set>
#include <string_view>

#include "op.h"
#include "op_ptx.h"  // generated: const char op_ptx[]

extern "C" void swapadvisor_iteration() __attribute__((weak));

namespace player {

namespace {

void check(CUresult r, const std::string& what) {
    if (r == CUDA_SUCCESS) return;
    const char *name = nullptr, *text = nullptr;
    cuGetErrorName(r, &name);
    cuGetErrorString(r, &text);
    throw CudaError{what + ": " + (text ? text : "unknown error") + " (" + (name ? name : std::to_string(r)) +
                    ")"};
}

/// Words at these offsets carry the stamps, as in op.cu.
std::uint64_t place(std::uint64_t last, std::uint64_t p) {
    return (last * p / 2) & ~std::uint64_t{7};
}
std::uint64_t last_word(std::uint64_t bytes) {
    return bytes < 8 ? 0 : (bytes - 8) & ~std::uint64_t{7};
}

bool large(const Op& op) {
    return op.uses.size() > static_cast<std::size_t>(kSmallOp);
}

std::string kernel_name(std::uint64_t ns, bool is_large) {
    return (is_large ? "opl_" : "op_") + std::to_string(ns);
}

std::string replace_all(std::string text, std::string_view from, std::string_view to) {
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
        text.replace(at, from.size(), to);
    return text;
}

// The text of one entry of the compiled PTX, from its first line to the closing brace.
std::string entry_text(const std::string& ptx, const std::string& name) {
    const auto begin = ptx.find(".visible .entry " + name + "(");
    const auto end = ptx.find("\n}", begin);
    if (begin == std::string::npos || end == std::string::npos)
        throw CudaError{"kernel template " + name + " is missing"};
    return ptx.substr(begin, end + 3 - begin);
}

template <int Capacity>
std::vector<char> packed(const OpArguments<kLargeOp>& full) {
    OpArguments<Capacity> a{};
    a.digest = full.digest, a.seed = full.seed, a.count = full.count;
    for (std::size_t i = 0; i < full.count; ++i) a.tensors[i] = full.tensors[i];
    const auto* bytes = reinterpret_cast<const char*>(&a);
    return {bytes, bytes + sizeof a};
}

}  // namespace

Player::Player(const Graph& graph, const Settings& settings)
    : graph_(graph), settings_(settings), address_(graph.tensors.size()), defined_(graph.tensors.size()) {
    check(cuInit(0), "cuInit");
    CUdevice device = 0;
    check(cuDeviceGet(&device, 0), "cuDeviceGet");
    check(cuDevicePrimaryCtxRetain(&context_, device), "cuDevicePrimaryCtxRetain");
    check(cuCtxSetCurrent(context_), "cuCtxSetCurrent");
    check(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    check(cuEventCreate(&start_, CU_EVENT_DEFAULT), "cuEventCreate");
    check(cuEventCreate(&end_, CU_EVENT_DEFAULT), "cuEventCreate");
    load_kernels();
    check(cuMemAlloc(&digest_, 256), "cuMemAlloc");
    check(cuMemsetD8Async(digest_, 0, 256, stream_), "cuMemsetD8Async");
    for (std::size_t t = 0; t < graph_.tensors.size(); ++t) {
        if (!graph_.tensors[t].persistent || graph_.tensors[t].bytes == 0) continue;
        allocate(t);
        const std::uint64_t last = last_word(graph_.tensors[t].bytes);
        for (std::uint64_t p = 0; p < 3; ++p)
            check(cuMemsetD32Async(address_[t] + place(last, p), static_cast<unsigned>(t * 3 + p + 1), 2,
                                   stream_),
                  "cuMemsetD32Async");
        defined_[t] = true;
    }
    check(cuStreamSynchronize(stream_), "cuStreamSynchronize");
}

// One entry per duration, so that a device that looks its kernels up in a table of times finds "op_<ns>".
void Player::load_kernels() {
    const std::string text = op_ptx;
    const auto first = text.find(".visible .entry ");
    std::string module = text.substr(0, first);
    const std::string small_text = entry_text(text, "op_small"), large_text = entry_text(text, "op_large");
    std::set<std::string> names;
    for (const auto& op : graph_.ops) {
        if (op.uses.size() > static_cast<std::size_t>(kLargeOp))
            throw CudaError{"an op touches more than " + std::to_string(kLargeOp) + " tensors"};
        const std::string name = kernel_name(duration_of(op), large(op));
        if (!names.insert(name).second) continue;
        module +=
            large(op) ? replace_all(large_text, "op_large", name) : replace_all(small_text, "op_small", name);
        module += "\n";
    }
    check(cuModuleLoadData(&module_, module.c_str()), "cuModuleLoadData");
    for (const auto& name : names) check(cuModuleGetFunction(&kernels_[name], module_, name.c_str()), name);
}

std::uint64_t Player::duration_of(const Op& op) const {
    return (op.duration_ns + settings_.op_speedup / 2) / settings_.op_speedup;
}

CUfunction Player::kernel_of(const Op& op) const {
    return kernels_.at(kernel_name(duration_of(op), large(op)));
}

void Player::allocate(std::size_t tensor) {
    const auto bytes = graph_.tensors[tensor].bytes;
    if (bytes == 0) return;
    check(cuMemAlloc(&address_[tensor], bytes), "cuMemAlloc of " + std::to_string(bytes) + " bytes");
}

void Player::launch(std::size_t index) {
    const Op& op = graph_.ops[index];
    OpArguments<kLargeOp> a{};
    a.digest = digest_;
    a.seed = index + 1;
    for (const auto& use : op.uses) {
        if (!address_[use.tensor]) continue;  // of no bytes
        a.tensors[a.count++] = {address_[use.tensor], last_word(graph_.tensors[use.tensor].bytes),
                                use.read && defined_[use.tensor] ? 1u : 0u, use.write ? 1u : 0u};
        if (use.write) defined_[use.tensor] = true;
    }
    auto bytes = large(op) ? packed<kLargeOp>(a) : packed<kSmallOp>(a);
    void* parameters[] = {bytes.data()};
    check(cuLaunchKernel(kernel_of(op), 1, 1, 1, 1, 1, 1, 0, stream_, parameters, nullptr),
          "cuLaunchKernel of op " + std::to_string(index));
}

double Player::iterate(bool timed) {
    if (settings_.mark && swapadvisor_iteration) swapadvisor_iteration();
    if (timed) check(cuEventRecord(start_, stream_), "cuEventRecord");
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
        const auto& uses = graph_.ops[i].uses;
        for (const auto& use : uses) {
            const auto& t = graph_.tensors[use.tensor];
            if (t.persistent || t.first != i) continue;
            allocate(use.tensor);
            defined_[use.tensor] = false;
        }
        launch(i);
        for (const auto& use : uses) {
            const auto& t = graph_.tensors[use.tensor];
            if (t.persistent || t.last != i || !address_[use.tensor]) continue;
            check(cuMemFree(address_[use.tensor]), "cuMemFree");
            address_[use.tensor] = 0;
        }
    }
    if (!timed) return 0;
    check(cuEventRecord(end_, stream_), "cuEventRecord");
    check(cuEventSynchronize(end_), "cuEventSynchronize");
    float ms = 0;
    check(cuEventElapsedTime(&ms, start_, end_), "cuEventElapsedTime");
    return static_cast<double>(ms) * 1e6;
}

std::uint64_t Player::stamps() {
    check(cuStreamSynchronize(stream_), "cuStreamSynchronize");
    std::uint64_t h = 0xCBF29CE484222325ull;
    const auto add = [&](CUdeviceptr address) {
        std::uint64_t word = 0;
        check(cuMemcpyDtoH(&word, address, sizeof word), "cuMemcpyDtoH");
        for (int i = 0; i < 8; ++i) h = (h ^ ((word >> (8 * i)) & 0xFF)) * 0x100000001B3ull;
    };
    add(digest_);
    for (std::size_t t = 0; t < graph_.tensors.size(); ++t) {
        if (!graph_.tensors[t].persistent || !address_[t]) continue;
        for (std::uint64_t p = 0; p < 3; ++p) add(address_[t] + place(last_word(graph_.tensors[t].bytes), p));
    }
    return h;
}

}  // namespace player
