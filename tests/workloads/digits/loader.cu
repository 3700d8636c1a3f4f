#include <algorithm>
#include <cstring>

#include "loader.h"

Loader::Loader(const Images& source, unsigned batch) : source_(source), batch_(batch) {
    for (auto& s : staging_) {
        void* p = nullptr;
        check(cudaMallocHost(&p, batch * 64 * sizeof(float)), "cudaMallocHost");
        s.pixels = static_cast<float*>(p);
        check(cudaMallocHost(&p, batch * sizeof(int)), "cudaMallocHost");
        s.labels = static_cast<int*>(p);
        check(cudaEventCreateWithFlags(&s.arrived, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    }
}

Loader::~Loader() {
    for (auto& s : staging_) {
        check(cudaEventDestroy(s.arrived), "cudaEventDestroy");
        check(cudaFreeHost(s.pixels), "cudaFreeHost");
        check(cudaFreeHost(s.labels), "cudaFreeHost");
    }
}

void Loader::begin(std::vector<int> order, unsigned iterations) {
    order_ = std::move(order);
    iterations_ = iterations;
    fetched_ = 0;
    waiting_.clear();
    fetch();
}

void Loader::fetch() {
    if (fetched_ >= iterations_) return;
    auto& device = Device::get();
    Batch b;
    b.slot = static_cast<int>(fetched_ % 2);
    auto& s = staging_[b.slot];
    check(cudaEventSynchronize(s.arrived),
          "cudaEventSynchronize");  // the copy before last has left the buffer
    const std::size_t first = static_cast<std::size_t>(fetched_) * batch_;
    b.count = static_cast<unsigned>(std::min<std::size_t>(batch_, order_.size() - first));
    for (unsigned i = 0; i < b.count; ++i) {
        const auto image = static_cast<std::size_t>(order_[first + i]);
        std::memcpy(s.pixels + i * 64, &source_.pixels[image * 64], 64 * sizeof(float));
        s.labels[i] = source_.labels[image];
    }
    b.images = make(b.count * 64);
    b.labels = make(b.count);
    check(cudaMemcpyAsync(f32(b.images), s.pixels, b.count * 64 * sizeof(float), cudaMemcpyHostToDevice,
                          device.copy),
          "copy of images");
    device.log_op("images", "copy", {}, {b.images}, true);
    check(
        cudaMemcpyAsync(i32(b.labels), s.labels, b.count * sizeof(int), cudaMemcpyHostToDevice, device.copy),
        "copy of labels");
    device.log_op("labels", "copy", {}, {b.labels}, true);
    check(cudaEventRecord(s.arrived, device.copy), "cudaEventRecord");
    b.arrived = s.arrived;
    ++fetched_;
    waiting_.push_back(std::move(b));
}

bool Loader::next(Batch& batch) {
    if (waiting_.empty()) return false;
    batch = std::move(waiting_.front());
    waiting_.pop_front();
    check(cudaStreamWaitEvent(Device::get().compute, batch.arrived, 0), "cudaStreamWaitEvent");
    fetch();
    return true;
}
