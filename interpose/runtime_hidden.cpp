// Memory that is not ours but that kernels are given (managed, pinned and mapped, mapped by the program itself):
// what it names may not move. The host can change some of it without a call, so that is looked at before each
// kernel that is given it; the rest only kernels and copies change (replayer/hidden_addresses.h).
#include <algorithm>

#include "interpose/copy_spans.h"
#include "interpose/runtime_plan.h"
#include "interpose/runtime_state.h"
#include "replayer/hidden_addresses.h"

namespace swapadvisor {
namespace {
// No driver has memory below, and what is there are numbers.
constexpr std::uint64_t kLowest = 1ull << 32, kHighest = 1ull << 56;
constexpr std::size_t kMostWords = 4096;
constexpr std::uint64_t kMostHostBytes = 65536;

template <class F>
void each_word(const FunctionInfo& info, void** params, void** extra, F&& f) {
    const auto words = [&](const char* data, std::size_t bytes) {
        for (std::size_t at = 0; at + 8 <= bytes; at += 8) f(address_scan::load<std::uint64_t>(data + at));
    };
    if (params != nullptr) {
        if (!info.layout_known) return;
        for (const FunctionInfo::Piece& piece : info.pieces)
            if (piece.kind != FunctionInfo::Piece::Kind::halves)
                words(static_cast<const char*>(params[piece.index]), piece.bytes);
    } else if (extra != nullptr) {
        const void* buffer = nullptr;
        std::size_t bytes = 0;
        if (packed_arguments(extra, buffer, bytes)) words(static_cast<const char*>(buffer), bytes);
    }
}
}  // namespace

RuntimeState::Foreign RuntimeState::foreign_kind(std::uint64_t word) {
    if (foreign_words.size() >= kMostWords) foreign_words = {};
    Foreign& kind = foreign_words[word];
    if (kind != Foreign::unknown || api.cuPointerGetAttribute_ == nullptr) return kind;
    unsigned type = 0, managed = 0;
    if (api.cuPointerGetAttribute_(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, word) != CUDA_SUCCESS)
        return kind = Foreign::nothing;
    if (api.cuPointerGetAttribute_(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, word) != CUDA_SUCCESS)
        managed = 0;
    kind = type == CU_MEMORYTYPE_HOST || managed != 0 ? Foreign::host : Foreign::device;
    any_foreign.store(true, std::memory_order_relaxed);
    for (auto& m : contexts)
        if (m->residency) m->residency->hidden().add_foreign(word);
    return kind;
}

void RuntimeState::drop_foreign(CUdeviceptr address, std::size_t bytes) {
    if (!any_foreign.load(std::memory_order_relaxed)) return;
    if (bytes == 0) {
        CUdeviceptr start = 0;
        if (api.cuPointerGetAttribute_(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address) !=
                CUDA_SUCCESS ||
            api.cuPointerGetAttribute_(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address) != CUDA_SUCCESS)
            return;
        address = start;
    }
    foreign_words = {};  // other memory may come to lie there
    for (auto& m : contexts)
        if (m->residency) m->residency->hidden().forget_foreign(address, bytes);
}

void Runtime::variable_found(void* code, CUdeviceptr address, std::size_t bytes, bool managed) {
    RuntimeState& state = RuntimeState::of(this);
    std::lock_guard lock(state.mutex);
    for (const auto& known : state.variables)
        if (known.part.address == address) return;
    state.variables.push_back({code, {address, bytes}, managed});
    state.any_foreign.store(true, std::memory_order_relaxed);
    for (auto& m : state.contexts)
        if (m->residency) m->residency->hidden().add_foreign(address, bytes);
}

void Runtime::variables_go(void* code) {
    RuntimeState& state = RuntimeState::of(this);
    if (!state.any_foreign.load(std::memory_order_relaxed)) return;
    std::lock_guard lock(state.mutex);
    std::erase_if(state.variables, [&](const RuntimeState::Variable& known) {
        if (known.code != code) return false;
        state.drop_foreign(known.part.address, known.part.bytes);
        return true;
    });
}

void RuntimeState::foreign_known_to(Residency& residency) {
    foreign_words = {};  // each is told to all contexts again when it is met
    for (const Variable& known : variables)
        residency.hidden().add_foreign(known.part.address, known.part.bytes);
}

void Runtime::foreign_memory_goes(CUdeviceptr address, std::size_t bytes) {
    RuntimeState& state = RuntimeState::of(this);
    if (!state.any_foreign.load(std::memory_order_relaxed)) return;
    std::lock_guard lock(state.mutex);
    state.drop_foreign(address, bytes);
}

bool RuntimeState::given_host_memory(const FunctionInfo& info, void** params, void** extra,
                                     std::vector<Part>& given, bool& host_sees) {
    given.clear();
    const bool pressure = std::any_of(contexts.begin(), contexts.end(), [](const auto& m) {
        return m->residency && m->residency->under_pressure();
    });
    each_word(info, params, extra, [&](std::uint64_t word) {
        if (word < kLowest || word >= kHighest || maybe_managed(word) || foreign_kind(word) != Foreign::host)
            return;
        host_sees = true;
        if (pressure) given.push_back({word, 0});
    });
    for (const Variable& known : variables) {
        if (!known.managed) continue;
        host_sees = true;
        if (pressure) given.push_back(known.part);
    }
    return !given.empty();
}

// Without the lock.
void RuntimeState::look_at_host_memory(const std::vector<Part>& given) {
    for (const Part& part : given) {
        CUdeviceptr start = part.address;
        std::size_t bytes = part.bytes;
        if (bytes == 0 && (api.cuPointerGetAttribute_(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                                      part.address) != CUDA_SUCCESS ||
                           api.cuPointerGetAttribute_(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                                      part.address) != CUDA_SUCCESS ||
                           part.address - start >= bytes))
            continue;
        const auto length = std::min<std::uint64_t>(start + bytes - part.address, kMostHostBytes);
        const CopySpan span =
            pitched_span(CU_MEMORYTYPE_DEVICE, part.address, nullptr, 0, 0, 0, 0, 0, length, 1, 1);
        // What cannot be kept will be an illegal address for the kernel; a line has said so.
        (void)look_through_payload(span, span);
    }
}

void RuntimeState::bring_named_back() {
    for (auto& m : contexts)
        if (m->residency && m->residency->any_named_away())
            for (Buffer* buffer : m->residency->take_named_away())
                (void)keep_in_place(*buffer, Residency::kNamed);
}

}  // namespace swapadvisor
