#include "device_types.cuh"
#include "image.h"

namespace ops {
namespace {

#define TARGET(P, W_, H_)                                 \
    const uint32_t i = blockIdx.x * kBlock + threadIdx.x; \
    if (i >= (P) * (H_) * (W_)) return;                   \
    const int x = i % (W_), y = i / (W_) % (H_);          \
    const uint32_t plane = i / (W_) / (H_);

template <class S, class M = typename Storage<S>::Math>
__global__ void max_pool(const __grid_constant__ Window p, const S* in, S* out, long long* positions) {
    TARGET(p.planes, p.ow, p.oh)
    const long long start = static_cast<long long>(plane) * p.h * p.w;
    M best = M(__int_as_float(0xff800000));
    long long at = -1;
    for (int a = 0; a < p.kh; ++a) {
        const int iy = y * p.stride_h - p.pad_h + a * p.dilation_h;
        if (iy < 0 || iy >= int(p.h)) continue;
        for (int b = 0; b < p.kw; ++b) {
            const int ix = x * p.stride_w - p.pad_w + b * p.dilation_w;
            if (ix < 0 || ix >= int(p.w)) continue;
            const M v = Storage<S>::get(in, start + iy * p.w + ix);
            if (at < 0 || v > best || v != v) best = v, at = iy * p.w + ix;
        }
    }
    Storage<S>::put(out, i, best);
    positions[i] = at;
}

// Range of outputs whose window may hold input `at`.
__device__ __forceinline__ void outputs_of(int at, int pad, int k, int dilation, int stride, int count,
                                           int& first, int& last) {
    const int reach = (k - 1) * dilation + 1;
    first = at + pad < reach ? 0 : (at + pad - reach) / stride + 1;
    last = (at + pad) / stride;
    if (last >= count) last = count - 1;
}

template <class S, class M = typename Storage<S>::Math>
__global__ void max_pool_backward(const __grid_constant__ Window p, const S* dy, const long long* positions,
                                  S* dx) {
    TARGET(p.planes, p.w, p.h)
    const long long start = static_cast<long long>(plane) * p.oh * p.ow;
    int y0, y1, x0, x1;
    outputs_of(y, p.pad_h, p.kh, p.dilation_h, p.stride_h, p.oh, y0, y1);
    outputs_of(x, p.pad_w, p.kw, p.dilation_w, p.stride_w, p.ow, x0, x1);
    M sum = 0;
    for (int oy = y0; oy <= y1; ++oy)
        for (int ox = x0; ox <= x1; ++ox) {
            const long long at = start + oy * p.ow + ox;
            if (positions[at] == static_cast<long long>(y) * p.w + x) sum += Storage<S>::get(dy, at);
        }
    Storage<S>::put(dx, i, sum);
}

__device__ __forceinline__ void average_window(const Window& p, int y, int x, int& y0, int& y1, int& x0,
                                               int& x1, int& divide) {
    y0 = y * p.stride_h - p.pad_h;
    x0 = x * p.stride_w - p.pad_w;
    y1 = min(y0 + p.kh, int(p.h) + p.pad_h);
    x1 = min(x0 + p.kw, int(p.w) + p.pad_w);
    const int whole = (y1 - y0) * (x1 - x0);
    y0 = max(y0, 0), x0 = max(x0, 0), y1 = min(y1, int(p.h)), x1 = min(x1, int(p.w));
    divide = p.divisor ? p.divisor : p.count_padding ? whole : (y1 - y0) * (x1 - x0);
}
__device__ __forceinline__ void adaptive_window(uint32_t at, uint32_t in, uint32_t out, int& first,
                                                int& last) {
    first = at * in / out;
    last = ((at + 1) * in + out - 1) / out;
}

template <class S, class M = typename Storage<S>::Math>
__global__ void average_pool(const __grid_constant__ Window p, bool adaptive, const S* in, S* out) {
    TARGET(p.planes, p.ow, p.oh)
    int y0, y1, x0, x1, divide;
    if (adaptive) {
        adaptive_window(y, p.h, p.oh, y0, y1);
        adaptive_window(x, p.w, p.ow, x0, x1);
        divide = (y1 - y0) * (x1 - x0);
    } else {
        average_window(p, y, x, y0, y1, x0, x1, divide);
    }
    M sum = 0;
    for (int iy = y0; iy < y1; ++iy)
        for (int ix = x0; ix < x1; ++ix)
            sum += Storage<S>::get(in, (static_cast<long long>(plane) * p.h + iy) * p.w + ix);
    Storage<S>::put(out, i, sum / M(divide));
}

template <class S, class M = typename Storage<S>::Math>
__global__ void average_pool_backward(const __grid_constant__ Window p, bool adaptive, const S* dy, S* dx) {
    TARGET(p.planes, p.w, p.h)
    int first_y, last_y, first_x, last_x;
    if (adaptive) {
        first_y = y * p.oh / p.h, last_y = min((y + 1) * p.oh / p.h + 1, p.oh) - 1;
        first_x = x * p.ow / p.w, last_x = min((x + 1) * p.ow / p.w + 1, p.ow) - 1;
    } else {
        outputs_of(y, p.pad_h, p.kh, 1, p.stride_h, p.oh, first_y, last_y);
        outputs_of(x, p.pad_w, p.kw, 1, p.stride_w, p.ow, first_x, last_x);
    }
    M sum = 0;
    for (int oy = first_y; oy <= last_y; ++oy)
        for (int ox = first_x; ox <= last_x; ++ox) {
            int y0, y1, x0, x1, divide;
            if (adaptive) {
                adaptive_window(oy, p.h, p.oh, y0, y1);
                adaptive_window(ox, p.w, p.ow, x0, x1);
                divide = (y1 - y0) * (x1 - x0);
            } else {
                average_window(p, oy, ox, y0, y1, x0, x1, divide);
            }
            if (y >= y0 && y < y1 && x >= x0 && x < x1)
                sum +=
                    Storage<S>::get(dy, (static_cast<long long>(plane) * p.oh + oy) * p.ow + ox) / M(divide);
        }
    Storage<S>::put(dx, i, sum);
}

// The one or two source positions of a target and their weights.
template <class M>
__device__ __forceinline__ void sources_of(const Resize& p, uint32_t at, uint32_t in, double scale,
                                           uint32_t& low, uint32_t& high, M& weight) {
    if (!p.linear) {
        low = high = min(static_cast<uint32_t>(floorf(at * float(scale))), in - 1);
        weight = 0;
        return;
    }
    M from = p.align ? M(scale) * M(at) : M(scale) * (M(at) + M(0.5)) - M(0.5);
    if (from < 0) from = 0;
    low = min(static_cast<uint32_t>(from), in - 1);
    high = low + (low < in - 1);
    weight = from - M(low);
}

template <class S, class M = typename Storage<S>::Math>
__global__ void resize(const __grid_constant__ Resize p, const S* in, S* out) {
    TARGET(p.planes, p.ow, p.oh)
    uint32_t y0, y1, x0, x1;
    M wy, wx;
    sources_of(p, y, p.h, p.scale_h, y0, y1, wy);
    sources_of(p, x, p.w, p.scale_w, x0, x1, wx);
    auto at = [&](uint32_t iy, uint32_t ix) {
        return Storage<S>::get(in, (static_cast<long long>(plane) * p.h + iy) * p.w + ix);
    };
    Storage<S>::put(out, i,
                    p.linear ? (M(1) - wy) * ((M(1) - wx) * at(y0, x0) + wx * at(y0, x1)) +
                                   wy * ((M(1) - wx) * at(y1, x0) + wx * at(y1, x1))
                             : at(y0, x0));
}

template <class S, class M = typename Storage<S>::Math>
__global__ void resize_backward(const __grid_constant__ Resize p, const S* dy, S* dx) {
    TARGET(p.planes, p.w, p.h)
    // Only targets near this source can have it.
    const double reach = p.linear ? 1 : 0;
    auto first_of = [&](int at, double scale, uint32_t out) {
        return scale > 0 ? max(int((at - reach - 1) / scale) - 1, 0) : 0;
    };
    auto last_of = [&](int at, double scale, uint32_t out) {
        return scale > 0 ? min(int((at + reach + 1) / scale) + 2, int(out)) : int(out);
    };
    M sum = 0;
    for (int oy = first_of(y, p.scale_h, p.oh); oy < last_of(y, p.scale_h, p.oh); ++oy) {
        uint32_t y0, y1;
        M wy;
        sources_of(p, oy, p.h, p.scale_h, y0, y1, wy);
        const M row = (y0 == y ? M(1) - wy : M(0)) + (y1 == y && p.linear ? wy : M(0));
        if (y0 != y && y1 != y) continue;
        for (int ox = first_of(x, p.scale_w, p.ow); ox < last_of(x, p.scale_w, p.ow); ++ox) {
            uint32_t x0, x1;
            M wx;
            sources_of(p, ox, p.w, p.scale_w, x0, x1, wx);
            if (x0 != x && x1 != x) continue;
            const M column = (x0 == x ? M(1) - wx : M(0)) + (x1 == x && p.linear ? wx : M(0));
            sum +=
                row * column * Storage<S>::get(dy, (static_cast<long long>(plane) * p.oh + oy) * p.ow + ox);
        }
    }
    Storage<S>::put(dx, i, sum);
}

template <class F>
void run(Type type, unsigned long long count, F f) {
    if (count) with_storage(type, [&](auto* null) { f(null, blocks_for(count, kBlock)); });
}
template <class S>
const S* typed(const S*, const void* p) {
    return static_cast<const S*>(p);
}
template <class S>
S* typed(const S*, void* p) {
    return static_cast<S*>(p);
}

unsigned long long inputs(const Window& p) {
    return static_cast<unsigned long long>(p.planes) * p.h * p.w;
}
unsigned long long outputs(const Window& p) {
    return static_cast<unsigned long long>(p.planes) * p.oh * p.ow;
}

}  // namespace

void launch_max_pool(Type type, const Window& p, const void* x, void* y, long long* positions,
                     cudaStream_t stream) {
    run(type, outputs(p), [&](auto* s, unsigned blocks) {
        max_pool<<<blocks, kBlock, 0, stream>>>(p, typed(s, x), typed(s, y), positions);
    });
}
void launch_max_pool_backward(Type type, const Window& p, const void* dy, const long long* positions,
                              void* dx, cudaStream_t stream) {
    run(type, inputs(p), [&](auto* s, unsigned blocks) {
        max_pool_backward<<<blocks, kBlock, 0, stream>>>(p, typed(s, dy), positions, typed(s, dx));
    });
}
void launch_average_pool(Type type, const Window& p, const void* x, void* y, cudaStream_t stream) {
    run(type, outputs(p), [&](auto* s, unsigned blocks) {
        average_pool<<<blocks, kBlock, 0, stream>>>(p, false, typed(s, x), typed(s, y));
    });
}
void launch_average_pool_backward(Type type, const Window& p, const void* dy, void* dx, cudaStream_t stream) {
    run(type, inputs(p), [&](auto* s, unsigned blocks) {
        average_pool_backward<<<blocks, kBlock, 0, stream>>>(p, false, typed(s, dy), typed(s, dx));
    });
}
void launch_adaptive_pool(Type type, const Window& p, const void* x, void* y, cudaStream_t stream) {
    run(type, outputs(p), [&](auto* s, unsigned blocks) {
        average_pool<<<blocks, kBlock, 0, stream>>>(p, true, typed(s, x), typed(s, y));
    });
}
void launch_adaptive_pool_backward(Type type, const Window& p, const void* dy, void* dx,
                                   cudaStream_t stream) {
    run(type, inputs(p), [&](auto* s, unsigned blocks) {
        average_pool_backward<<<blocks, kBlock, 0, stream>>>(p, true, typed(s, dy), typed(s, dx));
    });
}
void launch_resize(Type type, const Resize& p, const void* x, void* y, cudaStream_t stream) {
    run(type, static_cast<unsigned long long>(p.planes) * p.oh * p.ow, [&](auto* s, unsigned blocks) {
        resize<<<blocks, kBlock, 0, stream>>>(p, typed(s, x), typed(s, y));
    });
}
void launch_resize_backward(Type type, const Resize& p, const void* dy, void* dx, cudaStream_t stream) {
    run(type, static_cast<unsigned long long>(p.planes) * p.h * p.w, [&](auto* s, unsigned blocks) {
        resize_backward<<<blocks, kBlock, 0, stream>>>(p, typed(s, dy), typed(s, dx));
    });
}

}  // namespace ops
