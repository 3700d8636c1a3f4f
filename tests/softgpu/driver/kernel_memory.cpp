#include "tests/softgpu/driver/kernel_memory.h"

#include <algorithm>
#include <atomic>
#include <cstdio>

#include "tests/softgpu/driver/race.h"

namespace softgpu {

namespace {
std::uint64_t g_launches = 0;
}

std::uint64_t KernelMemory::allocate_global(std::uint64_t bytes, std::uint64_t align, bool managed) {
    Driver& d = driver();
    const std::uint64_t size = std::max<std::uint64_t>(bytes, 1);
    const std::uint64_t address =
        managed ? d.memory.allocate_host(context_, size, SpanKind::managed, CU_MEM_ATTACH_GLOBAL)
                : d.memory.allocate_device(context_->device, context_, size, SpanKind::global, align);
    if (!address) throw ptx::PtxError("out of device memory for a module variable");
    globals_.push_back(address);
    return address;
}

bool KernelMemory::check(std::uint64_t address, std::uint64_t bytes, bool write, std::uint64_t* valid_from,
                         std::uint64_t* valid_until) {
    Span* span = driver().memory.find(address);
    if (!span || address + bytes > span->end || address + bytes < address) return false;
    const std::uint8_t access = span->access[static_cast<std::size_t>(context_->device)];
    if (access == kNoAccess || (write && access != kReadWrite)) return false;
    // Seen before in this launch? Racing readers may look twice; the lock decides.
    std::atomic_ref<std::uint64_t> mark(span->launch_mark);
    std::atomic_ref<bool> wrote(span->launch_wrote);
    if (mark.load(std::memory_order_acquire) != launch_ ||
        (write && !wrote.load(std::memory_order_relaxed))) {
        std::lock_guard guard(mutex_);
        if (mark.load(std::memory_order_relaxed) != launch_) {
            wrote.store(write, std::memory_order_relaxed);
            mark.store(launch_, std::memory_order_release);
            used_.emplace_back(span, write);
        } else if (write && !wrote.load(std::memory_order_relaxed)) {
            wrote.store(true, std::memory_order_relaxed);
            used_.emplace_back(span, true);
        }
    }
    *valid_from = span->begin;
    *valid_until = span->end;
    return true;
}

void KernelMemory::touched(std::uint64_t address, std::uint64_t bytes, bool write) {
    std::lock_guard guard(mutex_);
    if (!touches_.empty()) {  // neighbouring warps touch neighbouring bytes
        Touch& last = touches_.back();
        if (last.write == write && address <= last.end && address + bytes >= last.begin) {
            last.begin = std::min(last.begin, address);
            last.end = std::max(last.end, address + bytes);
            return;
        }
    }
    touches_.push_back({address, address + bytes, write});
    if (touches_.size() < 1 << 16) return;
    // Many small pieces: merge what touches, keeping the memory for this bounded.
    std::sort(touches_.begin(), touches_.end(), [](const Touch& a, const Touch& b) {
        return a.write != b.write ? a.write < b.write : a.begin < b.begin;
    });
    std::vector<Touch> merged;
    for (const Touch& t : touches_) {
        if (!merged.empty() && merged.back().write == t.write && t.begin <= merged.back().end)
            merged.back().end = std::max(merged.back().end, t.end);
        else
            merged.push_back(t);
    }
    touches_ = std::move(merged);
}

void KernelMemory::print(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
}

void KernelMemory::begin_launch(const Op&) {
    launch_ = ++g_launches;
    tracking_ = options().racecheck;
    used_.clear();
    touches_.clear();
}

void KernelMemory::end_launch(const Op& op) {
    Driver& d = driver();
    for (const auto& [span, write] : used_) {
        if (options().strict && !span->ordered && span->born >= op.id)
            report_strictness(
                "kernel %s (launch #%llu) uses %s [0x%llx, +%llu) that was mapped after it was launched",
                op.name->c_str(), static_cast<unsigned long long>(op.id), span_kind_name(span->kind),
                static_cast<unsigned long long>(span->begin), static_cast<unsigned long long>(span->bytes()));
        if (span->ordered) check_stream_order(op, *span);
        note_span_use(op, *span, write);
    }
    used_.clear();
    for (const Touch& t : touches_)
        d.memory.cover(t.begin, t.end - t.begin, [&](Span& span, std::uint64_t first, std::uint64_t last) {
            d.races->access(op, span, first, last, t.write);
        });
    touches_.clear();
}

}  // namespace softgpu
