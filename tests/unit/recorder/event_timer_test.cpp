// Event pairs against a little driver of their own: time is a counter, events are done when the test says so.
#include "recorder/event_timer.h"

#include <catch2/catch.hpp>
#include <map>

#include "recorder/recorder.h"
#include "recorder/report_model.h"

using namespace swapadvisor;

namespace {

struct FakeDriver {
    std::uintptr_t next = 0;
    std::map<CUevent, double> recorded_ms;
    double now_ms = 0, done_until_ms = 1e9;
    int creates = 0, fail_after = 1000000;
} fake;

DriverApi fake_api() {
    fake = {};
    DriverApi api;
    api.cuEventCreate_ = [](CUevent* e, unsigned) {
        if (fake.creates++ >= fake.fail_after) return CUDA_ERROR_OUT_OF_MEMORY;
        *e = reinterpret_cast<CUevent>(++fake.next);
        return CUDA_SUCCESS;
    };
    api.cuEventDestroy_ = [](CUevent e) {
        fake.recorded_ms.erase(e);
        return CUDA_SUCCESS;
    };
    api.cuEventRecord_ = [](CUevent e, CUstream) {
        fake.recorded_ms[e] = fake.now_ms;
        return CUDA_SUCCESS;
    };
    api.cuEventQuery_ = [](CUevent e) {
        return fake.recorded_ms.at(e) <= fake.done_until_ms ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
    };
    api.cuEventElapsedTime_ = [](float* ms, CUevent a, CUevent b) {
        *ms = static_cast<float>(fake.recorded_ms.at(b) - fake.recorded_ms.at(a));
        return CUDA_SUCCESS;
    };
    return api;
}

}  // namespace

TEST_CASE("event pairs measure ops, reuse their events and never wait") {
    const DriverApi api = fake_api();
    EventTimer timer(api, 8);
    Recorder recorder({.synchronous = true});
    OpView view;
    view.kind = OpKind::kernel;
    for (int i = 0; i < 100; ++i) {
        view.function = static_cast<std::uint64_t>(i % 20);
        const bool measured = timer.begin(nullptr);
        CHECK(measured == (i % 10 < 8));  // eight pairs, polled every ten ops
        const std::uint64_t seq = recorder.op(view);
        fake.now_ms += 0.5 + 0.25 * (i % 20);
        if (measured) timer.end(nullptr, seq);
        if (i % 10 == 9) timer.poll(recorder);
    }
    CHECK(fake.creates == 16);
    CHECK(timer.pending() == 0);
    const auto iteration = recorder.steady_with_durations();
    REQUIRE(iteration != nullptr);
    REQUIRE(iteration->ops.size() == 20);
    for (const OpRecord& op : iteration->ops)
        CHECK(op.duration_ns ==
              (op.function % 10 < 8 ? 500000 + 250000 * static_cast<std::int64_t>(op.function) : 0));
    timer.release_events();
    CHECK(fake.recorded_ms.empty());
}

TEST_CASE("an op that is not done holds back what came after it, nothing blocks") {
    const DriverApi api = fake_api();
    EventTimer timer(api);
    Recorder recorder({.synchronous = true});
    fake.done_until_ms = 0.5;
    REQUIRE(timer.begin(nullptr));
    fake.now_ms = 1;
    timer.end(nullptr, 0);
    timer.poll(recorder);
    CHECK(timer.pending() == 1);
    fake.done_until_ms = 2;
    timer.poll(recorder);
    CHECK(timer.pending() == 0);
}

TEST_CASE("interleaved streams, failed calls, lost contexts and failing event creation") {
    const DriverApi api = fake_api();
    EventTimer timer(api);
    Recorder recorder({.synchronous = true});
    const auto a = reinterpret_cast<CUstream>(1), b = reinterpret_cast<CUstream>(2);
    REQUIRE(timer.begin(a));
    REQUIRE(timer.begin(b));
    timer.end(a, 0);
    timer.cancel(b);
    timer.end(b, 1);  // was cancelled: nothing happens
    CHECK(timer.pending() == 1);
    timer.forget_context();
    CHECK(timer.pending() == 0);
    fake.fail_after = fake.creates + 1;
    CHECK(timer.begin(a));
    timer.end(a, 2);  // no event for the end: unmeasured
    CHECK(timer.pending() == 0);
    CHECK(timer.begin(a));  // with the event that there is
    timer.cancel(a);
    timer.forget_context();
    CHECK_FALSE(timer.begin(a));
    timer.set_enabled(false);
    CHECK_FALSE(timer.begin(a));
}

TEST_CASE("stalls: from where the stream begins to wait to where the op may start, timed or not") {
    const DriverApi api = fake_api();
    EventTimer timer(api);
    Recorder recorder({.synchronous = true});
    OpView view;
    view.kind = OpKind::kernel;
    const auto stream_of = [](int i) {
        return reinterpret_cast<CUstream>(static_cast<std::uintptr_t>(1 + i % 2));
    };
    for (int i = 0; i < 60; ++i) {
        const bool timed = i < 30, waits = i % 5 == 0;
        timer.set_enabled(timed);
        if (i % 7 == 0) {  // an op that fails while it waits leaves nothing behind
            timer.arrive(stream_of(i));
            timer.cancel(stream_of(i));
        }
        fake.now_ms += 3;
        if (waits) timer.arrive(stream_of(i));
        fake.now_ms += 0.25 * (1 + i % 10);
        CHECK(timer.begin(stream_of(i)) == (timed || waits));
        fake.now_ms += 1;
        view.function = static_cast<std::uint64_t>(1 + i % 10);
        const std::uint64_t seq = recorder.op(view);
        timer.end(stream_of(i), seq);
    }
    timer.poll(recorder);
    CHECK(timer.pending() == 0);
    ReportModel model;
    recorder.fill_report(model);
    REQUIRE(model.ops.size() == 10);
    std::int64_t stalled = 0;
    for (const auto& op : model.ops) {
        CHECK(op.duration_ns == 1'000'000);
        stalled += op.stall_ns;
    }
    // Functions 1 and 6 wait, for a quarter and for six quarters of a millisecond.
    CHECK(stalled == 250'000 + 1'500'000);
    CHECK(model.stall_ns_per_iteration == stalled);
}
