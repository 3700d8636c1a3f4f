// A ring of words from one producer to one consumer. Records are published whole.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace swapadvisor {

class WordRing {
  public:
    /// `words` is rounded up to a power of two.
    explicit WordRing(std::size_t words) {
        std::size_t size = 1;
        while (size < words) size *= 2;
        mask_ = size - 1;
        data_ = std::make_unique<std::uint64_t[]>(size);
    }

    // Producer: room_for(n), then put() n times, then publish().
    bool room_for(std::size_t words) {
        if (write_ + words - seen_read_ <= mask_ + 1) return true;
        seen_read_ = read_.load(std::memory_order_acquire);
        return write_ + words - seen_read_ <= mask_ + 1;
    }
    void put(std::uint64_t word) { data_[write_++ & mask_] = word; }
    void publish() { published_.store(write_, std::memory_order_release); }

    // Consumer: available() words may be read with at(0..), then consumed. Looks at the producer's line only
    // when all that was published at the last look has been read.
    std::size_t available() {
        const std::uint64_t read = read_.load(std::memory_order_relaxed);
        if (seen_published_ == read) seen_published_ = published_.load(std::memory_order_acquire);
        return static_cast<std::size_t>(seen_published_ - read);
    }
    std::uint64_t at(std::size_t i) const {
        return data_[(read_.load(std::memory_order_relaxed) + i) & mask_];
    }
    void consume(std::size_t words) {
        read_.store(read_.load(std::memory_order_relaxed) + words, std::memory_order_release);
    }
    /// What is published by now; consumed(that) once all of it has been read.
    std::uint64_t published() const { return published_.load(std::memory_order_acquire); }
    bool consumed(std::uint64_t position) const { return read_.load(std::memory_order_acquire) >= position; }
    bool empty() const {
        return published_.load(std::memory_order_acquire) == read_.load(std::memory_order_acquire);
    }

  private:
    // A line of the cache each for what only one side writes: the other need not fetch it at every record.
    std::size_t mask_ = 0;
    std::unique_ptr<std::uint64_t[]> data_;
    alignas(64) std::uint64_t write_ = 0;  // producer only
    std::uint64_t seen_read_ = 0;          // producer only
    alignas(64) std::atomic<std::uint64_t> published_{0};
    alignas(64) std::atomic<std::uint64_t> read_{0};
    std::uint64_t seen_published_ = 0;  // consumer only
};

}  // namespace swapadvisor
