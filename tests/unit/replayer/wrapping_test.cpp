// Lifetimes that cross the boundary of the iteration, under a plan.
#include <catch2/catch.hpp>

#include "training.h"

using namespace swapadvisor;
using namespace swapadvisor::fake;

namespace {

enum class Loading { end_of_step_before, one_step_ahead };

/// A training loop whose input of the next step is there before the step of the last one is over.
class Loop {
  public:
    Loop(Program& program, Loading loading) : p_(program), loading_(loading) {
        for (int l = 0; l < kLayers; ++l) {
            weights_.push_back(allocate(2));
            must(p_.kernel(1, {}, {weights_.back()}));
        }
        input_ = load();
    }
    void step() {
        int next = -1;
        if (loading_ == Loading::one_step_ahead) next = load();
        std::vector<int> acts{input_};
        for (int l = 0; l < kLayers; ++l) {
            const int y = allocate(4);
            must(p_.kernel(20 + layer(l), {acts.back(), weight(l)}, {y}));
            acts.push_back(y);
        }
        const int g = allocate(4);
        must(p_.kernel(40, {acts.back()}, {g}));
        for (int l = kLayers - 1; l >= 0; --l) {
            must(p_.kernel(50 + layer(l), {acts[static_cast<std::size_t>(l)]}, {g, weight(l)}));
            p_.free(acts.back());
            acts.pop_back();
        }
        wrong += p_.check(input_);  // read back by the program: a use like any other
        p_.free(input_);
        if (loading_ == Loading::end_of_step_before) next = load();
        must(p_.kernel(60, {}, {g}));
        p_.free(g);
        input_ = next;
    }
    int wrong = 0;

  private:
    static constexpr int kLayers = 6;
    static std::uint64_t layer(int l) { return static_cast<std::uint64_t>(l); }
    static void must(CUresult result) { REQUIRE(result == CUDA_SUCCESS); }
    int weight(int l) const { return weights_[static_cast<std::size_t>(l)]; }
    int allocate(std::uint64_t pages) {
        const int index = p_.allocate(pages * kPage);
        REQUIRE(index >= 0);
        return index;
    }
    int load() {
        const int x = allocate(6);
        must(p_.kernel(10, {}, {x}));
        return x;
    }
    Program& p_;
    Loading loading_;
    std::vector<int> weights_;
    int input_ = -1;
};

}  // namespace

TEST_CASE("inputs that live across the boundary of the iteration are followed by a plan") {
    for (const Loading loading : {Loading::end_of_step_before, Loading::one_step_ahead})
        for (double laziness : {0.0, 0.6, 1.0})
            for (std::uint64_t pages : {26u, 32u}) {
                CAPTURE(static_cast<int>(loading), laziness, pages);
                reset(pages, laziness);
                Timeline timeline(api());
                CUresult result;
                auto residency = Residency::create(api(), timeline, context(), 0, options(pages), result);
                FollowingManager manager(*residency);
                Program program(*residency, manager, 1);
                Loop loop(program, loading);
                for (int i = 0; i < 24; ++i) loop.step();
                CAPTURE(manager.changes, manager.problems);
                CHECK(manager.steering.planned());
                const Calls before = calls();
                const std::uint64_t demand = residency->counts().demand_ins;
                for (int i = 0; i < 10; ++i) loop.step();
                CHECK(manager.steering.planned());
                CHECK(manager.steering.counts().divergences == 0);
                CHECK(calls().mapping() == before.mapping());
                CHECK(residency->counts().demand_ins == demand);
                // One iteration of the loop that loads ahead is two steps: each of the two inputs that live
                // at once has a binding of its own.
                CHECK(manager.steering.counts().ops_per_iteration ==
                      (loading == Loading::one_step_ahead ? 2u : 1u) * 16u);
                CHECK(loop.wrong + program.check_all() == 0);
                for (const std::string& e : errors()) FAIL_CHECK(e);
                drain();
            }
}
