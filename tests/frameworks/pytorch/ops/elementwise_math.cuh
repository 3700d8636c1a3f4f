// What each elementwise operation computes. `op` is a constant in the kernels of one operation and the compiler folds the switch;
// the general kernels look it up.
#pragma once
#include <type_traits>

#include "elementwise_ops.h"
#include "launch.h"

namespace ops {

template <class T>
__device__ __forceinline__ T whole_power(T a, long long b) {
    if (b < 0) return a == T(1) ? T(1) : a == T(-1) ? (b % 2 ? T(-1) : T(1)) : T(0);
    T result = 1;
    for (; b; b /= 2, a *= a)
        if (b % 2) result *= a;
    return result;
}
template <class T>
__device__ __forceinline__ T nan_max(T a, T b) {
    return a != a ? a : b != b ? b : a > b ? a : b;
}
template <class T>
__device__ __forceinline__ T nan_min(T a, T b) {
    return a != a ? a : b != b ? b : a < b ? a : b;
}
template <class T>
__device__ __forceinline__ T floor_remainder(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
        if (b == 0) return 0;
        const T r = a % b;
        return r != 0 && (r < 0) != (b < 0) ? r + b : r;
    } else {
        const T r = fmod(a, b);
        return r != 0 && (b < 0) != (r < 0) ? r + b : r;
    }
}
template <class T>
__device__ __forceinline__ T floor_divide(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
        if (b == 0) return 0;
        return (a - floor_remainder(a, b)) / b;
    } else {
        if (b == 0) return a / b;
        const T mod = fmod(a, b);
        T div = (a - mod) / b;
        if (mod != 0 && (b < 0) != (mod < 0)) div -= T(1);
        if (div == 0) return copysign(T(0), a / b);
        const T down = floor(div);
        return div - down > T(0.5) ? down + T(1) : down;
    }
}
template <class T>
__device__ __forceinline__ T sigmoid(T x) {
    return T(1) / (T(1) + exp(-x));
}
template <class T>
__device__ __forceinline__ T normal_density(T x) {
    return exp(T(-0.5) * x * x) * T(0.39894228040143267794);
}
template <class T>
__device__ __forceinline__ T normal_cumulative(T x) {
    return T(0.5) * (T(1) + erf(x * T(0.70710678118654752440)));
}
template <class T>
__device__ __forceinline__ T number(const Numbers& n, int i) {
    if constexpr (std::is_integral_v<T>)
        return n.whole[i];
    else
        return T(n.real[i]);
}

template <class T>
__device__ __forceinline__ T apply0(int op, uint32_t i, const Numbers& n) {
    switch (op) {
        case op_arange:
            return number<T>(n, 0) + T(i) * number<T>(n, 1);
        case op_linspace: {
            // Symmetric, as torch.linspace: from the start in the first half, from the end in the second.
            const long long steps = n.whole[3];
            return i < steps / 2 ? number<T>(n, 0) + number<T>(n, 2) * T(i)
                                 : number<T>(n, 1) - number<T>(n, 2) * T(steps - 1 - i);
        }
        default:
            return number<T>(n, 0);
    }
}

template <class T>
__device__ __forceinline__ T apply1(int op, T x, const Numbers& n) {
    switch (op) {
        case op_copy:
            return x;
        case op_neg:
            return -x;
        case op_abs:
            return x < 0 ? -x : x == 0 ? T(0) : x;
        case op_sign:
            return T(T(0) < x) - T(x < T(0));
        case op_logical_not:
            return x == 0;
        case op_square:
            return x * x;
        case op_clamp_numbers:
            return nan_min(nan_max(x, number<T>(n, 0)), number<T>(n, 1));
        case op_clamp_min_number:
            return nan_max(x, number<T>(n, 0));
        case op_clamp_max_number:
            return nan_min(x, number<T>(n, 0));
        case op_add_number:
            return x + number<T>(n, 0);
        case op_sub_number:
            return x - number<T>(n, 0);
        case op_mul_number:
            return x * number<T>(n, 0);
        case op_signbit:
            if constexpr (!std::is_integral_v<T>) return signbit(x);
            return x < 0;
        default:
            break;
    }
    if constexpr (std::is_integral_v<T>) {
        switch (op) {
            case op_bitwise_not:
                return ~x;
            case op_pow_number:
                return whole_power(x, n.whole[0]);
            default:
                return x;  // rounding of whole numbers
        }
    } else {
        const T a = T(n.real[0]), b = T(n.real[1]), c = T(n.real[2]);
        switch (op) {
            case op_div_number:
                return x / a;
            case op_reciprocal:
                return T(1) / x;
            case op_sqrt:
                return sqrt(x);
            case op_rsqrt:
                return T(1) / sqrt(x);
            case op_exp:
                return exp(x);
            case op_exp2:
                return exp2(x);
            case op_expm1:
                return expm1(x);
            case op_log:
                return log(x);
            case op_log2:
                return log2(x);
            case op_log10:
                return log10(x);
            case op_log1p:
                return log1p(x);
            case op_sin:
                return sin(x);
            case op_cos:
                return cos(x);
            case op_tan:
                return tan(x);
            case op_asin:
                return asin(x);
            case op_acos:
                return acos(x);
            case op_atan:
                return atan(x);
            case op_sinh:
                return sinh(x);
            case op_cosh:
                return cosh(x);
            case op_tanh:
                return tanh(x);
            case op_asinh:
                return asinh(x);
            case op_acosh:
                return acosh(x);
            case op_atanh:
                return atanh(x);
            case op_erf:
                return erf(x);
            case op_erfc:
                return erfc(x);
            case op_erfinv:
                return erfinv(x);
            case op_lgamma:
                return lgamma(x);
            case op_sigmoid:
                return sigmoid(x);
            case op_floor:
                return floor(x);
            case op_ceil:
                return ceil(x);
            case op_round:
                return rint(x);
            case op_trunc:
                return trunc(x);
            case op_frac:
                return x - trunc(x);
            case op_pow_number:
                return a == T(2) ? x * x : a == T(3) ? x * x * x : a == T(0.5) ? sqrt(x) : pow(x, a);
            case op_number_pow:
                return pow(a, x);
            case op_gelu:
                return x * normal_cumulative(x);
            case op_gelu_tanh:
                return T(0.5) * x * (T(1) + tanh(T(0.79788456080286535588) * (x + T(0.044715) * x * x * x)));
            case op_silu:
                return x / (T(1) + exp(-x));
            case op_mish:
                return x * tanh(log1p(exp(x)));
            case op_elu:
                return x <= 0 ? expm1(x * c) * a : x * b;  // a: negative factor, b: scale, c: input scale
            case op_softplus:
                return x * a > b ? x : log1p(exp(x * a)) / a;
            case op_hardsigmoid:
                return nan_min(nan_max(x + T(3), T(0)), T(6)) / T(6);
            case op_hardswish:
                return x * nan_min(nan_max(x + T(3), T(0)), T(6)) / T(6);
            case op_leaky_relu:
                return x > 0 ? x : x * a;
            case op_hardshrink:
                return x >= -a && x <= a ? T(0) : x;
            case op_softshrink:
                return x > a ? x - a : x < -a ? x + a : x * T(0);
            case op_log_sigmoid:
                return nan_min(x, T(0)) - log1p(exp(-fabs(x)));
            case op_isposinf:
                return isinf(x) && x > 0;
            case op_isneginf:
                return isinf(x) && x < 0;
            default:
                return x;
        }
    }
}

template <class T>
__device__ __forceinline__ T apply2(int op, T x, T y, const Numbers& n) {
    switch (op) {
        case op_add:
            return x + y * number<T>(n, 0);
        case op_sub:
            return x - y * number<T>(n, 0);
        case op_mul:
            return x * y;
        case op_div_floor:
            return floor_divide(x, y);
        case op_remainder:
            return floor_remainder(x, y);
        case op_maximum:
            return nan_max(x, y);
        case op_minimum:
            return nan_min(x, y);
        case op_fmax:
            return x != x ? y : y != y ? x : x > y ? x : y;
        case op_fmin:
            return x != x ? y : y != y ? x : x < y ? x : y;
        case op_logical_and:
            return x != 0 && y != 0;
        case op_logical_or:
            return x != 0 || y != 0;
        case op_logical_xor:
            return (x != 0) != (y != 0);
        case op_lt:
            return x < y;
        case op_le:
            return x <= y;
        case op_gt:
            return x > y;
        case op_ge:
            return x >= y;
        case op_eq:
            return x == y;
        case op_ne:
            return x != y;
        case op_threshold:
            return x <= number<T>(n, 0) ? number<T>(n, 1) : y;
        case op_masked_fill:
            return y != 0 ? number<T>(n, 0) : x;
        case op_heaviside:
            return x == 0 ? y : T(x > 0);
        default:
            break;
    }
    if constexpr (std::is_integral_v<T>) {
        switch (op) {
            case op_div_trunc:
                return y ? x / y : 0;
            case op_fmod:
                return y ? x % y : 0;
            case op_and:
                return x & y;
            case op_or:
                return x | y;
            case op_xor:
                return x ^ y;
            case op_shift_left:
                return y < 0 || y > 63 ? 0 : static_cast<T>(static_cast<unsigned long long>(x) << y);
            case op_shift_right:
                return x >> (y < 0 || y > 63 ? 63 : y);
            case op_pow:
                return whole_power(x, y);
            default:
                return x;
        }
    } else {
        const T a = T(n.real[0]), b = T(n.real[1]), c = T(n.real[2]);
        switch (op) {
            case op_div:
                return x / y;
            case op_div_trunc:
                return trunc(x / y);
            case op_fmod:
                return fmod(x, y);
            case op_pow:
                return pow(x, y);
            case op_atan2:
                return atan2(x, y);
            case op_hypot:
                return hypot(x, y);
            case op_copysign:
                return copysign(x, y);
            case op_xlogy:
                return y != y ? y : x == 0 ? T(0) : x * log(y);
            case op_logaddexp:
                return isinf(x) && x == y ? x : nan_max(x, y) + log1p(exp(-fabs(x - y)));
            case op_lerp_number:
                return fabs(a) < T(0.5) ? x + a * (y - x) : y - (y - x) * (T(1) - a);
            case op_mse:
                return (x - y) * (x - y);
            case op_smooth_l1: {
                const T z = fabs(x - y);
                return z < a ? T(0.5) * z * z / a : z - T(0.5) * a;
            }
            case op_huber: {
                const T z = fabs(x - y);
                return z < a ? T(0.5) * z * z : a * (z - T(0.5) * a);
            }
            case op_glu:
                return x * sigmoid(y);
            case op_prelu:
                return x > 0 ? x : x * y;
            case op_masked_scale:
                return x * y * a;
            // x: gradient, y: input or output of the forward operation.
            case op_sigmoid_backward:
                return x * (T(1) - y) * y;
            case op_tanh_backward:
                return x * (T(1) - y * y);
            case op_gelu_backward:
                return x * (normal_cumulative(y) + y * normal_density(y));
            case op_gelu_tanh_backward: {
                const T k = T(0.79788456080286535588), inner = k * (y + T(0.044715) * y * y * y),
                        t = tanh(inner);
                const T left = T(0.5) * (T(1) + t);
                const T right = T(0.5) * y * (T(1) - t * t) * k * (T(1) + T(3) * T(0.044715) * y * y);
                return x * (left + right);
            }
            case op_silu_backward: {
                const T s = sigmoid(y);
                return x * s * (T(1) + y * (T(1) - s));
            }
            case op_mish_backward: {
                const T s = sigmoid(y), t = tanh(log1p(exp(y)));
                return x * (t + y * s * (T(1) - t * t));
            }
            case op_elu_backward:  // whole[0]: y is the result of the forward operation
                if (n.whole[0]) return y <= 0 ? x * c * (y + a) : x * b;
                return y <= 0 ? x * c * a * exp(y * c) : x * b;
            case op_softplus_backward: {
                const T z = exp(y * a);
                return y * a > b ? x : x * z / (z + T(1));
            }
            case op_hardsigmoid_backward:
                return y > T(-3) && y < T(3) ? x / T(6) : T(0);
            case op_hardswish_backward:
                return y <= T(-3) ? T(0) : y < T(3) ? x * (y / T(3) + T(0.5)) : x;
            case op_hardtanh_backward:
                return y <= a || y >= b ? T(0) : x;
            case op_leaky_relu_backward:
                return x > 0 ? y : y * a;
            case op_shrink_backward:
                return y >= -a && y <= a ? T(0) : x;
            case op_log_sigmoid_backward: {
                const T z = exp(-fabs(x));  // x: input, y: gradient
                return y * (x < 0 ? T(1) - z / (T(1) + z) : z / (T(1) + z));
            }
            default:
                return x;
        }
    }
}

template <class T>
__device__ __forceinline__ T apply3(int op, T x, T y, T z, const Numbers& n) {
    switch (op) {
        case op_where:
            return x != 0 ? y : z;
        case op_addcmul:
            return x + number<T>(n, 0) * y * z;
        case op_clamp:
            return nan_min(nan_max(x, y), z);
        default:
            break;
    }
    if constexpr (std::is_integral_v<T>) {
        return x;
    } else {
        const T a = T(n.real[0]), b = T(n.real[1]);
        switch (op) {
            case op_addcdiv:
                return x + a * (y / z);
            case op_lerp:
                return fabs(z) < T(0.5) ? x + z * (y - x) : y - (y - x) * (T(1) - z);
            // x: input, y: target, z: gradient.
            case op_mse_backward:
                return a * (x - y) * z;
            case op_smooth_l1_backward: {
                const T d = x - y;
                return d <= -b ? -a * z : d >= b ? a * z : a * d * z / b;
            }
            case op_huber_backward: {
                const T d = x - y;
                return d <= -b ? -a * z * b : d >= b ? a * z * b : a * d * z;
            }
            case op_bce: {  // z: weight
                const T l1 = log(x), l0 = log1p(-x);
                return z * ((y - T(1)) * (l0 < T(-100) ? T(-100) : l0) - y * (l1 < T(-100) ? T(-100) : l1));
            }
            case op_bce_backward: {
                const T spread = (T(1) - x) * x;
                return z * (x - y) / (spread < T(1e-12) ? T(1e-12) : spread);
            }
            default:
                return x;
        }
    }
}

}  // namespace ops
