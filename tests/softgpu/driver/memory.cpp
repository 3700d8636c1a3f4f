#include "tests/softgpu/driver/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace softgpu {
namespace {

[[noreturn]] void die(const char* what) {
    std::fprintf(stderr, "softgpu: error: %s: %s\n", what, std::strerror(errno));
    std::_Exit(2);
}

std::uint64_t round_up(std::uint64_t n, std::uint64_t unit) {
    return (n + unit - 1) / unit * unit;
}
void* pointer(std::uint64_t address) {
    return reinterpret_cast<void*>(address);
}

}  // namespace

const char* span_kind_name(SpanKind k) {
    static const char* const names[] = {"allocation",     "module variable",    "stream-ordered allocation",
                                        "mapped memory",  "pinned host memory", "registered host memory",
                                        "managed memory", "imported memory"};
    return names[static_cast<int>(k)];
}

// ---- backing ----

// By default far larger than any device: offsets are never reused, so that every piece is contiguous.
BackingFile::BackingFile(const char* name, std::uint64_t bytes) : fd_(memfd_create(name, MFD_CLOEXEC)) {
    if (fd_ < 0 || ftruncate(fd_, static_cast<off_t>(bytes)) != 0)
        die("cannot create the backing file of device memory");
}

BackingFile::~BackingFile() {
    close(fd_);
}

std::uint64_t BackingFile::allocate(std::uint64_t bytes) {
    const std::uint64_t at = next_;
    next_ += round_up(bytes, kPage);
    return at;
}

void BackingFile::release(std::uint64_t offset, std::uint64_t bytes) {
    if (fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                  static_cast<off_t>(round_up(bytes, 4096))) != 0)
        die("cannot release device memory");
}

// ---- addresses ----

Memory::Memory() {
    for (std::uint64_t size = 8ull << 40; size >= 64ull << 30; size /= 2) {
        void* p = mmap(nullptr, size + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) continue;
        base_ = round_up(reinterpret_cast<std::uint64_t>(p), kPage);
        size_ = size;
        break;
    }
    if (!base_) die("cannot reserve device address space");
    madvise(pointer(base_), size_, MADV_DONTDUMP);
    free_addresses_[base_] = size_;
    host_file_ = std::make_unique<BackingFile>("softgpu-host");
}

void Memory::add_device() {
    device_files_.push_back(std::make_unique<BackingFile>("softgpu-device"));
}

std::uint64_t Memory::reserve(std::uint64_t bytes, std::uint64_t align, std::uint64_t hint) {
    bytes = round_up(bytes, kPage);
    align = std::max(align, kPage);
    const auto take = [&](std::map<std::uint64_t, std::uint64_t>::iterator it, std::uint64_t at) {
        const std::uint64_t begin = it->first, length = it->second;
        free_addresses_.erase(it);
        if (at > begin) free_addresses_[begin] = at - begin;
        if (at + bytes < begin + length) free_addresses_[at + bytes] = begin + length - at - bytes;
        return at;
    };
    if (hint && hint % align == 0) {
        auto it = free_addresses_.upper_bound(hint);
        if (it != free_addresses_.begin()) {
            --it;
            if (hint + bytes <= it->first + it->second) return take(it, hint);
        }
    }
    for (auto it = free_addresses_.begin(); it != free_addresses_.end(); ++it) {
        const std::uint64_t at = round_up(it->first, align);
        if (at + bytes <= it->first + it->second) return take(it, at);
    }
    return 0;
}

void Memory::unreserve(std::uint64_t address, std::uint64_t bytes) {
    bytes = round_up(bytes, kPage);
    auto it = free_addresses_.emplace(address, bytes).first;
    if (const auto next = std::next(it); next != free_addresses_.end() && next->first == address + bytes) {
        it->second += next->second;
        free_addresses_.erase(next);
    }
    if (it != free_addresses_.begin()) {
        const auto before = std::prev(it);
        if (before->first + before->second == address) {
            before->second += it->second;
            free_addresses_.erase(it);
        }
    }
}

void Memory::map(std::uint64_t address, std::uint64_t bytes, const BackingFile& file, std::uint64_t offset) {
    if (mmap(pointer(address), round_up(bytes, 4096), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file.fd(), static_cast<off_t>(offset)) == MAP_FAILED)
        die("mmap of device memory failed (vm.max_map_count may be too low)");
}

void Memory::unmap(std::uint64_t address, std::uint64_t bytes) {
    if (mmap(pointer(address), round_up(bytes, 4096), PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED)
        die("munmap of device memory failed");
    madvise(pointer(address), round_up(bytes, 4096), MADV_DONTDUMP);
}

// ---- spans ----

Span& Memory::add(Span span) {
    if (!span.id) span.id = next_id();
    const std::uint64_t begin = span.begin;
    return spans_.insert_or_assign(begin, std::move(span)).first->second;
}

void Memory::remove(Span& span) {
    spans_.erase(span.begin);
}

Span* Memory::find(std::uint64_t address) {
    auto it = spans_.upper_bound(address);
    if (it == spans_.begin()) return nullptr;
    --it;
    return address < it->second.end ? &it->second : nullptr;
}

std::string Memory::nearest(std::uint64_t address) {
    char text[200];
    const auto describe = [&](const Span& s, const char* where, std::uint64_t distance) {
        std::snprintf(text, sizeof text, "%llu bytes %s %s [0x%llx, +%llu)",
                      static_cast<unsigned long long>(distance), where, span_kind_name(s.kind),
                      static_cast<unsigned long long>(s.begin), static_cast<unsigned long long>(s.bytes()));
        return std::string(text);
    };
    auto above = spans_.upper_bound(address);
    const Span* below = above == spans_.begin() ? nullptr : &std::prev(above)->second;
    if (below && address < below->end) return describe(*below, "into", address - below->begin);
    const std::uint64_t down = below ? address - below->end : kNever;
    const std::uint64_t up = above != spans_.end() ? above->first - address : kNever;
    if (down == kNever && up == kNever) return "no allocation exists";
    if (down <= up) return describe(*below, "behind the end of", down);
    return describe(above->second, "before", up);
}

// ---- accounting ----

bool Memory::take(int device, std::uint64_t bytes) {
    auto& used = used_[static_cast<std::size_t>(device)];
    if (bytes > options().memory - used) return false;
    used += bytes;
    auto& peak = peak_[static_cast<std::size_t>(device)];
    peak = std::max(peak, used);
    return true;
}

void Memory::give_back(int device, std::uint64_t bytes) {
    used_[static_cast<std::size_t>(device)] -= bytes;
}

bool Memory::take_host(std::uint64_t bytes) {
    if (const std::uint64_t limit = options().host_memory;
        limit && (bytes > limit || host_used_ > limit - bytes))
        return false;
    host_used_ += bytes;
    host_peak_ = std::max(host_peak_, host_used_);
    return true;
}

void Memory::give_back_host(std::uint64_t bytes) {
    host_used_ -= bytes;
}

void Memory::reset_peaks() {
    peak_ = used_;
    host_peak_ = host_used_;
}

// ---- allocations ----

std::uint64_t Memory::carve(Slab& slab, std::uint64_t bytes, std::uint64_t align) {
    for (auto it = slab.free.begin(); it != slab.free.end(); ++it) {
        const std::uint64_t begin = it->first, length = it->second, at = round_up(begin, align);
        if (at + bytes > begin + length) continue;
        slab.free.erase(it);
        if (at > begin) slab.free[begin] = at - begin;
        if (at + bytes < begin + length) slab.free[at + bytes] = begin + length - at - bytes;
        slab.free_bytes -= bytes;
        return at;
    }
    return 0;
}

std::uint64_t Memory::allocate_device(int device, CUctx_st* context, std::uint64_t bytes, SpanKind kind,
                                      std::uint64_t align) {
    const Options& o = options();
    if (bytes == 0 || bytes > o.memory || (o.max_allocation && bytes > o.max_allocation)) return 0;
    align = std::max<std::uint64_t>(align, 512);
    BackingFile& file = device_file(device);
    Span span;
    span.kind = kind;
    span.device = device;
    span.context = context;
    span.file = &file;
    span.access[static_cast<std::size_t>(device)] = kReadWrite;
    const std::uint64_t rounded = round_up(bytes, 512);
    if (bytes < kPage / 2 && align < kPage) {
        std::uint64_t at = 0;
        Slab* home = nullptr;
        for (auto& [address, slab] : slabs_) {
            if (slab.device != device || slab.context != context || slab.free_bytes < rounded) continue;
            if ((at = carve(slab, rounded, align))) {
                home = &slab;
                break;
            }
        }
        if (!home) {
            if (!take(device, kPage)) return 0;
            const std::uint64_t page = reserve(kPage, kPage);
            if (!page) return give_back(device, kPage), 0;
            home = &slabs_[page];
            home->address = page;
            home->offset = file.allocate(kPage);
            home->device = device;
            home->context = context;
            home->free[page] = kPage;
            map(page, kPage, file, home->offset);
            at = carve(*home, rounded, align);
        }
        span.begin = at;
        span.offset = home->offset + (at - home->address);
        placed_[at] = rounded;
    } else {
        const std::uint64_t pages = round_up(bytes, kPage);
        if (!take(device, pages)) return 0;
        span.begin = reserve(pages, std::max(align, kPage));
        if (!span.begin) return give_back(device, pages), 0;
        span.offset = file.allocate(pages);
        map(span.begin, pages, file, span.offset);
        placed_[span.begin] = pages;
    }
    span.end = span.begin + bytes;
    return add(std::move(span)).begin;
}

std::uint64_t Memory::allocate_host(CUctx_st* context, std::uint64_t bytes, SpanKind kind, unsigned flags) {
    const std::uint64_t rounded = round_up(bytes, 4096);
    if (bytes == 0 || rounded < bytes || !take_host(rounded)) return 0;
    Span span;
    span.begin = reserve(rounded, kPage);
    if (!span.begin) return give_back_host(rounded), 0;
    span.end = span.begin + bytes;
    span.kind = kind;
    span.context = context;
    span.file = host_file_.get();
    span.offset = host_file_->allocate(rounded);
    span.access.fill(kReadWrite);
    span.flags = flags;
    map(span.begin, rounded, *host_file_, span.offset);
    return add(std::move(span)).begin;
}

void Memory::put_back(std::uint64_t address, std::uint64_t bytes) {
    auto it = slabs_.upper_bound(address);
    Slab& slab = (--it)->second;
    slab.free_bytes += bytes;
    if (slab.free_bytes == kPage) {
        unmap(slab.address, kPage);
        device_file(slab.device).release(slab.offset, kPage);
        unreserve(slab.address, kPage);
        give_back(slab.device, kPage);
        slabs_.erase(it);
        return;
    }
    auto piece = slab.free.emplace(address, bytes).first;
    if (const auto next = std::next(piece); next != slab.free.end() && next->first == address + bytes) {
        piece->second += next->second;
        slab.free.erase(next);
    }
    if (piece != slab.free.begin()) {
        const auto before = std::prev(piece);
        if (before->first + before->second == address) {
            before->second += piece->second;
            slab.free.erase(piece);
        }
    }
    // Whole 4 KiB pages inside the freed piece lose their contents, so that freed memory costs nothing.
    const std::uint64_t first = round_up(address, 4096), last = (address + bytes) / 4096 * 4096;
    if (first < last) device_file(slab.device).release(slab.offset + (first - slab.address), last - first);
}

void Memory::free(Span& span) {
    const std::uint64_t begin = span.begin, bytes = span.bytes();
    if (span.kind == SpanKind::ipc) {  // whole pages of another process's memory
        const std::uint64_t first = begin / kPage * kPage, last = round_up(span.end, kPage);
        const auto file = span.own_file;
        remove(span);
        unmap(first, last - first);
        unreserve(first, last - first);
        return;
    }
    if (span.file == host_file_.get()) {
        const std::uint64_t rounded = round_up(bytes, 4096), offset = span.offset;
        remove(span);
        unmap(begin, rounded);
        host_file_->release(offset, rounded);
        unreserve(begin, rounded);
        give_back_host(rounded);
        return;
    }
    const int device = span.device;
    const std::uint64_t offset = span.offset, taken = placed_.at(begin);
    placed_.erase(begin);
    remove(span);
    if (taken < kPage) return put_back(begin, taken);
    unmap(begin, taken);
    device_file(device).release(offset, taken);
    unreserve(begin, taken);
    give_back(device, taken);
}

// ---- VMM ----

std::shared_ptr<Physical> Memory::create(int device, std::uint64_t bytes, const CUmemAllocationProp& prop) {
    if (device >= 0) {
        if (options().max_allocation && bytes > options().max_allocation) return nullptr;
        if (!take(device, bytes)) return nullptr;
    } else if (!take_host(bytes)) {
        return nullptr;
    }
    auto p = std::make_shared<Physical>();
    p->prop = prop;
    p->bytes = bytes;
    p->device = device;
    if (prop.requestedHandleTypes) {  // a file of its own can be given away; its name tells the importer the
                                      // device
        p->own_file = std::make_shared<BackingFile>(("softgpu-vmm-" + std::to_string(device)).c_str(), bytes);
        p->file = p->own_file.get();
    } else {
        p->file = device >= 0 ? &device_file(device) : host_file_.get();
        p->offset = p->file->allocate(bytes);
    }
    adopt(p);
    return p;
}

std::shared_ptr<Physical> Memory::handle(CUmemGenericAllocationHandle id) {
    const auto it = handles_.find(id);
    return it == handles_.end() || it->second->references == 0 ? nullptr : it->second;
}

void Memory::drop_reference(const std::shared_ptr<Physical>& p) {
    if (p->references > 0) --p->references;
    if (p->references > 0 || p->mappings > 0) return;
    if (!p->own_file) p->file->release(p->offset, p->bytes);  // other processes may hold a file of its own
    if (!p->imported) {
        if (p->device >= 0)
            give_back(p->device, p->bytes);
        else
            give_back_host(p->bytes);
    }
    handles_.erase(p->id);
}

void Memory::drop_mapping(const std::shared_ptr<Physical>& p) {
    --p->mappings;
    if (p->references == 0) drop_reference(p);
}

}  // namespace softgpu
