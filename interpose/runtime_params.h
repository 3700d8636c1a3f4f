// Which memory a kernel launch may touch: parameter layouts per function, and the scan of the argument bytes.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "recorder/address_scan.h"
#include "recorder/driver_api.h"

namespace swapadvisor {

struct FunctionInfo {
    struct Param {
        std::uint32_t offset = 0, bytes = 0;
    };
    /// What of the parameters can hold an address, sorted out once.
    struct Piece {
        enum class Kind : std::uint8_t {
            word,    ///< one parameter of 8 bytes
            halves,  ///< two parameters of 4 bytes, side by side
            block    ///< one larger parameter
        };
        Kind kind = Kind::word;
        std::uint32_t index = 0, offset = 0, bytes = 0;
    };
    std::uint64_t id = 0;  ///< a hash of the name: the same in every process
    std::string name;
    bool layout_known = false;
    std::vector<Param> params;
    std::vector<Piece> pieces;
    bool told = false;  ///< the recorder knows the name
    void sort_out();    ///< fills `pieces` from `params`
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

/// What a launch's `extra` holds. False: something that is not known.
inline bool packed_arguments(void** extra, const void*& buffer, std::size_t& bytes) {
    for (void** entry = extra; *entry != CU_LAUNCH_PARAM_END; entry += 2) {
        if (*entry == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = entry[1];
        else if (*entry == CU_LAUNCH_PARAM_BUFFER_SIZE)
            bytes = *static_cast<std::size_t*>(entry[1]);
        else
            return false;
    }
    if (buffer == nullptr) bytes = 0;
    return true;
}

/// Calls `found(address, form)` for everything in the arguments that is an address of [low, high)
/// (recorder/address_scan.h). False if their extent is unknown.
template <class Found>
bool scan_arguments(const FunctionInfo& info, void** params, void** extra, std::uint64_t low,
                    std::uint64_t high, Found&& found) {
    using Kind = FunctionInfo::Piece::Kind;
    const auto look = [&](const FunctionInfo::Piece& piece, const void* data, const void* next) {
        const auto* const bytes = static_cast<const char*>(data);
        if (piece.kind == Kind::word)
            find_in_word(address_scan::load<std::uint64_t>(bytes), low, high, found);
        else if (piece.kind == Kind::halves)
            find_in_halves(address_scan::load<std::uint32_t>(bytes),
                           address_scan::load<std::uint32_t>(static_cast<const char*>(next)), low, high,
                           found);
        else
            find_at_any_byte(bytes, piece.bytes, piece.offset, low, high, found);
    };
    if (params != nullptr) {
        if (!info.layout_known) return false;
        for (const FunctionInfo::Piece& piece : info.pieces)
            look(piece, params[piece.index], piece.kind == Kind::halves ? params[piece.index + 1] : nullptr);
        return true;
    }
    if (extra == nullptr) return true;
    const void* buffer = nullptr;
    std::size_t bytes = 0;
    if (!packed_arguments(extra, buffer, bytes)) return false;
    const char* const packed = static_cast<const char*>(buffer);
    if (!info.layout_known || info.params.empty()) {
        find_at_any_byte(packed, bytes, 0, low, high, found);
        return true;
    }
    for (FunctionInfo::Piece piece : info.pieces) {
        // The end of the last parameter may be left out.
        if (piece.offset + piece.bytes > bytes) {
            if (piece.kind != Kind::block || piece.offset >= bytes) continue;
            piece.bytes = static_cast<std::uint32_t>(bytes - piece.offset);
        }
        look(piece, packed + piece.offset, packed + piece.offset + 4);
    }
    return true;
}

}  // namespace swapadvisor
