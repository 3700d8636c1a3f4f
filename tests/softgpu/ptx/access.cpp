// Slow paths of the handlers: asking the memory owner, and faults.
#include <cstdio>

#include "tests/softgpu/ptx/exec.h"

namespace softgpu::ptx {

// --------------------------------------------------------------------------------------

bool check_range(Warp& w, u64 address, u64 bytes, bool write) {
    Worker& worker = *w.worker;
    RangeCache& c = worker.ranges;
    const u64* from = write ? c.write_from : c.read_from;
    const u64* until = write ? c.write_until : c.read_until;
    for (int k = 0; k < RangeCache::kEntries; ++k) {
        if (address >= from[k] && address + bytes <= until[k]) return true;
    }
    u64 lo = 0, hi = 0;
    const Launch& l = *worker.launch;
    u64 space = reinterpret_cast<u64>(l.workspace.get());
    if (space != 0 && address >= space && address + bytes <= space + l.workspace_bytes) {
        lo = space, hi = space + l.workspace_bytes;
    } else if (address + bytes < address || !l.memory->check(address, bytes, write, &lo, &hi)) {
        return false;
    }
    if (hi <= lo) return true;
    int k = worker.next_entry = (worker.next_entry + 1) % RangeCache::kEntries;
    (write ? c.write_from : c.read_from)[k] = lo;
    (write ? c.write_until : c.read_until)[k] = hi;
    return true;
}

void report_touch(Warp& w, u64 address, u64 bytes, bool write) {
    // Volatile, relaxed and acquiring loads are for memory that others write meanwhile: no race.
    if (!write && static_cast<WarpState&>(w).current->kind == Kind::yielding) return;
    w.worker->launch->memory->touched(address, bytes, write);
}

void raise_fault(Warp& w, int what, u32 lane, u64 address, u64, bool) {
    throw FaultError{Fault(what), address, "", w.index, lane, static_cast<WarpState&>(w).current};
}
namespace {
std::string hex(u64 v) {
    char text[32];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(v));
    return text;
}
}  // namespace
void raise_misaligned(Warp& w, u32 lane, u64 address, u64 bytes) {
    throw FaultError{Fault::misaligned_address,
                     address,
                     "address " + hex(address) + " is no multiple of " + std::to_string(bytes),
                     w.index,
                     lane,
                     static_cast<WarpState&>(w).current};
}
void raise_illegal(Warp& w, u32 lane, u64 address, u64 bytes, bool write, const char* space) {
    throw FaultError{Fault::illegal_address,
                     address,
                     std::string(write ? "write" : "read") + " of " + std::to_string(bytes) + " bytes at " +
                         space + " address " + hex(address),
                     w.index,
                     lane,
                     static_cast<WarpState&>(w).current};
}

}  // namespace softgpu::ptx
