// The finder on every habit of training loops, with the exact period and boundary.
#include "recorder/iteration_finder.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>

#include "tests/unit/recorder/simulated_program.h"

using namespace swapadvisor;
using namespace swapadvisor::test;

namespace {

struct Fixture {
    IterationFinder finder{1 << 14};
    SimulatedProgram<IterationFinder> program{finder};

    // A loop of steps; returns the op at which each began.
    template <class Body>
    std::vector<std::uint64_t> repeat(int times, Body&& body) {
        std::vector<std::uint64_t> starts;
        for (int i = 0; i < times; ++i) {
            starts.push_back(program.ops());
            body(i);
        }
        starts.push_back(program.ops());
        return starts;
    }

    void check(std::uint64_t period, std::uint64_t some_start) const {
        REQUIRE(finder.steady() != nullptr);
        const Iteration& it = *finder.steady();
        CHECK(it.ops.size() == period);
        CHECK((it.first_seq + 1000 * period - some_start) % period == 0);
    }
};

int count_events(const Iteration& it, EventKind kind) {
    int n = 0;
    for (const IterationEvent& e : it.events) n += e.kind == kind;
    return n;
}

// Every tensor is used only while it lives, in cyclic event order.
void check_lives(const Iteration& it) {
    std::vector<bool> alive(it.tensors.size());
    for (std::size_t t = 0; t < it.tensors.size(); ++t) {
        const TensorRecord& r = it.tensors[t];
        alive[t] = r.persistent || (r.death_event >= 0 && r.death_event < r.birth_event);
    }
    const auto before = alive;
    for (const IterationEvent& e : it.events) {
        if (e.kind == EventKind::allocate) {
            CHECK_FALSE(alive[e.index]);
            alive[e.index] = true;
        } else if (e.kind == EventKind::release) {
            CHECK(alive[e.index]);
            alive[e.index] = false;
        } else {
            for (const OpRecord::Use& use : it.ops[e.index].uses) CHECK(alive[use.tensor]);
        }
    }
    // Small ones may be a few more or fewer each time.
    for (std::size_t t = 0; t < it.tensors.size(); ++t)
        if (!it.tensors[t].small) {
            CAPTURE(t, it.tensors[t].bytes, it.tensors[t].persistent, it.tensors[t].birth_event,
                    it.tensors[t].death_event, it.events.size(), it.tensors.size());
            CHECK(alive[t] == before[t]);
        }
}

}  // namespace

TEST_CASE_METHOD(Fixture, "a plain loop over equal layers: found after two steps, not a layer") {
    const auto net = program.make_network(24, 4 << 20, true, false);
    const auto starts = repeat(2, [&](int) { program.step(net, 8); });
    const std::uint64_t period = starts[1] - starts[0];
    REQUIRE(period == 1 + 24 + 1 + 24 + 24);
    check(period, starts[0]);
    CHECK(finder.version() == 1);
    const Iteration& it = *finder.steady();
    CHECK(count_events(it, EventKind::allocate) == count_events(it, EventKind::release));
    int persistent = 0;
    for (const TensorRecord& t : it.tensors) persistent += t.persistent;
    CHECK(persistent == 48);
    check_lives(it);
    program.step(net, 8);
    CHECK(finder.instances() == 3);
    CHECK(finder.version() == 1);
}

TEST_CASE_METHOD(Fixture, "a short loop needs three steps") {
    const auto net = program.make_network(3, 4 << 20, false, false);
    auto starts = repeat(2, [&](int) { program.step(net, 8); });
    CHECK(finder.steady() == nullptr);
    program.step(net, 8);
    check(starts[1] - starts[0], starts[0]);
}

TEST_CASE_METHOD(Fixture, "the first step differs") {
    auto net = program.make_network(24, 4 << 20, false, false);
    const auto starts = repeat(5, [&](int i) {
        const BufferId input = program.load_input(8);
        if (i == 0) program.kernel(kInit, 7, {input});
        auto activations = program.forward(net, input, 8, true);
        const auto gradients = program.backward(net, input, activations, 8);
        if (i == 0)
            for (std::size_t l = 0; l < 24; ++l) {
                net.momentum.push_back(program.allocate(4 << 20, 11));
                program.op(OpKind::memset, 0, 4 << 20, {net.momentum.back()});
            }
        program.update(net, gradients);
        program.release(input);
    });
    check(starts[2] - starts[1], starts[1]);
    check_lives(*finder.steady());
}

TEST_CASE_METHOD(Fixture, "evaluation every k steps is an interruption, not part of the iteration") {
    const int k = GENERATE(2, 3, 5, 10);
    const int batches = GENERATE(1, 4, 20);
    const int layers = GENERATE(3, 24);
    CAPTURE(k, batches, layers);
    const auto net = program.make_network(layers, 4 << 20, true, false);
    std::uint64_t period = 0, start = 0;
    for (int epoch = 0; epoch < 6; ++epoch) {
        for (int s = 0; s < k; ++s) {
            start = program.ops();
            program.step(net, 8);
            period = program.ops() - start;
        }
        if (epoch < 5) program.evaluate(net, 16, batches);
    }
    check(period, start);
    check_lives(*finder.steady());
}

TEST_CASE_METHOD(Fixture, "gradient accumulation: the period is the micro-steps and their update") {
    const int micro_steps = GENERATE(2, 4, 8);
    const bool persistent_gradients = GENERATE(true, false);
    const int layers = GENERATE(3, 24);
    CAPTURE(micro_steps, persistent_gradients, layers);
    auto net = program.make_network(layers, 4 << 20, true, persistent_gradients);
    const auto starts = repeat(6, [&](int) {
        for (int m = 0; m < micro_steps; ++m) {
            const BufferId input = program.load_input(8);
            auto activations = program.forward(net, input, 8, true);
            net.gradient = program.backward(net, input, activations, 8);
            program.release(input);
        }
        const auto gradients = net.gradient;
        if (!persistent_gradients) net.gradient.clear();
        program.update(net, gradients);
    });
    check(starts[1] - starts[0], starts[0]);
    check_lives(*finder.steady());
}

TEST_CASE_METHOD(Fixture, "two networks taking turns are one iteration") {
    const auto critic = program.make_network(10, 4 << 20, true, false);
    const auto generator = program.make_network(16, 4 << 20, true, false);
    const int critic_steps = GENERATE(1, 5);
    CAPTURE(critic_steps);
    const auto starts = repeat(8, [&](int) {
        for (int c = 0; c < critic_steps; ++c) program.step(critic, 8);
        // Through the generator, then through the frozen critic, and back.
        const BufferId noise = program.load_input(2);
        auto a = program.forward(generator, noise, 8, true);
        auto b = program.forward(critic, a.back(), 8, true);
        auto frozen = program.backward(critic, a.back(), b, 8);
        for (const BufferId g : frozen) program.release(g);
        const auto gradients = program.backward(generator, noise, a, 8);
        program.update(generator, gradients);
        program.release(noise);
    });
    check(starts[1] - starts[0], starts[0]);
    check_lives(*finder.steady());
}

TEST_CASE_METHOD(Fixture, "a short last batch interrupts") {
    const auto net = program.make_network(12, 4 << 20, true, false);
    std::uint64_t start = 0, period = 0;
    for (int epoch = 0; epoch < 5; ++epoch) {
        for (int s = 0; s < 7; ++s) {
            start = program.ops();
            program.step(net, 8);
            period = program.ops() - start;
        }
        program.step(net, 3);
    }
    check(period, start);
    CHECK(finder.steady()->tensors.size() > 24);
    check_lives(*finder.steady());
}

TEST_CASE_METHOD(Fixture, "two sizes of input alternating form one period") {
    const auto net = program.make_network(12, 4 << 20, true, false);
    const auto starts = repeat(8, [&](int i) { program.step(net, i % 2 ? 8 : 5); });
    check(starts[2] - starts[0], starts[0]);
    check_lives(*finder.steady());
}

TEST_CASE_METHOD(Fixture, "everything persistent, buffers that swap roles: twice the token period") {
    const BufferId a = program.allocate(64 << 20, 1), b = program.allocate(64 << 20, 2);
    const auto starts = repeat(60, [&](int i) {
        program.kernel(kForward, 3, i % 2 ? std::vector{b, a} : std::vector{a, b});
        program.kernel(kLoss, 3, {i % 2 ? a : b});
    });
    check(starts[2] - starts[0], starts[0]);
    CHECK(finder.steady()->tensors.size() == 2);
}

TEST_CASE_METHOD(Fixture,
                 "input prefetched one step ahead: two copies live at once, so two steps are one period") {
    const auto net = program.make_network(20, 4 << 20, true, false);
    BufferId next = program.load_input(8);
    const auto starts = repeat(6, [&](int) {
        const BufferId input = next;
        next = program.load_input(8);
        auto activations = program.forward(net, input, 8, true);
        const auto gradients = program.backward(net, input, activations, 8);
        program.update(net, gradients);
        program.release(input);
    });
    check(2 * (starts[1] - starts[0]), starts[0]);
    check_lives(*finder.steady());
}

TEST_CASE_METHOD(Fixture, "input loaded at the end of the step before: its life wraps the boundary") {
    const auto net = program.make_network(20, 4 << 20, true, false);
    BufferId input = program.load_input(8);
    std::uint64_t period = 0;
    for (int i = 0; i < 4; ++i) {
        const std::uint64_t start = program.ops();
        auto activations = program.forward(net, input, 8, true);
        const auto gradients = program.backward(net, input, activations, 8);
        program.release(input);
        input = program.load_input(8);
        program.update(net, gradients);
        period = program.ops() - start;
        program.mark();
    }
    REQUIRE(finder.steady() != nullptr);
    const Iteration& it = *finder.steady();
    CHECK(it.ops.size() == period);
    check_lives(it);
    int wrapped = 0;
    for (const TensorRecord& t : it.tensors) wrapped += t.birth_event >= 0 && t.death_event < t.birth_event;
    CHECK(wrapped == 1);
}

TEST_CASE_METHOD(Fixture, "marks override: the boundary is where they say") {
    const auto net = program.make_network(24, 4 << 20, true, false);
    std::uint64_t marked_at = 0, period = 0;
    for (int i = 0; i < 4; ++i) {
        const std::uint64_t start = program.ops();
        const BufferId input = program.load_input(8);
        auto activations = program.forward(net, input, 8, true);
        marked_at = program.ops();
        program.mark();  // in the middle: an odd place, but the program's word
        const auto gradients = program.backward(net, input, activations, 8);
        program.update(net, gradients);
        program.release(input);
        period = program.ops() - start;
    }
    check(period, marked_at);
    CHECK(finder.steady()->marked);
    check_lives(*finder.steady());
    int wrapped = 0;
    for (const TensorRecord& t : finder.steady()->tensors)
        wrapped += t.birth_event >= 0 && t.death_event < t.birth_event;
    CHECK(wrapped == 1 + 24);
}

TEST_CASE_METHOD(Fixture, "marked sections of two kinds") {
    const auto net = program.make_network(24, 4 << 20, true, false);
    const auto starts = repeat(8, [&](int i) {
        program.step(net, i % 2 ? 8 : 5);
        program.mark();
    });
    REQUIRE(finder.steady() != nullptr);
    CHECK(finder.steady()->marked);
    CHECK(finder.steady()->ops.size() == starts[2] - starts[0]);
}

TEST_CASE_METHOD(Fixture,
                 "after an interruption the same iteration is given anew, in another loop a new one") {
    const auto net = program.make_network(24, 4 << 20, true, false);
    repeat(4, [&](int) { program.step(net, 8); });
    REQUIRE(finder.version() == 1);
    const std::uint64_t signature = finder.steady()->signature;
    program.evaluate(net, 16, 3);
    repeat(3, [&](int) { program.step(net, 8); });
    CHECK(finder.version() == 2);
    CHECK(finder.steady()->signature == signature);
    repeat(3, [&](int) { program.step(net, 16); });
    CHECK(finder.version() == 3);
    CHECK(finder.steady()->signature != signature);
}

TEST_CASE_METHOD(Fixture, "small allocations that come and go at random do not matter") {
    const auto net = program.make_network(24, 4 << 20, true, false);
    std::mt19937 random(1);
    std::vector<BufferId> litter;
    const auto starts = repeat(4, [&](int) {
        for (unsigned n = random() % 5; n > 0; --n) litter.push_back(program.allocate(1000, 99));
        program.step(net, 8);
        while (litter.size() > 3) {
            program.release(litter.front());
            litter.erase(litter.begin());
        }
    });
    check(starts[1] - starts[0], starts[0]);
}

TEST_CASE_METHOD(Fixture, "durations are medians over instances, and may come late") {
    const auto net = program.make_network(24, 4 << 20, true, false);
    const auto starts = repeat(3, [&](int) { program.step(net, 8); });
    const std::uint64_t period = starts[1] - starts[0];
    CHECK(finder.steady()->ops[5].duration_ns == 0);
    for (std::uint64_t s = starts[0]; s < program.ops(); ++s)
        finder.op_duration(
            s, static_cast<std::int64_t>(1000 + (s - starts[0]) % period + 100 * ((s - starts[0]) / period)));
    const auto timed = finder.with_durations();
    const std::uint64_t at = (timed->first_seq - starts[0]) % period;
    REQUIRE(at == 0);
    for (std::size_t j = 0; j < period; ++j)
        CHECK(timed->ops[j].duration_ns == static_cast<std::int64_t>(1100 + j));
}

TEST_CASE_METHOD(Fixture,
                 "durations are kept by kind of op: a loop that is met again untimed still knows them") {
    const auto net = program.make_network(24, 4 << 20, true, false);
    const auto starts = repeat(3, [&](int) { program.step(net, 8); });
    for (std::uint64_t s = starts[0]; s < program.ops(); ++s) finder.op_duration(s, 1000);
    repeat(4000, [&](int i) { program.kernel(kAugment, static_cast<std::uint32_t>(i), {net.weight[0]}); });
    repeat(300, [&](int) { program.step(net, 8); });
    const auto again = finder.with_durations();
    REQUIRE(again->ops.size() == starts[1] - starts[0]);
    CHECK(again->first_seq > starts.back() + 4000);
    for (const OpRecord& op : again->ops) CHECK(op.duration_ns == 1000);
}

TEST_CASE("random noise has no period, and memory stays bounded") {
    IterationFinder finder(1 << 12);
    SimulatedProgram<IterationFinder> program(finder);
    std::mt19937 random(7);
    std::vector<BufferId> live;
    for (int i = 0; i < 60000; ++i) {
        if (live.size() < 20 || random() % 2) live.push_back(program.allocate((1 + random() % 50) << 20, 1));
        program.kernel(random() % 40, random() % 8, {live[random() % live.size()], live.back()});
        if (live.size() > 20) {
            const std::size_t at = random() % live.size();
            program.release(live[at]);
            live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
        }
    }
    CHECK(finder.steady() == nullptr);
    CHECK(finder.history().buffers.size() < 40000);
    CHECK(finder.history().ops.end() - finder.history().ops.first() == (1 << 12));
}

TEST_CASE_METHOD(Fixture,
                 "weights that are all small: neither initialisation nor the update is the iteration") {
    // Three small buffers per parameter; large activations; an optimiser kernel over every parameter, four of
    // a kind.
    std::vector<std::array<BufferId, 3>> parameters;
    for (int p = 0; p < 40; ++p) {
        parameters.emplace_back();
        for (BufferId& b : parameters.back()) b = program.allocate(700 + 100 * (p % 4), 5);
        program.op(OpKind::memcpy_h2d, 0, 700, {parameters.back()[0]});
        for (int k = 1; k < 3; ++k) program.op(OpKind::memset, 0, 700, {parameters.back()[k]});
    }
    CHECK(finder.steady() == nullptr);
    BufferId next = program.allocate(32768, 6);
    program.op(OpKind::memcpy_h2d, 0, 32768, {next});
    const auto starts = repeat(4, [&](int) {
        const BufferId input = next;
        next = program.allocate(32768, 6);  // prefetched one step ahead
        program.op(OpKind::memcpy_h2d, 0, 32768, {next});
        std::vector<BufferId> x{input};
        for (const auto& p : parameters) {
            x.push_back(program.allocate(8 << 20, 7));
            program.kernel(kForward, 8, {x[x.size() - 2], p[0], x.back()});
        }
        std::vector<BufferId> gradients;
        for (std::size_t l = parameters.size(); l-- > 0;) {
            gradients.push_back(program.allocate(700 + 100 * static_cast<std::int64_t>(l % 4), 8));
            program.kernel(kBackward, 8, {x[l], x[l + 1], gradients.back()});
            program.release(x[l + 1]);
        }
        program.release(input);
        for (std::size_t l = 0; l < parameters.size(); ++l) {
            const auto& p = parameters[l];
            program.kernel(kUpdate, static_cast<std::uint32_t>(l % 4), {p[0], gradients[39 - l], p[1], p[2]});
        }
        for (const BufferId g : gradients) program.release(g);
    });
    check(starts[1] - starts[0], starts[0]);
    CHECK(finder.version() == 1);
}

namespace {

// The finder with what a real program does besides: small allocations that come and go at random between ops
// (host-side tensors of counters, workspaces of a library), never twice in the same way.
class NoisySink {
  public:
    NoisySink(IterationFinder& finder, unsigned seed) : finder_(finder), random_(seed) {}
    void allocate(BufferId id, std::int64_t bytes, bool small, std::uint64_t site) {
        finder_.allocate(id, bytes, small, site);
    }
    void release(BufferId id) { finder_.release(id); }
    void mark() { finder_.mark(); }
    void op(const OpView& view) {
        for (unsigned n = random_() % 3; n > 0; --n) {
            litter_.push_back(next_++);
            finder_.allocate(litter_.back(), 64 + random_() % 5000, true, 900 + random_() % 4);
        }
        while (litter_.size() > 20 || (!litter_.empty() && random_() % 3 == 0)) {
            const std::size_t at = random_() % litter_.size();
            finder_.release(litter_[at]);
            litter_.erase(litter_.begin() + static_cast<std::ptrdiff_t>(at));
        }
        finder_.op(view);
    }

  private:
    IterationFinder& finder_;
    std::mt19937 random_;
    std::vector<BufferId> litter_;
    BufferId next_ = BufferId{1} << 40;
};

}  // namespace

TEST_CASE("every habit of loops amid small allocations at random: the same exact period and boundary") {
    const std::string pattern =
        GENERATE(as<std::string>{}, "plain", "first step differs", "turns", "evaluation", "accumulation",
                 "short last batch", "two sizes", "marks");
    const unsigned seed = GENERATE(1u, 2u, 3u);
    CAPTURE(pattern, seed);
    IterationFinder finder(1 << 14);
    NoisySink sink(finder, seed);
    SimulatedProgram<NoisySink> program(sink);
    auto net = program.make_network(12, 4 << 20, true, false);
    const auto other = program.make_network(9, 3 << 20, true, false);
    std::vector<std::uint64_t> starts;  // of iterations
    for (int i = 0; i < 24; ++i) {
        if (pattern == "evaluation" && i > 0 && i % 3 == 0) program.evaluate(net, 16, 2);
        if (pattern == "short last batch" && i > 0 && i % 5 == 0) program.step(net, 3);
        starts.push_back(program.ops());
        if (pattern == "first step differs" && i == 0)
            for (const BufferId m : net.momentum) program.op(OpKind::memset, 0, 4 << 20, {m});
        if (pattern == "accumulation") {
            for (int m = 0; m < 4; ++m) {
                const BufferId input = program.load_input(8);
                auto activations = program.forward(net, input, 8, true);
                net.gradient = program.backward(net, input, activations, 8);
                program.release(input);
            }
            const auto gradients = net.gradient;
            net.gradient.clear();
            program.update(net, gradients);
        } else if (pattern == "two sizes") {
            program.step(net, 5);
            program.step(net, 8);
        } else {
            program.step(net, 8);
        }
        if (pattern == "turns") program.step(other, 6);
        if (pattern == "marks") program.mark();
    }
    // The last whole iteration with nothing before or after it that is not of the loop.
    const std::uint64_t period = program.ops() - starts.back();
    REQUIRE(finder.steady() != nullptr);
    const Iteration& it = *finder.steady();
    CHECK(it.ops.size() == period);
    const bool interrupted = pattern == "evaluation" || pattern == "short last batch";
    if (interrupted)
        CHECK(std::find(starts.begin(), starts.end(), it.first_seq) != starts.end());
    else
        CHECK((it.first_seq - starts[1]) % period == 0);
    CHECK(it.marked == (pattern == "marks"));
    CAPTURE(it.first_seq, starts[0], starts[1], starts[2], finder.version(), finder.instances(), period);
    check_lives(it);
}
