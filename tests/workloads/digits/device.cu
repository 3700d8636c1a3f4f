#include <cstdlib>

#include "device.h"

void check(cudaError_t status, const char* what) {
    if (status == cudaSuccess) return;
    std::fflush(stdout);
    std::fprintf(stderr, "digits: %s: %s (%s)\n", what, cudaGetErrorString(status), cudaGetErrorName(status));
    std::fflush(stderr);
    std::_Exit(3);
}

Buffer::~Buffer() {
    Device::get().release(*this);
}

Device& Device::get() {
    static Device device;
    return device;
}

void Device::open(const std::string& log_path) {
    if (!log_path.empty()) {
        log_ = std::fopen(log_path.c_str(), "w");
        if (!log_) {
            std::fprintf(stderr, "digits: %s: cannot be written\n", log_path.c_str());
            std::exit(2);
        }
    }
    check(cudaSetDevice(0), "cudaSetDevice");
    check(cudaStreamCreate(&compute), "cudaStreamCreate");
    check(cudaStreamCreateWithFlags(&copy, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

void Device::close() {
    check(cudaStreamDestroy(copy), "cudaStreamDestroy");
    check(cudaStreamDestroy(compute), "cudaStreamDestroy");
    if (log_) std::fclose(log_);
    log_ = nullptr;
}

Tensor Device::allocate(std::size_t elements, bool persistent) {
    const std::size_t bytes = elements * sizeof(float);
    void* data = nullptr;
    const cudaError_t status = cudaMalloc(&data, bytes);
    if (status != cudaSuccess) {
        const std::string what = "cudaMalloc of " + std::to_string(bytes) + " bytes";
        check(status, what.c_str());
    }
    const int id = next_id_++;
    if (log_)
        std::fprintf(log_,
                     "{\"event\":\"alloc\",\"buffer\":%d,\"bytes\":%zu,\"persistent\":%s,\"address\":%llu}\n",
                     id, bytes, persistent ? "true" : "false",
                     static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(data)));
    return std::make_shared<Buffer>(id, bytes, data);
}

void Device::release(Buffer& buffer) {
    if (log_) std::fprintf(log_, "{\"event\":\"free\",\"buffer\":%d}\n", buffer.id);
    check(cudaFree(buffer.data), "cudaFree");
}

void Device::log_op(const char* name, const char* kind, std::initializer_list<Tensor> reads,
                    std::initializer_list<Tensor> writes, bool on_copy_stream) {
    if (!log_) return;
    std::fprintf(log_, "{\"event\":\"op\",\"name\":\"%s\",\"kind\":\"%s\",\"stream\":%d,\"reads\":[", name,
                 kind, on_copy_stream ? 1 : 0);
    const char* comma = "";
    for (const auto& t : reads) std::fprintf(log_, "%s%d", comma, t->id), comma = ",";
    std::fprintf(log_, "],\"writes\":[");
    comma = "";
    for (const auto& t : writes) std::fprintf(log_, "%s%d", comma, t->id), comma = ",";
    std::fprintf(log_, "]}\n");
}

void Device::log_mark(const char* what, int number) {
    if (log_) std::fprintf(log_, "{\"event\":\"mark\",\"what\":\"%s\",\"number\":%d}\n", what, number);
}
