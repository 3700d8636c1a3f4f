// Op streams as a training program would produce them, for the finder's tests: eager allocation, layers that
// all look alike, and every habit of real loops that a test wants to add.
#pragma once

#include <cstdint>
#include <vector>

#include "recorder/op.h"

namespace swapadvisor::test {

enum Function : std::uint64_t {
    kForward = 1,
    kLoss,
    kBackward,
    kUpdate,
    kZero,
    kInit,
    kArgmax,
    kAugment,
    kGeneratorForward
};

template <class Sink>  // has allocate(id, bytes, small, site), release(id), op(OpView), mark()
class SimulatedProgram {
  public:
    explicit SimulatedProgram(Sink& sink) : sink_(sink) {}

    static constexpr std::int64_t kMiB = 1 << 20;

    BufferId allocate(std::int64_t bytes, std::uint64_t site) {
        sink_.allocate(++last_id_, bytes, bytes < kMiB, site);
        return last_id_;
    }
    void release(BufferId id) { sink_.release(id); }

    std::uint64_t op(OpKind kind, std::uint64_t function, std::uint32_t size,
                     const std::vector<BufferId>& buffers) {
        std::vector<Touch> touches;
        for (const BufferId b : buffers) touches.push_back({b, Access::read_write});
        OpView view;
        view.kind = kind;
        view.function = function;
        view.geometry = {size, 1, 1, 128, 1, 1};
        if (kind != OpKind::kernel) view.geometry = {size, 0, 0, 0, 0, 0};
        view.touches = touches.data();
        view.touch_count = static_cast<std::uint32_t>(touches.size());
        sink_.op(view);
        return ops_++;
    }
    std::uint64_t kernel(std::uint64_t function, std::uint32_t size, const std::vector<BufferId>& buffers) {
        return op(OpKind::kernel, function, size, buffers);
    }
    std::uint64_t ops() const { return ops_; }
    void mark() { sink_.mark(); }

    /// A network of equal layers: weight, optional momentum and gradient per layer.
    struct Network {
        std::vector<BufferId> weight, momentum, gradient;
        std::int64_t bytes = 0;
    };
    Network make_network(int layers, std::int64_t bytes, bool momentum, bool persistent_gradients) {
        Network n;
        n.bytes = bytes;
        for (int l = 0; l < layers; ++l) {
            n.weight.push_back(allocate(bytes, 10));
            kernel(kInit, static_cast<std::uint32_t>(bytes >> 10), {n.weight.back()});
            if (momentum) n.momentum.push_back(allocate(bytes, 11));
            if (persistent_gradients) n.gradient.push_back(allocate(bytes, 12));
        }
        return n;
    }

    std::vector<BufferId> forward(const Network& n, BufferId input, std::int64_t batch, bool keep) {
        std::vector<BufferId> activations;
        BufferId x = input;
        for (const BufferId w : n.weight) {
            const BufferId y = allocate(batch * kMiB, 20);
            kernel(kForward, static_cast<std::uint32_t>(batch), {x, w, y});
            if (!keep && x != input) release(x);
            activations.push_back(y);
            x = y;
        }
        return keep ? activations : std::vector<BufferId>{x};
    }
    /// Consumes the activations. Gradients of weights go to n.gradient, or are made and returned.
    std::vector<BufferId> backward(const Network& n, BufferId input, std::vector<BufferId> activations,
                                   std::int64_t batch) {
        std::vector<BufferId> gradients(n.weight.size());
        BufferId dy = allocate(batch * kMiB, 21);
        kernel(kLoss, static_cast<std::uint32_t>(batch), {activations.back(), dy});
        for (std::size_t l = n.weight.size(); l-- > 0;) {
            const BufferId x = l > 0 ? activations[l - 1] : input;
            gradients[l] = n.gradient.empty() ? allocate(n.bytes, 22) : n.gradient[l];
            const BufferId dx = allocate(batch * kMiB, 23);
            kernel(kBackward, static_cast<std::uint32_t>(batch), {x, n.weight[l], dy, dx, gradients[l]});
            release(dy);
            release(activations[l]);
            dy = dx;
        }
        release(dy);
        return gradients;
    }
    void update(const Network& n, const std::vector<BufferId>& gradients) {
        for (std::size_t l = 0; l < n.weight.size(); ++l) {
            std::vector<BufferId> touched{n.weight[l], gradients[l]};
            if (!n.momentum.empty()) touched.push_back(n.momentum[l]);
            kernel(kUpdate, static_cast<std::uint32_t>(n.bytes >> 10), touched);
            if (n.gradient.empty()) release(gradients[l]);
        }
    }
    BufferId load_input(std::int64_t batch) {
        const BufferId input = allocate(batch * kMiB, 30);
        op(OpKind::memcpy_h2d, 0, static_cast<std::uint32_t>(batch * kMiB), {input});
        return input;
    }

    /// One whole training step.
    void step(const Network& n, std::int64_t batch) {
        const BufferId input = load_input(batch);
        auto activations = forward(n, input, batch, true);
        const auto gradients = backward(n, input, activations, batch);
        update(n, gradients);
        release(input);
    }
    void evaluate(const Network& n, std::int64_t batch, int batches) {
        for (int b = 0; b < batches; ++b) {
            const BufferId input = load_input(batch);
            const auto out = forward(n, input, batch, false);
            kernel(kArgmax, static_cast<std::uint32_t>(batch), {out[0]});
            release(out[0]);
            release(input);
        }
    }

  private:
    Sink& sink_;
    BufferId last_id_ = 0;
    std::uint64_t ops_ = 0;
};

}  // namespace swapadvisor::test
