// Training loops of every habit, without the training: what is launched, allocated and freed is real, the
// arithmetic is token. Says at its end what its iteration is, so that what a recorder has found can be held
// against it.
//   loops PATTERN [STEPS]
// plain, first (a different first step), evaluate (every third step), accumulate (four micro-steps an
// update), turns (two networks), turns5 (five steps of one, one of the other), short (a short last batch),
// sizes (two sizes alternating).
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define CHECK(call)                                                                    \
    do {                                                                               \
        const cudaError_t error = (call);                                              \
        if (error != cudaSuccess) {                                                    \
            std::fprintf(stderr, "loops: %s: %s\n", #call, cudaGetErrorString(error)); \
            std::exit(1);                                                              \
        }                                                                              \
    } while (0)

__global__ void forward(const float* x, const float* w, float* y) {
    y[threadIdx.x] = x[threadIdx.x] * w[threadIdx.x];
}
__global__ void loss(const float* y, float* dy) {
    dy[threadIdx.x] = y[threadIdx.x] - 1;
}
__global__ void backward(const float* x, const float* w, const float* dy, float* dx, float* dw) {
    dx[threadIdx.x] = dy[threadIdx.x] * w[threadIdx.x];
    dw[threadIdx.x] += dy[threadIdx.x] * x[threadIdx.x];
}
__global__ void update(float* w, const float* dw, float* m) {
    m[threadIdx.x] = 0.9f * m[threadIdx.x] + dw[threadIdx.x];
    w[threadIdx.x] -= 0.01f * m[threadIdx.x];
}
__global__ void accuracy(const float* y, float* count) {
    count[0] += y[threadIdx.x];
}

namespace {

constexpr std::size_t kMiB = 1 << 20;
constexpr int kLayers = 6;

std::vector<std::string> log_of_ops;
void did(const char* op) {
    log_of_ops.push_back(op);
}

float* allocate(std::size_t bytes) {
    void* p = nullptr;
    CHECK(cudaMalloc(&p, bytes));
    return static_cast<float*>(p);
}
void release(float* p) {
    CHECK(cudaFree(p));
}

// Names what happens in it, for whoever listens.
struct Range {
    explicit Range(const char* name) { nvtxRangePushA(name); }
    ~Range() { nvtxRangePop(); }
};

struct Network {
    std::vector<float*> weight, momentum, gradient;
    std::size_t bytes;

    explicit Network(std::size_t bytes_per_layer) : bytes(bytes_per_layer) {
        for (int l = 0; l < kLayers; ++l) {
            weight.push_back(allocate(bytes));
            momentum.push_back(allocate(bytes));
            for (float* p : {weight.back(), momentum.back()}) {
                CHECK(cudaMemset(p, 0, bytes));
                did("memset");
            }
        }
    }
};

float* input_of(std::size_t batch) {
    static std::vector<float> host;
    host.assign(batch * kMiB / 4, 0.5f);
    float* x = allocate(batch * kMiB);
    CHECK(cudaMemcpy(x, host.data(), batch * kMiB, cudaMemcpyHostToDevice));
    did("memcpy_h2d");
    return x;
}

std::vector<float*> forward_pass(const Network& n, float* x, std::size_t batch) {
    const Range range("forward");
    std::vector<float*> activations{x};
    for (float* w : n.weight) {
        activations.push_back(allocate(batch * kMiB));
        forward<<<1, 32>>>(activations[activations.size() - 2], w, activations.back());
        did("forward");
    }
    return activations;
}

// Consumes the activations but for the input.
std::vector<float*> backward_pass(const Network& n, std::vector<float*> activations, std::size_t batch) {
    const Range range("backward");
    std::vector<float*> gradients(n.weight.size());
    float* dy = allocate(batch * kMiB);
    loss<<<1, 32>>>(activations.back(), dy);
    did("loss");
    for (int l = kLayers; l-- > 0;) {
        gradients[l] = n.gradient.empty() ? allocate(n.bytes) : n.gradient[l];
        float* dx = allocate(batch * kMiB);
        backward<<<1, 32>>>(activations[l], n.weight[l], dy, dx, gradients[l]);
        did("backward");
        release(dy);
        release(activations[l + 1]);
        dy = dx;
    }
    release(dy);
    return gradients;
}

void apply(const Network& n, const std::vector<float*>& gradients) {
    const Range range("update");
    for (int l = 0; l < kLayers; ++l) {
        update<<<1, 32>>>(n.weight[l], gradients[l], n.momentum[l]);
        did("update");
        release(gradients[l]);
    }
}

void step(const Network& n, std::size_t batch) {
    float* x = input_of(batch);
    apply(n, backward_pass(n, forward_pass(n, x, batch), batch));
    release(x);
}

void evaluate(const Network& n, std::size_t batch) {
    static float* count = allocate(kMiB / 4);
    float* x = input_of(batch);
    const auto activations = forward_pass(n, x, batch);
    accuracy<<<1, 32>>>(activations.back(), count);
    did("accuracy");
    for (float* a : activations) release(a);
}

void micro_steps(Network& n, std::size_t batch, int count) {
    for (int i = 0; i < count; ++i) {
        float* x = input_of(batch);
        n.gradient = backward_pass(n, forward_pass(n, x, batch), batch);
        release(x);
    }
    apply(n, n.gradient);
    n.gradient.clear();
}

// The generator's turn: through it and through the frozen critic, and back.
void generator_turn(const Network& generator, const Network& critic, std::size_t batch) {
    float* noise = input_of(2);
    auto made = forward_pass(generator, noise, batch);
    auto judged = forward_pass(critic, made.back(), batch);
    for (float* g : backward_pass(critic, judged, batch)) release(g);
    apply(generator, backward_pass(generator, made, batch));
    release(noise);
}

}  // namespace

int main(int argc, char** argv) {
    const std::string pattern = argc > 1 ? argv[1] : "plain";
    const int steps = argc > 2 ? std::atoi(argv[2]) : 12;
    Network a(2 * kMiB), b(3 * kMiB);
    std::vector<std::size_t> starts;  // of iterations, in ops
    for (int i = 0; i < steps; ++i) {
        starts.push_back(log_of_ops.size());
        if (pattern == "plain") {
            step(a, 4);
        } else if (pattern == "first") {
            if (i == 0)
                for (float* m : a.momentum) {
                    CHECK(cudaMemset(m, 0, a.bytes));
                    did("memset");
                }
            step(a, 4);
        } else if (pattern == "evaluate") {
            step(a, 4);
            if (i % 3 == 2)
                for (int e = 0; e < 4; ++e) evaluate(a, 8);
        } else if (pattern == "accumulate") {
            micro_steps(a, 4, 4);
        } else if (pattern == "turns" || pattern == "turns5") {
            for (int k = 0; k < (pattern == "turns" ? 1 : 5); ++k) step(a, 4);
            generator_turn(b, a, 4);
        } else if (pattern == "short") {
            step(a, i % 5 == 4 ? 2 : 4);
        } else if (pattern == "sizes") {
            step(a, 3);
            step(a, 4);
        } else {
            std::fprintf(stderr, "loops: no pattern is called %s\n", pattern.c_str());
            return 2;
        }
    }
    CHECK(cudaDeviceSynchronize());
    // The iteration is what lies between the second start and the third.
    for (std::size_t op = starts[1]; op < starts[2]; ++op) std::printf("%s\n", log_of_ops[op].c_str());
    return 0;
}
