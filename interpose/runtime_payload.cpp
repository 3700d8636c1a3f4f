// Addresses that travel to the device as data: copies, memsets and memory operations, whatever their
// destination, for any kernel may use them later without being given them. What they name may not move.
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "interpose/copy_spans.h"
#include "interpose/runtime_graphs.h"
#include "interpose/runtime_state.h"
#include "recorder/address_scan.h"

namespace swapadvisor {
namespace {

constexpr const char* kReason = "its address was copied to the device";
// So small a payload is a table or a structure rather than data: it is looked at like arguments. Data that
// merely look like an address cost room on the device, which more of them must not.
constexpr std::size_t kTable = 4096, kConstants = 65536;

struct Hit {
    std::uint64_t address;
    WordForm form;
};

/// Collects what is found; one of each 64 KiB, for what is smaller than that never moves.
class Hits {
  public:
    void add(std::uint64_t address, WordForm form) {
        if (!all_.empty() && same(all_.back(), {address, form})) return;
        all_.push_back({address, form});
        if (all_.size() < limit_) return;
        std::sort(all_.begin(), all_.end(), [](const Hit& a, const Hit& b) { return key(a) < key(b); });
        all_.erase(std::unique(all_.begin(), all_.end(), same), all_.end());
        limit_ = std::max(limit_, 2 * all_.size());
    }
    const std::vector<Hit>& all() const { return all_; }

  private:
    static std::uint64_t key(const Hit& hit) {
        return (hit.address >> 16) * 2 + static_cast<std::uint64_t>(hit.form);
    }
    static bool same(const Hit& a, const Hit& b) { return key(a) == key(b); }
    std::vector<Hit> all_;
    std::size_t limit_ = 4096;
};

/// How the host can read the source of a copy.
enum class Readable : std::uint8_t { no, plainly, with_care };

/// A unified address may be the host's; `view` is what to read then.
Readable host_view(const DriverApi& api, const CopySpan& source, const char*& view) {
    if (source.host != nullptr) {
        view = static_cast<const char*>(source.host);
        return Readable::plainly;
    }
    if (source.address == 0 || api.cuPointerGetAttribute_ == nullptr) return Readable::no;
    view = reinterpret_cast<const char*>(source.address);
    unsigned type = 0, managed = 0;
    // Pageable memory: the driver knows nothing of it, and the program may be wrong about it.
    if (api.cuPointerGetAttribute_(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, source.address) != CUDA_SUCCESS)
        return Readable::with_care;
    if (type == CU_MEMORYTYPE_HOST) {
        void* host = nullptr;
        if (api.cuPointerGetAttribute_(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, source.address) ==
                CUDA_SUCCESS &&
            host != nullptr)
            view = static_cast<const char*>(host);
        return Readable::plainly;
    }
    if (api.cuPointerGetAttribute_(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, source.address) ==
            CUDA_SUCCESS &&
        managed != 0)
        return Readable::with_care;
    return Readable::no;
}

/// Calls part(data, bytes, offset) for [data, data + bytes) in pieces that overlap by a word.
template <class Part>
void read_with_care(const char* data, std::size_t bytes, Part part) {
    constexpr std::size_t kPiece = 16384, kOverlap = 8;
    alignas(16) char piece[kPiece];
    for (std::size_t at = 0; at < bytes; at += kPiece - kOverlap) {
        const std::size_t now = std::min(kPiece, bytes - at);
        const iovec to{piece, now}, from{const_cast<char*>(data) + at, now};
        const ssize_t got = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
        if (got < 0 && (errno == EPERM || errno == ENOSYS)) {  // some sandboxes
            part(data + at, bytes - at, at);
            return;
        }
        if (got <= 0) return;
        part(piece, static_cast<std::size_t>(got), at);
        if (static_cast<std::size_t>(got) < now || at + now == bytes) return;
    }
}

}  // namespace

/// What there is in one payload.
struct PayloadFindings {
    /// Less than a word, at the ends of a row.
    struct Part {
        std::uint64_t place;
        std::uint8_t bytes;
        char data[8];
    };
    Hits hits;
    std::vector<Part> parts;
    bool table = false;

    void gather(const char* view, Readable readable, const CopySpan& destination, const CopySpan& source,
                std::uint64_t low, std::uint64_t high) {
        const auto look = [&](const char* data, std::size_t count, std::uint64_t place) {
            if (!table) {
                find_addresses(data, count, place, low, high,
                               [&](std::uint64_t word) { hits.add(word, WordForm::whole); });
                return;
            }
            find_at_any_byte(data, count, place, low, high,
                             [&](std::uint64_t word, WordForm form) { hits.add(word, form); });
            add_ends(data, count, place);
        };
        for (std::size_t slice = 0; slice < source.slices; ++slice)
            for (std::size_t row = 0; row < source.rows; ++row) {
                const char* const data = view + slice * source.slice_pitch + row * source.pitch;
                const std::uint64_t place =
                    destination.address + slice * destination.slice_pitch + row * destination.pitch;
                if (readable == Readable::plainly)
                    look(data, source.row_bytes, place);
                else
                    read_with_care(data, source.row_bytes,
                                   [&](const char* piece, std::size_t count, std::size_t at) {
                                       look(piece, count, place + at);
                                   });
            }
    }

  private:
    void add(const char* data, std::size_t bytes, std::uint64_t place) {
        if (bytes == 0) return;
        Part part{place, static_cast<std::uint8_t>(bytes), {}};
        std::memcpy(part.data, data, bytes);
        parts.push_back(part);
    }
    void add_ends(const char* data, std::size_t count, std::uint64_t place) {
        if (count < 8) return add(data, count, place);
        const std::size_t end = (place + count) % 8;
        add(data, (8 - place % 8) % 8, place);
        add(data + count - end, end, place + count - end);
    }
};

CUresult RuntimeState::keep_in_place(Buffer& buffer, const char* reason) {
    if ((buffer.small && buffer.page == nullptr) || buffer.escaped != nullptr) return CUDA_SUCCESS;
    const RelaxedCapture outside = outside_captures();
    const CUresult result = buffer.owner->set_escaped(buffer, reason);
    for (auto& m : contexts)
        if (m->residency.get() == buffer.owner && buffer.escaped != nullptr)
            m->recorder->escaped(buffer.id, reason);
    return result;
}

// With the lock held.
CUresult RuntimeState::keep_named(std::uint64_t address, WordForm form, bool table) {
    Buffer* buffer = find(address);
    // Where addresses are as small as sizes and counts are, pairs of those must not count as shifted ones.
    if (buffer == nullptr && table && form == WordForm::whole && low >> 44 != 0) buffer = find_near(address);
    if (buffer == nullptr) return CUDA_SUCCESS;
    if (!table && (address < buffer->address || address >= buffer->address + buffer->bytes))
        return CUDA_SUCCESS;
    return keep_in_place(*buffer, kReason);
}

// With the lock held.
CUresult RuntimeState::keep_found(const PayloadFindings& findings) {
    CUresult result = CUDA_SUCCESS;
    const auto keep = [&](std::uint64_t address, WordForm form) {
        if (const CUresult one = keep_named(address, form, findings.table); one != CUDA_SUCCESS) result = one;
    };
    for (const Hit& hit : findings.hits.all()) keep(hit.address, hit.form);
    for (const PayloadFindings::Part& part : findings.parts)
        small_writes.write(part.place, part.data, part.bytes,
                           [&](std::uint64_t word) { find_in_word(word, low, high, keep); });
    return result;
}

bool RuntimeState::is_table(const CopySpan& destination, const CopySpan& source) const {
    const std::size_t bytes = source.row_bytes * source.rows * source.slices;
    return bytes <= (maybe_managed(destination.address) ? kTable : kConstants);
}

CUresult RuntimeState::look_through_payload(const CopySpan& destination, const CopySpan& source) {
    if (live.load(std::memory_order_relaxed) == 0 || source.bytes == 0 || thread_op().busy ||
        maybe_managed(source.address))
        return CUDA_SUCCESS;
    const char* view = nullptr;
    const Readable readable = host_view(api, source, view);
    if (readable == Readable::no) return CUDA_SUCCESS;
    // The lock is not held for as long as that takes.
    PayloadFindings findings;
    findings.table = is_table(destination, source);
    findings.gather(view, readable, destination, source, low, high);
    if (findings.hits.all().empty() && findings.parts.empty()) return CUDA_SUCCESS;
    std::lock_guard lock(mutex);
    return keep_found(findings);
}

// What a graph's copies read is what is there when it is launched. A copy may be switched off, and its source
// gone.
CUresult RuntimeState::look_through_copies(const GraphWork& work) {
    CUresult result = CUDA_SUCCESS;
    for (const GraphNode& node : work.nodes) {
        if (node.type != CU_GRAPH_NODE_TYPE_MEMCPY) continue;
        const CopySpan destination = destination_of(node.copy), source = source_of(node.copy);
        const char* view = nullptr;
        if (source.bytes == 0 || maybe_managed(source.address) ||
            host_view(api, source, view) == Readable::no)
            continue;
        PayloadFindings findings;
        findings.table = is_table(destination, source);
        findings.gather(view, Readable::with_care, destination, source, low, high);
        if (const CUresult one = keep_found(findings); one != CUDA_SUCCESS) result = one;
    }
    return result;
}

CUresult RuntimeState::wrote_words(std::uint64_t address, const void* data, std::size_t bytes) {
    if (live.load(std::memory_order_relaxed) == 0 || bytes == 0 || bytes > 8 || thread_op().busy)
        return CUDA_SUCCESS;
    std::lock_guard lock(mutex);
    CUresult result = CUDA_SUCCESS;
    small_writes.write(address, data, bytes, [&](std::uint64_t word) {
        find_in_word(word, low, high, [&](std::uint64_t named, WordForm form) {
            if (const CUresult one = keep_named(named, form, true); one != CUDA_SUCCESS) result = one;
        });
    });
    return result;
}

CUresult RuntimeState::filled_with(std::uint64_t address, std::size_t bytes, std::uint32_t value,
                                   unsigned element_bytes) {
    std::uint64_t word = value;
    for (unsigned bits = 8 * element_bytes; bits < 64; bits *= 2) word |= word << bits;
    return wrote_words(address, &word, std::min<std::size_t>(bytes, 8));
}

CUresult Runtime::wrote(CUdeviceptr address, std::uint64_t value, unsigned bytes) {
    return RuntimeState::of(this).wrote_words(address, &value, bytes);
}

CUresult Runtime::copies(const CopySpan& destination, const CopySpan& source) {
    return RuntimeState::of(this).look_through_payload(destination, source);
}

CUresult Runtime::escape(CUdeviceptr address, const char* reason) {
    RuntimeState& state = RuntimeState::of(this);
    if (state.live.load(std::memory_order_relaxed) == 0) return CUDA_SUCCESS;
    std::lock_guard lock(state.mutex);
    Buffer* buffer = state.find(address);
    return buffer != nullptr ? state.keep_in_place(*buffer, reason) : CUDA_SUCCESS;
}

}  // namespace swapadvisor
