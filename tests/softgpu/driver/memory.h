// Device-visible memory: one reserved address range that all device addresses come from, sparse backing
// files, and the spans that say which addresses are backed by what and who may touch them. Called with the
// driver's lock held.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/softgpu/driver/sim.h"

struct CUmod_st;
struct CUmemPoolHandle_st;

namespace softgpu {

constexpr std::uint64_t kPage = 2u << 20;  ///< physical granularity
constexpr int kMaxDevices = 8;

/// A sparse file whose offsets are handed out once and never again, so a piece is always contiguous;
/// how much may be in use is the owner's business.
class BackingFile {
  public:
    explicit BackingFile(const char* name, std::uint64_t bytes = 1ull << 60);
    explicit BackingFile(int fd) : fd_(fd) {}  ///< takes over an open file of another process
    BackingFile(const BackingFile&) = delete;
    ~BackingFile();
    std::uint64_t allocate(std::uint64_t bytes);
    void release(std::uint64_t offset, std::uint64_t bytes);
    int fd() const { return fd_; }

  private:
    int fd_;
    std::uint64_t next_ = 0;
};

/// Physical memory made by cuMemCreate: lives while a handle or a mapping does.
struct Physical {
    CUmemGenericAllocationHandle id = 0;
    CUmemAllocationProp prop{};
    std::uint64_t offset = 0, bytes = 0;
    BackingFile* file = nullptr;
    int device = -1;                        ///< -1: host memory
    std::shared_ptr<BackingFile> own_file;  ///< of memory that can be exported, or was imported
    bool imported = false;
    unsigned references = 1, mappings = 0;
};

enum class SpanKind : std::uint8_t { device, global, pool, mapped, host, registered, managed, ipc };
const char* span_kind_name(SpanKind k);

enum : std::uint8_t { kNoAccess = 0, kRead = 1, kReadWrite = 3 };

struct Use {
    unsigned slot = 0;
    std::uint64_t sequence = 0;
    bool write = false;
    Name name;
};

/// A run of addresses with one backing. Bounds are exact to the byte for allocations.
struct Span {
    std::uint64_t begin = 0, end = 0;
    SpanKind kind = SpanKind::device;
    int device = 0;  ///< owner; for host memory the device of the context that made it
    CUctx_st* context = nullptr;
    BackingFile* file = nullptr;  ///< null for registered host memory
    std::uint64_t offset = 0;     ///< of `begin` in file
    std::array<std::uint8_t, kMaxDevices> access{};
    unsigned flags = 0;  ///< host allocation or registration flags
    std::shared_ptr<Physical> physical;
    std::shared_ptr<BackingFile> own_file;  ///< of memory imported by legacy IPC
    CUmemPoolHandle_st* pool = nullptr;
    std::uint64_t id = 0;    ///< CU_POINTER_ATTRIBUTE_BUFFER_ID
    std::uint64_t born = 0;  ///< operation id at the time of mapping
    std::vector<Use> uses;
    std::uint64_t launch_mark = 0;  ///< last kernel that used it; see KernelMemory
    bool launch_wrote = false;
    bool sync_memops = false;
    // Stream-ordered life.
    bool ordered = false;
    unsigned born_slot = 0;
    std::uint64_t born_sequence = 0;
    bool freeing = false;  ///< a free is queued
    VectorClock free_clock;
    bool from_graph = false;
    int graph_claims = 0, graph_frees = 0;  ///< launches that allocate it, and of these queued frees

    bool on_host() const {
        return kind == SpanKind::host || kind == SpanKind::registered ||
               (kind == SpanKind::mapped && device < 0);
    }
    std::uint64_t bytes() const { return end - begin; }
};

class Memory {
  public:
    Memory();

    // Addresses. 0 when none is left.
    std::uint64_t reserve(std::uint64_t bytes, std::uint64_t align, std::uint64_t hint = 0);
    void unreserve(std::uint64_t address, std::uint64_t bytes);
    bool in_range(std::uint64_t address) const { return address >= base_ && address < base_ + size_; }
    void map(std::uint64_t address, std::uint64_t bytes, const BackingFile& file, std::uint64_t offset);
    void unmap(std::uint64_t address, std::uint64_t bytes);

    // Spans.
    Span& add(Span span);
    void remove(Span& span);  ///< the entry only
    Span* find(std::uint64_t address);
    /// Last span that begins at or below, and first above: for reports.
    std::string nearest(std::uint64_t address);
    /// True when [address, +bytes) is covered by spans without a gap; calls f(span, first, last) for each.
    template <class F>
    bool cover(std::uint64_t address, std::uint64_t bytes, F&& f);
    std::map<std::uint64_t, Span>& spans() { return spans_; }

    // Whole allocations (address + physical memory + span). 0 on out of memory.
    std::uint64_t allocate_device(int device, CUctx_st* context, std::uint64_t bytes, SpanKind kind,
                                  std::uint64_t align = 512);
    std::uint64_t allocate_host(CUctx_st* context, std::uint64_t bytes, SpanKind kind, unsigned flags);
    void free(Span& span);

    // VMM.
    std::shared_ptr<Physical> create(int device, std::uint64_t bytes, const CUmemAllocationProp& prop);
    std::shared_ptr<Physical> handle(CUmemGenericAllocationHandle id);
    void drop_reference(const std::shared_ptr<Physical>& p);
    void drop_mapping(const std::shared_ptr<Physical>& p);
    void adopt(const std::shared_ptr<Physical>& p) { handles_[p->id = ++last_id_] = p; }
    std::map<std::uint64_t, std::uint64_t> reservations;  ///< of cuMemAddressReserve: address -> bytes

    // Accounting.
    bool take(int device, std::uint64_t bytes);
    void give_back(int device, std::uint64_t bytes);
    bool take_host(std::uint64_t bytes);
    void give_back_host(std::uint64_t bytes);
    std::uint64_t used(int device) const { return used_[static_cast<std::size_t>(device)]; }
    std::uint64_t peak(int device) const { return peak_[static_cast<std::size_t>(device)]; }
    std::uint64_t host_used() const { return host_used_; }
    std::uint64_t host_peak() const { return host_peak_; }
    void reset_peaks();
    BackingFile& device_file(int device) { return *device_files_[static_cast<std::size_t>(device)]; }
    BackingFile& host_file() { return *host_file_; }
    void add_device();
    std::uint64_t next_id() { return ++last_id_; }

  private:
    struct Slab {  // one 2 MiB page shared by small allocations
        std::uint64_t address = 0, offset = 0;
        int device = 0;
        CUctx_st* context = nullptr;
        std::map<std::uint64_t, std::uint64_t> free;  ///< address -> bytes
        std::uint64_t free_bytes = kPage;
    };
    std::uint64_t carve(Slab& slab, std::uint64_t bytes, std::uint64_t align);
    void put_back(std::uint64_t address, std::uint64_t bytes);

    std::uint64_t base_ = 0, size_ = 0;
    std::map<std::uint64_t, std::uint64_t> free_addresses_;  ///< address -> bytes
    std::map<std::uint64_t, Span> spans_;
    std::map<std::uint64_t, Slab> slabs_;
    std::map<std::uint64_t, std::uint64_t>
        placed_;  ///< device allocation -> bytes taken (whole pages or slab bytes)
    std::vector<std::unique_ptr<BackingFile>> device_files_;
    std::unique_ptr<BackingFile> host_file_;
    std::map<CUmemGenericAllocationHandle, std::shared_ptr<Physical>> handles_;
    std::uint64_t last_id_ = 0;
    std::array<std::uint64_t, kMaxDevices> used_{}, peak_{};
    std::uint64_t host_used_ = 0, host_peak_ = 0;
};

template <class F>
bool Memory::cover(std::uint64_t address, std::uint64_t bytes, F&& f) {
    const std::uint64_t end = address + bytes;
    while (address < end) {
        Span* span = find(address);
        if (!span) return false;
        const std::uint64_t until = std::min(end, span->end);
        f(*span, address, until);
        address = until;
    }
    return true;
}

/// Copies bytes the way the sparse backing allows: holes of the source become holes of the destination.
/// Either address may be ordinary host memory.
void sparse_copy(Memory& memory, std::uint64_t to, std::uint64_t from, std::uint64_t bytes);
/// Zeroes, by punching holes where the backing allows.
void sparse_zero(Memory& memory, std::uint64_t to, std::uint64_t bytes);

}  // namespace softgpu
