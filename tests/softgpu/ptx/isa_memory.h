// Address checks and translation for the memory instructions.
#pragma once

#include "tests/softgpu/ptx/isa.h"

namespace softgpu::ptx::SOFTGPU_ISA {

ALWAYS_INLINE u8* shared_host(Warp& w, u32 l, u64 at, u32 size, bool write) {
    u64 tag = at >> 24;  // rank + 1 of another block of the cluster
    if (tag != 0 && tag <= w.cluster_size && w.cluster_shared != nullptr &&
        (at & 0xffffffU) + size <= w.shared_bytes) {
        return w.cluster_shared[tag - 1] + (at & 0xffffffU);
    }
    if (at + size > w.shared_bytes) raise_illegal(w, l, kSharedWindow | at, size, write, "shared");
    return w.shared + at;
}

/// One range of global memory. `size`: of one access, for the alignment rule.
ALWAYS_INLINE void check_global(Warp& w, u64 address, u32 bytes, u32 size, bool write) {
    if ((address & (size - 1)) != 0) raise_misaligned(w, u32(__builtin_ctz(w.live)), address, size);
    RangeCache& c = *w.ranges;
    const u64* from = write ? c.write_from : c.read_from;
    const u64* until = write ? c.write_until : c.read_until;
    bool ok = address >= from[0] && address + bytes <= until[0];
    for (int k = 1; k < RangeCache::kEntries && !ok; ++k)
        ok = address >= from[k] && address + bytes <= until[k];
    if (!ok && !check_range(w, address, bytes, write)) {
        // Name the first lane that is out of bounds.
        for (u32 l = 0; l * size < bytes; ++l) {
            if (!check_range(w, address + l * size, size, write)) {
                raise_illegal(w, bytes == size ? u32(__builtin_ctz(w.live)) : l, address + l * size, size,
                              write, "global");
            }
        }
    }
    u64 first = address >> 5, last = (address + bytes - 1) >> 5;
    w.global_bytes += (last - first + 1) * 32;
    if (w.tracking) report_touch(w, address, bytes, write);
}

/// address[l] = a[l] + displacement for the lanes of the mask (the first lane's elsewhere); 0 if all are the
/// same.
ALWAYS_INLINE u64 gather_addresses(u64* address, const u64* a, u64 displacement, u32 mask, u32 first) {
    u64 base = a[first] + displacement, differ = 0;
    for (u32 l = 0; l < kLanes; ++l) {
        u64 v = (mask >> l) & 1 ? a[l] + displacement : base;
        address[l] = v;
        differ |= v ^ base;
    }
    return differ;
}

/// Word-interleaved memory: byte `offset` of lane `l`.
template <class M>
ALWAYS_INLINE M get_interleaved(const u8* base, u32 offset, u32 l) {
    if constexpr (sizeof(M) <= 4) {
        M v;
        __builtin_memcpy(&v, base + (offset & ~3U) * kLanes + l * 4 + (offset & 3), sizeof v);
        return v;
    } else {
        u32 parts[sizeof(M) / 4];
        for (u32 k = 0; k < sizeof(M) / 4; ++k)
            __builtin_memcpy(&parts[k], base + (offset + 4 * k) * kLanes + l * 4, 4);
        M v;
        __builtin_memcpy(&v, parts, sizeof v);
        return v;
    }
}
template <class M>
ALWAYS_INLINE void put_interleaved(u8* base, u32 offset, u32 l, M v) {
    if constexpr (sizeof(M) <= 4) {
        __builtin_memcpy(base + (offset & ~3U) * kLanes + l * 4 + (offset & 3), &v, sizeof v);
    } else {
        u32 parts[sizeof(M) / 4];
        __builtin_memcpy(parts, &v, sizeof v);
        for (u32 k = 0; k < sizeof(M) / 4; ++k)
            __builtin_memcpy(base + (offset + 4 * k) * kLanes + l * 4, &parts[k], 4);
    }
}

/// Checks the lanes' global addresses.
ALWAYS_INLINE void check_lanes(Warp& w, const u64* address, u32 mask, u32 size, bool write) {
    u64 low = ~u64(0), high = 0, bits = 0, sectors = 0;
    for (u32 l = 0; l < kLanes; ++l) {
        u64 v = address[l];
        low = v < low ? v : low;
        high = v > high ? v : high;
        bits |= v;
    }
    // An estimate without sorting: neighbours in another sector count as a new one.
    for (u32 l = 0; l < kLanes - 1; ++l) sectors += (address[l] >> 5) != (address[l + 1] >> 5);
    w.global_bytes += (sectors + 1) * ((size + 31) / 32) * 32;
    if ((bits & (size - 1)) == 0) {
        RangeCache& c = *w.ranges;
        const u64* from = write ? c.write_from : c.read_from;
        const u64* until = write ? c.write_until : c.read_until;
        bool ok = false;
        for (int k = 0; k < RangeCache::kEntries && !ok; ++k) {
            ok = low >= from[k] && high + size <= until[k] && high + size > high;
        }
        if (ok && !w.tracking) return;
    }
    FOR_LANES(l, mask) {
        u64 v = address[l];
        if ((v & (size - 1)) != 0) raise_misaligned(w, l, v, size);
        if (!check_range(w, v, size, write)) raise_illegal(w, l, v, size, write, "global");
        if (w.tracking) report_touch(w, v, size, write);
    }
}

/// Host address of one lane's generic or global access; local memory has none (null).
ALWAYS_INLINE u8* resolve(Warp& w, u32 l, u64 v, u32 size, bool write) {
    u64 window = v >> kWindowShift, at = v & ((u64(1) << kWindowShift) - 1);
    if ((v & (size - 1)) != 0) raise_misaligned(w, l, v, size);
    if (window == 0) {
        if (!check_range(w, v, size, write)) raise_illegal(w, l, v, size, write, "global");
        if (w.tracking) report_touch(w, v, size, write);
        return reinterpret_cast<u8*>(v);
    }
    if (window == (kSharedWindow >> kWindowShift)) return shared_host(w, l, at, size, write);
    if (window == (kLocalWindow >> kWindowShift)) {
        if (at + size > w.local_bytes) raise_illegal(w, l, v, size, write, "local");
        return nullptr;
    }
    if (window == (kParamWindow >> kWindowShift) && !write) {
        if (at + size > w.param_bytes) raise_illegal(w, l, v, size, write, "param");
        return const_cast<u8*>(w.params) + at;
    }
    raise_illegal(w, l, v, size, write, "generic");
}

/// How the lanes' addresses lie.
struct Pattern {
    u32 base;
    bool row, same;  ///< one after the other; all equal
};

/// Byte offsets into shared memory, checked; lanes out of the mask get the first lane's.
template <class A>
ALWAYS_INLINE Pattern shared_offsets(Warp& w, const Inst& i, u32 mask, u32 size, u32* off, bool write) {
    const A* a = slot<A>(w, i.a);
    u32 displacement = u32(i.imm);
    u32 high = 0, bits = 0, row = 0, differ = 0, base;
    if (mask == kAllLanes) {
        base = u32(a[0]) + displacement;
        for (u32 l = 0; l < kLanes; ++l) {
            u32 v = u32(a[l]) + displacement;
            off[l] = v;
            high = v > high ? v : high;
            bits |= v;
            row |= (v - base) ^ (l * size);
            differ |= v ^ base;
        }
    } else {
        base = u32(a[__builtin_ctz(mask)]) + displacement;
        row = 1;
        for (u32 l = 0; l < kLanes; ++l) {
            u32 v = (mask >> l) & 1 ? u32(a[l]) + displacement : base;
            off[l] = v;
            high = v > high ? v : high;
            bits |= v;
            differ |= v ^ base;
        }
    }
    if (u64(high) + size > w.shared_bytes || (bits & (size - 1)) != 0) {
        FOR_LANES(l, mask) {
            if (u64(off[l]) + size > w.shared_bytes) raise_illegal(w, l, off[l], size, write, "shared");
            if ((off[l] & (size - 1)) != 0) raise_misaligned(w, l, off[l], size);
        }
    }
    return {base, row == 0, differ == 0};
}

/// d[l] = the word at base + off[l]. Eight lanes at a time are often alike or in a row (matrix tiles).
ALWAYS_INLINE void gather32(u32* d, const u8* base, const u32* off) {
#ifdef __AVX2__
    const __m256i iota = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
    for (int g = 0; g < kLanes; g += 8) {
        __m256i at = _mm256_load_si256(reinterpret_cast<const __m256i*>(off + g));
        __m256i from_first = _mm256_sub_epi32(at, _mm256_set1_epi32(int(off[g])));
        __m256i v;
        if (_mm256_testz_si256(from_first, from_first)) {
            u32 word;
            __builtin_memcpy(&word, base + off[g], 4);
            v = _mm256_set1_epi32(int(word));
        } else {
            __m256i odd = _mm256_xor_si256(from_first, iota);
            if (_mm256_testz_si256(odd, odd))
                v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(base + off[g]));
            else
                v = _mm256_i32gather_epi32(reinterpret_cast<const int*>(base), at, 1);
        }
        _mm256_store_si256(reinterpret_cast<__m256i*>(d + g), v);
    }
#else
    for (int l = 0; l < kLanes; ++l) __builtin_memcpy(d + l, base + off[l], 4);
#endif
}

}  // namespace softgpu::ptx::SOFTGPU_ISA
