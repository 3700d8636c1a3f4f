// Small CUDA programs for the replayer's system tests: each prints lines that must not depend on how its memory is
// managed. They know nothing of the product; counters of the software GPU are asked for only if it is there.
// One word per 4 KiB page carries the data, so that gigabytes stay cheap to compute on.
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

using u64 = unsigned long long;

#define CHECK(call)                                                                      \
    do {                                                                                 \
        const cudaError_t error_ = (call);                                               \
        if (error_ != cudaSuccess) {                                                     \
            std::printf("line %d: %s: %s\n", __LINE__, #call, cudaGetErrorName(error_)); \
            std::fflush(stdout);                                                         \
            std::exit(7);                                                                \
        }                                                                                \
    } while (0)

constexpr u64 kPage = 4096, kWords = kPage / sizeof(u64);

__device__ u64 scramble(u64 a, u64 b) {
    u64 x = a * 0x9E3779B97F4A7C15ull ^ (b + 0x7F4A7C15ull);
    x ^= x >> 29;
    return x * 0xBF58476D1CE4E5B9ull;
}

/// out = f(out if `keep`, a, b, salt), page by page; a and b may be null or of other sizes.
__global__ void mix(u64* out, u64 pages, const u64* a, u64 a_pages, const u64* b, u64 b_pages, u64 salt,
                    bool keep) {
    const u64 i = blockIdx.x * static_cast<u64>(blockDim.x) + threadIdx.x;
    if (i >= pages) return;
    u64 v = keep ? out[i * kWords] : 0;
    v = scramble(v, salt + i);
    if (a) v = scramble(v, a[i % a_pages * kWords]);
    if (b) v = scramble(v, b[i % b_pages * kWords]);
    out[i * kWords] = v;
}

/// As mix, but its inputs come from a table in device memory.
__global__ void gather(u64* out, u64 pages, const u64* const* table, u64 count, u64 in_pages) {
    const u64 i = blockIdx.x * static_cast<u64>(blockDim.x) + threadIdx.x;
    if (i >= pages) return;
    u64 v = i;
    for (u64 t = 0; t < count; ++t) v = scramble(v, table[t][i % in_pages * kWords]);
    out[i * kWords] = v;
}

/// Reads by an address that no one who looks at the arguments can know.
__global__ void peek(u64* out, u64 masked) {
    *out += *reinterpret_cast<const u64*>(masked ^ 0x5A5A5A5A5A5A5A5Aull);
}

/// Adds up what it is given. What it leaves there only `change` tells, which is no address: 1 changes every page, 2 no
/// more than the last byte.
__global__ void gather_up(u64* data, u64 bytes, u64* sum, int change) {
    const u64 i = blockIdx.x * static_cast<u64>(blockDim.x) + threadIdx.x;
    if (i >= bytes / kPage) return;
    unsigned char& last = reinterpret_cast<unsigned char*>(data)[bytes - 1];
    sum[i * kWords] = scramble(sum[i * kWords], data[i * kWords] + (i == 0 ? last : 0));
    if (change == 1) data[i * kWords] = scramble(data[i * kWords], i);
    if (change == 2 && i == 0) ++last;
}

struct Memory {
    u64* data = nullptr;
    u64 pages = 0;
};

Memory allocate(u64 bytes) {
    Memory m;
    m.pages = bytes / kPage;
    CHECK(cudaMalloc(&m.data, bytes));
    return m;
}
void release(Memory& m) {
    CHECK(cudaFree(m.data));
    m = {};
}
void op(const Memory& out, const Memory& a, const Memory& b, u64 salt, bool keep,
        cudaStream_t stream = nullptr) {
    mix<<<static_cast<unsigned>((out.pages + 127) / 128), 128, 0, stream>>>(
        out.data, out.pages, a.data, a.pages, b.data, b.pages, salt, keep);
    CHECK(cudaGetLastError());
}
u64 hash(const Memory& m, u64 seed = 0) {
    std::vector<u64> host(m.pages * kWords);
    CHECK(cudaMemcpy(host.data(), m.data, m.pages * kPage, cudaMemcpyDeviceToHost));
    for (u64 i = 0; i < m.pages; ++i) seed = (seed ^ host[i * kWords]) * 0x100000001b3ull + i;
    return seed;
}

constexpr u64 MiB = 1ull << 20;

struct Net {
    int layers;
    u64 weight, activation;
    cudaStream_t stream = nullptr, side = nullptr;
    std::vector<Memory> weights, moments;
    Net(int n, u64 w, u64 a, cudaStream_t s = nullptr) : layers(n), weight(w), activation(a), stream(s) {
        for (int l = 0; l < layers; ++l) {
            weights.push_back(allocate(weight));
            moments.push_back(allocate(weight));
            op(weights.back(), {}, {}, static_cast<u64>(l) + 1, false, stream);
            op(moments.back(), {}, {}, static_cast<u64>(l) + 100, false, stream);
        }
    }
    /// `stop`: give up after so many ops, as if an exception were thrown.
    void step(u64 scale = 1, int stop = 1 << 30, bool extra = false) {
        std::vector<Memory> acts{allocate(activation * scale)};
        int ops = 0;
        auto leave = [&] {
            for (Memory& m : acts) release(m);
        };
        op(acts[0], {}, {}, 7, false, stream);
        for (int l = 0; l < layers; ++l) {
            acts.push_back(allocate(activation * scale));
            op(acts.back(), acts[acts.size() - 2], weights[static_cast<std::size_t>(l)], 8, false, stream);
            if (extra && l % 2) op(moments[0], weights[static_cast<std::size_t>(l)], {}, 9, true, stream);
            if (++ops >= stop) return leave();
        }
        Memory grad = allocate(activation * scale);
        op(grad, acts.back(), {}, 10, false, stream);
        for (int l = layers - 1; l >= 0; --l) {
            const auto i = static_cast<std::size_t>(l);
            Memory w = allocate(weight);
            op(w, grad, acts[i], 11, false, stream);
            release(acts.back());
            acts.pop_back();
            op(moments[i], w, {}, 12, true, stream);
            op(weights[i], moments[i], {}, 13, true, stream);
            release(w);
            op(grad, weights[i], {}, 14, true, stream);
            if (++ops >= stop) {
                release(grad);
                return leave();
            }
        }
        release(grad);
        leave();
    }
    u64 evaluate() {
        Memory x = allocate(activation * 2);
        op(x, {}, {}, 20, false, stream);
        for (int l = 0; l < layers; ++l) {
            Memory y = allocate(activation * 2);
            op(y, x, weights[static_cast<std::size_t>(l)], 21, false, stream);
            release(x);
            x = y;
        }
        CHECK(cudaStreamSynchronize(stream));
        const u64 h = hash(x);
        release(x);
        return h;
    }
    u64 all() {
        CHECK(cudaStreamSynchronize(stream));
        u64 h = 0;
        for (Memory& m : weights) h = hash(m, h);
        for (Memory& m : moments) h = hash(m, h);
        return h;
    }
    void free_all() {
        for (Memory& m : weights) release(m);
        for (Memory& m : moments) release(m);
    }
};

using Count = unsigned long long (*)(const char*);
Count counter() {
    static void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    return driver ? reinterpret_cast<Count>(dlsym(driver, "softgpu_count")) : nullptr;
}
void pause_ms(int ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

/// Warm-up with pauses (so that a planner has time), then 100 steps with the driver's counters before and after.
void steady(int warm, int pause, int layers, u64 activation) {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    Net net(layers, 2 * MiB, activation, stream);
    for (int i = 0; i < warm; ++i) {
        net.step();
        pause_ms(pause);
    }
    static const char* const names[] = {"cuMemMap",           "cuMemUnmap",          "cuMemSetAccess",
                                        "cuMemCreate",        "cuMemRelease",        "cuMemAddressReserve",
                                        "cuEventSynchronize", "cuStreamSynchronize", "cuCtxSynchronize",
                                        "cuMemHostAlloc",     "cuMemAlloc_v2",       "cuMemFree_v2",
                                        "cuMemAllocHost_v2"};
    std::vector<u64> before;
    if (counter())
        for (const char* name : names) before.push_back(counter()(name));
    for (int i = 0; i < 100; ++i) net.step();
    if (counter())
        for (std::size_t i = 0; i < before.size(); ++i)
            std::fprintf(stderr, "count %s %llu\n", names[i], counter()(names[i]) - before[i]);
    std::printf("hash %016llx\n", net.all());
}

void change(unsigned seed, int steps) {
    Net net(6, 2 * MiB, 4 * MiB);
    std::srand(seed);
    for (int i = 0; i < 10; ++i) {
        net.step();
        pause_ms(10);
    }
    for (int i = 0; i < steps; ++i) switch (std::rand() % 10) {
            case 0:
                std::printf("eval %016llx\n", net.evaluate());
                break;
            case 1:
                net.step(2);
                break;
            case 2:
                net.step(1, 1 + std::rand() % 10);
                break;
            case 3:
                net.step(1, 1 << 30, true);
                break;
            case 4:
                std::printf("weights %016llx\n",
                            hash(net.weights[static_cast<std::size_t>(std::rand() % 6)]));
                break;
            default:
                net.step();
        }
    std::printf("hash %016llx\n", net.all());
}

void grow() {
    Net net(4, 2 * MiB, 4 * MiB);
    for (int i = 0; i < 12; ++i) {
        net.step();
        pause_ms(10);
    }
    net.weights.push_back(allocate(net.weight));
    net.moments.push_back(allocate(net.weight));
    op(net.weights.back(), {}, {}, 55, false);
    op(net.moments.back(), {}, {}, 56, false);
    ++net.layers;
    for (int i = 0; i < 12; ++i) {
        net.step();
        pause_ms(10);
    }
    std::printf("hash %016llx\n", net.all());
}

/// The training loop of a program that gives up one step and goes on.
void throwing() {
    struct Holder {
        Memory memory;
        explicit Holder(u64 bytes) : memory(allocate(bytes)) {}
        ~Holder() { release(memory); }
    };
    Net net(6, 2 * MiB, 4 * MiB);
    int caught = 0;
    for (int i = 0; i < 36; ++i) {
        if (i < 14) pause_ms(10);
        try {
            if (i > 14 && i % 5 == 0) {
                const Holder x(4 * MiB), y(4 * MiB);
                op(x.memory, net.weights[0], {}, 7, false);
                op(y.memory, x.memory, net.weights[1], 8, false);
                throw i;
            }
            net.step();
        } catch (int) {
            ++caught;
        }
    }
    std::printf("caught %d hash %016llx\n", caught, net.all());
}

/// Steps, `change` some of them, steps.
template <class F>
void interrupted(F&& change) {
    Net net(6, 2 * MiB, 4 * MiB);
    for (int i = 0; i < 14; ++i) {
        net.step();
        pause_ms(10);
    }
    change(net);
    for (int i = 0; i < 10; ++i) net.step();
    std::printf("hash %016llx\n", net.all());
}

/// Large memory up to the limit and over it, then thousands of small allocations; all of it again within steps.
void small(int count) {
    Net net(6, 2 * MiB, 4 * MiB);
    std::vector<Memory> kept;
    auto more = [&](int n, u64 bytes) {
        for (int i = 0; i < n; ++i) {
            kept.push_back(allocate(bytes));
            op(kept.back(), net.weights[static_cast<std::size_t>(i) % net.weights.size()], {},
               static_cast<u64>(i), false);
        }
    };
    more(count, 16 * 1024);
    for (int i = 0; i < 20; ++i) {
        net.step();
        pause_ms(10);
    }
    more(count, 16 * 1024);
    more(3, 700 * 1024);
    for (int i = 0; i < 20; ++i) {
        net.step();
        pause_ms(10);
    }
    u64 h = net.all();
    for (Memory& m : kept) h = hash(m, h);
    std::printf("hash %016llx\n", h);
}

/// In the middle of a step, everything is read behind the back of whoever looks at the arguments.
void hidden(int after) {
    Net net(6, 2 * MiB, 4 * MiB);
    u64* sum;
    CHECK(cudaMalloc(&sum, sizeof *sum));
    CHECK(cudaMemset(sum, 0, sizeof *sum));
    for (int i = 0; i < after; ++i) {
        net.step();
        pause_ms(10);
    }
    CHECK(cudaDeviceSynchronize());
    std::printf("peeking\n");
    std::fflush(stdout);
    for (auto* all : {&net.weights, &net.moments})
        for (Memory& m : *all) {
            peek<<<1, 1>>>(sum, reinterpret_cast<u64>(m.data) ^ 0x5A5A5A5A5A5A5A5Aull);
            CHECK(cudaGetLastError());
            CHECK(cudaDeviceSynchronize());
        }
    u64 got = 0;
    CHECK(cudaMemcpy(&got, sum, sizeof got, cudaMemcpyDeviceToHost));
    std::printf("sum %016llx\n", got);
}

/// A net on each device, in turns and by threads of their own.
void devices(int count) {
    std::vector<u64> hashes(static_cast<std::size_t>(2 * count));
    {
        std::vector<Net> nets;
        for (int d = 0; d < count; ++d) {
            CHECK(cudaSetDevice(d));
            nets.emplace_back(4 + d, 2 * MiB, 4 * MiB);
        }
        for (int i = 0; i < 16; ++i) {
            for (int d = 0; d < count; ++d) {
                CHECK(cudaSetDevice(d));
                nets[static_cast<std::size_t>(d)].step();
            }
            pause_ms(10);
        }
        for (int d = 0; d < count; ++d) {
            CHECK(cudaSetDevice(d));
            hashes[static_cast<std::size_t>(d)] = nets[static_cast<std::size_t>(d)].all();
            nets[static_cast<std::size_t>(d)].free_all();
        }
    }
    std::vector<std::thread> all;
    for (int d = 0; d < count; ++d)
        all.emplace_back([d, count, &hashes] {
            CHECK(cudaSetDevice(d));
            Net net(5 + d, 2 * MiB, 4 * MiB);
            for (int i = 0; i < 24; ++i) {
                net.step();
                pause_ms(5);
            }
            hashes[static_cast<std::size_t>(count + d)] = net.all();
            net.free_all();
        });
    for (std::thread& t : all) t.join();
    for (u64 h : hashes) std::printf("hash %016llx\n", h);
}

void device_reset() {
    for (int round = 0; round < 2; ++round) {
        Net net(5, 2 * MiB, 4 * MiB);
        for (int i = 0; i < 12; ++i) {
            net.step();
            pause_ms(10);
        }
        std::printf("hash %016llx\n", net.all());
        CHECK(cudaDeviceReset());
    }
}

void graphs() {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    std::vector<Memory> bufs;
    for (int i = 0; i < 8; ++i) {
        bufs.push_back(allocate(4 * MiB));
        op(bufs.back(), {}, {}, static_cast<u64>(i), false, stream);
    }
    Memory other = allocate(16 * MiB);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < 8; ++i)
        op(bufs[static_cast<std::size_t>(i)], bufs[static_cast<std::size_t>((i + 1) % 8)],
           bufs[static_cast<std::size_t>((i + 3) % 8)], 77, true, stream);
    CHECK(cudaMemsetAsync(bufs[5].data, 3, MiB, stream));
    CHECK(cudaMemcpyAsync(bufs[6].data, bufs[7].data, 2 * MiB, cudaMemcpyDeviceToDevice, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 20; ++i) {
        CHECK(cudaGraphLaunch(exec, stream));
        op(other, bufs[static_cast<std::size_t>(i % 8)], {}, 5, true, stream);
    }
    CHECK(cudaStreamSynchronize(stream));
    u64 h = hash(other);
    for (Memory& m : bufs) h = hash(m, h);
    std::printf("hash %016llx\n", h);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    for (Memory& m : bufs) release(m);
    release(other);
}

/// A capture is open while another stream works on more memory than there is, by this thread and by another.
void beside_capture() {
    cudaStream_t stream, other;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    std::vector<Memory> bufs, more;
    for (int i = 0; i < 4; ++i) {
        bufs.push_back(allocate(2 * MiB));
        op(bufs.back(), {}, {}, static_cast<u64>(i), false, stream);
    }
    for (int i = 0; i < 8; ++i) {
        more.push_back(allocate(4 * MiB));
        op(more.back(), {}, {}, static_cast<u64>(i), false, other);
    }
    auto work = [&](u64 salt) {
        for (std::size_t i = 0; i < more.size(); ++i)
            op(more[i], more[(i + 3) % more.size()], {}, salt, true, other);
    };
    CHECK(cudaDeviceSynchronize());
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (std::size_t i = 0; i < bufs.size(); ++i) {
        op(bufs[i], bufs[(i + 1) % bufs.size()], {}, 5, true, stream);
        work(i);
        std::thread([&] { work(i + 100); }).join();
    }
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 6; ++i) {
        CHECK(cudaGraphLaunch(exec, stream));
        work(static_cast<u64>(i) + 50);
    }
    CHECK(cudaDeviceSynchronize());
    u64 h = 0;
    for (Memory& m : bufs) h = hash(m, h);
    for (Memory& m : more) h = hash(m, h);
    std::printf("hash %016llx\n", h);
}

void threads(int count) {
    std::vector<std::thread> all;
    std::vector<u64> hashes(static_cast<std::size_t>(count));
    for (int t = 0; t < count; ++t)
        all.emplace_back([t, &hashes] {
            cudaStream_t stream;
            CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
            Net net(3, 2 * MiB, 2 * MiB, stream);
            for (int i = 0; i < 25; ++i) net.step();
            hashes[static_cast<std::size_t>(t)] = net.all();
            net.free_all();
            CHECK(cudaStreamDestroy(stream));
        });
    for (std::thread& t : all) t.join();
    for (u64 h : hashes) std::printf("hash %016llx\n", h);
}

/// Kernels that reach memory through a table of addresses.
void table() {
    std::vector<Memory> bufs;
    std::vector<const u64*> host;
    for (int i = 0; i < 3; ++i) {
        bufs.push_back(allocate(4 * MiB));
        op(bufs.back(), {}, {}, static_cast<u64>(i), false);
        host.push_back(bufs.back().data);
    }
    const u64** device;
    CHECK(cudaMalloc(&device, host.size() * sizeof host[0]));
    CHECK(cudaMemcpy(device, host.data(), host.size() * sizeof host[0], cudaMemcpyHostToDevice));
    Memory out = allocate(2 * MiB);
    u64 h = 0;
    for (int i = 0; i < 10; ++i) {
        Memory filler = allocate(8 * MiB);
        op(filler, {}, {}, 3, false);
        gather<<<4, 128>>>(out.data, out.pages, device, host.size(), bufs[0].pages);
        CHECK(cudaGetLastError());
        op(bufs[static_cast<std::size_t>(i % 3)], out, filler, 4, true);
        h = hash(out, h);
        release(filler);
    }
    std::printf("hash %016llx\n", h);
}

/// Many streams that come and go, memory handed from one to the other through frees.
void streams() {
    std::vector<Memory> keep;
    for (int i = 0; i < 6; ++i) {
        keep.push_back(allocate(4 * MiB));
        op(keep.back(), {}, {}, static_cast<u64>(i), false);
    }
    CHECK(cudaDeviceSynchronize());
    for (int round = 0; round < 40; ++round) {
        cudaStream_t a, b;
        CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
        CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
        cudaEvent_t event;
        CHECK(cudaEventCreate(&event));
        Memory x = allocate(4 * MiB), y = allocate(round % 2 ? 6 * MiB : 512 * 1024);
        op(x, keep[static_cast<std::size_t>(round % 6)], {}, 1, false, a);
        CHECK(cudaEventRecord(event, a));
        CHECK(cudaStreamWaitEvent(b, event, 0));
        op(y, x, keep[static_cast<std::size_t>((round + 1) % 6)], 2, false, b);
        op(keep[static_cast<std::size_t>((round + 2) % 6)], y, {}, 3, true, b);
        CHECK(cudaStreamSynchronize(b));
        release(x);
        release(y);
        CHECK(cudaStreamDestroy(a));
        CHECK(cudaStreamDestroy(b));
        CHECK(cudaEventDestroy(event));
    }
    u64 h = 0;
    for (Memory& m : keep) h = hash(m, h);
    std::printf("hash %016llx\n", h);
}

void async_pool() {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    Memory keep = allocate(4 * MiB);
    op(keep, {}, {}, 1, false, stream);
    for (int i = 0; i < 30; ++i) {
        Memory x, y;
        x.pages = y.pages = 6 * MiB / kPage;
        CHECK(cudaMallocAsync(reinterpret_cast<void**>(&x.data), 6 * MiB, stream));
        op(x, keep, {}, 2, false, stream);
        CHECK(cudaMallocAsync(reinterpret_cast<void**>(&y.data), 6 * MiB, stream));
        op(y, x, keep, 3, false, stream);
        CHECK(cudaFreeAsync(x.data, stream));
        op(keep, y, {}, 4, true, stream);
        CHECK(cudaFreeAsync(y.data, stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    std::printf("hash %016llx\n", hash(keep));
}

/// More than fits, gone through step by step, and changed (see gather_up) only from step `change_from` on.
void read_only(int steps, int change_from, int change) {
    constexpr u64 bytes = 4 * MiB - 5;  // no multiple of a word
    std::vector<Memory> pieces;
    for (u64 i = 0; i < 10; ++i) {
        pieces.push_back(allocate(bytes));
        CHECK(cudaMemset(pieces.back().data, 3, bytes));
        op(pieces.back(), {}, {}, i, false);
    }
    Memory sum = allocate(4 * MiB);
    op(sum, {}, {}, 77, false);
    for (int s = 0; s < steps; ++s) {
        op(sum, {}, {}, 5, true);
        for (std::size_t i = 0; i < pieces.size(); ++i)
            gather_up<<<static_cast<unsigned>((sum.pages + 127) / 128), 128>>>(
                pieces[i].data, bytes, sum.data, s >= change_from ? change : 0);
        CHECK(cudaGetLastError());
        if (s < 16) pause_ms(10);
        if (s % 4 == 0) CHECK(cudaDeviceSynchronize());
    }
    u64 h = hash(sum);
    for (Memory& m : pieces) h = hash(m, h);
    std::printf("hash %016llx\n", h);
}

int main(int argc, char** argv) {
    const std::string what = argc > 1 ? argv[1] : "";
    auto number = [&](int i, int otherwise) { return argc > i ? std::atoi(argv[i]) : otherwise; };
    if (what == "steady")
        steady(number(2, 12), number(3, 20), number(4, 6), static_cast<u64>(number(5, 4)) * MiB);
    else if (what == "change")
        change(static_cast<unsigned>(number(2, 1)), number(3, 40));
    else if (what == "grow")
        grow();
    else if (what == "throw")
        throwing();
    else if (what == "batch")
        interrupted([](Net& net) {
            for (int i = 0; i < 14; ++i) {
                net.step(2);
                pause_ms(10);
            }
        });
    else if (what == "evaluate")
        interrupted([](Net& net) {
            for (int i = 0; i < 3; ++i) {
                std::printf("eval %016llx\n", net.evaluate());
                net.step();
            }
        });
    else if (what == "little") {
        Net net(4, 2 * MiB, 2 * MiB);
        for (int i = 0; i < 14; ++i) {
            net.step();
            if (i > 2 && i < 8) pause_ms(10);
        }
        std::printf("eval %016llx\n", net.evaluate());
        std::printf("hash %016llx\n", net.all());
    } else if (what == "small")
        small(number(2, 200));
    else if (what == "hidden")
        hidden(number(2, 24));
    else if (what == "devices")
        devices(number(2, 2));
    else if (what == "reset")
        device_reset();
    else if (what == "graphs")
        graphs();
    else if (what == "capture")
        beside_capture();
    else if (what == "threads")
        threads(number(2, 3));
    else if (what == "table")
        table();
    else if (what == "streams")
        streams();
    else if (what == "async")
        async_pool();
    else if (what == "read-only")
        read_only(number(2, 40), number(3, 1 << 30), number(4, 1));
    else if (what == "exit") {  // in the middle of everything, nothing freed
        static Net net(6, 2 * MiB, 4 * MiB);
        for (int i = 0; i < 12; ++i) net.step();
        net.step(1, 5);
        std::printf("leaving\n");
        std::exit(3);
    } else {
        std::fprintf(stderr,
                     "usage: replay_probe "
                     "steady|change|grow|throw|batch|evaluate|little|small|hidden|devices|reset|graphs|"
                     "capture|threads|table|streams|async|read-only|exit [numbers]\n");
        return 2;
    }
    return 0;
}
