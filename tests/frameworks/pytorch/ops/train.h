// Launchers of train.cu: losses by class, the recurrent cell, optimizers, and what PyTorch does to many tensors in one launch.
#pragma once
#include "launch.h"

namespace ops {

// x (outer, classes, inner) of log probabilities, target (outer, inner): loss and weight of each, 0 where target is `ignore`.
void launch_nll(Type type, uint32_t outer, uint32_t classes, uint32_t inner, long long ignore, const void* x,
                const long long* target, const void* weight, void* loss, void* weights, cudaStream_t stream);
// dx (zeroed by the caller) at the target = -weight * gradient / total; per element or one gradient; total may be null.
void launch_nll_backward(Type type, uint32_t outer, uint32_t classes, uint32_t inner, long long ignore,
                         const long long* target, const void* weight, const void* gradient, bool each,
                         const void* total, void* dx, cudaStream_t stream);

// Gates (n, 4, hidden): input, forget, cell, output. The workspace keeps the activated gates.
void launch_lstm(Type type, uint32_t n, uint32_t hidden, const void* input_gates, const void* hidden_gates,
                 const void* input_bias, const void* hidden_bias, const void* cx, void* hy, void* cy,
                 void* workspace, cudaStream_t stream);
void launch_lstm_backward(Type type, uint32_t n, uint32_t hidden, const void* dhy, const void* dcy,
                          const void* cx, const void* cy, const void* workspace, void* dgates, void* dcx,
                          cudaStream_t stream);

// One launch over many tensors: their addresses travel in the arguments, as in PyTorch's own kernels of this kind, with the same
// numbers of tensors and chunks a launch.
constexpr int kLists = 4, kTensors = 36, kChunks = 320, kChunkSize = 65536;
struct ManyTensors {
    void* data[kLists][kTensors];
    double number[kTensors];
    uint32_t count[kTensors];
    uint16_t chunk[kChunks];
    uint8_t tensor[kChunks];
    int32_t chunks;
};
// Elementwise operation with list 0 as result and the lists after it as inputs (as many as the operation has).
void launch_many(int op, int inputs, Type type, const ManyTensors& many, bool number_each,
                 const Numbers& numbers, cudaStream_t stream);

struct Adam {
    double lr, beta1, beta2, weight_decay, eps;
    int32_t decoupled, maximize;
    const float *lr_at, *grad_scale, *found_inf;
    const float* step[kTensors];
};
// Lists: parameters, gradients, first and second moments.
void launch_adam(Type type, const ManyTensors& many, const Adam& adam, cudaStream_t stream);
struct Sgd {
    double lr, momentum, dampening, weight_decay;
    int32_t nesterov, maximize, first;
    const float *lr_at, *grad_scale, *found_inf;
};
// Lists: parameters, gradients, momentum (if not 0).
void launch_sgd(Type type, const ManyTensors& many, const Sgd& sgd, cudaStream_t stream);
// Gradient scaling: each value times *inverse; *found becomes 1 where one is not finite.
void launch_unscale(Type type, uint32_t count, void* values, float* found, const float* inverse,
                    cudaStream_t stream);
void launch_update_scale(float* scale, int* growth, const float* found, double up, double down, int interval,
                         cudaStream_t stream);

}  // namespace ops
