// The CUPTI functions that the timer calls. Internal to it and its tests.
#pragma once

#include <cuda.h>
#include <cupti.h>

namespace swapadvisor {

struct CuptiApi {
    decltype(&::cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
    decltype(&::cuptiActivityEnable) enable = nullptr;
    decltype(&::cuptiActivityDisable) disable = nullptr;
    decltype(&::cuptiActivityGetNextRecord) next_record = nullptr;
    decltype(&::cuptiActivityFlushAll) flush = nullptr;
    decltype(&::cuptiActivityPushExternalCorrelationId) push = nullptr;
    decltype(&::cuptiActivityPopExternalCorrelationId) pop = nullptr;
};

}  // namespace swapadvisor
