// A plain device memory for tests of the PTX engine alone.
#pragma once

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/softgpu/ptx/engine.h"

namespace softgpu::ptx::test {

class TestMemory final : public Memory {
  public:
    ~TestMemory() override {
        for (auto& [at, size] : ranges_) std::free(reinterpret_cast<void*>(at));
    }
    std::uint64_t allocate(std::uint64_t bytes, std::uint64_t align = 256) {
        if (align < 256) align = 256;
        std::uint64_t rounded = (bytes + align - 1) / align * align;
        void* p = std::aligned_alloc(align, rounded);
        std::memset(p, 0, rounded);
        std::lock_guard lock(mutex_);
        ranges_[reinterpret_cast<std::uint64_t>(p)] = bytes;
        return reinterpret_cast<std::uint64_t>(p);
    }
    std::uint64_t allocate_global(std::uint64_t bytes, std::uint64_t align, bool) override {
        return allocate(bytes, align);
    }
    bool check(std::uint64_t address, std::uint64_t bytes, bool, std::uint64_t* from,
               std::uint64_t* until) override {
        std::lock_guard lock(mutex_);
        auto it = ranges_.upper_bound(address);
        if (it == ranges_.begin()) return false;
        --it;
        if (address + bytes > it->first + it->second) return false;
        *from = it->first, *until = it->first + it->second;
        return true;
    }
    void print(const std::string& text) override {
        std::lock_guard lock(mutex_);
        printed += text;
    }
    std::string printed;

  private:
    std::mutex mutex_;
    std::map<std::uint64_t, std::uint64_t> ranges_;
};

/// Device array with host access (they are the same here).
template <class T>
struct Array {
    Array(TestMemory& memory, std::size_t n) : address(memory.allocate(n * sizeof(T))), size(n) {}
    Array(TestMemory& memory, const std::vector<T>& from) : Array(memory, from.size()) {
        std::memcpy(data(), from.data(), from.size() * sizeof(T));
    }
    T* data() { return reinterpret_cast<T*>(address); }
    T& operator[](std::size_t i) { return data()[i]; }
    std::uint64_t address;
    std::size_t size;
};

/// Parameter block from values, each naturally aligned.
class Params {
  public:
    template <class... T>
    explicit Params(const T&... values) {
        (add(values), ...);
    }
    const void* data() const { return bytes_.data(); }

  private:
    template <class T>
    void add(const T& v) {
        put(&v, sizeof v, alignof(T));
    }
    template <class T>
    void add(const Array<T>& a) {
        put(&a.address, 8, 8);
    }
    void put(const void* p, std::size_t n, std::size_t align) {
        bytes_.resize((bytes_.size() + align - 1) / align * align + n);
        std::memcpy(bytes_.data() + bytes_.size() - n, p, n);
    }
    std::vector<unsigned char> bytes_;
};

inline std::string read_file(const std::string& path) {
    std::ifstream in(path);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

inline std::unique_ptr<Module> load_text(const std::string& text, TestMemory& memory) {
    return load({text}, memory);
}

inline LaunchResult run(Module& module, const std::string& kernel, TestMemory& memory,
                        std::array<std::uint32_t, 3> grid, std::array<std::uint32_t, 3> block,
                        const Params& params, std::uint32_t shared = 0, int threads = 0,
                        std::uint64_t budget = 0) {
    LaunchConfig c;
    c.grid = grid, c.block = block, c.params = params.data(), c.dynamic_shared_bytes = shared,
    c.threads = threads;
    c.instruction_budget = budget;
    return launch(*module.functions().at(kernel), c, memory);
}

}  // namespace softgpu::ptx::test
