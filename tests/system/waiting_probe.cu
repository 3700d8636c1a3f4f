// Programs whose streams wait for the host, while other work needs memory: waiting_probe GATE STREAM WHAT
//   GATE: host, callback, value32, value64, batch, event (a chain of events behind a host function)
//   STREAM: own (non-blocking), blocking, thread (per-thread default)
//   WHAT: use (a buffer's last use waits), free (it is freed there), freeasync, alloc (others are made meanwhile),
//         thread (the gate is opened by another thread, which calls CUDA first), only (nothing else could leave:
//         another thread opens the gate)
// or waiting_probe threads N | streams N | copies | plan GATE | frees (what the host sees is complete when memory is freed).
// Prints what the memory held in the end; natively the same, whatever the limit.
#include <cuda.h>
#include <cuda_runtime.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#define CHECK(call)                                                          \
    do {                                                                     \
        const int error_ = static_cast<int>(call);                           \
        if (error_ != 0) {                                                   \
            std::printf("line %d: %s: error %d\n", __LINE__, #call, error_); \
            std::fflush(stdout);                                             \
            std::_Exit(3);                                                   \
        }                                                                    \
    } while (0)

namespace {

constexpr size_t kBytes = 8 << 20, kWords = kBytes / 4, kStep = 4096;
std::atomic<int> gate_open{0};
volatile unsigned long long* flag = nullptr;

__global__ void add(unsigned* p, unsigned v) {
    for (size_t i = threadIdx.x * kStep; i < kWords; i += kStep * blockDim.x) p[i] += v;
}

unsigned* buffer(unsigned v) {
    unsigned* p = nullptr;
    CHECK(cudaMalloc(&p, kBytes));
    CHECK(cudaMemset(p, 0, kBytes));
    add<<<1, 32>>>(p, v);
    CHECK(cudaGetLastError());
    return p;
}

unsigned long long sum(const unsigned* p) {
    std::vector<unsigned> host(kWords);
    CHECK(cudaMemcpy(host.data(), p, kBytes, cudaMemcpyDeviceToHost));
    unsigned long long all = 0;
    for (size_t i = 0; i < kWords; i += kStep) all = all * 31 + host[i];
    return all;
}

void wait_for_gate(void*) {
    while (gate_open == 0) usleep(200);
}

void shut(const std::string& gate, cudaStream_t stream) {
    const auto at = reinterpret_cast<CUdeviceptr>(const_cast<unsigned long long*>(flag));
    if (gate == "host" || gate == "event") {
        cudaStream_t behind = stream;
        if (gate == "event") CHECK(cudaStreamCreateWithFlags(&behind, cudaStreamNonBlocking));
        CHECK(cudaLaunchHostFunc(behind, wait_for_gate, nullptr));
        if (gate != "event") return;
        cudaStream_t between = nullptr;
        CHECK(cudaStreamCreateWithFlags(&between, cudaStreamNonBlocking));
        cudaEvent_t first = nullptr, second = nullptr;
        CHECK(cudaEventCreateWithFlags(&first, cudaEventDisableTiming));
        CHECK(cudaEventCreateWithFlags(&second, cudaEventDisableTiming));
        CHECK(cudaEventRecord(first, behind));
        CHECK(cudaStreamWaitEvent(between, first, 0));
        CHECK(cudaEventRecord(second, between));
        CHECK(cudaStreamWaitEvent(stream, second, 0));
    } else if (gate == "callback") {
        CHECK(cudaStreamAddCallback(
            stream, [](cudaStream_t, cudaError_t, void*) { wait_for_gate(nullptr); }, nullptr, 0));
    } else if (gate == "value32") {
        CHECK(cuStreamWaitValue32(stream, at, 1, CU_STREAM_WAIT_VALUE_GEQ));
    } else if (gate == "value64") {
        CHECK(cuStreamWaitValue64(stream, at, 1, CU_STREAM_WAIT_VALUE_GEQ));
    } else {
        CUstreamBatchMemOpParams op{};
        op.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
        op.waitValue.address = at;
        op.waitValue.value = 1;
        op.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
        CHECK(cuStreamBatchMemOp(stream, 1, &op, 0));
    }
}

void open_gate() {
    *flag = 1;
    gate_open = 1;
}

void gated(const std::string& gate, const std::string& kind, const std::string& what) {
    unsigned* held = buffer(5);
    std::vector<unsigned*> others;
    for (int i = 0; i < 12; ++i) others.push_back(buffer(1));
    // Small memory exists before all else is gated: where there is none left, nobody could hand any out.
    unsigned* tiny = nullptr;
    CHECK(cudaMalloc(&tiny, 1 << 12));
    CHECK(cudaDeviceSynchronize());
    cudaStream_t stream = cudaStreamPerThread, work = nullptr;
    if (kind != "thread")
        CHECK(cudaStreamCreateWithFlags(&stream, kind == "own" ? cudaStreamNonBlocking : cudaStreamDefault));
    CHECK(cudaStreamCreateWithFlags(&work, cudaStreamNonBlocking));
    add<<<1, 32, 0, stream>>>(held, 1);
    shut(gate, stream);
    add<<<1, 32, 0, stream>>>(held, 1);
    CHECK(cudaGetLastError());
    if (what == "freeasync") CHECK(cudaFreeAsync(held, stream));
    std::thread opener;
    if (what == "thread" || what == "only")
        opener = std::thread([&] {
            usleep(300'000);  // by then the other thread waits for memory
            unsigned* own = nullptr;
            CHECK(cudaMallocAsync(&own, 1 << 12, work));
            CHECK(cudaFreeAsync(own, work));
            open_gate();
        });
    if (what == "only")
        for (unsigned* p : others) add<<<1, 32, 0, stream>>>(p, 1);
    if (what == "alloc")
        for (int i = 0; i < 4; ++i) {
            unsigned* p = nullptr;
            CHECK(cudaMallocAsync(&p, kBytes, work));
            CHECK(cudaMemsetAsync(p, 0, kBytes, work));
            others.push_back(p);
        }
    for (int round = 0; round < 2; ++round)
        for (unsigned* p : others) {
            add<<<1, 32, 0, work>>>(p, 1);
            CHECK(cudaGetLastError());
        }
    if (what == "freeasync") {
        unsigned* p = nullptr;
        CHECK(cudaMallocAsync(&p, kBytes, work));
        CHECK(cudaMemsetAsync(p, 0, kBytes, work));
        add<<<1, 32, 0, work>>>(p, 3);
        others.push_back(p);
    }
    CHECK(cudaStreamSynchronize(work));
    if (opener.joinable())
        opener.join();
    else
        open_gate();
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaDeviceSynchronize());
    unsigned long long all = what == "freeasync" ? 0 : sum(held);
    for (unsigned* p : others) all = all * 1'000'003 + sum(p);
    std::printf("%s %s %s: %016llx\n", gate.c_str(), kind.c_str(), what.c_str(), all);
}

// Iterations alike, so that a plan is made and followed; in some a stream is gated.
void planned(const std::string& gate) {
    std::vector<unsigned*> all;
    for (int i = 0; i < 6; ++i) all.push_back(buffer(1));
    cudaStream_t side = nullptr, work = nullptr;
    CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&work, cudaStreamNonBlocking));
    CHECK(cudaDeviceSynchronize());
    for (int iteration = 0; iteration < 60; ++iteration) {
        if (iteration == 20) usleep(1'500'000);
        const bool shuts = iteration > 30 && iteration % 10 == 5;
        *flag = 0;
        gate_open = 0;
        if (shuts) {
            shut(gate, side);
            add<<<1, 32, 0, side>>>(all[0], 1);
        }
        for (size_t i = 1; i < all.size(); ++i) add<<<1, 32, 0, work>>>(all[i], 1);
        for (size_t i = all.size() - 1; i >= 1; --i) add<<<1, 32, 0, work>>>(all[i], 2);
        CHECK(cudaGetLastError());
        CHECK(cudaStreamSynchronize(work));
        open_gate();
        CHECK(cudaDeviceSynchronize());
        add<<<1, 32, 0, work>>>(all[0], 1);
        CHECK(cudaStreamSynchronize(work));
    }
    unsigned long long whole = 0;
    for (unsigned* p : all) whole = whole * 1'000'003 + sum(p);
    std::printf("plan %s: %016llx\n", gate.c_str(), whole);
}

long resident_kib() {
    long pages = 0, resident = 0;
    std::FILE* file = std::fopen("/proc/self/statm", "r");
    if (file == nullptr || std::fscanf(file, "%ld %ld", &pages, &resident) != 2) return -1;
    std::fclose(file);
    return resident * 4;
}

// One after the other, each with a queue of its own.
void many(bool threads, int count) {
    unsigned* p = buffer(0);
    CHECK(cudaDeviceSynchronize());
    long before = 0;
    for (int i = 0; i < count; ++i) {
        if (threads) {
            std::thread([&] {
                add<<<1, 32, 0, cudaStreamPerThread>>>(p, 1);
                CHECK(cudaStreamSynchronize(cudaStreamPerThread));
            }).join();
        } else {
            cudaStream_t stream = nullptr;
            CHECK(cudaStreamCreate(&stream));
            add<<<1, 32, 0, stream>>>(p, 1);
            if (i % 16 == 0) CHECK(cudaStreamSynchronize(stream));
            CHECK(cudaStreamDestroy(stream));
            if (i % 64 == 0) CHECK(cudaDeviceSynchronize());
        }
        if (i == count / 4) before = resident_kib();
    }
    CHECK(cudaDeviceSynchronize());
    const long grown = resident_kib() - before;
    std::printf("%d %s: %016llx, memory %s\n", count, threads ? "threads" : "streams", sum(p),
                grown < 24'000 ? "flat" : "grows");
}

// Launches beside another thread's synchronous copies: each needs most of what there is.
void copies() {
    unsigned *a[3], *b[3];
    for (int i = 0; i < 3; ++i) a[i] = buffer(static_cast<unsigned>(i)), b[i] = buffer(9);
    CHECK(cudaDeviceSynchronize());
    unsigned long long copied = 0;
    std::thread copier([&] {
        for (int i = 0; i < 30; ++i) copied += sum(b[i % 3]);
    });
    cudaStream_t stream = nullptr;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int i = 0; i < 60; ++i) {
        add<<<1, 32, 0, stream>>>(a[i % 3], 1);
        CHECK(cudaGetLastError());
    }
    CHECK(cudaStreamSynchronize(stream));
    copier.join();
    for (unsigned* p : a) copied = copied * 31 + sum(p);
    std::printf("copies: %016llx\n", copied);
}

}  // namespace

__global__ void number(unsigned* to, size_t n, unsigned k) {
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) to[i] = static_cast<unsigned>(i) + k;
}

// cudaFree waits for the device, and programs read what it has written for the host without asking any more.
void frees() {
    unsigned *seen = nullptr, *at = nullptr, *managed = nullptr;
    CHECK(cudaHostAlloc(&seen, kBytes, cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer(&at, seen, 0));
    CHECK(cudaMallocManaged(&managed, kBytes));
    cudaStream_t stream = nullptr;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    unsigned k = 0;
    const auto round = [&](const char* name, unsigned* result, auto&& work) {
        int wrong = 0;
        for (int i = 0; i < 5; ++i) {
            ++k;
            unsigned* temporary = buffer(1);
            number<<<1, 32, 0, stream>>>(temporary, kWords, k);
            work(temporary);
            CHECK(cudaFree(temporary));
            wrong += *static_cast<volatile unsigned*>(result + kWords - 1) != kWords - 1 + k;
        }
        std::printf("%s: %d wrong\n", name, wrong);
    };
    round("copy", seen,
          [&](unsigned* p) { CHECK(cudaMemcpyAsync(seen, p, kBytes, cudaMemcpyDeviceToHost, stream)); });
    round("copy by rows", seen, [&](unsigned* p) {
        CHECK(cudaMemcpy2DAsync(seen, 4096, p, 4096, 4096, kBytes / 4096, cudaMemcpyDefault, stream));
    });
    round("mapped memory", seen, [&](unsigned*) { number<<<1, 32, 0, stream>>>(at, kWords, k); });
    round("managed memory", managed, [&](unsigned*) { number<<<1, 32, 0, stream>>>(managed, kWords, k); });
    round("graph", seen, [&](unsigned* p) {
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t exec = nullptr;
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        CHECK(cudaMemcpyAsync(seen, p, kBytes, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamEndCapture(stream, &graph));
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        CHECK(cudaGraphLaunch(exec, stream));
    });
}

int main(int count, char** arguments) {
    const std::string what = count > 1 ? arguments[1] : "";
    alarm(60);
    unsigned long long* pinned = nullptr;
    CHECK(cudaHostAlloc(&pinned, 4096, 0));
    flag = pinned;
    *flag = 0;
    if (what == "threads" || what == "streams")
        many(what == "threads", std::atoi(arguments[2]));
    else if (what == "copies")
        copies();
    else if (what == "plan")
        planned(arguments[2]);
    else if (what == "frees")
        frees();
    else if (count > 3)
        gated(what, arguments[2], arguments[3]);
    else
        return 2;
    return 0;
}
