// Which memory a kernel launch may touch: parameter layouts per function, and the scan of the argument bytes.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "recorder/driver_api.h"

namespace swapadvisor {

struct FunctionInfo {
    struct Param {
        std::uint32_t offset = 0, bytes = 0;
    };
    std::uint64_t id = 0;  ///< a hash of the name: the same in every process
    std::string name;
    bool layout_known = false;
    std::vector<Param> params;
    bool told = false;  ///< the recorder knows the name
};

/// Not thread-safe. Each function is asked about once, the end of its list included.
class FunctionTable {
  public:
    explicit FunctionTable(const DriverApi& api) : api_(api) {}
    FunctionInfo& info(CUfunction function) {
        Entry& entry = recent_[(reinterpret_cast<std::uintptr_t>(function) >> 4) % recent_.size()];
        if (entry.function == function) return *entry.info;
        return look_up(function, entry);
    }
    /// Handles may be reused after a module is gone.
    void forget();

  private:
    struct Entry {
        CUfunction function = nullptr;
        FunctionInfo* info = nullptr;
    };
    FunctionInfo& look_up(CUfunction function, Entry& entry);

    const DriverApi& api_;
    std::vector<Entry> recent_ = std::vector<Entry>(1024);
    std::unordered_map<CUfunction, std::unique_ptr<FunctionInfo>> all_;
};

/// Calls `word(std::uint64_t)` for every aligned 8-byte word of the arguments. False if their extent is
/// unknown.
template <class Word>
bool scan_arguments(const FunctionInfo& info, void** params, void** extra, Word&& word) {
    auto scan = [&](const void* data, std::size_t bytes) {
        const char* p = static_cast<const char*>(data);
        for (std::size_t at = 0; at + 8 <= bytes; at += 8) {
            std::uint64_t value;
            std::memcpy(&value, p + at, 8);
            word(value);
        }
    };
    if (params != nullptr) {
        if (!info.layout_known) return false;
        for (std::size_t i = 0; i < info.params.size(); ++i)
            if (info.params[i].bytes >= 8) scan(params[i], info.params[i].bytes);
        return true;
    }
    if (extra == nullptr) return true;
    const void* buffer = nullptr;
    std::size_t bytes = 0;
    for (void** entry = extra; *entry != CU_LAUNCH_PARAM_END; entry += 2) {
        if (*entry == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = entry[1];
        else if (*entry == CU_LAUNCH_PARAM_BUFFER_SIZE)
            bytes = *static_cast<std::size_t*>(entry[1]);
        else
            return false;
    }
    if (buffer != nullptr) scan(buffer, bytes);
    return true;
}

}  // namespace swapadvisor
