// Matrix instructions: mma.sync, wmma, ldmatrix, stmatrix, movmatrix.
// Fragment layouts of mma follow one rule (PTX ISA, "Matrix multiply-accumulate"): with e elements per
// register, g = lane / 4 and t = lane % 4, element j of A's register r is at row g (+ 8 for odd r when M is
// 16), column t*e + j + 4*e*(r / 2, or r when M is 8); of B's at row t*e + j + 4*e*r, column g; accumulators
// lie in pairs at row g (+ 8 for the second pair), columns 2t and 2t+1. The layout of wmma fragments is
// nobody's business but ours.
#include "tests/softgpu/ptx/isa.h"
#include "tests/softgpu/ptx/isa_memory.h"

namespace softgpu::ptx::SOFTGPU_ISA {
namespace {

// Element types: bits, and how to read element j of a register.
struct F16 {
    static constexpr int bits = 16;
    using Reg = u32;
    using Value = float;
    static ALWAYS_INLINE float get(u32 r, u32 j) { return half_to_float(u16(r >> (16 * j))); }
};
struct BF16 {
    static constexpr int bits = 16;
    using Reg = u32;
    using Value = float;
    static ALWAYS_INLINE float get(u32 r, u32 j) { return bf16_to_float(u16(r >> (16 * j))); }
};
struct TF32 {
    static constexpr int bits = 32;
    using Reg = u32;
    using Value = float;
    static ALWAYS_INLINE float get(u32 r, u32) { return bits_as<float>(r & 0xffffe000U); }
};
struct F64 {
    static constexpr int bits = 64;
    using Reg = u64;
    using Value = double;
    static ALWAYS_INLINE double get(u64 r, u32) { return bits_as<double>(r); }
};
template <int Bits, bool Signed>
struct Integer {
    static constexpr int bits = Bits;
    using Reg = u32;
    using Value = i32;
    static ALWAYS_INLINE i32 get(u32 r, u32 j) {
        u32 v = r << (32 - Bits - Bits * int(j));
        return Signed ? i32(v) >> (32 - Bits) : i32(v >> (32 - Bits));
    }
};
struct B1 {};
template <class T>
struct Multiply {
    static ALWAYS_INLINE T f(T c, T a, T b) { return c + a * b; }
};
template <>
struct Multiply<float> {
    static ALWAYS_INLINE float f(float c, float a, float b) { return __builtin_fmaf(a, b, c); }
};
template <>
struct Multiply<double> {
    static ALWAYS_INLINE double f(double c, double a, double b) { return __builtin_fma(a, b, c); }
};
template <>
struct Multiply<i32> {
    static ALWAYS_INLINE i32 f(i32 c, i32 a, i32 b) { return i32(u32(c) + u32(a) * u32(b)); }
};

/// C of M x N from the accumulators of `at` in list; 16-bit ones come in pairs.
template <int M, class V, bool HalfAcc>
ALWAYS_INLINE void read_c(Warp& w, const u32* list, V (*c)[8]) {
    for (u32 l = 0; l < kLanes; ++l) {
        u32 g = l / 4, t = l % 4;
        for (u32 p = 0; p < M / 8; ++p) {
            for (u32 j = 0; j < 2; ++j) {
                if constexpr (HalfAcc)
                    c[g + 8 * p][2 * t + j] = half_to_float(u16(slot<u32>(w, list[p])[l] >> (16 * j)));
                else
                    c[g + 8 * p][2 * t + j] = slot<V>(w, list[2 * p + j])[l];
            }
        }
    }
}
template <int M, class V, bool HalfAcc>
ALWAYS_INLINE void write_d(Warp& w, const u32* list, const V (*c)[8], u32 mask) {
    FOR_LANES(l, mask) {
        u32 g = l / 4, t = l % 4;
        for (u32 p = 0; p < M / 8; ++p) {
            if constexpr (HalfAcc) {
                u32 v = u32(float_to_half(c[g + 8 * p][2 * t])) | u32(float_to_half(c[g + 8 * p][2 * t + 1]))
                                                                      << 16;
                slot<u32>(w, list[p])[l] = v;
            } else {
                for (u32 j = 0; j < 2; ++j) slot<V>(w, list[2 * p + j])[l] = c[g + 8 * p][2 * t + j];
            }
        }
    }
}
template <class V>
ALWAYS_INLINE V finish(V v, bool) {
    return v;
}
template <>
ALWAYS_INLINE float finish(float v, bool) {
    return canonical(v);
}
template <>
ALWAYS_INLINE double finish(double v, bool) {
    return canonical(v);
}

template <class V>
ALWAYS_INLINE V saturate_sum(i64 v) {
    return V(v > 2147483647 ? 2147483647 : v < -2147483648LL ? -2147483648LL : v);
}

/// list: d registers, a, b, c. imm: 1 for .satfinite.
template <int M, int K, class TA, class TB, bool HalfAcc>
void mma(Warp& w, const Inst& i, u32 mask) {
    using V = typename TA::Value;
    using Reg = typename TA::Reg;
    constexpr u32 e = TA::bits == 64 ? 1 : 32 / TA::bits;
    constexpr u32 ra = u32(M) * K / 32 / e, rb = 8 * u32(K) / 32 / e, rc = HalfAcc ? M / 8 : M / 4;
    static_assert(ra > 0 && rb > 0);
    V a[M][K], b[K][8], c[M][8];
    const u32* d_list = i.list;
    const u32* a_list = d_list + rc;
    const u32* b_list = a_list + ra;
    const u32* c_list = b_list + rb;
    for (u32 r = 0; r < ra; ++r) {
        const Reg* reg = slot<Reg>(w, a_list[r]);
        u32 low = M == 16 ? 8 * (r & 1) : 0, chunk = M == 16 ? r / 2 : r;
        for (u32 l = 0; l < kLanes; ++l) {
            for (u32 j = 0; j < e; ++j) a[l / 4 + low][(l % 4) * e + j + 4 * e * chunk] = TA::get(reg[l], j);
        }
    }
    for (u32 r = 0; r < rb; ++r) {
        const Reg* reg = slot<Reg>(w, b_list[r]);
        for (u32 l = 0; l < kLanes; ++l) {
            for (u32 j = 0; j < e; ++j) b[(l % 4) * e + j + 4 * e * r][l / 4] = TB::get(reg[l], j);
        }
    }
    read_c<M, V, HalfAcc>(w, c_list, c);
    if constexpr (__is_same(V, i32)) {
        if (i.imm != 0) {
            for (int m = 0; m < M; ++m) {
                for (int n = 0; n < 8; ++n) {
                    i64 sum = c[m][n];
                    for (int k = 0; k < K; ++k) sum += i64(a[m][k]) * b[k][n];
                    c[m][n] = saturate_sum<V>(sum);
                }
            }
            write_d<M, V, HalfAcc>(w, d_list, c, mask);
            return;
        }
    }
    for (int m = 0; m < M; ++m) {
        for (int k = 0; k < K; ++k) {
            V x = a[m][k];
            for (int n = 0; n < 8; ++n) c[m][n] = Multiply<V>::f(c[m][n], x, b[k][n]);
        }
        for (int n = 0; n < 8; ++n) c[m][n] = finish(c[m][n], false);
    }
    write_d<M, V, HalfAcc>(w, d_list, c, mask);
}

/// Single-bit: words of 32 columns.
template <int M, int K, bool And>
void mma_b1(Warp& w, const Inst& i, u32 mask) {
    constexpr u32 words = K / 32, ra = u32(M) / 8 * (words / 4), rb = words / 4, rc = M / 4;
    u32 a[M][words], b[words][8];
    i32 c[M][8];
    const u32* a_list = i.list + rc;
    const u32* b_list = a_list + ra;
    for (u32 r = 0; r < ra; ++r) {
        u32 low = M == 16 ? 8 * (r & 1) : 0, chunk = M == 16 ? r / 2 : r;
        for (u32 l = 0; l < kLanes; ++l) a[l / 4 + low][l % 4 + 4 * chunk] = slot<u32>(w, a_list[r])[l];
    }
    for (u32 r = 0; r < rb; ++r) {
        for (u32 l = 0; l < kLanes; ++l) b[l % 4 + 4 * r][l / 4] = slot<u32>(w, b_list[r])[l];
    }
    read_c<M, i32, false>(w, b_list + rb, c);
    for (int m = 0; m < M; ++m) {
        for (int n = 0; n < 8; ++n) {
            for (u32 k = 0; k < words; ++k)
                c[m][n] += __builtin_popcount(And ? a[m][k] & b[k][n] : a[m][k] ^ b[k][n]);
        }
    }
    write_d<M, i32, false>(w, i.list, c, mask);
}

// ldmatrix, stmatrix: lane 8k + r holds the address of row r of matrix k.
template <bool Store, bool Trans, class A>
void matrix_rows(Warp& w, const Inst& i, u32 mask) {
    u8* rows[kLanes] = {};
    for (u32 l = 0; l < 8U * i.n; ++l) {
        u64 at = u64(slot<A>(w, i.a)[l]) + u64(i.imm);
        if (sizeof(A) == 8 && (at >> kWindowShift) != 0) at &= (u64(1) << kWindowShift) - 1;
        if (at + 16 > w.shared_bytes) raise_illegal(w, l, at, 16, Store, "shared");
        if ((at & 15) != 0) raise_misaligned(w, l, at, 16);
        rows[l] = w.shared + at;
    }
    for (u32 k = 0; k < i.n; ++k) {
        u32* reg = slot<u32>(w, i.list[k]);
        FOR_LANES(l, mask) {
            for (u32 j = 0; j < 2; ++j) {
                u32 row = Trans ? 2 * (l % 4) + j : l / 4, col = Trans ? l / 4 : 2 * (l % 4) + j;
                u8* at = rows[8 * k + row] + 2 * col;
                if constexpr (Store) {
                    u16 v = u16(reg[l] >> (16 * j));
                    __builtin_memcpy(at, &v, 2);
                } else {
                    u16 v;
                    __builtin_memcpy(&v, at, 2);
                    reg[l] = j == 0 ? v : (reg[l] & 0xffffU) | u32(v) << 16;
                }
            }
        }
    }
}
void movmatrix_trans(Warp& w, const Inst& i, u32 mask) {
    u16 m[8][8];
    for (u32 l = 0; l < kLanes; ++l) {
        for (u32 j = 0; j < 2; ++j) m[l / 4][2 * (l % 4) + j] = u16(slot<u32>(w, i.a)[l] >> (16 * j));
    }
    u32* d = slot<u32>(w, i.d);
    FOR_LANES(l, mask) d[l] = u32(m[2 * (l % 4)][l / 4]) | u32(m[2 * (l % 4) + 1][l / 4]) << 16;
}

// wmma. A fragment's elements are dealt out in row-major order: lane l has elements [l*n, (l+1)*n).
/// list: registers; imm: displacement; a: address (64-bit generic/global or 32-bit shared via window); b:
/// stride slot (32-bit, in elements); d: shape word: rows | columns << 8 | by_column << 16 | element bits
/// << 24.
template <bool Store>
void wmma_memory(Warp& w, const Inst& i, u32 mask) {
    u32 first = u32(__builtin_ctz(mask));
    u32 rows = i.d & 0xff, columns = (i.d >> 8) & 0xff;
    bool by_column = ((i.d >> 16) & 1) != 0;
    u32 bits = i.d >> 24;
    u64 base = slot<u64>(w, i.a)[first] + u64(i.imm);
    u32 stride = slot<u32>(w, i.b)[first];
    u32 per_lane = rows * columns / kLanes, bytes = bits / 8;
    // The whole matrix in one piece of checked memory, or else every element by itself.
    u64 span =
        u64((by_column ? columns : rows) - 1) * stride * bytes + u64(by_column ? rows : columns) * bytes;
    u8* whole = nullptr;
    if ((base & (bytes - 1)) == 0) {
        u64 at = base - kSharedWindow;
        if ((base >> kWindowShift) == 0 && !w.tracking && check_range(w, base, span, Store))
            whole = reinterpret_cast<u8*>(base);
        else if (base >= kSharedWindow && at + span <= w.shared_bytes)
            whole = w.shared + at;
    }
    FOR_LANES(l, mask) {
        for (u32 j = 0; j < per_lane; ++j) {
            u32 at = l * per_lane + j, row = at / columns, col = at % columns;
            u64 offset = u64(by_column ? col * stride + row : row * stride + col) * bytes;
            u8* host = whole != nullptr ? whole + offset : resolve(w, l, base + offset, bytes, Store);
            if (host == nullptr) raise_illegal(w, l, base + offset, bytes, Store, "local");
            if (bits == 64) {
                u64* reg = slot<u64>(w, i.list[j]);
                if constexpr (Store)
                    __builtin_memcpy(host, &reg[l], 8);
                else
                    __builtin_memcpy(&reg[l], host, 8);
                continue;
            }
            u32 each = 32 / bits, shift = (j % each) * bits;
            u32* reg = slot<u32>(w, i.list[j / each]);
            u32 v = Store ? reg[l] >> shift : 0;
            if (bits == 32) {
                if constexpr (Store)
                    __builtin_memcpy(host, &v, 4);
                else
                    __builtin_memcpy(&v, host, 4);
            } else if (bits == 16) {
                if constexpr (Store)
                    __builtin_memcpy(host, &v, 2);
                else
                    __builtin_memcpy(&v, host, 2);
            } else {
                if constexpr (Store)
                    *host = u8(v);
                else
                    v = *host;
            }
            if constexpr (!Store) reg[l] = shift == 0 ? v : reg[l] | v << shift;
        }
        // f16 fragments have twice the registers they need.
        if (!Store && bits == 16) {
            for (u32 r = per_lane / 2; r < i.n; ++r)
                slot<u32>(w, i.list[r])[l] = slot<u32>(w, i.list[r - per_lane / 2])[l];
        }
    }
    w.global_bytes += (base >> kWindowShift) == 0 ? rows * columns * bits / 8 : 0;
}
template <int M, int N, int K, class T, class TB, bool HalfC, bool HalfD>
void wmma(Warp& w, const Inst& i, u32 mask) {
    using V = typename T::Value;
    using Reg = typename T::Reg;
    constexpr u32 e = T::bits == 64 ? 1 : 32 / T::bits;
    constexpr u32 na = u32(M) * K / 32, nb = u32(K) * N / 32, nc = u32(M) * N / 32;
    // Registers of A and B in the instruction: f16 has 8 of each whatever the shape.
    constexpr bool f16 = __is_same(T, F16);
    constexpr u32 ra = f16 ? 8 : (na + e - 1) / e, rb = f16 ? 8 : (nb + e - 1) / e;
    constexpr u32 rd = HalfD ? nc / 2 : nc;
    V a[M * K], b[K * N], c[M * N];
    const u32* a_list = i.list + rd;
    const u32* b_list = a_list + ra;
    const u32* c_list = b_list + rb;
    for (u32 l = 0; l < kLanes; ++l) {
        for (u32 j = 0; j < na; ++j) a[l * na + j] = T::get(slot<Reg>(w, a_list[j / e])[l], j % e);
        for (u32 j = 0; j < nb; ++j) b[l * nb + j] = TB::get(slot<Reg>(w, b_list[j / e])[l], j % e);
        for (u32 j = 0; j < nc; ++j) {
            if constexpr (HalfC)
                c[l * nc + j] = half_to_float(u16(slot<u32>(w, c_list[j / 2])[l] >> (16 * (j % 2))));
            else
                c[l * nc + j] = slot<V>(w, c_list[j])[l];
        }
    }
    for (int m = 0; m < M; ++m) {
        for (int k = 0; k < K; ++k) {
            V x = a[m * K + k];
            for (int n = 0; n < N; ++n) c[m * N + n] = Multiply<V>::f(c[m * N + n], x, b[k * N + n]);
        }
    }
    for (int k = 0; k < M * N; ++k) c[k] = finish(c[k], false);
    FOR_LANES(l, mask) {
        for (u32 j = 0; j < nc; ++j) {
            if constexpr (HalfD) {
                if (j % 2 == 1) continue;
                slot<u32>(w, i.list[j / 2])[l] =
                    u32(float_to_half(c[l * nc + j])) | u32(float_to_half(c[l * nc + j + 1])) << 16;
            } else {
                slot<V>(w, i.list[j])[l] = c[l * nc + j];
            }
        }
    }
}

using S8 = Integer<8, true>;
using U8 = Integer<8, false>;
using S4 = Integer<4, true>;
using U4 = Integer<4, false>;
#define INT_MMA(shape, M, K, a, A) \
    { "mma." shape "." a "." a, mma<M, K, A, A, false> }
#define INT8_MMA(shape, M, K)                                        \
    {"mma." shape ".s32.s8.s8.s32", mma<M, K, S8, S8, false>},       \
        {"mma." shape ".s32.u8.u8.s32", mma<M, K, U8, U8, false>},   \
        {"mma." shape ".s32.s8.u8.s32", mma<M, K, S8, U8, false>}, { \
        "mma." shape ".s32.u8.s8.s32", mma<M, K, U8, S8, false>      \
    }
#define INT4_MMA(shape, M, K)                                        \
    {"mma." shape ".s32.s4.s4.s32", mma<M, K, S4, S4, false>},       \
        {"mma." shape ".s32.u4.u4.s32", mma<M, K, U4, U4, false>},   \
        {"mma." shape ".s32.s4.u4.s32", mma<M, K, S4, U4, false>}, { \
        "mma." shape ".s32.u4.s4.s32", mma<M, K, U4, S4, false>      \
    }
#define WMMA(shape, M, N, K)                                                           \
    {"wmma." shape ".f32.f16.f16.f32", wmma<M, N, K, F16, F16, false, false>},         \
        {"wmma." shape ".f16.f16.f16.f16", wmma<M, N, K, F16, F16, true, true>},       \
        {"wmma." shape ".f16.f16.f16.f32", wmma<M, N, K, F16, F16, false, true>},      \
        {"wmma." shape ".f32.f16.f16.f16", wmma<M, N, K, F16, F16, true, false>},      \
        {"wmma." shape ".f32.bf16.bf16.f32", wmma<M, N, K, BF16, BF16, false, false>}, \
        {"wmma." shape ".s32.s8.s8.s32", wmma<M, N, K, S8, S8, false, false>}, {       \
        "wmma." shape ".s32.u8.u8.s32", wmma<M, N, K, U8, U8, false, false>            \
    }

const TableEntry kEntries_[] = {
    {"mma.m16n8k8.f32.f16.f16.f32", mma<16, 8, F16, F16, false>},
    {"mma.m16n8k8.f16.f16.f16.f16", mma<16, 8, F16, F16, true>},
    {"mma.m16n8k16.f32.f16.f16.f32", mma<16, 16, F16, F16, false>},
    {"mma.m16n8k16.f16.f16.f16.f16", mma<16, 16, F16, F16, true>},
    {"mma.m16n8k8.f32.bf16.bf16.f32", mma<16, 8, BF16, BF16, false>},
    {"mma.m16n8k16.f32.bf16.bf16.f32", mma<16, 16, BF16, BF16, false>},
    {"mma.m16n8k4.f32.tf32.tf32.f32", mma<16, 4, TF32, TF32, false>},
    {"mma.m16n8k8.f32.tf32.tf32.f32", mma<16, 8, TF32, TF32, false>},
    {"mma.m8n8k4.f64.f64.f64.f64", mma<8, 4, F64, F64, false>},
    {"mma.m16n8k4.f64.f64.f64.f64", mma<16, 4, F64, F64, false>},
    {"mma.m16n8k8.f64.f64.f64.f64", mma<16, 8, F64, F64, false>},
    {"mma.m16n8k16.f64.f64.f64.f64", mma<16, 16, F64, F64, false>},
    INT8_MMA("m8n8k16", 8, 16),
    INT8_MMA("m16n8k16", 16, 16),
    INT8_MMA("m16n8k32", 16, 32),
    INT4_MMA("m8n8k32", 8, 32),
    INT4_MMA("m16n8k32", 16, 32),
    INT4_MMA("m16n8k64", 16, 64),
    {"mma.m8n8k128.xor", mma_b1<8, 128, false>},
    {"mma.m16n8k128.xor", mma_b1<16, 128, false>},
    {"mma.m16n8k256.xor", mma_b1<16, 256, false>},
    {"mma.m8n8k128.and", mma_b1<8, 128, true>},
    {"mma.m16n8k128.and", mma_b1<16, 128, true>},
    {"mma.m16n8k256.and", mma_b1<16, 256, true>},
    {"ldmatrix32", matrix_rows<false, false, u32>},
    {"ldmatrix32.trans", matrix_rows<false, true, u32>},
    {"ldmatrix64", matrix_rows<false, false, u64>},
    {"ldmatrix64.trans", matrix_rows<false, true, u64>},
    {"stmatrix32", matrix_rows<true, false, u32>},
    {"stmatrix32.trans", matrix_rows<true, true, u32>},
    {"stmatrix64", matrix_rows<true, false, u64>},
    {"stmatrix64.trans", matrix_rows<true, true, u64>},
    {"movmatrix.trans", movmatrix_trans},
    {"wmma.load", wmma_memory<false>},
    {"wmma.store", wmma_memory<true>},
    WMMA("m16n16k16", 16, 16, 16),
    WMMA("m32n8k16", 32, 8, 16),
    WMMA("m8n32k16", 8, 32, 16),
    {"wmma.m16n16k8.f32.tf32.tf32.f32", wmma<16, 16, 8, TF32, TF32, false, false>},
    {"wmma.m8n8k4.f64.f64.f64.f64", wmma<8, 8, 4, F64, F64, false, false>},
};

}  // namespace

extern const Table table_mma;
const Table table_mma{kEntries_, sizeof(kEntries_) / sizeof(kEntries_[0])};

}  // namespace softgpu::ptx::SOFTGPU_ISA
