// Operations of the network on device tensors; each allocates its result.
#pragma once

#include "device.h"

namespace ops {

struct Shape {
    unsigned images, channels;
    unsigned planes() const { return images * channels; }
    std::size_t floats() const { return static_cast<std::size_t>(planes()) * 64; }
};

Tensor relu(const Tensor& x, std::size_t count);
Tensor relu_backward(const Tensor& dy, const Tensor& y, std::size_t count);
Tensor add(const Tensor& a, const Tensor& b, std::size_t count);

Tensor affine(const Tensor& x, const Tensor& w, Shape s);  // weights [channel][scale, shift]
Tensor affine_backward(const Tensor& dy, const Tensor& w, Shape s);
Tensor affine_weights(const Tensor& x, const Tensor& dy, Shape s);

enum class Axis { row, column };
Tensor conv3(const Tensor& x, const Tensor& w, Shape s, Axis axis);
Tensor conv3_backward(const Tensor& dy, const Tensor& w, Shape s, Axis axis);
Tensor conv3_weights(const Tensor& x, const Tensor& dy, Shape s, Axis axis);

Tensor pointwise(const Tensor& x, const Tensor& w, Shape s);
Tensor pointwise_backward(const Tensor& dy, const Tensor& w, Shape s);
Tensor pointwise_weights(const Tensor& x, const Tensor& dy, Shape s);

Tensor stem(const Tensor& x, const Tensor& w, Shape s);
Tensor stem_weights(const Tensor& x, const Tensor& dy, Shape s);

Tensor pool(const Tensor& x, Shape s);
Tensor pool_backward(const Tensor& dy, Shape s);

Tensor dense(const Tensor& x, const Tensor& w, const Tensor& bias, unsigned images, unsigned in,
             unsigned out);
Tensor dense_inputs(const Tensor& dy, const Tensor& w, unsigned images, unsigned in, unsigned out);
Tensor dense_weights(const Tensor& x, const Tensor& dy, unsigned images, unsigned in, unsigned out);
Tensor dense_bias(const Tensor& dy, unsigned images, unsigned out);

// Adds loss and hits to `totals` (three doubles); returns the gradient of the logits, or null when not
// wanted.
Tensor softmax_loss(const Tensor& logits, const Tensor& labels, const Tensor& totals, unsigned images,
                    bool gradient);

void adam(const Tensor& w, const Tensor& gradient, const Tensor& m, const Tensor& v, std::size_t count,
          float rate, float epsilon);

}  // namespace ops
