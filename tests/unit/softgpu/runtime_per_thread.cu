// Built with --default-stream per-thread: the default stream is one of this thread's own. A program by
// itself, so that nothing else decides the flavour.
#include <cuda_runtime.h>

#include <cstdio>
#include <thread>
#include <vector>

namespace {

__device__ int value = 3;

__global__ void add(int* out, int n) {
    out[threadIdx.x] += n;
}

int failures = 0;

void check(bool holds, const char* what, int line) {
    if (holds) return;
    std::printf("line %d: %s\n", line, what);
    ++failures;
}
#define CHECK(condition) check(condition, #condition, __LINE__)
#define OK(call) check((call) == cudaSuccess, #call, __LINE__)

// While the legacy stream waits for a capture to end, the per-thread one can be captured without harm.
void default_stream_can_be_captured() {
    int* p = nullptr;
    OK(cudaMalloc(&p, 32 * sizeof(int)));
    OK(cudaMemset(p, 0, 32 * sizeof(int)));
    OK(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeThreadLocal));
    add<<<1, 32>>>(p, 5);
    OK(cudaGetLastError());
    cudaGraph_t graph = nullptr;
    OK(cudaStreamEndCapture(nullptr, &graph));
    size_t nodes = 0;
    OK(cudaGraphGetNodes(graph, nullptr, &nodes));
    CHECK(nodes == 1);
    cudaGraphExec_t exec = nullptr;
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphLaunch(exec, nullptr));
    OK(cudaGraphLaunch(exec, nullptr));
    std::vector<int> back(32);
    OK(cudaMemcpy(back.data(), p, 32 * sizeof(int), cudaMemcpyDeviceToHost));
    for (const int v : back) CHECK(v == 10);
    OK(cudaFree(p));
}

void threads_have_streams_of_their_own() {
    unsigned long long ids[2] = {};
    for (auto& id : ids) std::thread([&id] { OK(cudaStreamGetId(nullptr, &id)); }).join();
    unsigned long long legacy = 0;
    OK(cudaStreamGetId(cudaStreamLegacy, &legacy));
    CHECK(ids[0] != legacy && ids[1] != legacy);
    int v = 0;
    OK(cudaMemcpyFromSymbol(&v, value, sizeof v));
    CHECK(v == 3);
}

}  // namespace

int main() {
    default_stream_can_be_captured();
    threads_have_streams_of_their_own();
    if (failures == 0) std::puts("ok");
    return failures ? 1 : 0;
}
