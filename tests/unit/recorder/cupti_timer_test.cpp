// The CUPTI timer on a stand-in for CUPTI; and on the real library, where no NVIDIA driver lets it collect.
#include "recorder/cupti_timer.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "recorder/cupti_api.h"
#include "recorder/op_timer.h"
#include "recorder/recorder.h"
#include "recorder/report_model.h"

using namespace swapadvisor;

namespace {

// Records are what the test puts here; flushing hands them over.
struct StandIn {
    CUpti_BuffersCallbackRequestFunc give = nullptr;
    CUpti_BuffersCallbackCompleteFunc take = nullptr;
    std::vector<std::vector<std::uint8_t>> records;
    std::size_t next = 0;
    std::vector<std::uint64_t> open;
    int enabled = 0, refuse_after = 100;
} cupti;

template <class Record>
void add(const Record& record) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(&record);
    cupti.records.emplace_back(bytes, bytes + sizeof record);
}

CuptiApi stand_in() {
    cupti = {};
    CuptiApi api;
    api.register_callbacks = [](auto give, auto take) {
        cupti.give = give;
        cupti.take = take;
        return CUPTI_SUCCESS;
    };
    api.enable = [](CUpti_ActivityKind) {
        return cupti.enabled++ < cupti.refuse_after ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_KIND;
    };
    api.disable = [](CUpti_ActivityKind) {
        --cupti.enabled;
        return CUPTI_SUCCESS;
    };
    api.next_record = [](std::uint8_t*, std::size_t, CUpti_Activity** record) {
        if (cupti.next == cupti.records.size()) return CUPTI_ERROR_MAX_LIMIT_REACHED;
        *record = reinterpret_cast<CUpti_Activity*>(cupti.records[cupti.next++].data());
        return CUPTI_SUCCESS;
    };
    api.flush = [](std::uint32_t) {
        std::uint8_t* buffer = nullptr;
        std::size_t size = 0, most = 0;
        cupti.give(&buffer, &size, &most);
        cupti.take(nullptr, 0, buffer, size, cupti.records.size() - cupti.next);
        return CUPTI_SUCCESS;
    };
    api.push = [](CUpti_ExternalCorrelationKind, std::uint64_t id) {
        cupti.open.push_back(id);
        return CUPTI_SUCCESS;
    };
    api.pop = [](CUpti_ExternalCorrelationKind, std::uint64_t* id) {
        *id = cupti.open.back();
        cupti.open.pop_back();
        return CUPTI_SUCCESS;
    };
    return api;
}

void correlate(std::uint32_t correlation, std::uint64_t id) {
    CUpti_ActivityExternalCorrelation r{};
    r.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    r.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1;
    r.externalId = id;
    r.correlationId = correlation;
    add(r);
}
void kernel(std::uint32_t correlation, std::uint64_t start, std::uint64_t end) {
    CUpti_ActivityKernel10 r{};
    r.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    r.correlationId = correlation;
    r.start = start;
    r.end = end;
    add(r);
}

}  // namespace

TEST_CASE("CUPTI records find their ops in whatever order they arrive") {
    CuptiTimer timer(stand_in());
    REQUIRE(timer.available());
    Recorder recorder({.synchronous = true});
    OpView view;
    for (std::uint32_t i = 0; i < 60; ++i) {
        view.function = i % 20;
        const std::uint64_t id = timer.begin();
        REQUIRE(id != 0);
        REQUIRE(cupti.open == std::vector<std::uint64_t>{id});
        if (i % 2) correlate(i, id);
        kernel(i, 1000, 1500 + 10 * (i % 20));
        if (i % 2 == 0) correlate(i, id);
        if (i % 3 == 0) timer.poll(recorder);  // before end(): the record comes first
        timer.end(id, recorder.op(view));
    }
    CHECK(timer.delivered() > 0);
    kernel(1000, 5, 4000);  // not ours
    timer.poll(recorder);
    const auto timed = recorder.steady_with_durations();
    REQUIRE(timed != nullptr);
    REQUIRE(timed->ops.size() == 20);
    for (const OpRecord& op : timed->ops)
        CHECK(op.duration_ns == 500 + 10 * static_cast<std::int64_t>(op.function));
    const int on = cupti.enabled;
    timer.set_enabled(false);
    CHECK(cupti.enabled == on - 4);
    CHECK(timer.begin() == 0);
    timer.set_enabled(true);
    CHECK(cupti.enabled == on);
}

TEST_CASE("ops of two threads under CUPTI may overlap") {
    CuptiTimer timer(stand_in());
    Recorder recorder({.synchronous = true});
    OpView view;
    for (std::uint32_t i = 0; i < 40; ++i) {
        const std::uint64_t one = timer.begin(), two = timer.begin();
        for (const std::uint64_t id : {two, one}) {
            view.function = id == one ? 1 : 2;
            const auto correlation = static_cast<std::uint32_t>(id);
            correlate(correlation, id);
            kernel(correlation, 0, id == one ? 100 : 200);
            timer.end(id, recorder.op(view));
        }
    }
    timer.poll(recorder);
    const auto timed = recorder.steady_with_durations();
    REQUIRE(timed != nullptr);
    for (const OpRecord& op : timed->ops) CHECK(op.duration_ns == (op.function == 1 ? 100 : 200));
}

namespace {

// Events that say one millisecond between any two.
DriverApi events_of_a_millisecond() {
    DriverApi api;
    api.cuEventCreate_ = [](CUevent* e, unsigned) {
        static std::uintptr_t next = 0;
        *e = reinterpret_cast<CUevent>(++next);
        return CUDA_SUCCESS;
    };
    api.cuEventRecord_ = [](CUevent, CUstream) { return CUDA_SUCCESS; };
    api.cuEventQuery_ = [](CUevent) { return CUDA_SUCCESS; };
    api.cuEventElapsedTime_ = [](float* ms, CUevent, CUevent) {
        *ms = 1;
        return CUDA_SUCCESS;
    };
    return api;
}

void run_ops(OpTimer& timer, Recorder& recorder, int count, bool deliver) {
    OpView view;
    for (int i = 0; i < count; ++i) {
        view.function = static_cast<std::uint64_t>(1 + i % 20);
        if (view.function == 7) timer.arrive(nullptr);
        const OpTimer::Begun begun = timer.begin(nullptr);
        if (deliver && begun.cupti != 0) {
            correlate(static_cast<std::uint32_t>(begun.cupti), begun.cupti);
            kernel(static_cast<std::uint32_t>(begun.cupti), 0, 50 + view.function);
        }
        const std::uint64_t seq = recorder.op(view);
        if (i % 50 == 3)
            timer.cancel(nullptr, begun);
        else
            timer.end(nullptr, seq, begun);
        timer.after_op(recorder);
    }
}

}  // namespace

TEST_CASE("events measure until CUPTI delivers, then CUPTI; stalls are by events in either case") {
    const DriverApi api = events_of_a_millisecond();
    OpTimer timer(api, TimingSource::automatic);
    timer.use_cupti(std::make_unique<CuptiTimer>(stand_in()));
    Recorder recorder({.synchronous = true});
    run_ops(timer, recorder, 200, false);
    CHECK(std::string(timer.source()) == "events");
    run_ops(timer, recorder, 600, true);
    CHECK(std::string(timer.source()) == "CUPTI");
    run_ops(timer, recorder, 2000, true);
    timer.poll(recorder);
    CHECK(cupti.open.empty());
    ReportModel model;
    recorder.fill_report(model);
    REQUIRE(model.ops.size() == 20);
    std::int64_t stalled = 0;
    for (const auto& op : model.ops) {
        CHECK(op.duration_ns > 50);
        CHECK(op.duration_ns < 80);  // the median of the newest instances: CUPTI's
        stalled += op.stall_ns;
    }
    CHECK(stalled == 1'000'000);
}

TEST_CASE("CUPTI that stays silent is let go, and events have measured all along") {
    const DriverApi api = events_of_a_millisecond();
    OpTimer timer(api, TimingSource::automatic);
    timer.use_cupti(std::make_unique<CuptiTimer>(stand_in()));
    Recorder recorder({.synchronous = true});
    run_ops(timer, recorder, 4000, false);
    CHECK(cupti.enabled == 4);
    run_ops(timer, recorder, 400, false);
    CHECK(cupti.enabled == 0);
    timer.poll(recorder);
    const auto timed = recorder.steady_with_durations();
    REQUIRE(timed != nullptr);
    for (const OpRecord& op : timed->ops) CHECK(op.duration_ns == 1'000'000);
}

TEST_CASE("events alone, if that is asked for") {
    const DriverApi api = events_of_a_millisecond();
    OpTimer timer(api, TimingSource::events);
    Recorder recorder({.synchronous = true});
    run_ops(timer, recorder, 400, false);
    CHECK(std::string(timer.source()) == "events");
    timer.set_enabled(false);
    CHECK_FALSE(timer.begin(nullptr).events);
    timer.arrive(nullptr);
    CHECK(timer.begin(nullptr).events);  // its stall
}

TEST_CASE("CUPTI that refuses is not used, and is left as it was") {
    CuptiApi api = stand_in();
    cupti.refuse_after = 2;
    {
        CuptiTimer timer(api);
        CHECK_FALSE(timer.available());
        CHECK(timer.begin() == 0);
    }
    CHECK(cupti.enabled == 1);  // the refused one was counted by the stand-in
    CHECK_FALSE(CuptiTimer(CuptiApi{}).available());
    CuptiTimer one(stand_in());
    CuptiTimer two(stand_in());
    CHECK_FALSE(two.available());  // one tool per process
}
