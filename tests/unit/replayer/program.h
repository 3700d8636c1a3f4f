// A program on the fake driver, managed by a Residency, with a model beside it that says what every buffer
// must hold. It does what a correct CUDA program does and no more: it orders its own uses across streams by
// events, and expects memory to be reusable as soon as it has been freed.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "fake_driver.h"
#include "replayer/residency.h"

namespace swapadvisor::fake {

constexpr std::uint64_t kPage = 4096;

inline std::uint64_t scramble(std::uint64_t a, std::uint64_t b) {
    std::uint64_t x = a * 0x9E3779B97F4A7C15ull ^ (b + 0x7F4A7C15ull);
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9ull;
    return x ^ (x >> 32);
}

/// What stands between the program and the residency in a test: begin/end around an op, allocate and release.
struct Manager {
    virtual ~Manager() = default;
    virtual CUresult allocate(std::uint64_t bytes, Buffer*& buffer) = 0;
    virtual void release(Buffer& buffer) = 0;
    virtual CUresult begin(std::uint64_t function, const BufferUse* uses, std::size_t count,
                           QueueId queue) = 0;
    virtual void end(const BufferUse* uses, std::size_t count, QueueId queue) = 0;
};

struct PlainManager : Manager {
    explicit PlainManager(Residency& r) : residency(r) {}
    CUresult allocate(std::uint64_t bytes, Buffer*& buffer) override {
        return residency.allocate(bytes, ++ids, buffer);
    }
    void release(Buffer& buffer) override { residency.release(buffer); }
    CUresult begin(std::uint64_t, const BufferUse* uses, std::size_t count, QueueId queue) override {
        return residency.begin(uses, count, queue);
    }
    void end(const BufferUse* uses, std::size_t count, QueueId queue) override {
        residency.end(uses, count, residency.timeline().issued(queue));
    }
    Residency& residency;
    BufferId ids = 0;
};

class Program {
  public:
    Program(Residency& residency, Manager& manager, int streams) : residency_(residency), manager_(manager) {
        for (int i = 0; i < streams; ++i) {
            streams_.push_back(new_stream());
            queues_.push_back(residency.timeline().queue(context(), streams_.back()));
        }
    }

    /// Index of the new buffer, or -1 when memory ran out.
    int allocate(std::uint64_t bytes) {
        Buffer* buffer = nullptr;
        if (manager_.allocate(bytes, buffer) != CUDA_SUCCESS) return -1;
        const int index = next_++;
        Held held;
        held.buffer = buffer;
        held.address = buffer->address;
        held.bytes = bytes;
        for (std::uint64_t at = 0; at + 8 <= bytes; at += 1000) held.offsets.push_back(at / 8 * 8);
        held.offsets.push_back((bytes - 8) / 8 * 8);
        held.words.assign(held.offsets.size(), 0);
        held_[index] = std::move(held);
        return index;
    }
    void free(int index) {
        manager_.release(*held_.at(index).buffer);
        held_.erase(index);
    }
    /// A kernel: reads `reads`, writes (and reads, once written) `writes`.
    CUresult kernel(std::uint64_t function, const std::vector<int>& reads, const std::vector<int>& writes,
                    int stream = 0) {
        std::vector<BufferUse> uses;
        std::vector<Span> spans;
        std::uint64_t value = function;
        struct View {
            CUdeviceptr address;
            std::vector<std::uint64_t> offsets;
            bool written;
        };
        auto in = std::make_shared<std::vector<View>>();
        auto out = std::make_shared<std::vector<View>>();
        for (int r : reads) {
            Held& h = held_.at(r);
            if (!h.written) continue;
            uses.push_back(
                {h.buffer, unknown_reads ? Access::read_write : Access::read, false, unknown_reads});
            spans.push_back({h.address, h.bytes});
            in->push_back({h.address, h.offsets, true});
            for (std::uint64_t w : h.words) value = scramble(value, w);
            order(h, stream);
        }
        for (int r : writes) {
            Held& h = held_.at(r);
            uses.push_back({h.buffer, Access::read_write});
            spans.push_back({h.address, h.bytes});
            out->push_back({h.address, h.offsets, h.written});
            order(h, stream);
            if (h.written)
                for (std::uint64_t w : h.words) value = scramble(value, w);
        }
        add_pages(uses);
        CUresult result =
            manager_.begin(function, uses.data(), uses.size(), queues_[static_cast<std::size_t>(stream)]);
        if (result != CUDA_SUCCESS) return result;
        for (int r : writes) {
            Held& h = held_.at(r);
            h.written = true;
            for (std::uint64_t& w : h.words) w = value = scramble(value, 1);
        }
        launch(streams_[static_cast<std::size_t>(stream)], spans, [in, out, function] {
            std::uint64_t v = function;
            auto word = [](CUdeviceptr p) { return reinterpret_cast<std::uint64_t*>(p); };
            for (const View& view : *in)
                for (std::uint64_t o : view.offsets) v = scramble(v, *word(view.address + o));
            for (const View& view : *out)
                if (view.written)
                    for (std::uint64_t o : view.offsets) v = scramble(v, *word(view.address + o));
            for (const View& view : *out)
                for (std::uint64_t o : view.offsets) *word(view.address + o) = v = scramble(v, 1);
        });
        manager_.end(uses.data(), uses.size(), queues_[static_cast<std::size_t>(stream)]);
        ++ops;
        return CUDA_SUCCESS;
    }
    /// Copies to the host, waits, and compares with the model: number of wrong words.
    int check(int index, int stream = 0) {
        Held& h = held_.at(index);
        if (!h.written) return 0;
        std::vector<BufferUse> uses{{h.buffer, Access::read}};
        add_pages(uses);
        order(h, stream);
        if (manager_.begin(1, uses.data(), uses.size(), queues_[static_cast<std::size_t>(stream)]) !=
            CUDA_SUCCESS)
            return 1 << 20;
        auto got = std::make_shared<std::vector<std::uint64_t>>();
        const CUdeviceptr address = h.address;
        launch(streams_[static_cast<std::size_t>(stream)], {{address, h.bytes}},
               [got, address, offsets = h.offsets] {
                   for (std::uint64_t o : offsets)
                       got->push_back(*reinterpret_cast<std::uint64_t*>(address + o));
               });
        manager_.end(uses.data(), uses.size(), queues_[static_cast<std::size_t>(stream)]);
        synchronize(streams_[static_cast<std::size_t>(stream)]);
        ++ops;
        if (got->size() != h.offsets.size()) return 1 << 20;
        // Offsets may coincide: the last write of a place counts.
        std::map<std::uint64_t, std::uint64_t> last;
        for (std::size_t i = 0; i < h.offsets.size(); ++i) last[h.offsets[i]] = h.words[i];
        int wrong = 0;
        for (std::size_t i = 0; i < h.offsets.size(); ++i) wrong += (*got)[i] != last[h.offsets[i]];
        return wrong;
    }
    int check_all() {
        int wrong = 0;
        for (auto& [index, held] : held_) wrong += check(index, 0);
        return wrong;
    }
    std::vector<int> live() const {
        std::vector<int> all;
        for (auto& [index, held] : held_) all.push_back(index);
        return all;
    }
    Buffer& buffer(int index) { return *held_.at(index).buffer; }
    std::uint64_t bytes(int index) const { return held_.at(index).bytes; }
    std::uint64_t ops = 0;
    /// What kernels read looks like what they write, as to someone who knows their arguments alone; the truth
    /// is in BufferUse::believed_read, for a manager that plays what looks at contents.
    bool unknown_reads = false;

  private:
    struct Held {
        Buffer* buffer = nullptr;
        CUdeviceptr address = 0;
        std::uint64_t bytes = 0;
        std::vector<std::uint64_t> offsets, words;
        bool written = false;
        int stream = -1;
    };
    // What the program itself must do when it uses a buffer on another stream than before.
    void order(Held& h, int stream) {
        if (h.stream >= 0 && h.stream != stream) {
            // Faults are meant for the manager.
            CUevent event = nullptr;
            while (api().cuEventCreate_(&event, 0) != CUDA_SUCCESS) {
            }
            while (api().cuEventRecord_(event, streams_[static_cast<std::size_t>(h.stream)]) !=
                   CUDA_SUCCESS) {
            }
            while (api().cuStreamWaitEvent_(streams_[static_cast<std::size_t>(stream)], event, 0) !=
                   CUDA_SUCCESS) {
            }
        }
        h.stream = stream;
    }
    Residency& residency_;
    Manager& manager_;
    std::vector<CUstream> streams_;
    std::vector<QueueId> queues_;
    std::map<int, Held> held_;
    int next_ = 0;
};

inline ResidencyOptions options(std::uint64_t pages, std::uint64_t host_bytes = 1ull << 32) {
    ResidencyOptions o;
    o.limit_bytes = pages * kPage;
    o.host_limit_bytes = host_bytes;
    o.arena_below = 1024;
    o.page_bytes = kPage;
    o.region_bytes = 1ull << 30;
    return o;
}

}  // namespace swapadvisor::fake
