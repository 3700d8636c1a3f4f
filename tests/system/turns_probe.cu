// Loops whose buffers take turns.
//   turns_probe ring TURNS LAUNCHES STEPS BYTES: each step launches on one buffer and the next of TURNS others
//   turns_probe random COUNT LAUNCHES BYTES: each launch takes two of COUNT buffers, and a size, at random
//   turns_probe chain LENGTH STEPS BYTES: each step adds each of LENGTH buffers to the next
// Prints a sum over what the buffers hold in the end.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <cuda_runtime.h>

namespace {

constexpr int kStride = 64;  // one in so many numbers is worked on: the software GPU has more time for the loop

__global__ void add(float* to, const float* from, int n) {
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) * kStride;
    if (i < n) to[i] = to[i] * 0.5f + from[i] + 1.0f;
}

[[noreturn]] void fail(const char* what) {
    std::printf("%s\n", what);
    std::exit(1);
}

void launch(float* to, const float* from, int n) {
    add<<<(n / kStride + 256) / 256, 256>>>(to, from, n);
    if (cudaGetLastError() != cudaSuccess) fail("launch failed");
}

std::vector<float*> buffers(int count, std::size_t bytes) {
    std::vector<float*> made(static_cast<std::size_t>(count));
    for (float*& buffer : made)
        if (cudaMalloc(&buffer, bytes) != cudaSuccess || cudaMemset(buffer, 0, bytes) != cudaSuccess)
            fail("cudaMalloc failed");
    return made;
}

}  // namespace

int main(int argc, char** argv) {
    const bool ring = argc == 6 && std::strcmp(argv[1], "ring") == 0;
    const bool random = argc == 5 && std::strcmp(argv[1], "random") == 0;
    if (!ring && !random && !(argc == 5 && std::strcmp(argv[1], "chain") == 0)) return 2;
    const int count = std::atoi(argv[2]), steps = std::atoi(argv[argc - 2]);
    const std::size_t bytes = std::strtoull(argv[argc - 1], nullptr, 10);
    const int n = static_cast<int>(bytes / sizeof(float));
    auto x = buffers(count, bytes);
    if (ring) {
        float* const sum = buffers(1, bytes)[0];
        const int launches = std::atoi(argv[3]);
        for (int s = 0; s < steps; ++s) {
            for (int k = 0; k < launches; ++k) launch(sum, x[static_cast<std::size_t>(s % count)], n);
            launch(x[static_cast<std::size_t>(s % count)], sum, n);
        }
        x.push_back(sum);
    } else if (random) {
        unsigned state = 1;
        const auto next = [&](int most) {
            state = state * 1664525u + 1013904223u;
            return static_cast<int>((state >> 8) % static_cast<unsigned>(most));
        };
        for (int s = 0; s < steps; ++s) {
            float* const to = x[static_cast<std::size_t>(next(count))];
            launch(to, x[static_cast<std::size_t>(next(count))], 1 + next(n / 64));
        }
    } else {
        for (int s = 0; s < steps; ++s)
            for (int k = 0; k < count; ++k)
                launch(x[static_cast<std::size_t>((k + 1) % count)], x[static_cast<std::size_t>(k)], n);
    }
    double sum = 0;
    std::vector<float> host(static_cast<std::size_t>(n));
    for (const float* buffer : x) {
        if (cudaMemcpy(host.data(), buffer, host.size() * sizeof(float), cudaMemcpyDeviceToHost) != cudaSuccess)
            fail("cudaMemcpy failed");
        for (const float value : host) sum += value;
    }
    std::printf("%.17g\n", sum);
    return 0;
}
