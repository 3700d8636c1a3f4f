// Kernels that wait, in their code, for what somebody else does: a kernel of another device, a copy, a memory
// operation of a stream, the host.
#include <unistd.h>

#include "tests/unit/softgpu/driver_test.h"

using namespace driver_test;

namespace {

/// meet(mine, other, rounds): thread 0 of each block but the first waits for the first, whose thread 0 says
/// in each round that it has come and waits until the other side has.
constexpr const char* kMeet = R"(.version 7.0
.target sm_75
.address_size 64
.visible .entry meet(.param .u64 mine, .param .u64 other, .param .u32 rounds) {
  .reg .u64 %rd<5>; .reg .u32 %r<6>; .reg .pred %p<5>;
  ld.param.u64 %rd1, [mine]; ld.param.u64 %rd2, [other]; ld.param.u32 %r1, [rounds];
  cvta.to.global.u64 %rd3, %rd1; cvta.to.global.u64 %rd4, %rd2;
  mov.u32 %r2, %tid.x; setp.ne.u32 %p1, %r2, 0;
  @%p1 bra MET;
  mov.u32 %r3, %ctaid.x; setp.ne.u32 %p2, %r3, 0;
  @%p2 bra FOLLOW;
  mov.u32 %r4, 0;
ROUND:
  add.u32 %r4, %r4, 1;
  st.volatile.global.u32 [%rd3], %r4;
POLL:
  ld.volatile.global.u32 %r5, [%rd4];
  setp.lt.u32 %p3, %r5, %r4;
  @%p3 bra POLL;
  setp.lt.u32 %p4, %r4, %r1;
  @%p4 bra ROUND;
  bra MET;
FOLLOW:
  ld.volatile.global.u32 %r5, [%rd3];
  setp.lt.u32 %p3, %r5, %r1;
  @%p3 bra FOLLOW;
MET:
  bar.sync 0;
  ret;
}
)";

/// The kernel on one device, with a stream of its own.
struct Side {
    CUcontext context = nullptr;
    CUmodule module = nullptr;
    CUfunction meet = nullptr;
    CUstream stream = nullptr;

    explicit Side(CUdevice device) {
        OK(cuInit(0));
        OK(cuDevicePrimaryCtxRetain(&context, device));
        OK(cuCtxSetCurrent(context));
        OK(cuModuleLoadData(&module, kMeet));
        OK(cuModuleGetFunction(&meet, module, "meet"));
        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    }
    void launch(CUdeviceptr mine, CUdeviceptr other, unsigned rounds, bool cooperative = false) const {
        OK(cuCtxSetCurrent(context));
        void* params[] = {&mine, &other, &rounds};
        if (cooperative)
            OK(cuLaunchCooperativeKernel(meet, 3, 1, 1, 64, 1, 1, 0, stream, params));
        else
            OK(cuLaunchKernel(meet, 3, 1, 1, 64, 1, 1, 0, stream, params, nullptr));
    }
    void finish() const {
        OK(cuCtxSetCurrent(context));
        OK(cuStreamSynchronize(stream));
    }
};

/// Two words that both devices, the copies and the host reach.
struct Flags {
    volatile unsigned* host = nullptr;
    CUdeviceptr mine = 0, other = 0;
    Flags() {
        void* memory = nullptr;
        OK(cuMemHostAlloc(&memory, 8, CU_MEMHOSTALLOC_PORTABLE));
        host = static_cast<volatile unsigned*>(memory);
        host[0] = 0;
        host[1] = 0;
        mine = reinterpret_cast<CUdeviceptr>(memory);
        other = mine + 4;
    }
};

}  // namespace

TEST_CASE("waiting: kernels of two devices meet as often as they like") {
    for (const bool cooperative : {false, true}) {
        unsigned long long ends[2] = {};
        for (unsigned long long& end : ends) {
            int result[2];
            REQUIRE(pipe(result) == 0);
            RUN_IN_CHILD("devices=2", [&] {
                const Side first(0), second(1);
                const Flags flags;
                first.launch(flags.mine, flags.other, 500, cooperative);
                second.launch(flags.other, flags.mine, 500, cooperative);
                first.finish();
                second.finish();
                EQUAL(static_cast<unsigned>(flags.host[0]), 500u);
                EQUAL(static_cast<unsigned>(flags.host[1]), 500u);
                EQUAL(softgpu_count("kernels"), 2ull);
                unsigned long long host = 0, device = 0;
                softgpu_now(&host, &device);
                THAT(write(result[1], &device, sizeof device) == sizeof device);
            });
            close(result[1]);
            CHECK(read(result[0], &end, sizeof end) == sizeof end);
            close(result[0]);
        }
        CHECK(ends[0] == ends[1]);  // to the nanosecond
    }
}

TEST_CASE("waiting: a kernel is released by a copy, by a memory operation, and by the host") {
    RUN_IN_CHILD("", [] {
        const Side side(0);
        const Flags flags;
        CUstream beside = nullptr;
        OK(cuStreamCreate(&beside, CU_STREAM_NON_BLOCKING));
        CUdeviceptr word = 0;
        OK(cuMemAlloc(&word, 4));
        OK(cuMemsetD32(word, 0, 1));

        static const unsigned three = 3;
        side.launch(flags.mine, word, 3);
        EXPECT(cuStreamQuery(side.stream), CUDA_ERROR_NOT_READY);
        OK(cuMemcpyHtoDAsync(word, &three, 4, beside));
        side.finish();
        EQUAL(static_cast<unsigned>(flags.host[0]), 3u);

        side.launch(flags.mine, word, 5);
        OK(cuStreamWriteValue32(beside, word, 5, 0));
        side.finish();

        side.launch(flags.mine, flags.other, 7);
        EXPECT(cuStreamQuery(side.stream), CUDA_ERROR_NOT_READY);
        flags.host[1] = 7;
        side.finish();
        EQUAL(static_cast<unsigned>(flags.host[0]), 7u);
    });
}

TEST_CASE("waiting: a kernel that waits holds the device, and what follows it on its stream waits too") {
    RUN_IN_CHILD("", [] {
        const Side side(0);
        const Flags flags;
        CUdeviceptr word = 0;
        OK(cuMemAlloc(&word, 4));
        OK(cuMemsetD32(word, 0, 1));
        side.launch(flags.mine, flags.other, 1);
        OK(cuMemsetD32Async(word, 9, 1, side.stream));
        for (int i = 0; i < 100; ++i) EXPECT(cuStreamQuery(side.stream), CUDA_ERROR_NOT_READY);
        flags.host[1] = 1;
        side.finish();
        EQUAL(Gpu::word(word), 9u);
    });
}
