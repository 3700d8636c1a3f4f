// What a program is told about its memory: answers_probe attributes | bounds | figures. Prints the same natively and under any limit.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define CHECK(call)                                                         \
    do {                                                                    \
        if (const int error = static_cast<int>(call)) {                     \
            std::printf("line %d: %s: error %d\n", __LINE__, #call, error); \
            std::exit(1);                                                   \
        }                                                                   \
    } while (0)

namespace {

constexpr size_t kBytes = 8 << 20;

__global__ void add(unsigned* p) {
    for (size_t i = threadIdx.x; i < kBytes / 4; i += blockDim.x * 1024) p[i] += 1;
}

unsigned* buffer(size_t bytes = kBytes) {
    unsigned* p = nullptr;
    CHECK(cudaMalloc(&p, bytes));
    CHECK(cudaMemset(p, 7, bytes));
    return p;
}

// Every attribute of a buffer, before and after others have pushed it out of a small device.
void attributes() {
    unsigned* p = buffer();
    const auto ask = [&] {
        std::string answers;
        for (int i = 1; i < 22; ++i) {
            if (i == CU_POINTER_ATTRIBUTE_P2P_TOKENS) continue;
            unsigned long long value[2] = {};
            const int result = cuPointerGetAttribute(value, static_cast<CUpointer_attribute>(i),
                                                     reinterpret_cast<CUdeviceptr>(p) + 100);
            answers += " " + std::to_string(result);
            // Addresses and numbers differ from run to run, in one run they do not.
            if (result == 0) answers += ":" + std::to_string(value[0]);
        }
        return answers;
    };
    const std::string before = ask();
    std::vector<unsigned*> others;
    for (int i = 0; i < 12; ++i) others.push_back(buffer());
    for (unsigned* other : others) add<<<1, 32>>>(other);
    CHECK(cudaDeviceSynchronize());
    std::printf("attributes stay: %d\n", before == ask());
    int results = 0;
    for (const char* at = before.c_str(); *at; ++at) results += at[0] == ' ' && at[1] != '0';
    std::printf("attributes refused: %d\n", results);
}

void bounds() {
    unsigned char *a = nullptr, *b = nullptr;
    CHECK(cudaMalloc(&a, 1000));
    CHECK(cudaMalloc(&b, 1000));
    CHECK(cudaMemset(b, 7, 1000));
    std::vector<unsigned char> host(kBytes + 4096, 3);
    unsigned* large = buffer(kBytes - 100);
    unsigned* packed = buffer(200'000);
    unsigned* gone = buffer();
    CHECK(cudaFree(gone));
    cudaStream_t stream = nullptr;
    CHECK(cudaStreamCreate(&stream));
    const auto said = [](const char* what, int result) {
        std::printf("%s: %d\n", what, result);
        (void)cudaGetLastError();
    };
    said("set small", cudaMemset(a, 0, 1200));
    said("set small, asynchronous", cudaMemsetAsync(a, 0, 1200, stream));
    said("set large", cudaMemset(large, 0, kBytes + 1));
    said("set packed", cudaMemset(packed, 0, 250'000));
    said("set rows", cudaMemset2D(a, 512, 0, 500, 3));
    said("set freed", cudaMemset(gone, 0, 64));
    said("copy in", cudaMemcpy(a, host.data(), 1200, cudaMemcpyHostToDevice));
    said("copy out", cudaMemcpy(host.data(), a, 1200, cudaMemcpyDeviceToHost));
    said("copy out of large", cudaMemcpy(host.data(), large, kBytes + 1, cudaMemcpyDeviceToHost));
    said("copy between", cudaMemcpy(a, large, 1200, cudaMemcpyDeviceToDevice));
    said("copy from freed", cudaMemcpy(host.data(), gone, 64, cudaMemcpyDeviceToHost));
    said("copy rows", cudaMemcpy2D(host.data(), 512, a, 512, 500, 3, cudaMemcpyDeviceToHost));
    said("unmap", cuMemUnmap(reinterpret_cast<CUdeviceptr>(large), kBytes));
    said("free twice", cudaFree(gone));
    cudaMemPoolProps props{};
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    cudaMemPool_t pool = nullptr;
    CHECK(cudaMemPoolCreate(&pool, &props));
    CHECK(cudaMemPoolDestroy(pool));
    void* none = nullptr;
    said("from a destroyed pool", cudaMallocFromPoolAsync(&none, 4096, pool, stream));
    // What lies within is taken, and the neighbours keep their bytes.
    said("within", cudaMemset(a + 999, 1, 1));
    said("within large", cudaMemset(reinterpret_cast<char*>(large) + kBytes - 101, 1, 1));
    said("within, rows", cudaMemset2D(a, 500, 1, 500, 2));
    CHECK(cudaMemcpy(host.data(), b, 1000, cudaMemcpyDeviceToHost));
    int wrong = 0;
    for (int i = 0; i < 1000; ++i) wrong += host[static_cast<size_t>(i)] != 7;
    std::printf("neighbour: %d wrong\n", wrong);
}

// What the driver says of memory as a whole, and of pools.
void figures() {
    size_t free_bytes = 0, total = 0;
    cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, 0));
    CHECK(cudaMemGetInfo(&free_bytes, &total));
    std::printf("the total is the device's: %d\n", total == device.totalGlobalMem);
    cudaStream_t stream = nullptr;
    CHECK(cudaStreamCreate(&stream));
    cudaMemPool_t standard = nullptr, own = nullptr;
    CHECK(cudaDeviceGetDefaultMemPool(&standard, 0));
    cudaMemPoolProps props{};
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    CHECK(cudaMemPoolCreate(&own, &props));
    unsigned long long keep = 64 << 20;
    CHECK(cudaMemPoolSetAttribute(own, cudaMemPoolAttrReleaseThreshold, &keep));
    const auto tell = [&](const char* when) {
        for (const cudaMemPool_t pool : {standard, own})
            for (const cudaMemPoolAttr which :
                 {cudaMemPoolAttrUsedMemCurrent, cudaMemPoolAttrUsedMemHigh,
                  cudaMemPoolAttrReservedMemCurrent, cudaMemPoolAttrReservedMemHigh}) {
                unsigned long long value = 0;
                CHECK(cudaMemPoolGetAttribute(pool, which, &value));
                std::printf("%s, attribute %d: %llu\n", when, static_cast<int>(which), value);
            }
    };
    void *a = nullptr, *b = nullptr, *c = nullptr;
    CHECK(cudaMallocAsync(&a, 8 << 20, stream));
    CHECK(cudaMallocFromPoolAsync(&b, 3 << 20, own, stream));
    CHECK(cudaMallocFromPoolAsync(&c, 5000, own, stream));
    CHECK(cudaStreamSynchronize(stream));
    tell("taken");
    CHECK(cudaFreeAsync(a, stream));
    CHECK(cudaFree(b));
    CHECK(cudaStreamSynchronize(stream));
    tell("given back");
    CHECK(cudaMemPoolTrimTo(own, 0));
    unsigned long long none = 0;
    CHECK(cudaMemPoolSetAttribute(own, cudaMemPoolAttrUsedMemHigh, &none));
    tell("trimmed");
    // Nine tenths of what is free, in one piece, can be used.
    CHECK(cudaMemGetInfo(&free_bytes, &total));
    void* most = nullptr;
    CHECK(cudaMalloc(&most, free_bytes / 10 * 9));
    CHECK(cudaMemset(most, 1, free_bytes / 10 * 9));
    unsigned char last = 0;
    CHECK(cudaMemcpy(&last, static_cast<char*>(most) + free_bytes / 10 * 9 - 1, 1, cudaMemcpyDeviceToHost));
    std::printf("last byte %d\n", last);
}

}  // namespace

int main(int count, char** arguments) {
    const std::string what = count > 1 ? arguments[1] : "";
    if (what == "attributes")
        attributes();
    else if (what == "bounds")
        bounds();
    else if (what == "figures")
        figures();
    else
        return 2;
    return 0;
}
