// A hash map from buffer ids to small values: open addressing, linear probing, no allocation but for growth.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "recorder/signature.h"

namespace swapadvisor {

template <class Value>
class FlatMap {
  public:
    FlatMap() : entries_(64) {}
    std::size_t size() const { return size_; }

    /// Null if absent. Valid until the next change of the map.
    Value* find(std::uint64_t key) {
        for (std::size_t i = slot(key);; i = next(i)) {
            if (!entries_[i].used) return nullptr;
            if (entries_[i].key == key) return &entries_[i].value;
        }
    }
    const Value* find(std::uint64_t key) const { return const_cast<FlatMap*>(this)->find(key); }
    /// The value of `key`, made if absent.
    Value& operator[](std::uint64_t key) {
        if (size_ * 2 >= entries_.size()) grow();
        for (std::size_t i = slot(key);; i = next(i)) {
            Entry& entry = entries_[i];
            if (entry.used && entry.key != key) continue;
            if (!entry.used) {
                entry = {key, Value{}, true};
                ++size_;
            }
            return entry.value;
        }
    }
    void erase(std::uint64_t key) {
        std::size_t i = slot(key);
        for (;; i = next(i)) {
            if (!entries_[i].used) return;
            if (entries_[i].key == key) break;
        }
        // Close the gap: whatever would not be found any more moves into it.
        for (std::size_t j = next(i); entries_[j].used; j = next(j)) {
            const std::size_t home = slot(entries_[j].key);
            if (((j - home) & mask()) < ((j - i) & mask())) continue;
            entries_[i] = std::move(entries_[j]);
            i = j;
        }
        entries_[i] = {};
        --size_;
    }

    template <class Visit>
    void for_each(Visit&& visit) const {
        for (const Entry& entry : entries_)
            if (entry.used) visit(entry.key, entry.value);
    }

  private:
    struct Entry {
        std::uint64_t key = 0;
        Value value{};
        bool used = false;
    };
    std::size_t mask() const { return entries_.size() - 1; }
    std::size_t slot(std::uint64_t key) const { return mix(key, 7) & mask(); }
    std::size_t next(std::size_t i) const { return (i + 1) & mask(); }
    void grow() {
        std::vector<Entry> old(entries_.size() * 2);
        old.swap(entries_);
        for (Entry& entry : old) {
            if (!entry.used) continue;
            std::size_t i = slot(entry.key);
            while (entries_[i].used) i = next(i);
            entries_[i] = std::move(entry);
        }
    }
    std::vector<Entry> entries_;  // a power of two, at most half full
    std::size_t size_ = 0;
};

}  // namespace swapadvisor
