// Device memory the way an eager framework handles it: every tensor is a cudaMalloc of its own, released as
// soon as the last reference to it goes. Also the checked launch and the independent log of what happened.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

// One line and exit status 3 when a CUDA call fails.
void check(cudaError_t status, const char* what);

struct Buffer {
    int id = 0;
    std::size_t bytes = 0;
    void* data = nullptr;
    Buffer(int i, std::size_t b, void* d) : id(i), bytes(b), data(d) {}
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer();
};
using Tensor = std::shared_ptr<Buffer>;

inline float* f32(const Tensor& t) {
    return static_cast<float*>(t->data);
}
inline int* i32(const Tensor& t) {
    return static_cast<int*>(t->data);
}

class Device {
  public:
    static Device& get();
    void open(const std::string& log_path);
    void close();

    cudaStream_t compute = nullptr, copy = nullptr;

    Tensor allocate(std::size_t elements, bool persistent = false);
    void release(Buffer& buffer);

    // The log, one JSON object a line, in the order in which the host did it. "event" is "alloc" (buffer,
    // bytes, persistent, address), "free" (buffer), "op" (name, kind kernel|copy|memset, stream 0 compute | 1
    // copy, reads, writes: buffer numbers) or "mark" (what iteration|epoch, number).
    void log_op(const char* name, const char* kind, std::initializer_list<Tensor> reads,
                std::initializer_list<Tensor> writes, bool on_copy_stream = false);
    void log_mark(const char* what, int number);

  private:
    std::FILE* log_ = nullptr;
    int next_id_ = 0;
};

inline Tensor make(std::size_t elements) {
    return Device::get().allocate(elements);
}

// Launches on the compute stream. Tensors read and written are named for the log; the kernel takes raw
// arguments.
template <class... P, class... A>
void launch(const char* name, void (*kernel)(P...), dim3 grid, dim3 block,
            std::initializer_list<Tensor> reads, std::initializer_list<Tensor> writes, A... arguments) {
    auto& device = Device::get();
    kernel<<<grid, block, 0, device.compute>>>(static_cast<P>(arguments)...);
    check(cudaGetLastError(), name);
    device.log_op(name, "kernel", reads, writes);
}
