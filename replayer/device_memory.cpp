#include "replayer/device_memory.h"

namespace swapadvisor {
namespace {
CUmemAllocationProp device_prop(CUdevice device) {
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    return prop;
}
}  // namespace

CUresult DeviceMemory::create(std::uint64_t pages, Slot& slot) {
    if (pages > free_pages()) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUmemAllocationProp prop = device_prop(device_);
    ++mapping_calls_;
    CUresult result = api_.cuMemCreate_(&slot.handle, pages * page_bytes_, &prop, 0);
    if (result != CUDA_SUCCESS) return result;
    handles_.insert(slot.handle);
    slot.pages = pages;
    slot.holder = nullptr;
    slot.guard.clear();
    used_pages_ += pages;
    return CUDA_SUCCESS;
}

void DeviceMemory::release(Slot& slot) {
    if (slot.pages == 0) return;
    ++mapping_calls_;
    api_.cuMemRelease_(slot.handle);
    handles_.erase(slot.handle);
    for (const Slot::Piece& piece : slot.more) {
        ++mapping_calls_;
        api_.cuMemRelease_(piece.handle);
        handles_.erase(piece.handle);
    }
    used_pages_ -= slot.pages;
    slot = Slot{};
}

CUresult DeviceMemory::map(CUdeviceptr address, const Slot& slot) {
    std::uint64_t own = slot.pages;
    for (const Slot::Piece& piece : slot.more) own -= piece.pages;
    mapping_calls_ += 2 + slot.more.size();
    std::uint64_t mapped = 0;
    auto add = [&](const Slot::Piece& piece) {
        const CUresult result =
            api_.cuMemMap_(address + mapped * page_bytes_, piece.pages * page_bytes_, 0, piece.handle, 0);
        if (result == CUDA_SUCCESS) mapped += piece.pages;
        return result;
    };
    CUresult result = add({slot.handle, own});
    for (const Slot::Piece& piece : slot.more)
        if (result == CUDA_SUCCESS) result = add(piece);
    if (result == CUDA_SUCCESS) result = set_access(address, slot.pages);
    if (result == CUDA_SUCCESS)
        mapped_[address] = slot.pages;
    else if (mapped != 0)
        api_.cuMemUnmap_(address, mapped * page_bytes_);
    return result;
}

CUmemAccessDesc DeviceMemory::access_of(CUdevice device) {
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return access;
}

CUresult DeviceMemory::set_access(CUdeviceptr address, std::uint64_t pages) {
    return api_.cuMemSetAccess_(address, pages * page_bytes_, access_.data(), access_.size());
}

bool DeviceMemory::is_open_to(CUdevice device) const {
    for (const CUmemAccessDesc& access : access_)
        if (access.location.id == device) return true;
    return false;
}

CUresult DeviceMemory::let_in(CUdevice device) {
    if (is_open_to(device)) return CUDA_SUCCESS;
    access_.push_back(access_of(device));
    for (const auto& [address, pages] : mapped_) {
        ++mapping_calls_;
        if (const CUresult result = set_access(address, pages); result != CUDA_SUCCESS) {
            access_.pop_back();
            return result;
        }
    }
    return CUDA_SUCCESS;
}

void DeviceMemory::give_all_back() {
    for (const auto& [address, pages] : mapped_) api_.cuMemUnmap_(address, pages * page_bytes_);
    for (const CUmemGenericAllocationHandle handle : handles_) api_.cuMemRelease_(handle);
    mapped_.clear();
    handles_.clear();
    used_pages_ = 0;
}

CUresult DeviceMemory::unmap(CUdeviceptr address, std::uint64_t pages) {
    ++mapping_calls_;
    const CUresult result = api_.cuMemUnmap_(address, pages * page_bytes_);
    if (result == CUDA_SUCCESS)
        mapped_.erase(mapped_.lower_bound(address), mapped_.lower_bound(address + pages * page_bytes_));
    return result;
}

}  // namespace swapadvisor
