// Command line of the digits workload.
#pragma once

#include <cstdint>
#include <string>

struct Options {
    int epochs = 8;
    int batch = 64;
    int width = 16;          // channels, a multiple of 4
    int depth = 2;           // residual blocks
    int hidden = 32;         // units of the hidden dense layer
    int eval_every = 1;      // epochs between evaluations, 0 = only at the end
    int max_iterations = 0;  // stop an epoch early after so many iterations, 0 = all
    std::uint64_t seed = 1;
    float rate = 0.02f;  // of Adam at the start; falls linearly to a tenth
    bool keep_short_batch = false;
    std::string data, timings, alloc_log;
};

// Prints a message and exits with status 2 on wrong usage, with 0 after --help.
Options parse_options(int argc, char** argv);
