// SIMD video instructions on two or four parts of a register; with .add the results are summed onto c.
#include "tests/softgpu/ptx/isa.h"

namespace softgpu::ptx::SOFTGPU_ISA {
namespace {

enum Op { kAdd, kSub, kAvrg, kAbsdiff, kMin, kMax };

template <int Parts, Op O, bool SignedD, bool SignedAB, bool Sat, bool Sum>
struct Video {
    static constexpr int bits = 32 / Parts;
    static ALWAYS_INLINE i32 part(u32 v, int k) {
        u32 up = v << (32 - bits - bits * k);
        return SignedAB ? i32(up) >> (32 - bits) : i32(up >> (32 - bits));
    }
    static ALWAYS_INLINE u32 f(u32 a, u32 b, u32 c) {
        u32 r = 0;
        i32 sum = 0;
        for (int k = 0; k < Parts; ++k) {
            i32 x = part(a, k), y = part(b, k), v = 0;
            if (O == kAdd) v = x + y;
            if (O == kSub) v = x - y;
            if (O == kAvrg) v = (x + y + ((SignedAB && x + y < 0) ? 0 : 1)) >> 1;
            if (O == kAbsdiff) v = x > y ? x - y : y - x;
            if (O == kMin) v = x < y ? x : y;
            if (O == kMax) v = x > y ? x : y;
            if (Sat) {
                constexpr i32 lo = SignedD ? -(1 << (bits - 1)) : 0,
                              hi = SignedD ? (1 << (bits - 1)) - 1 : (1 << bits) - 1;
                v = v < lo ? lo : v > hi ? hi : v;
            }
            sum += v;
            r |= (u32(v) & ((1U << bits) - 1)) << (bits * k);
        }
        // Without .add, c gives the parts that are not written; all are.
        return Sum ? c + u32(sum) : r;
    }
};

#define ONE(name, P, O, d, D, ab, AB)                                                               \
    {name "." d "." ab, ternary<Video<P, O, D, AB, false, false>, u32, u32, u32, u32>},             \
        {name "." d "." ab ".sat", ternary<Video<P, O, D, AB, true, false>, u32, u32, u32, u32>}, { \
        name "." d "." ab ".add", ternary<Video<P, O, D, AB, false, true>, u32, u32, u32, u32>      \
    }
#define OP(name, P, O)                                                                      \
    ONE(name, P, O, "u32", false, "u32", false), ONE(name, P, O, "s32", true, "s32", true), \
        ONE(name, P, O, "u32", false, "s32", true), ONE(name, P, O, "s32", true, "u32", false)
#define BOTH(name, O) OP(name "2", 2, O), OP(name "4", 4, O)

const TableEntry kEntries_[] = {
    BOTH("vadd", kAdd),         BOTH("vsub", kSub), BOTH("vavrg", kAvrg),
    BOTH("vabsdiff", kAbsdiff), BOTH("vmin", kMin), BOTH("vmax", kMax),
};

}  // namespace

extern const Table table_video;
const Table table_video{kEntries_, sizeof(kEntries_) / sizeof(kEntries_[0])};

}  // namespace softgpu::ptx::SOFTGPU_ISA
