// Trains a small convolutional network on handwritten digits. A plain CUDA program: it allocates every
// activation and gradient as it goes and releases it when it is dead, and knows nothing about memory
// management below it.
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "data.h"
#include "device.h"
#include "loader.h"
#include "network.h"
#include "random.h"

namespace {

struct Score {
    double loss = 0, accuracy = 0;
};

// Reads and clears the running totals.
Score take_score(const Tensor& totals) {
    double host[3] = {};
    auto& device = Device::get();
    check(cudaMemcpyAsync(host, totals->data, sizeof host, cudaMemcpyDeviceToHost, device.compute),
          "copy of totals");
    device.log_op("totals", "copy", {totals}, {});
    check(cudaMemsetAsync(totals->data, 0, sizeof host, device.compute), "cudaMemsetAsync");
    device.log_op("totals", "memset", {}, {totals});
    check(cudaStreamSynchronize(device.compute), "cudaStreamSynchronize");
    return {host[0] / host[2], host[1] / host[2]};
}

// Device time of training iterations: an event pair around each, read at the end of the epoch.
class Timings {
  public:
    explicit Timings(const std::string& path) {
        if (path.empty()) return;
        file_ = std::fopen(path.c_str(), "w");
        if (!file_) {
            std::fprintf(stderr, "digits: %s: cannot be written\n", path.c_str());
            std::exit(2);
        }
    }
    void begin() { mark(); }
    void end() { mark(); }
    void write() {
        for (std::size_t i = 0; i + 1 < events_.size(); i += 2) {
            float ms = 0;
            check(cudaEventSynchronize(events_[i + 1]), "cudaEventSynchronize");
            check(cudaEventElapsedTime(&ms, events_[i], events_[i + 1]), "cudaEventElapsedTime");
            std::fprintf(file_, "%.0f\n", static_cast<double>(ms) * 1e6);
        }
        for (const auto e : events_) check(cudaEventDestroy(e), "cudaEventDestroy");
        events_.clear();
        if (file_) std::fflush(file_);
    }
    ~Timings() {
        if (file_) std::fclose(file_);
    }

  private:
    void mark() {
        if (!file_) return;
        cudaEvent_t e = nullptr;
        check(cudaEventCreate(&e), "cudaEventCreate");
        check(cudaEventRecord(e, Device::get().compute), "cudaEventRecord");
        events_.push_back(e);
    }
    std::FILE* file_ = nullptr;
    std::vector<cudaEvent_t> events_;
};

std::vector<int> shuffled(int count, std::uint64_t& state) {
    std::vector<int> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[next_random(state) % i]);
    return order;
}

Score evaluate(Network& network, Loader& loader, int images, unsigned batch, const Tensor& totals) {
    std::vector<int> order(static_cast<std::size_t>(images));
    std::iota(order.begin(), order.end(), 0);
    loader.begin(order, (static_cast<unsigned>(images) + batch - 1) / batch);
    Batch b;
    while (loader.next(b)) network.evaluate(b.images, b.labels, b.count);
    return take_score(totals);
}

void train(const Options& options) {
    const Digits digits = load_digits(options.data);
    const int train_images = digits.train.count();
    const auto batch = static_cast<unsigned>(std::min(options.batch, train_images));
    const unsigned whole = static_cast<unsigned>(train_images) / batch;
    unsigned iterations =
        whole + (options.keep_short_batch && static_cast<unsigned>(train_images) % batch ? 1 : 0);
    if (options.max_iterations > 0)
        iterations = std::min(iterations, static_cast<unsigned>(options.max_iterations));

    auto& device = Device::get();
    const Tensor totals = device.allocate(6, true);  // three doubles
    check(cudaMemsetAsync(totals->data, 0, totals->bytes, device.compute), "cudaMemsetAsync");
    device.log_op("totals", "memset", {}, {totals});
    Network network(options, totals, static_cast<int>(iterations) * options.epochs);
    Loader train_loader(digits.train, batch), test_loader(digits.test, batch);
    Timings timings(options.timings);
    std::uint64_t random = options.seed;

    std::printf("digits: %d images to train on, %d to test, batch %u, %u iterations per epoch\n",
                train_images, digits.test.count(), batch, iterations);
    int number = 0;
    for (int epoch = 1; epoch <= options.epochs; ++epoch) {
        train_loader.begin(shuffled(train_images, random), iterations);
        Batch b;
        while (train_loader.next(b)) {
            device.log_mark("iteration", number++);
            timings.begin();
            network.train(b.images, b.labels, b.count);
            timings.end();
        }
        b = Batch();
        device.log_mark("epoch", epoch);
        const Score train = take_score(totals);
        timings.write();
        std::printf("epoch %d loss %.9g accuracy %.9g", epoch, train.loss, train.accuracy);
        const bool last = epoch == options.epochs;
        if (last || (options.eval_every > 0 && epoch % options.eval_every == 0)) {
            const Score test = evaluate(network, test_loader, digits.test.count(), batch, totals);
            std::printf(" test loss %.9g accuracy %.9g", test.loss, test.accuracy);
        }
        std::printf("\n");
        std::fflush(stdout);
    }
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    std::printf("weights %016" PRIx64 "\n", network.hash());
}

}  // namespace

int main(int argc, char** argv) {
    const Options options = parse_options(argc, argv);
    Device::get().open(options.alloc_log);
    train(options);
    Device::get().close();
    return 0;
}
