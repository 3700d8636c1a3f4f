#include <cmath>

#include "network.h"
#include "random.h"

namespace {
constexpr unsigned kClasses = 10;
}

Network::Network(const Options& options, const Tensor& totals, int total_steps)
    : options_(options),
      totals_(totals),
      random_(options.seed * 0x9E3779B97F4A7C15ull + 1),
      total_steps_(total_steps > 0 ? total_steps : 1) {
    const auto width = static_cast<std::size_t>(options.width),
               hidden = static_cast<std::size_t>(options.hidden);
    // The residual branches start small, so that deep networks train without normalisation.
    const float branch = 1.2f / std::sqrt(static_cast<float>(options.depth > 0 ? options.depth : 1));
    stem_ = add(width * 10, 0.6f);
    for (int i = 0; i < options.depth; ++i) {
        Block b{};
        b.row = add(width * 3, 0.7f);
        b.column = add(width * 3, 0.7f);
        b.affine = add(width * 2, 0.0f, 1.0f, 2, 0);  // scale 1, shift 0
        b.mix = add(width * 4, branch);
        blocks_.push_back(b);
    }
    hidden_ = add(hidden * width * 4, std::sqrt(6.0f / static_cast<float>(width * 4)));
    hidden_bias_ = add(hidden, 0.0f);
    logits_ = add(kClasses * hidden, std::sqrt(3.0f / static_cast<float>(hidden)));
    logits_bias_ = add(kClasses, 0.0f);
}

// Uniform in [-range, range], plus `value` at every index i with i % period == phase.
int Network::add(std::size_t count, float range, float value, int period, int phase) {
    std::vector<float> host(count);
    for (std::size_t i = 0; i < count; ++i) {
        host[i] = range > 0 ? (uniform(random_) * 2 - 1) * range : 0.0f;
        if (i % static_cast<std::size_t>(period) == static_cast<std::size_t>(phase)) host[i] += value;
    }
    auto& device = Device::get();
    Parameter p;
    p.count = count;
    p.weights = device.allocate(count, true);
    p.first = device.allocate(count, true);
    p.second = device.allocate(count, true);
    check(cudaMemcpy(f32(p.weights), host.data(), count * sizeof(float), cudaMemcpyHostToDevice),
          "copy of weights");
    device.log_op("weights", "copy", {}, {p.weights});
    for (const auto& moment : {p.first, p.second}) {
        check(cudaMemset(f32(moment), 0, count * sizeof(float)), "cudaMemset");
        device.log_op("moments", "memset", {}, {moment});
    }
    parameters_.push_back(std::move(p));
    return static_cast<int>(parameters_.size()) - 1;
}

// Without a tape (evaluation) every intermediate is released as soon as the next one exists.
Tensor Network::block_forward(const Block& b, Tensor x, ops::Shape s, BlockTape* tape) const {
    using ops::Axis;
    Tensor row = ops::conv3(x, w(b.row), s, Axis::row);
    Tensor column = ops::conv3(row, w(b.column), s, Axis::column);
    if (tape) tape->row = row;
    row.reset();
    Tensor scaled = ops::affine(column, w(b.affine), s);
    if (tape) tape->column = column;
    column.reset();
    Tensor active = ops::relu(scaled, s.floats());
    scaled.reset();
    Tensor mixed = ops::pointwise(active, w(b.mix), s);
    if (tape) tape->active = active;
    active.reset();
    Tensor y = ops::add(x, mixed, s.floats());
    if (tape) tape->input = x;
    return y;
}

Tensor Network::block_backward(const Block& b, Tensor dy, ops::Shape s, BlockTape& tape) {
    using ops::Axis;
    keep(b.mix, ops::pointwise_weights(tape.active, dy, s));
    Tensor d = ops::pointwise_backward(dy, w(b.mix), s);
    d = ops::relu_backward(d, tape.active, s.floats());
    tape.active.reset();
    keep(b.affine, ops::affine_weights(tape.column, d, s));
    tape.column.reset();
    d = ops::affine_backward(d, w(b.affine), s);
    keep(b.column, ops::conv3_weights(tape.row, d, s, Axis::column));
    tape.row.reset();
    d = ops::conv3_backward(d, w(b.column), s, Axis::column);
    keep(b.row, ops::conv3_weights(tape.input, d, s, Axis::row));
    tape.input.reset();
    d = ops::conv3_backward(d, w(b.row), s, Axis::row);
    return ops::add(dy, d, s.floats());
}

Tensor Network::head_forward(Tensor x, ops::Shape s, HeadTape* tape) const {
    const auto hidden = static_cast<unsigned>(options_.hidden);
    Tensor pooled = ops::pool(x, s);
    x.reset();
    Tensor active =
        ops::relu(ops::dense(pooled, w(hidden_), w(hidden_bias_), s.images, s.channels * 4, hidden),
                  static_cast<std::size_t>(s.images) * hidden);
    Tensor logits = ops::dense(active, w(logits_), w(logits_bias_), s.images, hidden, kClasses);
    if (tape) *tape = {std::move(pooled), std::move(active)};
    return logits;
}

Tensor Network::head_backward(Tensor dlogits, ops::Shape s, HeadTape& tape) {
    const auto hidden = static_cast<unsigned>(options_.hidden);
    const unsigned features = s.channels * 4;
    keep(logits_, ops::dense_weights(tape.active, dlogits, s.images, hidden, kClasses));
    keep(logits_bias_, ops::dense_bias(dlogits, s.images, kClasses));
    Tensor d = ops::dense_inputs(dlogits, w(logits_), s.images, hidden, kClasses);
    dlogits.reset();
    d = ops::relu_backward(d, tape.active, static_cast<std::size_t>(s.images) * hidden);
    tape.active.reset();
    keep(hidden_, ops::dense_weights(tape.pooled, d, s.images, features, hidden));
    tape.pooled.reset();
    keep(hidden_bias_, ops::dense_bias(d, s.images, hidden));
    d = ops::dense_inputs(d, w(hidden_), s.images, features, hidden);
    return ops::pool_backward(d, s);
}

void Network::train(const Tensor& images, const Tensor& labels, unsigned count) {
    const ops::Shape s{count, static_cast<unsigned>(options_.width)};
    std::vector<BlockTape> tapes(blocks_.size());
    Tensor x = ops::stem(images, w(stem_), s);
    for (std::size_t i = 0; i < blocks_.size(); ++i)
        x = block_forward(blocks_[i], std::move(x), s, &tapes[i]);
    HeadTape head;
    Tensor logits = head_forward(std::move(x), s, &head);
    Tensor d = ops::softmax_loss(logits, labels, totals_, count, true);
    logits.reset();
    d = head_backward(std::move(d), s, head);
    for (std::size_t i = blocks_.size(); i-- > 0;) d = block_backward(blocks_[i], std::move(d), s, tapes[i]);
    keep(stem_, ops::stem_weights(images, d, s));
    d.reset();
    step();
}

void Network::evaluate(const Tensor& images, const Tensor& labels, unsigned count) {
    const ops::Shape s{count, static_cast<unsigned>(options_.width)};
    Tensor x = ops::stem(images, w(stem_), s);
    for (const auto& b : blocks_) x = block_forward(b, std::move(x), s, nullptr);
    Tensor logits = head_forward(std::move(x), s, nullptr);
    ops::softmax_loss(logits, labels, totals_, count, false);
}

void Network::step() {
    const double decay = 1.0 - 0.9 * steps_ / total_steps_;
    ++steps_;
    const double first = 1.0 - std::pow(0.9, steps_), second = std::sqrt(1.0 - std::pow(0.999, steps_));
    const auto rate = static_cast<float>(options_.rate * decay * second / first),
               epsilon = static_cast<float>(1e-8 * second);
    for (auto& p : parameters_) {
        ops::adam(p.weights, p.gradient, p.first, p.second, p.count, rate, epsilon);
        p.gradient.reset();
    }
}

std::uint64_t Network::hash() const {
    std::uint64_t h = 0xCBF29CE484222325ull;
    for (const auto& p : parameters_) {
        std::vector<unsigned char> host(p.count * sizeof(float));
        check(cudaMemcpy(host.data(), f32(p.weights), host.size(), cudaMemcpyDeviceToHost),
              "copy of weights");
        Device::get().log_op("weights", "copy", {p.weights}, {});
        for (const unsigned char byte : host) h = (h ^ byte) * 0x100000001B3ull;
    }
    return h;
}
