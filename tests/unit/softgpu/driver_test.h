// Tests of the software driver. Settings are read once per process, so each case runs in a forked child with
// its own SOFTGPU_OPTIONS; what the child writes to stderr is kept for looking at.
#pragma once

#include <cuda.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

extern "C" {
void softgpu_now(unsigned long long* host_ns, unsigned long long* device_ns);
unsigned long long softgpu_count(const char* what);
void softgpu_snapshot(const char* label);
}

namespace driver_test {

struct Outcome {
    std::string failure;  ///< empty: every check held
    std::string errors;   ///< stderr
};

struct CheckFailed : std::runtime_error {
    using std::runtime_error::runtime_error;
};

inline std::string read_all(int fd) {
    std::string text;
    char buffer[4096];
    for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0;)
        text.append(buffer, static_cast<std::size_t>(n));
    close(fd);
    return text;
}

/// Runs `body` in a child. Throwing CheckFailed, or dying, is a failure.
inline Outcome in_child(const std::string& options, const std::function<void()>& body) {
    int result[2], errors[2];
    if (pipe(result) != 0 || pipe(errors) != 0) return {"pipe failed", ""};
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        setenv("SOFTGPU_OPTIONS", options.c_str(), 1);
        dup2(errors[1], 2);
        std::string failure;
        try {
            body();
        } catch (const std::exception& e) {
            failure = e.what();
        }
        if (write(result[1], failure.data(), failure.size()) < 0) _exit(3);
        _exit(failure.empty() ? 0 : 1);
    }
    close(result[1]);
    close(errors[1]);
    Outcome outcome;
    outcome.errors = read_all(errors[0]);
    outcome.failure = read_all(result[0]);
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) outcome.failure += " died of signal " + std::to_string(WTERMSIG(status));
    if (outcome.failure.empty() && !(WIFEXITED(status) && WEXITSTATUS(status) == 0))
        outcome.failure = "exit status " + std::to_string(WEXITSTATUS(status)) + ": " + outcome.errors;
    return outcome;
}

inline void expect(CUresult got, CUresult wanted, const char* text, int line) {
    if (got == wanted) return;
    const char *a = "?", *b = "?";
    cuGetErrorName(got, &a);
    cuGetErrorName(wanted, &b);
    throw CheckFailed("line " + std::to_string(line) + ": " + text + " is " + a + ", expected " + b);
}

inline void expect_that(bool condition, const std::string& text, int line) {
    if (!condition) throw CheckFailed("line " + std::to_string(line) + ": " + text);
}

#define EXPECT(call, wanted) ::driver_test::expect((call), (wanted), #call, __LINE__)
#define OK(call) EXPECT(call, CUDA_SUCCESS)
#define THAT(condition) ::driver_test::expect_that((condition), #condition, __LINE__)
#define EQUAL(a, b)                                                                                  \
    do {                                                                                             \
        const auto left_ = (a);                                                                      \
        const auto right_ = (b);                                                                     \
        ::driver_test::expect_that(                                                                  \
            left_ == static_cast<std::remove_const_t<decltype(left_)>>(right_),                      \
            std::string(#a " is ") + std::to_string(left_) + ", expected " + std::to_string(right_), \
            __LINE__);                                                                               \
    } while (0)

#define RUN_IN_CHILD(options, ...)                                           \
    do {                                                                     \
        const auto outcome_ = ::driver_test::in_child(options, __VA_ARGS__); \
        INFO(outcome_.errors);                                               \
        CHECK(outcome_.failure == "");                                       \
    } while (0)

/// Kernels: store(p, v) writes one word; copy_word(to, from); peek(to, from) does the same with a volatile load;
/// spin(n) runs n rounds.
constexpr const char* kKernels = R"(.version 7.0
.target sm_75
.address_size 64
.visible .entry store(.param .u64 p, .param .u32 v) {
  .reg .u64 %rd<3>; .reg .u32 %r<2>;
  ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [v];
  cvta.to.global.u64 %rd2, %rd1;
  st.global.u32 [%rd2], %r1;
  ret;
}
.visible .entry copy_word(.param .u64 to, .param .u64 from) {
  .reg .u64 %rd<5>; .reg .u32 %r<2>;
  ld.param.u64 %rd1, [to]; ld.param.u64 %rd2, [from];
  cvta.to.global.u64 %rd3, %rd1; cvta.to.global.u64 %rd4, %rd2;
  ld.global.u32 %r1, [%rd4];
  st.global.u32 [%rd3], %r1;
  ret;
}
.visible .entry peek(.param .u64 to, .param .u64 from) {
  .reg .u64 %rd<5>; .reg .u32 %r<2>;
  ld.param.u64 %rd1, [to]; ld.param.u64 %rd2, [from];
  cvta.to.global.u64 %rd3, %rd1; cvta.to.global.u64 %rd4, %rd2;
  ld.volatile.global.u32 %r1, [%rd4];
  st.global.u32 [%rd3], %r1;
  ret;
}
.visible .entry spin(.param .u32 n) {
  .reg .u32 %r<3>; .reg .pred %p1;
  ld.param.u32 %r1, [n]; mov.u32 %r2, 0;
LOOP:
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p1, %r2, %r1;
  @%p1 bra LOOP;
  ret;
}
)";

struct Gpu {
    CUcontext context = nullptr;
    CUmodule module = nullptr;
    CUfunction store = nullptr, copy_word = nullptr, peek_word = nullptr, spin = nullptr;

    Gpu() {
        OK(cuInit(0));
        OK(cuDevicePrimaryCtxRetain(&context, 0));
        OK(cuCtxSetCurrent(context));
        OK(cuModuleLoadData(&module, kKernels));
        OK(cuModuleGetFunction(&store, module, "store"));
        OK(cuModuleGetFunction(&copy_word, module, "copy_word"));
        OK(cuModuleGetFunction(&peek_word, module, "peek"));
        OK(cuModuleGetFunction(&spin, module, "spin"));
    }
    CUresult put(CUdeviceptr p, unsigned v, CUstream s = nullptr) const {
        void* params[] = {&p, &v};
        return cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, s, params, nullptr);
    }
    CUresult move(CUdeviceptr to, CUdeviceptr from, CUstream s = nullptr) const {
        void* params[] = {&to, &from};
        return cuLaunchKernel(copy_word, 1, 1, 1, 1, 1, 1, 0, s, params, nullptr);
    }
    CUresult peek(CUdeviceptr to, CUdeviceptr from, CUstream s = nullptr) const {
        void* params[] = {&to, &from};
        return cuLaunchKernel(peek_word, 1, 1, 1, 1, 1, 1, 0, s, params, nullptr);
    }
    CUresult work(unsigned rounds, CUstream s = nullptr) const {
        void* params[] = {&rounds};
        return cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, s, params, nullptr);
    }
    static unsigned word(CUdeviceptr p) {
        unsigned v = 0;
        OK(cuMemcpyDtoH(&v, p, 4));
        return v;
    }
    static CUstream stream() {
        CUstream s = nullptr;
        OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
        return s;
    }
    static CUevent event() {
        CUevent e = nullptr;
        OK(cuEventCreate(&e, 0));
        return e;
    }
};

constexpr std::size_t kMiB = 1 << 20;

inline CUmemAllocationProp device_prop() {
    CUmemAllocationProp p{};
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return p;
}

inline CUmemAccessDesc read_write() {
    CUmemAccessDesc d{};
    d.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    d.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return d;
}

/// A reservation with one handle mapped at its start, and access set.
struct Mapping {
    CUdeviceptr address = 0;
    CUmemGenericAllocationHandle handle = 0;
    std::size_t reserved, bytes;
    explicit Mapping(std::size_t reserve = 8 * kMiB, std::size_t map = 2 * kMiB)
        : reserved(reserve), bytes(map) {
        const auto prop = device_prop();
        const auto access = read_write();
        OK(cuMemAddressReserve(&address, reserved, 0, 0, 0));
        OK(cuMemCreate(&handle, bytes, &prop, 0));
        OK(cuMemMap(address, bytes, 0, handle, 0));
        OK(cuMemSetAccess(address, bytes, &access, 1));
    }
};

}  // namespace driver_test
