#include "interpose/runtime_params.h"

namespace swapadvisor {
namespace {
std::uint64_t name_hash(const std::string& name) {
    std::uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a
    for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
    return hash | 1;  // 0 means no function
}
}  // namespace

void FunctionInfo::sort_out() {
    pieces.clear();
    for (std::uint32_t i = 0; i < params.size(); ++i) {
        const Param& param = params[i];
        if (param.bytes >= 8)
            pieces.push_back(
                {param.bytes == 8 ? Piece::Kind::word : Piece::Kind::block, i, param.offset, param.bytes});
        else if (param.bytes == 4 && i + 1 < params.size() && params[i + 1].bytes == 4 &&
                 params[i + 1].offset == param.offset + 4)
            pieces.push_back({Piece::Kind::halves, i, param.offset, 8});
    }
}

FunctionInfo& FunctionTable::look_up(CUfunction function, Entry& entry) {
    auto& slot = all_[function];
    if (!slot) {
        slot = std::make_unique<FunctionInfo>();
        // A CUkernel may be passed as a CUfunction.
        auto kernel = reinterpret_cast<CUkernel>(function);
        const char* name = nullptr;
        if ((api_.cuFuncGetName_ != nullptr && api_.cuFuncGetName_(&name, function) == CUDA_SUCCESS &&
             name != nullptr) ||
            (api_.cuKernelGetName_ != nullptr && api_.cuKernelGetName_(&name, kernel) == CUDA_SUCCESS &&
             name != nullptr))
            slot->name = name;
        slot->id = name_hash(slot->name);
        auto all_params = [&](auto get) {
            for (std::size_t i = 0;; ++i) {
                std::size_t offset = 0, bytes = 0;
                const CUresult result = get(i, &offset, &bytes);
                if (result != CUDA_SUCCESS) return result == CUDA_ERROR_INVALID_VALUE;
                slot->params.push_back(
                    {static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(bytes)});
            }
        };
        if (api_.cuFuncGetParamInfo_ != nullptr)
            slot->layout_known = all_params([&](std::size_t i, std::size_t* offset, std::size_t* bytes) {
                return api_.cuFuncGetParamInfo_(function, i, offset, bytes);
            });
        if ((!slot->layout_known || slot->params.empty()) && api_.cuKernelGetParamInfo_ != nullptr) {
            slot->params.clear();
            const bool known = all_params([&](std::size_t i, std::size_t* offset, std::size_t* bytes) {
                return api_.cuKernelGetParamInfo_(kernel, i, offset, bytes);
            });
            slot->layout_known = slot->layout_known || known;
        }
        slot->sort_out();
    }
    entry = {function, slot.get()};
    return *slot;
}

void FunctionTable::forget() {
    recent_.assign(recent_.size(), Entry{});
    all_.clear();
}

}  // namespace swapadvisor
