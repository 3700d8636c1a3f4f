// A zoo of loop shapes: buffers that take turns, equal launches in a row, loops within loops, interruptions,
// uneven input. Each is found with its exact period within three of its periods, and nothing else is ever
// taken for the iteration but what is named.
#include <catch2/catch.hpp>
#include <functional>
#include <iostream>
#include <random>
#include <set>
#include <string>

#include "recorder/iteration_finder.h"
#include "tests/unit/recorder/simulated_program.h"

using namespace swapadvisor;
using namespace swapadvisor::test;

namespace {

// The finder, and every period that it ever delivered.
class Watched {
  public:
    void allocate(BufferId id, std::int64_t bytes, bool small, std::uint64_t site) {
        finder.allocate(id, bytes, small, site);
    }
    void release(BufferId id) { finder.release(id); }
    void mark() { finder.mark(); }
    void op(const OpView& view) {
        finder.op(view);
        if (finder.version() == version_) return;
        version_ = finder.version();
        delivered.push_back({finder.history().op_count(), finder.steady()->ops.size()});
    }
    struct Delivery {
        std::uint64_t at = 0, period = 0;
    };
    std::vector<Delivery> delivered;
    IterationFinder finder{1 << 15};

  private:
    std::uint64_t version_ = 0;
};

using Program = SimulatedProgram<Watched>;

constexpr std::int64_t kMiB = 1 << 20;

struct Found {
    std::uint64_t period = 0;           // of the iteration that is to be found
    std::uint64_t begin = 0;            // the op at which the loop began
    std::set<std::uint64_t> also = {};  // loops within it that may be delivered before it is complete
    std::uint64_t within = 0;           // ops from `begin`; 0: three periods, but at least 40 ops
};

struct Shape {
    std::string name;
    std::function<Found(Program&)> run;
};

std::vector<BufferId> buffers(Program& p, int count, std::int64_t bytes = 4 * kMiB) {
    std::vector<BufferId> made;
    for (int i = 0; i < count; ++i) {
        made.push_back(p.allocate(bytes, 40));
        p.op(OpKind::memset, 0, static_cast<std::uint32_t>(bytes), {made.back()});
    }
    return made;
}

// `body(step)` so many times; the period is that of `steps_per_period` steps.
Found loop(Program& p, int steps, int steps_per_period, const std::function<void(int)>& body) {
    Found found;
    found.begin = p.ops();
    for (int s = 0; s < steps; ++s) {
        body(s);
        if (s + 1 == steps_per_period) found.period = p.ops() - found.begin;
    }
    return found;
}

// Steps of `kernels` launches, each on the next of `turns` resident batches.
Found batches(Program& p, int turns, int kernels, bool alike) {
    const auto x = buffers(p, 1), y = buffers(p, turns);
    return loop(p, 5 * turns + 20, turns, [&](int s) {
        for (int k = 0; k < kernels; ++k)
            p.kernel(kForward, static_cast<std::uint32_t>(alike ? 0 : k), {x[0], y[s % turns]});
    });
}

Found chain(Program& p, int length, std::int64_t bytes) {
    const auto x = buffers(p, length, bytes);
    return loop(p, 6 + 40 / length, 1, [&](int) {
        for (int k = 0; k < length; ++k) p.kernel(kForward, 3, {x[(k + 1) % length], x[k]});
    });
}

// A network's step on resident batches in turn; activations come and go.
Found resident_batches(Program& p, int turns, int layers) {
    const auto net = p.make_network(layers, 4 * kMiB, true, false);
    const auto x = buffers(p, turns, 8 * kMiB);
    return loop(p, 4 * turns, turns, [&](int s) {
        auto a = p.forward(net, x[s % turns], 8, true);
        p.update(net, p.backward(net, x[s % turns], a, 8));
    });
}

std::vector<Shape> zoo() {
    std::vector<Shape> shapes;
    const auto add = [&](std::string name, std::function<Found(Program&)> run) {
        shapes.push_back({std::move(name), std::move(run)});
    };
    for (const int turns : {1, 2, 3, 5, 6, 7, 8, 12, 20, 64})
        add("ring of " + std::to_string(turns) + ", a launch each",
            [=](Program& p) { return batches(p, turns, 1, true); });
    for (const int turns : {5, 8, 20, 64})
        add("ring of " + std::to_string(turns) + ", five kernels each",
            [=](Program& p) { return batches(p, turns, 5, false); });
    for (const int kernels : {4, 32, 200})
        for (const int turns : {4, 8})
            add("ring of " + std::to_string(turns) + ", " + std::to_string(kernels) + " equal launches each",
                [=](Program& p) {
                    Found found = batches(p, turns, kernels, true);
                    found.also = {1};
                    return found;
                });
    add("ring of 8, nine equal launches and one the other way round", [](Program& p) {
        const auto x = buffers(p, 1), y = buffers(p, 8);
        return loop(p, 80, 8, [&](int s) {
            for (int k = 0; k < 9; ++k) p.kernel(kForward, 1, {x[0], y[s % 8]});
            p.kernel(kForward, 1, {y[s % 8], x[0]});
        });
    });
    for (const int length : {2, 5, 8, 40})
        add("chain of " + std::to_string(length) + " equal layers",
            [=](Program& p) { return chain(p, length, 4 * kMiB); });
    add("chain of 40 equal layers, small buffers", [](Program& p) { return chain(p, 40, 900'000); });
    for (const int turns : {5, 8, 20})
        add("a network on " + std::to_string(turns) + " resident batches",
            [=](Program& p) { return resident_batches(p, turns, 6); });
    add("two rings of 3 and 4 in one launch", [](Program& p) {
        const auto a = buffers(p, 3), b = buffers(p, 4);
        return loop(p, 48, 12, [&](int s) { p.kernel(kForward, 1, {a[s % 3], b[s % 4]}); });
    });
    add("two rings of 5 and 7 far apart in a step", [](Program& p) {
        const auto a = buffers(p, 5), b = buffers(p, 7), w = buffers(p, 10);
        return loop(p, 105, 35, [&](int s) {
            p.kernel(kForward, 1, {a[s % 5], w[0]});
            for (std::uint32_t k = 0; k < 9; ++k) p.kernel(kBackward, k, {w[k], w[k + 1]});
            p.kernel(kUpdate, 1, {b[s % 7], w[0]});
        });
    });
    add("sweeps there and back", [](Program& p) {
        const auto x = buffers(p, 9);
        return loop(p, 8, 1, [&](int) {
            for (int k = 0; k < 8; ++k) p.kernel(kForward, 1, {x[k], x[k + 1]});
            for (int k = 8; k > 0; --k) p.kernel(kBackward, 1, {x[k], x[k - 1]});
        });
    });
    add("ping-pong, an exchange every step", [](Program& p) {
        const auto x = buffers(p, 2), e = buffers(p, 1);
        return loop(p, 40, 2, [&](int s) {
            p.kernel(kForward, 1, {x[s % 2], x[1 - s % 2]});
            p.kernel(kUpdate, 1, {x[1 - s % 2], e[0]});
        });
    });
    add("three time levels in turn", [](Program& p) {
        const auto u = buffers(p, 3);
        return loop(p, 60, 3, [&](int s) {
            p.kernel(kForward, 1, {u[s % 3], u[(s + 1) % 3], u[(s + 2) % 3]});
        });
    });
    add("inner solver of 20 equal sweeps, then one update", [](Program& p) {
        const auto x = buffers(p, 2), f = buffers(p, 3);
        Found found = loop(p, 8, 1, [&](int) {
            for (int k = 0; k < 20; ++k) p.kernel(kForward, 1, {x[k % 2], x[1 - k % 2]});
            for (std::uint32_t k = 0; k < 3; ++k) p.kernel(kUpdate, k, {x[0], f[k]});
        });
        found.also = {2};
        return found;
    });
    add("eight problems in turn, 12 sweeps on each", [](Program& p) {
        const auto x = buffers(p, 16);
        Found found = loop(p, 32, 8, [&](int s) {
            for (int k = 0; k < 12; ++k)
                p.kernel(kForward, 1, {x[2 * (s % 8) + k % 2], x[2 * (s % 8) + 1 - k % 2]});
        });
        found.also = {2};
        return found;
    });
    add("unrolled recurrent network, 30 steps in time", [](Program& p) {
        const auto w = buffers(p, 2), h = buffers(p, 31), g = buffers(p, 2);
        return loop(p, 6, 1, [&](int) {
            for (int t = 0; t < 30; ++t) p.kernel(kForward, 1, {h[t], h[t + 1], w[0], w[1]});
            for (int t = 30; t > 0; --t) p.kernel(kBackward, 1, {h[t], h[t - 1], w[0], w[1], g[0], g[1]});
            for (int k = 0; k < 2; ++k) p.kernel(kUpdate, 1, {w[k], g[k]});
        });
    });
    add("gradient accumulation over eight resident batches", [](Program& p) {
        const auto net = p.make_network(5, 4 * kMiB, true, true);
        const auto x = buffers(p, 8, 8 * kMiB);
        return loop(p, 24, 8, [&](int s) {
            auto a = p.forward(net, x[s % 8], 8, true);
            p.backward(net, x[s % 8], a, 8);
            if (s % 4 == 3) p.update(net, net.gradient);
        });
    });
    add("evaluation on four resident batches after each epoch of six", [](Program& p) {
        const auto net = p.make_network(5, 4 * kMiB, true, false);
        const auto x = buffers(p, 6, 8 * kMiB), e = buffers(p, 4, 8 * kMiB);
        return loop(p, 5, 1, [&](int) {
            for (const BufferId b : x) {
                auto a = p.forward(net, b, 8, true);
                p.update(net, p.backward(net, b, a, 8));
            }
            for (const BufferId b : e) p.release(p.forward(net, b, 8, false)[0]);
        });
    });
    add("evaluation every 5 steps, input copied in", [](Program& p) {
        const auto net = p.make_network(24, 4 * kMiB, true, false);
        Found found;
        found.begin = p.ops();
        for (int s = 0; s < 20; ++s) {
            const std::uint64_t start = p.ops();
            p.step(net, 8);
            found.period = p.ops() - start;
            if (s % 5 == 4) p.evaluate(net, 16, 3);
        }
        return found;
    });
    add("epochs of 7 batches and a short one", [](Program& p) {
        const auto net = p.make_network(24, 4 * kMiB, true, false);
        Found found;
        found.begin = p.ops();
        for (int s = 0; s < 24; ++s) {
            const std::uint64_t start = p.ops();
            p.step(net, s % 8 == 7 ? 3 : 8);
            if (s % 8 != 7) found.period = p.ops() - start;
        }
        return found;
    });
    add("warm-up: ten steps with a kernel more", [](Program& p) {
        const auto net = p.make_network(24, 4 * kMiB, true, false);
        Found found;
        std::uint64_t warm = 0;
        for (int s = 0; s < 20; ++s) {
            const std::uint64_t start = p.ops();
            if (s == 10) found.begin = start;
            p.step(net, 8);
            if (s < 10) p.kernel(kAugment, 1, {net.weight[0]});
            (s < 10 ? warm : found.period) = p.ops() - start;
        }
        found.also = {warm};
        found.within = 9 * found.period;
        return found;
    });
    add("two models in turn on rings of 4 and 6", [](Program& p) {
        const auto one = p.make_network(4, 4 * kMiB, true, false),
                   two = p.make_network(6, 4 * kMiB, true, false);
        const auto x = buffers(p, 4, 8 * kMiB), z = buffers(p, 6, 2 * kMiB);
        return loop(p, 48, 12, [&](int s) {
            auto a = p.forward(one, x[s % 4], 8, true);
            p.update(one, p.backward(one, x[s % 4], a, 8));
            auto b = p.forward(two, z[s % 6], 2, true);
            p.update(two, p.backward(two, z[s % 6], b, 2));
        });
    });
    add("ring of 8, interrupted every 100 steps by something else each time", [](Program& p) {
        const auto x = buffers(p, 1), y = buffers(p, 8);
        return loop(p, 350, 8, [&](int s) {
            for (std::uint32_t k = 0; k < 3; ++k) p.kernel(kForward, k, {x[0], y[s % 8]});
            if (s % 100 == 99)
                for (int k = 0; k < 5; ++k) p.kernel(kAugment, static_cast<std::uint32_t>(s + k), {y[k]});
        });
    });
    add("marks on a ring of 20", [](Program& p) {
        const auto x = buffers(p, 1), y = buffers(p, 20);
        return loop(p, 100, 20, [&](int s) {
            for (std::uint32_t k = 0; k < 4; ++k) p.kernel(kForward, k, {x[0], y[s % 20]});
            p.mark();
        });
    });
    return shapes;
}

}  // namespace

TEST_CASE("the zoo of loops: each found within three periods, and nothing else") {
    const auto shapes = zoo();
    REQUIRE(shapes.size() >= 30);
    for (const Shape& shape : shapes) {
        Watched watched;
        Program program(watched);
        Found found = shape.run(program);
        if (found.within == 0) found.within = std::max<std::uint64_t>(3 * found.period, 40);
        std::string told = shape.name + ": period " + std::to_string(found.period) + " from op " +
                           std::to_string(found.begin) + "; delivered";
        std::uint64_t first = 0;
        for (const auto& [at, period] : watched.delivered) {
            told += " " + std::to_string(period) + " at " + std::to_string(at) + ";";
            if (period == found.period && first == 0) first = at;
        }
        CAPTURE(told);
        CHECK(first != 0);
        CHECK(first <= found.begin + found.within);
        for (const auto& [at, period] : watched.delivered)
            CHECK((period == found.period || found.also.count(period) != 0));
        REQUIRE(watched.finder.steady() != nullptr);
        CHECK(watched.finder.steady()->ops.size() == found.period);
    }
}

TEST_CASE("no period in what does not repeat") {
    const std::string kind =
        GENERATE(as<std::string>{}, "kernels and buffers at random", "order of batches at random",
                 "few kernels at random on one buffer", "sizes at random", "growing");
    const unsigned seed = GENERATE(1u, 2u, 3u);
    CAPTURE(kind, seed);
    Watched watched;
    Program p(watched);
    std::mt19937 random(seed);
    const auto x = buffers(p, 24);
    for (int i = 0; i < 20'000; ++i) {
        if (kind == "kernels and buffers at random") {
            p.kernel(random() % 4, 1, {x[random() % 24], x[random() % 24]});
        } else if (kind == "order of batches at random") {
            const BufferId batch = x[random() % 23];
            for (std::uint32_t k = 0; k < 3; ++k) p.kernel(kForward, k, {x[23], batch});
        } else if (kind == "few kernels at random on one buffer") {
            p.kernel(random() % 6, 1, {x[0]});
        } else if (kind == "sizes at random") {
            const BufferId made = p.allocate((2 + static_cast<std::int64_t>(random() % 500)) * kMiB, 1);
            for (std::uint32_t k = 0; k < 3; ++k) p.kernel(kForward, k, {x[0], made});
            p.release(made);
        } else if (i < 3000) {
            p.kernel(kForward, 1, {x[0], p.allocate(2 * kMiB, 1)});
        }
    }
    CHECK(watched.delivered.empty());
    // Why, in words.
    const std::string why = watched.finder.why_none([](std::uint64_t) { return "kernel"; });
    CAPTURE(why);
    if (kind == "order of batches at random")
        CHECK(why ==
              "every 3 operations the same work comes again, but on buffers in no fixed order, as in kernel");
    else if (kind == "sizes at random" || kind == "growing")
        CHECK(why.find("differ each time") != std::string::npos);
    else
        CHECK(!why.empty());
    if (!watched.delivered.empty()) CHECK(watched.delivered.front().period == 0);
}
