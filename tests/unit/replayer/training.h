// Training programs on the fake driver, and the manager that records, plans and follows them as the runtime
// does, but in one thread: plans are made at once when the recorder has found an iteration.
#pragma once

#include <map>
#include <string>

#include "planner/planner.h"
#include "program.h"
#include "recorder/export.h"
#include "recorder/recorder.h"
#include "recorder/signature.h"
#include "replayer/plan_switch.h"

namespace swapadvisor::fake {

struct FollowingManager : Manager {
    explicit FollowingManager(Residency& r)
        : residency(r),
          steering(r),
          recorder(Recorder::Options{.trace_path = "", .program = "test", .synchronous = true}) {
        steering.on_change = [this](bool planned, const std::string& line) {
            changes.push_back((planned ? "+" : "-") + line);
        };
        steering.on_no_room = [this](std::uint64_t signature) { outgrown = signature; };
    }
    CUresult allocate(std::uint64_t bytes, Buffer*& buffer) override {
        const BufferId id = ++ids;
        CUresult result = residency.allocate(bytes, id, buffer, steering.expect(bytes));
        if (result != CUDA_SUCCESS) return result;
        steering.allocated(*buffer);
        recorder.allocate(id, static_cast<std::int64_t>(bytes), buffer->small, 0, nullptr);
        return result;
    }
    void release(Buffer& buffer) override {
        recorder.release(buffer.id);
        steering.releasing(buffer);
        residency.release(buffer);
        steering.released();
    }
    CUresult begin(std::uint64_t function, const BufferUse* uses, std::size_t count, QueueId queue) override {
        std::vector<BufferUse> all(uses, uses + count);
        std::vector<Touch> touches;
        for (const BufferUse& use : all) touches.push_back({use.buffer->id, use.access});
        OpView view;
        view.function = function;
        view.stream = residency.timeline().stream(queue);
        view.touches = touches.data();
        view.touch_count = static_cast<std::uint32_t>(touches.size());
        std::size_t next = 0;
        const std::uint64_t key = match_key(view, [&](BufferId) {
            const Buffer& b = *all[next++].buffer;
            return BufferShape{static_cast<std::int64_t>(b.bytes), b.small};
        });
        for (BufferUse& use : all) use.believed_read = false;
        steering.before_op(key, seq, all);
        steering.believe(all);
        const CUresult result = residency.begin(all.data(), count, queue);
        if (result != CUDA_SUCCESS) return result;
        seq = recorder.op(view) + 1;
        for (std::size_t i = 0; i < count && contents != Contents::untold; ++i)
            if (uses[i].access == Access::read_write)
                recorder.content(seq - 1, static_cast<std::uint32_t>(i),
                                 contents == Contents::told && !uses[i].believed_read);
        recorder.op_duration(seq - 1, 10'000 + static_cast<std::int64_t>(function % 7) * 1000);
        return result;
    }
    void end(const BufferUse* uses, std::size_t count, QueueId queue) override {
        const Mark mark = residency.timeline().issued(queue);
        residency.end(uses, count, mark);
        if (planning && recorder.version() != version) {
            version = recorder.version();
            plan();
        }
        if (outgrown != 0) {
            reserve += 2 * static_cast<std::int64_t>(kPage);
            auto script = scripts[outgrown];
            outgrown = 0;
            if (auto made = make(script, "fast", room())) steering.offer(made);
        }
        if (steering.after_op(mark)) ++boundaries;
        if (on_op) on_op();
    }
    std::int64_t room() const {
        return static_cast<std::int64_t>(residency.memory().limit_pages() * kPage -
                                         residency.arena().held_bytes()) -
               reserve;
    }
    void plan(const char* name = "fast", int gain = 3) {
        auto steady = recorder.steady_with_durations();
        if (!steady || steering.knows(steady->signature)) return;
        std::int64_t bytes = 0;
        for (const TensorRecord& t : steady->tensors)
            if (!t.small) bytes += t.bytes;
        if (bytes <= room()) return;
        auto script = std::make_shared<IterationScript>(steady);
        scripts[steady->signature] = script;
        steering.know(script);
        if (!making) return;
        if (auto made = make(script, name, room())) steering.offer(made, gain);
    }
    std::shared_ptr<const PlanScript> make(std::shared_ptr<const IterationScript> script,
                                           const std::string& name, std::int64_t room_bytes) {
        // Small tensors have bytes of their own in the graph: leave them to the plan's arena only in the
        // runtime's way.
        Iteration part = script->iteration();
        std::vector<std::int32_t> names_of, fresh(part.tensors.size(), -1);
        std::vector<TensorRecord> kept;
        for (std::size_t t = 0; t < part.tensors.size(); ++t)
            if (script->takes_part(static_cast<std::int32_t>(t)) &&
                !script->users(static_cast<std::int32_t>(t)).empty()) {
                fresh[t] = static_cast<std::int32_t>(names_of.size());
                names_of.push_back(static_cast<std::int32_t>(t));
                kept.push_back(part.tensors[t]);
            }
        part.tensors = kept;
        for (OpRecord& op : part.ops) {
            std::erase_if(op.uses, [&](const OpRecord::Use& u) {
                return fresh[static_cast<std::size_t>(u.tensor)] < 0;
            });
            for (OpRecord::Use& u : op.uses) u.tensor = fresh[static_cast<std::size_t>(u.tensor)];
        }
        std::erase_if(part.events, [&](const IterationEvent& e) {
            return e.kind != EventKind::op && fresh[static_cast<std::size_t>(e.index)] < 0;
        });
        for (IterationEvent& e : part.events)
            if (e.kind != EventKind::op) e.index = fresh[static_cast<std::size_t>(e.index)];
        DeviceModel device{"fake", 1ll << 30, 1'000'000'000, 1'000'000'000, 1'500'000'000, 1000};
        GraphNames names;
        names.graph = "test";
        planner::PlanOptions options;
        options.planner = name;
        options.limit_bytes = room_bytes;
        options.chunk_bytes = kPage;
        options.arena_below_bytes = 0;
        options.seconds = 0.2;
        options.threads = 1;
        options.reorder = false;
        options.no_remaps = true;
        try {
            planner::Plan plan =
                planner::make_plan(planner::parse_graph(graph_json(part, device, names)), options);
            auto map = [&](planner::TensorId& t) { t = names_of[static_cast<std::size_t>(t)]; };
            for (auto& t : plan.arena) map(t);
            for (auto& i : plan.initial) map(i.tensor);
            for (auto& a : plan.actions) map(a.tensor);
            std::string error;
            auto result = PlanScript::create(script, plan, error);
            if (!result) problems.push_back(error);
            return result;
        } catch (const planner::PlanError& e) {
            problems.push_back(e.what());
            return nullptr;
        }
    }

    Residency& residency;
    PlanSwitch steering;
    Recorder recorder;
    BufferId ids = 0;
    std::uint64_t seq = 0, version = 0, boundaries = 0;
    std::uint64_t outgrown = 0;  ///< signature of an iteration whose plan left too little room
    std::int64_t reserve = 0;    ///< bytes that plans must leave
    bool planning = true;
    bool making = true;  ///< false: iterations get known, plans are not made
    /// What the recorder hears of what kernels leave unchanged: the truth, or that nothing ever changes.
    enum class Contents { untold, told, lied } contents = Contents::untold;
    std::function<void()> on_op;
    std::vector<std::string> changes, problems;
    std::map<std::uint64_t, std::shared_ptr<const IterationScript>> scripts;
};

/// A layered network that is trained step by step and allocates like an eager framework.
class Training {
  public:
    struct Shape {
        int layers = 6;
        std::uint64_t weight_pages = 2, activation_pages = 4;
        int streams = 1;
        bool late_free = false;  ///< frees activations at the end of the step, not at their last use
    };
    Training(Program& program, Shape shape) : p_(program), shape_(shape) {
        for (int l = 0; l < shape_.layers; ++l) {
            weights_.push_back(must(p_.allocate(shape_.weight_pages * kPage)));
            moments_.push_back(must(p_.allocate(shape_.weight_pages * kPage)));
            must(p_.kernel(1, {}, {weights_.back()}));
            must(p_.kernel(2, {}, {moments_.back()}));
        }
    }
    /// `fault`: leave the step after so many ops (an exception in the program), freeing what it holds.
    void step(std::uint64_t batch, std::uint64_t scale = 1, int fault = 1 << 30,
              std::uint64_t foreign_every = 0) {
        int ops = 0;
        std::vector<int> acts;
        std::vector<int> garbage;
        auto finish = [&](int b) {
            if (shape_.late_free)
                garbage.push_back(b);
            else
                p_.free(b);
        };
        auto op = [&](std::uint64_t f, std::vector<int> r, std::vector<int> w, int stream = 0) {
            must(p_.kernel(f, r, w, stream % shape_.streams));
            ++ops;
            if (foreign_every != 0 && p_.ops % foreign_every == 0)
                must(p_.kernel(999, {weights_[0]}, {moments_.back()}));
        };
        auto leave = [&] {
            for (int a : acts) p_.free(a);
            for (int g : garbage) p_.free(g);
        };
        int x = must(p_.allocate(shape_.activation_pages * kPage * scale));
        acts.push_back(x);
        op(10 + batch % 2 * 0, {}, {x}, 1);
        for (int l = 0; l < shape_.layers; ++l) {
            int y = must(p_.allocate(shape_.activation_pages * kPage * scale +
                                     static_cast<std::uint64_t>(l % 3) * kPage));
            acts.push_back(y);
            op(20 + static_cast<std::uint64_t>(l),
               {acts[acts.size() - 2], weights_[static_cast<std::size_t>(l)]}, {y}, l % 2 ? 0 : 1);
            if (ops >= fault) return leave();
        }
        int g = must(p_.allocate(shape_.activation_pages * kPage * scale));
        op(40, {acts.back()}, {g});
        for (int l = shape_.layers - 1; l >= 0; --l) {
            int w = must(p_.allocate(shape_.weight_pages * kPage));
            op(50 + static_cast<std::uint64_t>(l), {g, acts[static_cast<std::size_t>(l)]}, {w});
            finish(acts.back());
            acts.pop_back();
            op(70 + static_cast<std::uint64_t>(l), {w},
               {weights_[static_cast<std::size_t>(l)], moments_[static_cast<std::size_t>(l)]});
            finish(w);
            op(90 + static_cast<std::uint64_t>(l), {weights_[static_cast<std::size_t>(l)]}, {g});
            if (ops >= fault) {
                finish(g);
                return leave();
            }
        }
        finish(g);
        leave();
    }
    void evaluate() {
        int a = must(p_.allocate(shape_.activation_pages * kPage * 2));
        must(p_.kernel(200, {}, {a}));
        for (int l = 0; l < shape_.layers; ++l) {
            int b = must(p_.allocate(shape_.activation_pages * kPage * 2));
            must(p_.kernel(210, {a, weights_[static_cast<std::size_t>(l)]}, {b}));
            p_.free(a);
            a = b;
        }
        wrong += p_.check(a);
        p_.free(a);
    }
    int wrong = 0;
    const std::vector<int>& weights() const { return weights_; }
    const std::vector<int>& moments() const { return moments_; }

  private:
    static int must(int index) {
        if (index < 0) throw std::runtime_error("allocation failed");
        return index;
    }
    static void must(CUresult result) {
        if (result != CUDA_SUCCESS) throw std::runtime_error("op failed: " + std::to_string(result));
    }
    Program& p_;
    Shape shape_;
    std::vector<int> weights_, moments_;
};

/// A training loop over a residency and the manager that follows it.
struct FollowingWorld {
    FollowingWorld(std::uint64_t seed, double laziness, std::uint64_t pages, Training::Shape shape) {
        reset(seed, laziness);
        timeline = std::make_unique<Timeline>(api());
        CUresult result;
        residency = Residency::create(api(), *timeline, context(), 0, options(pages), result);
        manager = std::make_unique<FollowingManager>(*residency);
        program = std::make_unique<Program>(*residency, *manager, shape.streams);
        training = std::make_unique<Training>(*program, shape);
    }
    void finish() {
        CHECK(training->wrong + program->check_all() == 0);
        for (const std::string& e : errors()) FAIL_CHECK(e);
        for (const std::string& e : manager->problems) UNSCOPED_INFO(e);
        drain();
        for (const std::string& e : errors()) FAIL_CHECK(e);
        CHECK(residency->memory().used_pages() <= residency->memory().limit_pages());
    }
    std::unique_ptr<Timeline> timeline;
    std::unique_ptr<Residency> residency;
    std::unique_ptr<FollowingManager> manager;
    std::unique_ptr<Program> program;
    std::unique_ptr<Training> training;
};

}  // namespace swapadvisor::fake
