// The CUPTI timer on a stand-in for CUPTI; and on the real library, where no NVIDIA driver lets it collect.
#include "recorder/cupti_timer.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "recorder/cupti_api.h"
#include "recorder/recorder.h"

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
        REQUIRE(timer.begin());
        const std::uint64_t id = cupti.open.back();
        if (i % 2) correlate(i, id);
        kernel(i, 1000, 1500 + 10 * (i % 20));
        if (i % 2 == 0) correlate(i, id);
        if (i % 3 == 0) timer.poll(recorder);  // before end(): the record comes first
        timer.end(recorder.op(view));
    }
    kernel(1000, 5, 4000);  // not ours
    timer.poll(recorder);
    const auto timed = recorder.steady_with_durations();
    REQUIRE(timed != nullptr);
    REQUIRE(timed->ops.size() == 20);
    for (const OpRecord& op : timed->ops)
        CHECK(op.duration_ns == 500 + 10 * static_cast<std::int64_t>(op.function));
    timer.set_enabled(false);
    CHECK_FALSE(timer.begin());
}

TEST_CASE("CUPTI that refuses is not used, and is left as it was") {
    CuptiApi api = stand_in();
    cupti.refuse_after = 2;
    {
        CuptiTimer timer(api);
        CHECK_FALSE(timer.available());
        CHECK_FALSE(timer.begin());
    }
    CHECK(cupti.enabled == 1);  // the refused one was counted by the stand-in
    CHECK_FALSE(CuptiTimer(CuptiApi{}).available());
    CuptiTimer one(stand_in());
    CuptiTimer two(stand_in());
    CHECK_FALSE(two.available());  // one tool per process
}
