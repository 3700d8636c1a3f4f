// Random CUDA programs, many in one process: random_programs_probe SEED COUNT ITERATIONS [FEATURE...]. Each is drawn from its seed
// alone, repeats a list of operations as a training loop does, and compares every buffer with a model on the host.
// One line a program: "SEED right", "SEED DIFFERENT what", or "SEED ERROR name at line" (the process ends there).
// Eight words of a buffer carry its data, so that the software GPU has little to compute and much to move.
#include <cuda_runtime.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

using u64 = unsigned long long;
using Words = std::array<u64, 8>;
constexpr u64 kBytes = 2 << 20, kStride = kBytes / 8 / 8;  // of a buffer; words between two that carry data

static unsigned current_seed;

#define CHECK(call)                                                                                    \
    do {                                                                                               \
        const cudaError_t error_ = (call);                                                             \
        if (error_ != cudaSuccess) {                                                                   \
            std::printf("%u ERROR %s at line %d\n", current_seed, cudaGetErrorName(error_), __LINE__); \
            std::fflush(stdout);                                                                       \
            std::_Exit(7);                                                                             \
        }                                                                                              \
    } while (0)

__host__ __device__ u64 scramble(u64 a, u64 b) {
    u64 x = a * 0x9E3779B97F4A7C15ull ^ (b + 0x7F4A7C15ull);
    x ^= x >> 29;
    return x * 0xBF58476D1CE4E5B9ull;
}
__host__ __device__ u64 combine(u64 out, u64 a, u64 b, u64 salt) {
    return scramble(scramble(scramble(out, salt), a), b);
}
__device__ void apply(u64* out, const u64* a, const u64* b, u64 salt) {
    const u64 i = threadIdx.x * kStride;
    out[i] = combine(out[i], a[i], b[i], salt);
}

__global__ void plain(u64* out, const u64* a, const u64* b, u64 salt) {
    apply(out, a, b, salt);
}

/// Two addresses that lie across the words of the argument.
struct Packed {
    unsigned char bytes[27];
};
__global__ void packed(u64* out, Packed p, u64 salt) {
    const int at = p.bytes[0];
    u64 a = 0, b = 0;
    for (int i = 0; i < 8; ++i) {
        a |= static_cast<u64>(p.bytes[at + i]) << (8 * i);
        b |= static_cast<u64>(p.bytes[at + 8 + i]) << (8 * i);
    }
    apply(out, reinterpret_cast<const u64*>(a), reinterpret_cast<const u64*>(b), salt);
}
/// `a` points `shift` bytes before the buffer, as for loops that count from one.
__global__ void shifted(u64* out, const char* a, u64 shift, const u64* b, u64 salt) {
    apply(out, reinterpret_cast<const u64*>(a + shift), b, salt);
}
__global__ void halves(u64* out, unsigned low, unsigned high, const u64* b, u64 salt) {
    apply(out, reinterpret_cast<const u64*>(static_cast<u64>(high) << 32 | low), b, salt);
}
__global__ void tagged(u64* out, u64 a, const u64* b, u64 salt) {
    apply(out, reinterpret_cast<const u64*>(a & 0x0000FFFFFFFFFFF0ull), b, salt);
}
/// Reads the first two of the table and writes the third too.
__global__ void by_table(u64* out, u64* const* table, u64 salt) {
    apply(out, table[0], table[1], salt);
    apply(table[2], table[0], out, salt + 1);
}
__constant__ u64* constant_table[3];
__device__ u64* device_table[3];
__managed__ u64* managed_table[3];
__global__ void by_constant(u64* out, u64 salt) {
    apply(out, constant_table[0], constant_table[1], salt);
    apply(constant_table[2], constant_table[0], out, salt + 1);
}
__global__ void by_device(u64* out, u64 salt) {
    apply(out, device_table[0], device_table[1], salt);
    apply(device_table[2], device_table[0], out, salt + 1);
}
__global__ void by_managed(u64* out, u64 salt) {
    apply(out, managed_table[0], managed_table[1], salt);
    apply(managed_table[2], managed_table[0], out, salt + 1);
}
__global__ void write_table(u64** table, u64* a, u64* b, u64* c) {
    table[0] = a;
    table[1] = b;
    table[2] = c;
}

enum Kind {
    kPlain,
    kPacked,
    kShifted,
    kHalves,
    kTagged,
    kTable,
    kMemset,
    kCopy,
    kFromHost,
    kRead,
    kPool,
    kGraph,
    kCapture,
    kScratch,
    kGate
};
enum Where { kConstant, kDevice, kManagedVariable, kManaged, kMapped, kCopied, kByKernel, kWheres };

struct Op {
    Kind kind;
    int out, a, b;
    u64 salt;
    int stream, every, detail;
};

static void CUDART_CB wait_for(void* flag) {
    while (!static_cast<std::atomic<bool>*>(flag)->load()) std::this_thread::yield();
}
static void CUDART_CB nothing(void*) {}

class Program {
  public:
    Program(unsigned seed, const std::set<std::string>& features) : draw_(seed), features_(features) {
        count_ = number(5, 14);
        hidden_ = 3;  // the first buffers are those that tables name: they may not move, so they are few
        where_ = static_cast<Where>(number(0, kWheres - 1));
        for (int i = 0; i < count_; ++i) {
            u64* p = nullptr;
            CHECK(cudaMalloc(&p, kBytes));
            buffers_.push_back(p);
            model_.push_back(first(i));
            CHECK(cudaMemset(p, i + 1, kBytes));
        }
        last_stream_.assign(buffers_.size(), 0);
        for (auto& s : streams_) CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
        for (auto& e : events_) CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
        CHECK(cudaMallocHost(&pinned_, kBytes));
        std::memset(pinned_, 0, kBytes);
        CHECK(cudaDeviceSynchronize());
        if (has("tables")) make_table();
        const int ops = number(4, 12);
        for (int i = 0; i < ops; ++i) ops_.push_back(draw_op());
        if (has("graphs")) make_graph();
    }

    std::string run(int iterations) {
        for (int it = 0; it < iterations; ++it) {
            if (has("threads") && it % 3 == 2)
                std::thread([&] { iteration(it); }).join();
            else
                iteration(it);
            if (!fault_.empty()) break;
        }
        for (std::size_t i = 0; i < buffers_.size() && fault_.empty(); ++i)
            compare(static_cast<int>(i), "at the end");
        return fault_;
    }

    ~Program() {
        CHECK(cudaDeviceSynchronize());
        if (exec_) CHECK(cudaGraphExecDestroy(exec_));
        if (graph_) CHECK(cudaGraphDestroy(graph_));
        for (u64* p : buffers_) CHECK(cudaFree(p));
        for (auto s : streams_) CHECK(cudaStreamDestroy(s));
        for (auto e : events_) CHECK(cudaEventDestroy(e));
        if (where_ == kMapped && table_)
            CHECK(cudaFreeHost(table_));
        else if (table_)
            CHECK(cudaFree(table_));
        CHECK(cudaFreeHost(pinned_));
    }

  private:
    int number(int low, int high) {
        return low + static_cast<int>(draw_() % static_cast<unsigned>(high - low + 1));
    }
    bool has(const char* feature) const { return features_.empty() || features_.count(feature); }
    static Words first(int i) {
        u64 word = 0;
        std::memset(&word, i + 1, 8);
        Words words;
        words.fill(word);
        return words;
    }

    Op draw_op() {
        std::vector<Kind> kinds{kPlain, kPlain, kMemset, kCopy, kFromHost, kRead, kScratch};
        if (has("arguments")) kinds.insert(kinds.end(), {kPacked, kShifted, kHalves, kTagged});
        if (has("tables")) kinds.insert(kinds.end(), {kTable, kTable});
        if (has("pools")) kinds.push_back(kPool);
        if (has("graphs")) kinds.insert(kinds.end(), {kGraph, kGraph});
        if (has("captures")) kinds.push_back(kCapture);
        if (has("gates")) kinds.push_back(kGate);
        Op op{};
        op.kind = kinds[static_cast<std::size_t>(number(0, static_cast<int>(kinds.size()) - 1))];
        op.out = number(0, count_ - 1);
        // The operands of one kernel are of different threads only if they are different buffers.
        op.a = (op.out + number(1, count_ - 1)) % count_;
        op.b = number(0, count_ - 1);
        op.salt = draw_();
        op.stream = number(0, 2);
        op.every = number(0, 5) == 0 ? 7 : 1;
        op.detail = number(0, 7);
        if (op.kind == kTable) op.out = number(hidden_, count_ - 1);
        return op;
    }

    void iteration(int it) {
        for (const Op& op : ops_)
            if (op.every == 1 || it % op.every == op.every - 1) issue(op, it);
    }

    /// Makes the op's stream wait for the streams that used its buffers last.
    cudaStream_t ordered(const Op& op, std::initializer_list<int> used) {
        for (int i : used) {
            int& last = last_stream_[static_cast<std::size_t>(i)];
            if (last != op.stream) {
                const cudaEvent_t e = events_[static_cast<std::size_t>(last)];
                CHECK(cudaEventRecord(e, streams_[static_cast<std::size_t>(last)]));
                CHECK(cudaStreamWaitEvent(streams_[static_cast<std::size_t>(op.stream)], e, 0));
            }
            last = op.stream;
        }
        return streams_[static_cast<std::size_t>(op.stream)];
    }

    void combine_model(int out, int a, int b, u64 salt) {
        for (std::size_t i = 0; i < 8; ++i) at(out)[i] = combine(at(out)[i], at(a)[i], at(b)[i], salt);
    }
    Words& at(int i) { return model_[static_cast<std::size_t>(i)]; }
    u64* buffer(int i) { return buffers_[static_cast<std::size_t>(i)]; }

    void issue(const Op& op, int it) {
        u64 *out = buffer(op.out), *a = buffer(op.a), *b = buffer(op.b);
        switch (op.kind) {
            case kPlain:
                plain<<<1, 8, 0, ordered(op, {op.out, op.a, op.b})>>>(out, a, b, op.salt);
                break;
            case kPacked: {
                Packed p{};
                const int offset = 1 + op.detail;
                p.bytes[0] = static_cast<unsigned char>(offset);
                std::memcpy(p.bytes + offset, &a, 8);
                std::memcpy(p.bytes + offset + 8, &b, 8);
                packed<<<1, 8, 0, ordered(op, {op.out, op.a, op.b})>>>(out, p, op.salt);
                break;
            }
            case kShifted: {
                const u64 shift = 8ull << op.detail;
                shifted<<<1, 8, 0, ordered(op, {op.out, op.a, op.b})>>>(
                    out, reinterpret_cast<const char*>(a) - shift, shift, b, op.salt);
                break;
            }
            case kHalves: {
                const u64 word = reinterpret_cast<u64>(a);
                halves<<<1, 8, 0, ordered(op, {op.out, op.a, op.b})>>>(
                    out, static_cast<unsigned>(word), static_cast<unsigned>(word >> 32), b, op.salt);
                break;
            }
            case kTagged:
                tagged<<<1, 8, 0, ordered(op, {op.out, op.a, op.b})>>>(
                    out, reinterpret_cast<u64>(a) | static_cast<u64>(op.detail) << 56 | (op.salt & 7), b,
                    op.salt);
                break;
            case kTable: {
                const cudaStream_t s = ordered(op, {op.out, 0, 1, 2});
                if (where_ == kConstant)
                    by_constant<<<1, 8, 0, s>>>(out, op.salt);
                else if (where_ == kDevice)
                    by_device<<<1, 8, 0, s>>>(out, op.salt);
                else if (where_ == kManagedVariable)
                    by_managed<<<1, 8, 0, s>>>(out, op.salt);
                else
                    by_table<<<1, 8, 0, s>>>(out, table_, op.salt);
                CHECK(cudaGetLastError());
                combine_model(op.out, 0, 1, op.salt);
                combine_model(2, 0, op.out, op.salt + 1);
                return;
            }
            case kMemset: {
                CHECK(cudaMemsetAsync(out, static_cast<int>(op.salt & 255), kBytes, ordered(op, {op.out})));
                u64 word = 0;
                std::memset(&word, static_cast<int>(op.salt & 255), 8);
                at(op.out).fill(word);
                return;
            }
            case kCopy:
                CHECK(cudaMemcpyAsync(out, a, kBytes,
                                      op.detail & 1 ? cudaMemcpyDefault : cudaMemcpyDeviceToDevice,
                                      ordered(op, {op.out, op.a})));
                at(op.out) = at(op.a);
                return;
            case kFromHost: {
                const cudaStream_t s = ordered(op, {op.out});
                CHECK(cudaStreamSynchronize(s));
                for (std::size_t i = 0; i < 8; ++i)
                    pinned_[i * kStride] = at(op.out)[i] = scramble(op.salt, i + static_cast<u64>(it));
                CHECK(cudaMemcpyAsync(out, pinned_, kBytes, cudaMemcpyHostToDevice, s));
                CHECK(cudaStreamSynchronize(s));
                return;
            }
            case kRead:
                compare(op.out, "in iteration " + std::to_string(it));
                return;
            case kPool: {
                u64* p = nullptr;
                const cudaStream_t s = ordered(op, {op.out, op.a});
                CHECK(cudaMallocAsync(&p, kBytes, s));
                CHECK(cudaMemsetAsync(p, 5, kBytes, s));
                plain<<<1, 8, 0, s>>>(p, a, a, op.salt);
                plain<<<1, 8, 0, s>>>(out, p, p, op.salt);
                CHECK(cudaFreeAsync(p, s));
                by_scratch(op, 5);
                return;
            }
            case kScratch: {
                u64* p = nullptr;
                const cudaStream_t s = ordered(op, {op.out, op.a});
                CHECK(cudaMalloc(&p, kBytes));
                CHECK(cudaMemsetAsync(p, 9, kBytes, s));
                plain<<<1, 8, 0, s>>>(p, a, a, op.salt);
                plain<<<1, 8, 0, s>>>(out, p, p, op.salt);
                CHECK(cudaStreamSynchronize(s));
                CHECK(cudaFree(p));
                by_scratch(op, 9);
                return;
            }
            case kGraph:
                launch_graph(op, it);
                return;
            case kCapture: {
                cudaStream_t s = nullptr;
                cudaGraph_t g = nullptr;
                CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
                CHECK(cudaStreamBeginCapture(
                    s, op.detail & 1 ? cudaStreamCaptureModeRelaxed : cudaStreamCaptureModeThreadLocal));
                plain<<<1, 8, 0, s>>>(out, a, b, op.salt);
                if (op.detail & 2) {
                    CHECK(cudaStreamEndCapture(s, &g));
                    CHECK(cudaGraphDestroy(g));
                }
                CHECK(cudaStreamDestroy(s));
                return;
            }
            case kGate: {
                std::atomic<bool> open{false};
                const cudaStream_t s = ordered(op, {op.out, op.a, op.b});
                CHECK(cudaLaunchHostFunc(s, wait_for, &open));
                for (int i = 0; i < 3; ++i) plain<<<1, 8, 0, s>>>(out, a, b, op.salt + static_cast<u64>(i));
                CHECK(cudaGetLastError());
                open = true;
                CHECK(cudaStreamSynchronize(s));
                for (u64 i = 0; i < 3; ++i) combine_model(op.out, op.a, op.b, op.salt + i);
                return;
            }
        }
        CHECK(cudaGetLastError());
        combine_model(op.out, op.a, op.b, op.salt);
    }

    void by_scratch(const Op& op, int fill) {
        CHECK(cudaGetLastError());
        u64 word = 0;
        std::memset(&word, fill, 8);
        for (std::size_t i = 0; i < 8; ++i) {
            const u64 v = combine(word, at(op.a)[i], at(op.a)[i], op.salt);
            at(op.out)[i] = combine(at(op.out)[i], v, v, op.salt);
        }
    }

    void compare(int i, const std::string& when) {
        CHECK(cudaStreamSynchronize(
            streams_[static_cast<std::size_t>(last_stream_[static_cast<std::size_t>(i)])]));
        std::vector<u64> host(kBytes / 8);
        CHECK(cudaMemcpy(host.data(), buffer(i), kBytes, cudaMemcpyDeviceToHost));
        for (std::size_t w = 0; w < 8; ++w)
            if (host[w * kStride] != at(i)[w] && fault_.empty())
                fault_ = "buffer " + std::to_string(i) + " of " + std::to_string(count_) + " " + when +
                         ", addresses in place " + std::to_string(where_);
    }

    void make_table() {
        u64* addresses[3] = {buffer(0), buffer(1), buffer(2)};
        switch (where_) {
            case kConstant:
                CHECK(cudaMemcpyToSymbol(constant_table, addresses, sizeof addresses));
                break;
            case kDevice:
                CHECK(cudaMemcpyToSymbol(device_table, addresses, sizeof addresses));
                break;
            case kManagedVariable:
                std::memcpy(managed_table, addresses, sizeof addresses);
                break;
            case kManaged:
                CHECK(cudaMallocManaged(&table_, sizeof addresses));
                std::memcpy(table_, addresses, sizeof addresses);
                break;
            case kMapped:
                CHECK(cudaHostAlloc(&table_, sizeof addresses, cudaHostAllocMapped));
                std::memcpy(table_, addresses, sizeof addresses);
                break;
            case kCopied:
                CHECK(cudaMalloc(&table_, sizeof addresses));
                CHECK(cudaMemcpy(table_, addresses, sizeof addresses, cudaMemcpyDefault));
                break;
            default:
                CHECK(cudaMalloc(&table_, sizeof addresses));
                write_table<<<1, 1>>>(table_, buffer(0), buffer(1), buffer(2));
                CHECK(cudaDeviceSynchronize());
        }
    }

    struct Node {
        Kind kind;
        int out, a, b;
        u64 salt;
        bool enabled;
        cudaGraphNode_t node;
    };

    static void set_kernel(cudaKernelNodeParams& p, void** arguments) {
        p = {};
        p.func = reinterpret_cast<void*>(plain);
        p.gridDim = dim3(1);
        p.blockDim = dim3(8);
        p.kernelParams = arguments;
    }

    /// A chain of nodes of every kind; model and launches follow `nodes_`.
    void make_graph() {
        CHECK(cudaGraphCreate(&graph_, 0));
        cudaGraphNode_t before{};
        const int length = number(2, 7);
        for (int i = 0; i < length; ++i) {
            Node n{};
            // Of the first four only: those of one launch, updates included, fit the smallest limit.
            n.out = number(0, 3);
            n.a = (n.out + number(1, 3)) % 4;
            n.b = number(0, 3);
            n.salt = draw_();
            n.enabled = true;
            const cudaGraphNode_t* after = i ? &before : nullptr;
            const std::size_t edges = i ? 1 : 0;
            u64 *out = buffer(n.out), *a = buffer(n.a), *b = buffer(n.b);
            void* arguments[] = {&out, &a, &b, &n.salt};
            cudaKernelNodeParams kernel;
            set_kernel(kernel, arguments);
            switch (number(0, 6)) {
                case 0:
                    n.kind = kMemset;
                    n.salt &= 255;
                    {
                        cudaMemsetParams p{};
                        p.dst = out;
                        p.value = static_cast<unsigned>(n.salt);
                        p.elementSize = 1;
                        p.width = kBytes;
                        p.height = 1;
                        CHECK(cudaGraphAddMemsetNode(&n.node, graph_, after, edges, &p));
                    }
                    break;
                case 1:
                    n.kind = kCopy;
                    CHECK(cudaGraphAddMemcpyNode1D(&n.node, graph_, after, edges, out, a, kBytes,
                                                   cudaMemcpyDeviceToDevice));
                    break;
                case 2: {
                    n.kind = kGraph;  // a child of one kernel
                    cudaGraph_t child;
                    cudaGraphNode_t inner;
                    CHECK(cudaGraphCreate(&child, 0));
                    CHECK(cudaGraphAddKernelNode(&inner, child, nullptr, 0, &kernel));
                    CHECK(cudaGraphAddChildGraphNode(&n.node, graph_, after, edges, child));
                    CHECK(cudaGraphDestroy(child));
                    break;
                }
                case 3: {
                    n.kind = kGate;  // an empty or a host node: changes nothing
                    cudaHostNodeParams p{};
                    p.fn = nothing;
                    if (n.salt & 1)
                        CHECK(cudaGraphAddHostNode(&n.node, graph_, after, edges, &p));
                    else
                        CHECK(cudaGraphAddEmptyNode(&n.node, graph_, after, edges));
                    break;
                }
                default:
                    n.kind = kPlain;
                    CHECK(cudaGraphAddKernelNode(&n.node, graph_, after, edges, &kernel));
            }
            before = n.node;
            nodes_.push_back(n);
        }
        CHECK(cudaGraphInstantiate(&exec_, graph_, 0));
    }

    void launch_graph(const Op& op, int it) {
        Node& n = nodes_[static_cast<std::size_t>(op.detail) % nodes_.size()];
        if (it % 4 == 3 && op.salt & 1) {  // an update between two launches
            if (has("disabled") && n.kind == kPlain && op.salt & 2) {
                n.enabled = !n.enabled;
                CHECK(cudaGraphNodeSetEnabled(exec_, n.node, n.enabled));
            } else if (n.kind == kPlain) {
                n.out = op.out % 5, n.a = (n.out + 1 + op.a % 4) % 5, n.b = op.b % 5,
                n.salt = op.salt + static_cast<u64>(it);
                u64 *out = buffer(n.out), *a = buffer(n.a), *b = buffer(n.b);
                void* arguments[] = {&out, &a, &b, &n.salt};
                cudaKernelNodeParams kernel;
                set_kernel(kernel, arguments);
                CHECK(cudaGraphExecKernelNodeSetParams(exec_, n.node, &kernel));
            } else if (n.kind == kCopy) {
                n.out = op.out % 5, n.a = (n.out + 1 + op.a % 4) % 5;
                CHECK(cudaGraphExecMemcpyNodeSetParams1D(exec_, n.node, buffer(n.out), buffer(n.a), kBytes,
                                                         cudaMemcpyDeviceToDevice));
            }
        }
        // The order of a graph's own launches is the driver's promise, whatever the streams; that with other work is ours to keep.
        cudaStream_t s = nullptr;
        for (const Node& each : nodes_) s = ordered(op, {each.out, each.a, each.b});
        CHECK(cudaGraphLaunch(exec_, s));
        for (const Node& each : nodes_) {
            if (!each.enabled) continue;
            if (each.kind == kMemset) {
                u64 word = 0;
                std::memset(&word, static_cast<int>(each.salt), 8);
                at(each.out).fill(word);
            } else if (each.kind == kCopy) {
                at(each.out) = at(each.a);
            } else if (each.kind != kGate) {
                combine_model(each.out, each.a, each.b, each.salt);
            }
        }
    }

    std::mt19937 draw_;
    std::set<std::string> features_;
    int count_ = 0, hidden_ = 0;
    Where where_ = kConstant;
    std::vector<u64*> buffers_;
    std::vector<Words> model_;
    std::vector<int> last_stream_;
    std::array<cudaStream_t, 3> streams_{};
    std::array<cudaEvent_t, 3> events_{};
    u64* pinned_ = nullptr;
    u64** table_ = nullptr;
    std::vector<Op> ops_;
    std::vector<Node> nodes_;
    cudaGraph_t graph_ = nullptr;
    cudaGraphExec_t exec_ = nullptr;
    std::string fault_;
};

int main(int argc, char** argv) {
    if (argc < 4) {
        std::fprintf(stderr,
                     "use: random_programs_probe SEED COUNT ITERATIONS "
                     "[arguments|tables|graphs|disabled|pools|captures|gates|threads...]\n");
        return 2;
    }
    const auto seed = static_cast<unsigned>(std::atoi(argv[1]));
    const std::set<std::string> features(argv + 4, argv + argc);
    int different = 0;
    for (unsigned i = 0; i < static_cast<unsigned>(std::atoi(argv[2])); ++i) {
        current_seed = seed + i;
        Program program(current_seed, features);
        const std::string fault = program.run(std::atoi(argv[3]));
        if (fault.empty())
            std::printf("%u right\n", current_seed);
        else
            std::printf("%u DIFFERENT %s\n", current_seed, fault.c_str()), ++different;
        std::fflush(stdout);
    }
    return different ? 1 : 0;
}
