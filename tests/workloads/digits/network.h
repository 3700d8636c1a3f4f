// The network: stem convolution, residual blocks, pooling, two dense layers; forward, backward and the Adam
// step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops.h"
#include "options.h"

struct Parameter {
    Tensor weights, first, second;  // Adam's moments
    Tensor gradient;                // from the backward pass to the optimiser step
    std::size_t count = 0;
};

class Network {
  public:
    // `total_steps`: how many optimiser steps the training will take.
    Network(const Options& options, const Tensor& totals, int total_steps);

    // Loss and hits of the batch are added to `totals`.
    void train(const Tensor& images, const Tensor& labels, unsigned count);
    void evaluate(const Tensor& images, const Tensor& labels, unsigned count);
    // FNV-1a of all weights in order.
    std::uint64_t hash() const;

  private:
    // x -> row conv -> column conv -> scale and shift -> relu -> pointwise -> + x
    struct Block {
        int row, column, affine, mix;  // indices of parameters
    };
    struct BlockTape {
        Tensor input, row, column, active;
    };
    struct HeadTape {
        Tensor pooled, active;
    };

    int add(std::size_t count, float range, float value = 0.0f, int period = 1, int phase = 0);
    const Tensor& w(int index) const { return parameters_[static_cast<std::size_t>(index)].weights; }
    Tensor block_forward(const Block& b, Tensor x, ops::Shape s, BlockTape* tape) const;
    Tensor block_backward(const Block& b, Tensor dy, ops::Shape s, BlockTape& tape);
    Tensor head_forward(Tensor x, ops::Shape s, HeadTape* tape) const;
    Tensor head_backward(Tensor dlogits, ops::Shape s, HeadTape& tape);
    void keep(int index, Tensor gradient) {
        parameters_[static_cast<std::size_t>(index)].gradient = std::move(gradient);
    }
    void step();

    Options options_;
    Tensor totals_;
    std::vector<Parameter> parameters_;
    std::vector<Block> blocks_;
    int stem_ = 0, hidden_ = 0, hidden_bias_ = 0, logits_ = 0, logits_bias_ = 0;
    std::uint64_t random_ = 0;
    int steps_ = 0, total_steps_ = 1;
};
