// Asynchronous copies (done at once), mbarrier objects and cluster addresses.
#include "tests/softgpu/ptx/isa.h"
#include "tests/softgpu/ptx/isa_memory.h"

namespace softgpu::ptx::SOFTGPU_ISA {
namespace {

u8* host_of(Warp& w, u32 l, u64 address, u32 size, bool write) {
    u8* host = resolve(w, l, address, size, write);
    if (host == nullptr) raise_illegal(w, l, address, size, write, "local");
    return host;
}

/// a: destination (imm: displacement), b: source (list[0]: displacement), c: bytes to take, n: bytes to
/// write.
void copy_async(Warp& w, const Inst& i, u32 mask) {
    FOR_LANES(l, mask) {
        u64 to = slot<u64>(w, i.a)[l] + u64(i.imm), from = slot<u64>(w, i.b)[l] + u64(i64(i32(i.list[0])));
        u32 take = slot<u32>(w, i.c)[l];
        if (take > i.n) take = i.n;
        u8 bytes[16] = {};
        if (take != 0) {
            if ((from & (i.n - 1U)) != 0) raise_misaligned(w, l, from, i.n);
            if ((from >> kWindowShift) == 0) {
                if (!check_range(w, from, take, false)) raise_illegal(w, l, from, take, false, "global");
                if (w.tracking) report_touch(w, from, take, false);
                __builtin_memcpy(bytes, reinterpret_cast<const u8*>(from), take);
                w.global_bytes += take;
            } else {
                __builtin_memcpy(bytes, host_of(w, l, from, i.n, false), take);
            }
        }
        __builtin_memcpy(host_of(w, l, to, i.n, true), bytes, i.n);
    }
}
void copy_bulk(Warp& w, const Inst& i, u32 mask) {
    FOR_LANES(l, mask) {
        u64 to = slot<u64>(w, i.a)[l] + u64(i.imm), from = slot<u64>(w, i.b)[l] + u64(i64(i32(i.list[0])));
        u32 size = slot<u32>(w, i.c)[l];
        if (size % 16 != 0 || to % 16 != 0) raise_misaligned(w, l, size % 16 != 0 ? size : to, 16);
        if (from % 16 != 0) raise_misaligned(w, l, from, 16);
        for (u32 k = 0; k < size; k += 16) {
            __builtin_memcpy(host_of(w, l, to + k, 16, true), host_of(w, l, from + k, 16, false), 16);
        }
        w.global_bytes += size;
    }
}

// An mbarrier: bits 0..19 arrivals still missing in this phase, 20..39 arrivals per phase, 40..62 bytes still
// missing (two's complement), 63 parity of the phase.
struct Barrier {
    u32 pending, expected;
    i32 bytes;
    u32 phase;
};
ALWAYS_INLINE Barrier read(const u8* at) {
    u64 v;
    __builtin_memcpy(&v, at, 8);
    return {u32(v) & 0xfffffU, u32(v >> 20) & 0xfffffU, i32(u32(v >> 40) << 9) >> 9, u32(v >> 63)};
}
ALWAYS_INLINE void write(u8* at, Barrier b) {
    if (b.pending == 0 && b.bytes == 0 && b.expected != 0) b.pending = b.expected, b.phase ^= 1;
    u64 v =
        u64(b.pending) | u64(b.expected) << 20 | (u64(u32(b.bytes) & 0x7fffffU) << 40) | u64(b.phase) << 63;
    __builtin_memcpy(at, &v, 8);
}
template <class F>
ALWAYS_INLINE void each(Warp& w, const Inst& i, u32 mask, F f) {
    FOR_LANES(l, mask) f(l, host_of(w, l, slot<u64>(w, i.a)[l] + u64(i.imm), 8, true));
}
void init(Warp& w, const Inst& i, u32 mask) {
    each(w, i, mask, [&](u32 l, u8* at) {
        u32 n = slot<u32>(w, i.b)[l];
        u64 v = u64(n) | u64(n) << 20;
        __builtin_memcpy(at, &v, 8);
    });
}
void inval(Warp& w, const Inst& i, u32 mask) {
    each(w, i, mask, [&](u32, u8* at) { __builtin_memset(at, 0, 8); });
}
void expect_tx(Warp& w, const Inst& i, u32 mask) {
    each(w, i, mask, [&](u32 l, u8* at) {
        Barrier b = read(at);
        b.bytes += i32(slot<u32>(w, i.b)[l]);
        // Never completes a phase by itself: a pending arrival is outstanding.
        u64 v = u64(b.pending) | u64(b.expected) << 20 | (u64(u32(b.bytes) & 0x7fffffU) << 40) |
                u64(b.phase) << 63;
        __builtin_memcpy(at, &v, 8);
    });
}
void complete_tx(Warp& w, const Inst& i, u32 mask) {
    each(w, i, mask, [&](u32 l, u8* at) {
        Barrier b = read(at);
        b.bytes -= i32(slot<u32>(w, i.b)[l]);
        write(at, b);
    });
}
template <bool Drop>
void arrive(Warp& w, const Inst& i, u32 mask) {
    each(w, i, mask, [&](u32 l, u8* at) {
        u64 before;
        __builtin_memcpy(&before, at, 8);
        Barrier b = read(at);
        u32 n = slot<u32>(w, i.b)[l];
        if (n > b.pending)
            raise_illegal(w, l, slot<u64>(w, i.a)[l], 8, true,
                          "mbarrier with more arrivals than expected at");
        b.pending -= n;
        if (Drop) b.expected -= n;
        write(at, b);
        if (i.d != ~0U) slot<u64>(w, i.d)[l] = before;
    });
}
void test(Warp& w, const Inst& i, u32 mask) {
    u32 done = 0;
    each(w, i, mask,
         [&](u32 l, u8* at) { done |= u32(read(at).phase != u32(slot<u64>(w, i.b)[l] >> 63)) << l; });
    write_predicate(w, i.d, done, mask);
}
void test_parity(Warp& w, const Inst& i, u32 mask) {
    u32 done = 0;
    each(w, i, mask, [&](u32 l, u8* at) { done |= u32(read(at).phase != (slot<u32>(w, i.b)[l] & 1)) << l; });
    write_predicate(w, i.d, done, mask);
}
void pending_count(Warp& w, const Inst& i, u32 mask) {
    FOR_LANES(l, mask) slot<u32>(w, i.d)[l] = u32(slot<u64>(w, i.a)[l]) & 0xfffffU;
}

/// Shared addresses of a cluster: block rank + 1 from bit 24 up; 0 there means the own block.
template <class T, bool Shared>
void mapa(Warp& w, const Inst& i, u32 mask) {
    FOR_LANES(l, mask) {
        u64 a = u64(slot<T>(w, i.a)[l]);
        u32 rank = slot<u32>(w, i.b)[l];
        u64 at = (a & 0xffffffU) | u64(rank + 1) << 24;
        slot<T>(w, i.d)[l] = T(Shared ? at : kSharedWindow | at);
    }
}
template <class T>
void getctarank(Warp& w, const Inst& i, u32 mask) {
    FOR_LANES(l, mask) {
        u32 tag = (u32(slot<T>(w, i.a)[l]) >> 24) & 0xff;
        slot<u32>(w, i.d)[l] = tag == 0 ? w.cluster_rank : tag - 1;
    }
}

const TableEntry kEntries_[] = {
    {"copy.async", copy_async},
    {"copy.bulk", copy_bulk},
    {"mbarrier.init", init},
    {"mbarrier.inval", inval},
    {"mbarrier.expect_tx", expect_tx},
    {"mbarrier.complete_tx", complete_tx},
    {"mbarrier.arrive", arrive<false>},
    {"mbarrier.arrive_drop", arrive<true>},
    {"mbarrier.test", test},
    {"mbarrier.test_parity", test_parity},
    {"mbarrier.pending_count", pending_count},
    {"mapa.b32.shared", mapa<u32, true>},
    {"mapa.b64.shared", mapa<u64, true>},
    {"mapa.b64", mapa<u64, false>},
    {"getctarank.b32.shared", getctarank<u32>},
    {"getctarank.b64.shared", getctarank<u64>},
    {"getctarank.b64", getctarank<u64>},
};

}  // namespace

extern const Table table_async;
const Table table_async{kEntries_, sizeof(kEntries_) / sizeof(kEntries_[0])};

}  // namespace softgpu::ptx::SOFTGPU_ISA
