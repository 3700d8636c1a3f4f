// Ways by which a kernel gets at memory that is not among its plain pointer arguments. Knows nothing of the shim.
//   hidden_addresses_probe travel|stored|arguments|refused|spread [OTHERS]
//   hidden_addresses_probe iterate MILLISECONDS
// Each way has a buffer A of its own, which other buffers would push out of a small device before a kernel uses it.
// Prints one line a way, with the value that A has in the end. `refused`: more escapes than a small device holds.
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#define CHECK(call)                                                   \
    do {                                                              \
        if (const int error = static_cast<int>(call)) {               \
            std::printf("%s: %s -> %d\n", way.c_str(), #call, error); \
            std::exit(1);                                             \
        }                                                             \
    } while (0)

namespace {

using Address = unsigned long long;
constexpr size_t kMiB = 1 << 20, kFloats = 8 * kMiB / 4;
std::string way;

__device__ void add_one(float* p) {
    for (size_t i = threadIdx.x; i < kFloats; i += 4096 * blockDim.x) p[i] += 1;
}
__global__ void add(float* p) {
    add_one(p);
}
__global__ void by_table(float** table, int at) {
    add_one(table[at]);
}
__global__ void by_shifted_table(float** table, int at, int by) {
    add_one(table[at] + by);
}
struct __attribute__((packed)) Packed {
    int count;
    float* p;
};
__global__ void by_packed_table(const char* table) {
    Address word = 0;
    for (int i = 0; i < 8; ++i) word |= static_cast<Address>(static_cast<unsigned char>(table[i])) << 8 * i;
    add_one(reinterpret_cast<float*>(word));
}
__constant__ float* in_constant[2];
__device__ float* in_variable[2];
__managed__ float* in_managed_variable[2];
__global__ void by_managed_variable() {
    add_one(in_managed_variable[1]);
}
__global__ void store_in_variables(float* p, int which) {
    (which == 0 ? in_variable : in_managed_variable)[1] = p;
}
__global__ void by_constant() {
    add_one(in_constant[1]);
}
__global__ void by_variable() {
    add_one(in_variable[1]);
}

std::vector<float*> others;

float* buffer() {
    float* p = nullptr;
    CHECK(cudaMalloc(&p, kFloats * 4));
    CHECK(cudaMemset(p, 0, kFloats * 4));
    add<<<1, 32>>>(p);
    return p;
}
void pressure() {
    for (float* p : others) add<<<1, 32>>>(p);
    CHECK(cudaDeviceSynchronize());
}
float first(const float* p) {
    float value = -1;
    CHECK(cudaMemcpy(&value, p, 4, cudaMemcpyDeviceToHost));
    return value;
}

/// One way: `pass(A)` hands the address over before A would leave, `use(A)` launches the kernel afterwards.
void try_way(const char* name, const std::function<void(float*)>& pass,
             const std::function<void(float*)>& use) {
    way = name;
    float* a = buffer();
    pressure();  // A is out when its address is handed over
    pass(a);
    pressure();
    use(a);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    std::printf("%s: %g\n", name, first(a));
    CHECK(cudaFree(a));
}

// --- what travels ---------------------------------------------------------------------------------------------------

template <class Function>
Function* driver(const char* symbol) {
    auto* found = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, symbol));
    if (!found) {
        std::printf("%s is missing\n", symbol);
        std::exit(1);
    }
    return found;
}

__global__ void store(float** table, int at, float* p) {
    table[at] = p;
}
__global__ void move(float** to, float** from, int at) {
    to[at] = from[at];
    from[at] = nullptr;
}

// The address is in memory that kernels read, and came there without any copy.
void stored() {
    const auto by_host = [](const char* name, float** table) {
        try_way(name, [=](float* a) { table[1] = a; }, [=](float*) { by_table<<<1, 32>>>(table, 1); });
    };
    const auto by_kernel = [](const char* name, float** table, int at) {
        try_way(name, [=](float* a) { store<<<1, 1>>>(table, at, a); },
                [=](float*) { by_table<<<1, 32>>>(table, at); });
    };
    float **managed = nullptr, **mapped = nullptr, **small = nullptr, **paged = nullptr, **large = nullptr;
    CHECK(cudaMallocManaged(&managed, 4096));
    CHECK(cudaHostAlloc(&mapped, 4096, cudaHostAllocMapped));
    CHECK(cudaMalloc(&small, 4096));
    CHECK(cudaMalloc(&paged, 256 << 10));
    CHECK(cudaMalloc(&large, 2 * kMiB));
    by_host("host, managed memory", managed);
    by_host("host, mapped memory", mapped);
    by_kernel("kernel, managed memory", managed, 2);
    by_kernel("kernel, mapped memory", mapped, 2);
    by_kernel("kernel, small memory", small, 2);
    by_kernel("kernel, memory in a page", paged, 30000);
    by_kernel("kernel, large memory", large, 200000);
    try_way("kernel, moved",
            [=](float* a) {
                store<<<1, 1>>>(small, 3, a);
                move<<<1, 1>>>(paged, small, 3);
            },
            [=](float*) { by_table<<<1, 32>>>(paged, 3); });
    try_way("host, managed variable", [](float* a) { in_managed_variable[1] = a; },
            [](float*) { by_managed_variable<<<1, 32>>>(); });
    try_way("kernel, managed variable", [](float* a) { store_in_variables<<<1, 1>>>(a, 1); },
            [](float*) { by_managed_variable<<<1, 32>>>(); });
    void* variable = nullptr;
    CHECK(cudaGetSymbolAddress(&variable, in_variable));  // the host knows the variable
    try_way("kernel, variable", [](float* a) { store_in_variables<<<1, 1>>>(a, 0); },
            [](float*) { by_variable<<<1, 32>>>(); });
    // What goes is not looked at any more.
    CHECK(cudaFree(managed));
    CHECK(cudaFreeHost(mapped));
    pressure();
    by_kernel("kernel, after others went", small, 4);
}

void travel() {
    float** table = nullptr;
    CHECK(cudaMalloc(&table, 4096));
    const auto to = reinterpret_cast<CUdeviceptr>(table);
    float** pinned = nullptr;
    CHECK(cudaMallocHost(&pinned, 4096));
    float* host[16] = {};
    cudaStream_t stream = nullptr;
    CHECK(cudaStreamCreate(&stream));
    const auto by_pinned = [&](auto copy) {
        return [&, copy](float* a) {
            pinned[1] = a;
            copy();
            CHECK(cudaStreamSynchronize(stream));
        };
    };
    const auto by_host = [&](auto copy) {
        return [&, copy](float* a) {
            host[1] = a;
            copy();
        };
    };
    const auto with = [](float** at, int index = 1) {
        return [at, index](float*) { by_table<<<1, 32>>>(at, index); };
    };
    const auto from = reinterpret_cast<CUdeviceptr>(&host[0]);

    try_way("plain", by_host([&] { CHECK(cudaMemcpy(table, host, 16, cudaMemcpyHostToDevice)); }),
            with(table));
    try_way("asynchronous",
            by_pinned([&] { CHECK(cudaMemcpyAsync(table, pinned, 16, cudaMemcpyHostToDevice, stream)); }),
            with(table));
    try_way("direction by default", by_host([&] { CHECK(cudaMemcpy(table, host, 16, cudaMemcpyDefault)); }),
            with(table));
    try_way("unified address", by_host([&] { CHECK(cuMemcpy(to, from, 16)); }), with(table));
    try_way("unified address of pinned memory",
            by_pinned([&] { CHECK(cuMemcpyAsync(to, reinterpret_cast<CUdeviceptr>(pinned), 16, stream)); }),
            with(table));
    try_way("per-thread default stream",
            by_host([&] { CHECK(driver<decltype(cuMemcpyHtoD_v2)>("cuMemcpyHtoD_v2_ptds")(to, host, 16)); }),
            with(table));
    try_way("per-thread default stream, asynchronous", by_pinned([&] {
                CHECK(driver<decltype(cuMemcpyHtoDAsync_v2)>("cuMemcpyHtoDAsync_v2_ptsz")(to, pinned, 16,
                                                                                          nullptr));
                CHECK(cudaStreamSynchronize(cudaStreamPerThread));
            }),
            with(table));
    try_way("two dimensions",
            by_host([&] { CHECK(cudaMemcpy2D(table, 64, host, 8, 8, 2, cudaMemcpyHostToDevice)); }),
            with(table, 8));
    try_way("two dimensions, unified", by_pinned([&] {
                CUDA_MEMCPY2D copy{};
                copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
                copy.srcDevice = reinterpret_cast<CUdeviceptr>(pinned);
                copy.dstDevice = to;
                copy.srcPitch = 16, copy.dstPitch = 32;
                copy.srcXInBytes = 8;
                copy.WidthInBytes = 8, copy.Height = 1;
                CHECK(cuMemcpy2DAsync(&copy, stream));
            }),
            with(table, 0));
    try_way("three dimensions", by_host([&] {
                cudaMemcpy3DParms copy{};
                copy.srcPtr = make_cudaPitchedPtr(host, 8, 8, 1);
                copy.dstPtr = make_cudaPitchedPtr(table, 16, 16, 2);
                copy.extent = make_cudaExtent(8, 1, 2);
                copy.kind = cudaMemcpyHostToDevice;
                CHECK(cudaMemcpy3D(&copy));
            }),
            with(table, 4));
    try_way("batch", by_pinned([&] {
                void* tos[] = {table, table + 8};
                const void* froms[] = {pinned, pinned + 1};
                size_t bytes[] = {8, 8}, at[] = {0};
                cudaMemcpyAttributes attributes{};
                attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
                CHECK(cudaMemcpyBatchAsync(tos, froms, bytes, 2, &attributes, at, 1, stream));
            }),
            with(table, 8));
    try_way("batch to a variable", by_pinned([&] {
                void* symbol = nullptr;
                CHECK(cudaGetSymbolAddress(&symbol, in_variable));
                void* tos[] = {symbol};
                const void* froms[] = {pinned};
                size_t bytes[] = {16}, at[] = {0};
                cudaMemcpyAttributes attributes{};
                attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
                CHECK(cudaMemcpyBatchAsync(tos, froms, bytes, 1, &attributes, at, 1, stream));
            }),
            [](float*) { by_variable<<<1, 32>>>(); });
    try_way("batch of three dimensions", by_pinned([&] {
                CUDA_MEMCPY3D_BATCH_OP copy{};
                copy.src.type = copy.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
                copy.src.op.ptr.ptr = reinterpret_cast<CUdeviceptr>(pinned);
                copy.dst.op.ptr.ptr = to;
                copy.extent = {16, 1, 1};
                copy.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
                CHECK(cuMemcpy3DBatchAsync(1, &copy, 0, stream));
            }),
            with(table));
    try_way("constant", by_host([&] { CHECK(cudaMemcpyToSymbol(in_constant, host, 16)); }),
            [](float*) { by_constant<<<1, 32>>>(); });
    try_way("variable", by_host([&] { CHECK(cudaMemcpyToSymbol(in_variable, host + 1, 8, 8)); }),
            [](float*) { by_variable<<<1, 32>>>(); });
    try_way("variable, asynchronous", by_pinned([&] {
                CHECK(cudaMemcpyToSymbolAsync(in_variable, pinned, 16, 0, cudaMemcpyHostToDevice, stream));
            }),
            [](float*) { by_variable<<<1, 32>>>(); });

    // Memory that the program has from elsewhere.
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr mapped = 0;
    way = "mapped by the program";
    CHECK(cuMemCreate(&handle, 2 * kMiB, &properties, 0));
    CHECK(cuMemAddressReserve(&mapped, 2 * kMiB, 0, 0, 0));
    CHECK(cuMemMap(mapped, 2 * kMiB, 0, handle, 0));
    const CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CHECK(cuMemSetAccess(mapped, 2 * kMiB, &access, 1));
    auto* const own = reinterpret_cast<float**>(mapped);
    try_way("mapped by the program",
            by_host([&] { CHECK(cudaMemcpy(own, host, 16, cudaMemcpyHostToDevice)); }), with(own));
    float** managed = nullptr;
    CHECK(cudaMallocManaged(&managed, 4096));
    try_way("managed", by_host([&] { CHECK(cudaMemcpy(managed, host, 16, cudaMemcpyDefault)); }),
            with(managed));
    float** seen = nullptr;
    CHECK(cudaHostAlloc(&seen, 4096, cudaHostAllocMapped));
    try_way("pinned memory that kernels see",
            by_host([&] { CHECK(cudaMemcpy(seen, host, 16, cudaMemcpyHostToHost)); }), with(seen));

    // Large payloads, and parts of a word.
    constexpr size_t kLarge = 70 * kMiB;
    std::vector<float*> large(kLarge / 8);
    float** far = nullptr;
    way = "large";
    CHECK(cudaMallocManaged(&far, kLarge));
    try_way(
        "large",
        [&](float* a) {
            large.back() = a;
            CHECK(cudaMemcpy(far, large.data(), kLarge, cudaMemcpyHostToDevice));
        },
        with(far, static_cast<int>(large.size()) - 1));
    const auto halves = [&](auto put) {
        return [&, put](float* a) {
            const auto word = reinterpret_cast<Address>(a);
            put(to + 8, static_cast<unsigned>(word));
            put(to + 12, static_cast<unsigned>(word >> 32));
            CHECK(cudaStreamSynchronize(stream));
        };
    };
    try_way("copies of halves",
            halves([&](CUdeviceptr at, unsigned half) { CHECK(cuMemcpyHtoD(at, &half, 4)); }), with(table));
    try_way("memsets of halves",
            halves([&](CUdeviceptr at, unsigned half) { CHECK(cuMemsetD32(at, half, 1)); }), with(table));
    try_way("memsets of quarters", halves([&](CUdeviceptr at, unsigned half) {
                CHECK(cuMemsetD16Async(at, static_cast<unsigned short>(half), 1, stream));
                CHECK(cuMemsetD2D16Async(at + 2, 2, static_cast<unsigned short>(half >> 16), 1, 1, stream));
            }),
            with(table));
    try_way("values written in halves",
            halves([&](CUdeviceptr at, unsigned half) { CHECK(cuStreamWriteValue32(stream, at, half, 0)); }),
            with(table));
    try_way(
        "a value written",
        [&](float* a) {
            CHECK(cuStreamWriteValue64(stream, to + 8, reinterpret_cast<Address>(a), 0));
            CHECK(cudaStreamSynchronize(stream));
        },
        with(table));
    try_way(
        "a batch of memory operations",
        [&](float* a) {
            CUstreamBatchMemOpParams op{};
            op.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
            op.writeValue.address = to + 8;
            op.writeValue.value64 = reinterpret_cast<Address>(a);
            CHECK(cuStreamBatchMemOp(stream, 1, &op, 0));
            CHECK(cudaStreamSynchronize(stream));
        },
        with(table));
    try_way(
        "halves by rows",
        [&](float* a) {
            const auto word = reinterpret_cast<Address>(a);
            const unsigned apart[] = {static_cast<unsigned>(word), 7, static_cast<unsigned>(word >> 32), 7};
            CHECK(cudaMemcpy2D(table + 1, 4, apart, 8, 4, 2, cudaMemcpyHostToDevice));
        },
        with(table));
    try_way(
        "cut between two copies",
        [&](float* a) {
            host[1] = a;
            const char* bytes = reinterpret_cast<const char*>(host);
            CHECK(cudaMemcpy(table, bytes, 11, cudaMemcpyHostToDevice));
            CHECK(cudaMemcpy(reinterpret_cast<char*>(table) + 11, bytes + 11, 13, cudaMemcpyHostToDevice));
        },
        with(table));

    // What a graph's nodes bring along is what is there when it is launched.
    const auto captured = [&](auto record) {
        return [&, record](float* a) {
            cudaGraph_t graph = nullptr;
            cudaGraphExec_t exec = nullptr;
            pinned[1] = nullptr;
            CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
            record(a);
            CHECK(cudaStreamEndCapture(stream, &graph));
            CHECK(cudaGraphInstantiate(&exec, graph, 0));
            CHECK(cudaGraphLaunch(exec, stream));
            CHECK(cudaStreamSynchronize(stream));
            pinned[1] = a;
            CHECK(cudaGraphLaunch(exec, stream));
            CHECK(cudaStreamSynchronize(stream));
            CHECK(cudaGraphExecDestroy(exec));
            CHECK(cudaGraphDestroy(graph));
        };
    };
    try_way("a graph's copy", captured([&](float*) {
                CHECK(cudaMemcpyAsync(table, pinned, 16, cudaMemcpyHostToDevice, stream));
            }),
            with(table));
    try_way("a graph's copy to a variable", captured([&](float*) {
                CHECK(cudaMemcpyToSymbolAsync(in_variable, pinned, 16, 0, cudaMemcpyHostToDevice, stream));
            }),
            [](float*) { by_variable<<<1, 32>>>(); });
    try_way("a value written in a capture", captured([&](float* a) {
                CHECK(cuStreamWriteValue64(stream, to + 8, reinterpret_cast<Address>(a), 0));
            }),
            with(table));
    try_way(
        "a graph's memory operation",
        [&](float* a) {
            CUgraph graph = nullptr;
            CUgraphExec exec = nullptr;
            CUgraphNode node = nullptr;
            CUcontext context = nullptr;
            CUstreamBatchMemOpParams op{};
            op.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
            op.writeValue.address = to + 8;
            op.writeValue.value64 = reinterpret_cast<Address>(a);
            CHECK(cuCtxGetCurrent(&context));
            CHECK(cuGraphCreate(&graph, 0));
            CUDA_BATCH_MEM_OP_NODE_PARAMS node_params{context, 1, &op, 0};
            CHECK(cuGraphAddBatchMemOpNode(&node, graph, nullptr, 0, &node_params));
            CHECK(cuGraphInstantiate(&exec, graph, 0));
            CHECK(cuGraphLaunch(exec, stream));
            CHECK(cudaStreamSynchronize(stream));
            CHECK(cuGraphExecDestroy(exec));
            CHECK(cuGraphDestroy(graph));
        },
        with(table));
    try_way(
        "packed in a structure",
        [&](float* a) {
            const Packed packed[2] = {{1, nullptr}, {2, a}};
            CHECK(cudaMemcpy(table, packed, sizeof packed, cudaMemcpyHostToDevice));
        },
        [&](float*) { by_packed_table<<<1, 32>>>(reinterpret_cast<char*>(table) + 16); });
    try_way("shifted, in a table", by_host([&] {
                host[1] -= 4 << 20;
                CHECK(cudaMemcpy(table, host, 16, cudaMemcpyHostToDevice));
            }),
            [&](float*) { by_shifted_table<<<1, 32>>>(table, 1, 4 << 20); });
}

// --- arguments ------------------------------------------------------------------------------------------------------

struct __attribute__((packed)) AtFour {
    int count;
    float* p;
};
struct __attribute__((packed)) AtOne {
    char flag;
    float* p;
};
struct __attribute__((packed)) Deep {
    char before[101];
    float* p;
    char after[200];
};
struct Turned {
    unsigned count, upper, lower;
};
__device__ float* join(unsigned lower, unsigned upper) {
    return reinterpret_cast<float*>(static_cast<Address>(upper) << 32 | lower);
}
__global__ void at_four(AtFour x) {
    add_one(x.p);
}
__global__ void at_one(AtOne x) {
    add_one(x.p);
}
__global__ void deep(Deep x) {
    add_one(x.p);
}
__global__ void halves(unsigned lower, unsigned upper) {
    add_one(join(lower, upper));
}
__global__ void turned(unsigned upper, unsigned lower) {
    add_one(join(lower, upper));
}
__global__ void turned_inside(Turned x) {
    add_one(join(x.lower, x.upper));
}
__global__ void shifted(float* p, long long by) {
    add_one(p + by);
}
__global__ void tagged(Address word) {
    add_one(reinterpret_cast<float*>(word & 0xffffffffffffull));
}

template <class... Params, class... Arguments>
void launch_packed(void (*kernel)(Params...), Arguments... arguments) {
    cudaFunction_t function = nullptr;
    CHECK(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(kernel)));
    alignas(16) char buffer[512];
    size_t bytes = 0;
    const auto put = [&](auto value) {
        bytes = (bytes + alignof(decltype(value)) - 1) / alignof(decltype(value)) * alignof(decltype(value));
        std::memcpy(buffer + bytes, &value, sizeof value);
        bytes += sizeof value;
    };
    (put(static_cast<Params>(arguments)), ...);
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    CHECK(cuLaunchKernel(reinterpret_cast<CUfunction>(function), 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr,
                         extra));
}
template <class... Params, class... Arguments>
void launch_extended(void (*kernel)(Params...), Arguments... arguments) {
    cudaLaunchConfig_t config{};
    config.gridDim = 1, config.blockDim = 32;
    CHECK(cudaLaunchKernelEx(&config, kernel, static_cast<Params>(arguments)...));
}
template <class... Params, class... Arguments>
void launch_cooperative(void (*kernel)(Params...), Arguments... arguments) {
    std::tuple<Params...> values{static_cast<Params>(arguments)...};
    std::apply(
        [&](auto&... each) {
            void* pointers[] = {&each...};
            CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(kernel), 1, 32, pointers));
        },
        values);
}
template <class... Params, class... Arguments>
void launch_plain(void (*kernel)(Params...), Arguments... arguments) {
    kernel<<<1, 32>>>(static_cast<Params>(arguments)...);
}
template <class... Params, class... Arguments>
void launch_captured(void (*kernel)(Params...), Arguments... arguments) {
    cudaStream_t stream = nullptr;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    kernel<<<1, 32, 0, stream>>>(static_cast<Params>(arguments)...);
    CHECK(cudaStreamEndCapture(stream, &graph));
    pressure();
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
}

/// `launch(kernel, arguments...)`.
template <class Launch>
void each_form(const std::string& kind, Launch launch) {
    constexpr long long kDown = 16ll << 20, kUp = 12ll << 20;
    const auto word = [](float* a) { return reinterpret_cast<Address>(a); };
    const auto low = [=](float* a) { return static_cast<unsigned>(word(a)); };
    const auto high = [=](float* a) { return static_cast<unsigned>(word(a) >> 32); };
    const auto form = [&](const char* name, const std::function<void(float*)>& use) {
        try_way((kind + ", " + name).c_str(), [](float*) {}, use);
    };
    form("at byte 4", [=](float* a) { launch(at_four, AtFour{1, a}); });
    form("at byte 1", [=](float* a) { launch(at_one, AtOne{1, a}); });
    form("deep inside", [=](float* a) { launch(deep, Deep{{}, a, {}}); });
    form("halves", [=](float* a) { launch(halves, low(a), high(a)); });
    form("halves turned", [=](float* a) { launch(turned, high(a), low(a)); });
    form("turned inside", [=](float* a) { launch(turned_inside, Turned{7u, high(a), low(a)}); });
    form("shifted down", [=](float* a) { launch(shifted, a - kDown, kDown); });
    form("shifted up", [=](float* a) { launch(shifted, a + kUp, -kUp); });
    form("tagged", [=](float* a) { launch(tagged, word(a) | 0x7full << 56); });
    form("tagged twice", [=](float* a) { launch(tagged, word(a) | 0x8001ull << 48); });
}

void arguments() {
    each_form("plain", [](auto... all) { launch_plain(all...); });
    each_form("packed", [](auto... all) { launch_packed(all...); });
    each_form("extended", [](auto... all) { launch_extended(all...); });
    each_form("cooperative", [](auto... all) { launch_cooperative(all...); });
    each_form("captured", [](auto... all) { launch_captured(all...); });
}

// --- ends -----------------------------------------------------------------------------------------------------------

// A table of everything, which cannot all stay on a small device.
void refused() {
    way = "refused";
    float** table = nullptr;
    CHECK(cudaMalloc(&table, 4096));
    for (float* p : others) {
        const cudaError_t error = cudaMemcpy(table, &p, 8, cudaMemcpyHostToDevice);
        if (error == cudaSuccess) continue;
        std::printf("refused %d\n", error);
        std::exit(1);
    }
    by_table<<<1, 32>>>(table, 0);
    CHECK(cudaDeviceSynchronize());
    std::printf("all copied\n");
}

// A training loop, with a rest in the middle for a plan to be made. A shifted and a packed argument in every
// iteration; a variable that names another buffer is used in every seventh of the last ones alone.
void iterate(int rest) {
    way = "iterate";
    float *a = buffer(), *b = buffer();
    CHECK(cudaMemcpyToSymbol(in_variable, &b, 8, 8));
    for (int i = 0; i < 60; ++i) {
        for (size_t j = 0; j + 1 < others.size(); ++j) add<<<1, 32>>>(others[j]);
        shifted<<<1, 32>>>(a - (16 << 20), 16ll << 20);
        at_one<<<1, 32>>>(AtOne{1, others.back()});
        add<<<1, 32>>>(b);
        CHECK(cudaDeviceSynchronize());
        if (i == 12) usleep(static_cast<unsigned>(rest) * 1000);
        if (i >= 40 && i % 7 == 0) by_variable<<<1, 32>>>();
    }
    CHECK(cudaDeviceSynchronize());
    std::printf("a %g\nb %g\n", first(a), first(b));
    for (float* p : others) std::printf("%g\n", first(p));
}

// A shift that goes beyond every buffer: nobody can say whose it is.
void spread() {
    way = "spread";
    float* a = buffer();
    pressure();
    const long long by = 1ll << 33;
    shifted<<<1, 32>>>(a + by, -by);
    const cudaError_t error = cudaDeviceSynchronize();
    std::printf("spread %d\n", error);
    if (error == cudaSuccess) std::printf("value %g\n", first(a));
}

}  // namespace

int main(int argc, char** argv) {
    const std::string what = argc > 1 ? argv[1] : "";
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    const int number = argc > 2 ? std::atoi(argv[2]) : 12;
    for (int i = 0; i < (what == "iterate" ? 12 : number); ++i) others.push_back(buffer());
    if (what == "travel")
        travel();
    else if (what == "stored")
        stored();
    else if (what == "arguments")
        arguments();
    else if (what == "refused")
        refused();
    else if (what == "iterate")
        iterate(number);
    else if (what == "spread")
        spread();
    else
        return 2;
}
