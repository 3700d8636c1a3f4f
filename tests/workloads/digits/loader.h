// Batches on their way to the device: pinned staging buffers, a copy stream of its own, one batch ahead.
#pragma once

#include <deque>
#include <vector>

#include "data.h"
#include "device.h"

struct Batch {
    Tensor images, labels;
    unsigned count = 0;
    cudaEvent_t arrived = nullptr;
    int slot = 0;
};

class Loader {
  public:
    Loader(const Images& source, unsigned batch);
    ~Loader();
    Loader(const Loader&) = delete;
    Loader& operator=(const Loader&) = delete;

    // Starts a pass in the given order of images, `iterations` batches long.
    void begin(std::vector<int> order, unsigned iterations);
    // The next batch, its copy ordered before what comes on the compute stream; starts the copy of the one
    // after it.
    bool next(Batch& batch);

  private:
    struct Staging {
        float* pixels = nullptr;
        int* labels = nullptr;
        cudaEvent_t arrived = nullptr;
    };
    void fetch();

    const Images& source_;
    unsigned batch_;
    Staging staging_[2];
    std::vector<int> order_;
    unsigned iterations_ = 0, fetched_ = 0;
    std::deque<Batch> waiting_;
};
