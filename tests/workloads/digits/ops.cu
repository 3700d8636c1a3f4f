#include "kernels.cuh"
#include "ops.h"

namespace ops {

namespace {

constexpr unsigned kThreads = 128;
constexpr unsigned kSplits = 2;  // blocks per channel or group in the sums over images

unsigned blocks(std::size_t items, unsigned per_block = kThreads) {
    return static_cast<unsigned>((items + per_block - 1) / per_block);
}
const float4* in4(const Tensor& t) {
    return static_cast<const float4*>(t->data);
}
float4* out4(const Tensor& t) {
    return static_cast<float4*>(t->data);
}

template <class F>
Tensor map(const char* name, const Tensor& a, const Tensor& b, std::size_t count) {
    Tensor out = make(count);
    const float* second = b ? f32(b) : nullptr;
    const auto go = [&](std::initializer_list<Tensor> reads) {
        if (count % 64 == 0)
            launch(name, kernels::map4<F>, blocks(count, kThreads * 16), kThreads, reads, {out}, in4(a),
                   reinterpret_cast<const float4*>(second), out4(out), static_cast<unsigned>(count / 4));
        else
            launch(name, kernels::map1<F>, blocks(count), kThreads, reads, {out}, f32(a), second, f32(out),
                   static_cast<unsigned>(count));
    };
    b ? go({a, b}) : go({a});
    return out;
}

Tensor sum_partials(const Tensor& partials, std::size_t count) {
    Tensor out = make(count);
    launch("sum_partials", kernels::sum_partials, blocks(count), kThreads, {partials}, {out}, f32(partials),
           f32(out), kSplits, static_cast<unsigned>(count));
    return out;
}

// A kernel that sums over the images: grid (groups, splits), `values` results per group.
template <class V>
Tensor weight_sums(const char* name, void (*kernel)(const V*, const V*, float*, unsigned, unsigned),
                   const Tensor& x, const Tensor& dy, unsigned images, unsigned groups, unsigned values) {
    Tensor partials = make(static_cast<std::size_t>(groups) * values * kSplits);
    launch(name, kernel, dim3(groups, kSplits), kernels::kReduceThreads, {x, dy}, {partials},
           static_cast<const V*>(x->data), static_cast<const V*>(dy->data), f32(partials), images, groups);
    return sum_partials(partials, static_cast<std::size_t>(groups) * values);
}

}  // namespace

Tensor relu(const Tensor& x, std::size_t count) {
    return map<kernels::Relu>("relu", x, nullptr, count);
}
Tensor relu_backward(const Tensor& dy, const Tensor& y, std::size_t count) {
    return map<kernels::ReluBackward>("relu_backward", dy, y, count);
}
Tensor add(const Tensor& a, const Tensor& b, std::size_t count) {
    return map<kernels::Add>("add", a, b, count);
}

Tensor affine(const Tensor& x, const Tensor& w, Shape s) {
    Tensor y = make(s.floats());
    launch("affine", kernels::affine<false>, blocks(s.planes() * 4), kThreads, {x, w}, {y}, in4(x), f32(w),
           out4(y), s.planes() * 4, s.channels);
    return y;
}
Tensor affine_backward(const Tensor& dy, const Tensor& w, Shape s) {
    Tensor dx = make(s.floats());
    launch("affine_backward", kernels::affine<true>, blocks(s.planes() * 4), kThreads, {dy, w}, {dx}, in4(dy),
           f32(w), out4(dx), s.planes() * 4, s.channels);
    return dx;
}
Tensor affine_weights(const Tensor& x, const Tensor& dy, Shape s) {
    return weight_sums("affine_weights", kernels::affine_weights, x, dy, s.images, s.channels, 2);
}

Tensor conv3(const Tensor& x, const Tensor& w, Shape s, Axis axis) {
    Tensor y = make(s.floats());
    launch("conv3", axis == Axis::row ? kernels::conv3<false, false> : kernels::conv3<true, false>,
           blocks(s.planes() * 2), kThreads, {x, w}, {y}, in4(x), f32(w), out4(y), s.planes() * 2,
           s.channels);
    return y;
}
Tensor conv3_backward(const Tensor& dy, const Tensor& w, Shape s, Axis axis) {
    Tensor dx = make(s.floats());
    launch("conv3_backward", axis == Axis::row ? kernels::conv3<false, true> : kernels::conv3<true, true>,
           blocks(s.planes() * 2), kThreads, {dy, w}, {dx}, in4(dy), f32(w), out4(dx), s.planes() * 2,
           s.channels);
    return dx;
}
Tensor conv3_weights(const Tensor& x, const Tensor& dy, Shape s, Axis axis) {
    return weight_sums("conv3_weights",
                       axis == Axis::row ? kernels::conv3_weights<false> : kernels::conv3_weights<true>, x,
                       dy, s.images, s.channels, 3);
}

Tensor pointwise(const Tensor& x, const Tensor& w, Shape s) {
    Tensor y = make(s.floats());
    launch("pointwise", kernels::pointwise<false>, blocks(s.planes() * 2), kThreads, {x, w}, {y}, in4(x),
           f32(w), out4(y), s.planes() * 2, s.channels / 4);
    return y;
}
Tensor pointwise_backward(const Tensor& dy, const Tensor& w, Shape s) {
    Tensor dx = make(s.floats());
    launch("pointwise_backward", kernels::pointwise<true>, blocks(s.planes() * 2), kThreads, {dy, w}, {dx},
           in4(dy), f32(w), out4(dx), s.planes() * 2, s.channels / 4);
    return dx;
}
Tensor pointwise_weights(const Tensor& x, const Tensor& dy, Shape s) {
    return weight_sums("pointwise_weights", kernels::pointwise_weights, x, dy, s.images, s.channels / 4, 16);
}

Tensor stem(const Tensor& x, const Tensor& w, Shape s) {
    Tensor y = make(s.floats());
    launch("stem", kernels::stem, blocks(s.planes() * 8), kThreads, {x, w}, {y}, f32(x), f32(w), f32(y),
           s.planes() * 8, s.channels);
    return y;
}
Tensor stem_weights(const Tensor& x, const Tensor& dy, Shape s) {
    return weight_sums("stem_weights", kernels::stem_weights, x, dy, s.images, s.channels, 10);
}

Tensor pool(const Tensor& x, Shape s) {
    Tensor y = make(static_cast<std::size_t>(s.planes()) * 4);
    launch("pool", kernels::pool, blocks(s.planes()), kThreads, {x}, {y}, in4(x), out4(y), s.planes());
    return y;
}
Tensor pool_backward(const Tensor& dy, Shape s) {
    Tensor dx = make(s.floats());
    launch("pool_backward", kernels::pool_backward, blocks(s.planes()), kThreads, {dy}, {dx}, in4(dy),
           out4(dx), s.planes());
    return dx;
}

Tensor dense(const Tensor& x, const Tensor& w, const Tensor& bias, unsigned images, unsigned in,
             unsigned out) {
    Tensor y = make(static_cast<std::size_t>(images) * out);
    launch("dense", kernels::dense, blocks(static_cast<std::size_t>(images) * out), kThreads, {x, w, bias},
           {y}, f32(x), f32(w), f32(bias), f32(y), images, in, out);
    return y;
}
Tensor dense_inputs(const Tensor& dy, const Tensor& w, unsigned images, unsigned in, unsigned out) {
    Tensor dx = make(static_cast<std::size_t>(images) * in);
    launch("dense_inputs", kernels::dense_inputs, blocks(static_cast<std::size_t>(images) * in), kThreads,
           {dy, w}, {dx}, f32(dy), f32(w), f32(dx), images, in, out);
    return dx;
}
Tensor dense_weights(const Tensor& x, const Tensor& dy, unsigned images, unsigned in, unsigned out) {
    Tensor dw = make(static_cast<std::size_t>(in) * out);
    launch("dense_weights", kernels::dense_weights, blocks(static_cast<std::size_t>(in) * out), kThreads,
           {x, dy}, {dw}, f32(x), f32(dy), f32(dw), images, in, out);
    return dw;
}
Tensor dense_bias(const Tensor& dy, unsigned images, unsigned out) {
    Tensor db = make(out);
    launch("dense_bias", kernels::dense_bias, blocks(out), kThreads, {dy}, {db}, f32(dy), f32(db), images,
           out);
    return db;
}

Tensor softmax_loss(const Tensor& logits, const Tensor& labels, const Tensor& totals, unsigned images,
                    bool gradient) {
    Tensor loss = make(images), hit = make(images);
    Tensor d = gradient ? make(static_cast<std::size_t>(images) * 10) : nullptr;
    const auto go = [&](std::initializer_list<Tensor> writes) {
        launch("softmax_loss", kernels::softmax_loss, blocks(images), kThreads, {logits, labels}, writes,
               f32(logits), i32(labels), f32(loss), i32(hit), d ? f32(d) : nullptr, images);
    };
    d ? go({loss, hit, d}) : go({loss, hit});
    launch("tally", kernels::tally, 1, 1, {loss, hit, totals}, {totals}, f32(loss), i32(hit),
           static_cast<double*>(totals->data), images);
    return d;
}

void adam(const Tensor& w, const Tensor& gradient, const Tensor& m, const Tensor& v, std::size_t count,
          float rate, float epsilon) {
    launch("adam", kernels::adam, blocks(count), kThreads, {w, gradient, m, v}, {w, m, v}, f32(w),
           f32(gradient), f32(m), f32(v), static_cast<unsigned>(count), rate, epsilon);
}

}  // namespace ops
