#include "options.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

const char* const usage =
    "usage: digits [options]\n"
    "Trains a convolutional network on 8x8 handwritten digits and prints loss and accuracy.\n"
    "  --epochs N        passes over the training set (8)\n"
    "  --batch N         images per iteration (64)\n"
    "  --width N         channels, a multiple of 4 (16)\n"
    "  --depth N         residual blocks (2)\n"
    "  --hidden N        units of the hidden dense layer (32)\n"
    "  --seed N          seed of weights and shuffling (1)\n"
    "  --rate X          learning rate of Adam at the start, falls to a tenth (0.02)\n"
    "  --eval-every N    evaluate every N epochs, 0: only at the end (1)\n"
    "  --max-iterations N  at most N iterations per epoch (all)\n"
    "  --keep-short-batch  train on the last, short batch too\n"
    "  --data FILE       digits.csv.gz (beside the program or in the source tree)\n"
    "  --timings FILE    write the device time of every training iteration, in ns, one a line\n"
    "  --alloc-log FILE  write every allocation, release and operation, one JSON object a line\n"
    "  --help            this text\n";

[[noreturn]] void wrong(const std::string& what) {
    std::fprintf(stderr, "digits: %s (see --help)\n", what.c_str());
    std::exit(2);
}

long long integer(const char* name, const char* text, long long low, long long high) {
    char* end = nullptr;
    errno = 0;
    const long long value = std::strtoll(text, &end, 10);
    if (errno || end == text || *end || value < low || value > high)
        wrong(std::string(name) + ": expected a number from " + std::to_string(low) + " to " +
              std::to_string(high) + ", got '" + text + "'");
    return value;
}

float real(const char* name, const char* text) {
    char* end = nullptr;
    const float value = std::strtof(text, &end);
    if (end == text || *end || !(value > 0))
        wrong(std::string(name) + ": expected a positive number, got '" + text + "'");
    return value;
}

}  // namespace

Options parse_options(int argc, char** argv) {
    Options o;
    for (int i = 1; i < argc; ++i) {
        std::string name = argv[i], inline_value;
        bool has_inline = false;
        if (const auto eq = name.find('='); name.rfind("--", 0) == 0 && eq != std::string::npos) {
            inline_value = name.substr(eq + 1);
            name.resize(eq);
            has_inline = true;
        }
        const auto value = [&]() -> const char* {
            if (has_inline) return inline_value.c_str();
            if (i + 1 >= argc) wrong(name + " needs a value");
            return argv[++i];
        };
        const auto number = [&](long long low, long long high) {
            return integer(name.c_str(), value(), low, high);
        };
        if (name == "--help" || name == "-h") {
            std::fputs(usage, stdout);
            std::exit(0);
        } else if (name == "--epochs") {
            o.epochs = static_cast<int>(number(1, 100000));
        } else if (name == "--batch") {
            o.batch = static_cast<int>(number(1, 1 << 20));
        } else if (name == "--width") {
            o.width = static_cast<int>(number(4, 1 << 16));
        } else if (name == "--depth") {
            o.depth = static_cast<int>(number(0, 100000));
        } else if (name == "--hidden") {
            o.hidden = static_cast<int>(number(1, 1 << 20));
        } else if (name == "--seed") {
            o.seed = static_cast<std::uint64_t>(number(0, 1LL << 62));
        } else if (name == "--eval-every") {
            o.eval_every = static_cast<int>(number(0, 100000));
        } else if (name == "--max-iterations") {
            o.max_iterations = static_cast<int>(number(0, 1 << 30));
        } else if (name == "--rate") {
            o.rate = real(name.c_str(), value());
        } else if (name == "--keep-short-batch") {
            o.keep_short_batch = true;
        } else if (name == "--data") {
            o.data = value();
        } else if (name == "--timings") {
            o.timings = value();
        } else if (name == "--alloc-log") {
            o.alloc_log = value();
        } else {
            wrong("unknown option '" + name + "'");
        }
    }
    if (o.width % 4) wrong("--width: must be a multiple of 4");
    return o;
}
