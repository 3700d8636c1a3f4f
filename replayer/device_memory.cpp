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
    used_pages_ -= slot.pages;
    slot = Slot{};
}

CUresult DeviceMemory::map(CUdeviceptr address, const Slot& slot) {
    mapping_calls_ += 2;
    CUresult result = api_.cuMemMap_(address, slot.pages * page_bytes_, 0, slot.handle, 0);
    if (result != CUDA_SUCCESS) return result;
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device_;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    result = api_.cuMemSetAccess_(address, slot.pages * page_bytes_, &access, 1);
    if (result != CUDA_SUCCESS) api_.cuMemUnmap_(address, slot.pages * page_bytes_);
    return result;
}

CUresult DeviceMemory::unmap(CUdeviceptr address, std::uint64_t pages) {
    ++mapping_calls_;
    return api_.cuMemUnmap_(address, pages * page_bytes_);
}

}  // namespace swapadvisor
