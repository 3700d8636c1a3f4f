// What every file of entry points uses: wrappers that keep the last error, forwarding to the driver with
// converted arguments, and the lazily created context.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "driver.h"

#define CUDART_EXPORT extern "C" __attribute__((visibility("default")))

namespace cudart {

/// Keeps the error for cudaGetLastError and passes it on.
cudaError_t remember(cudaError_t error);
cudaError_t last_error(bool clear);
void forget_last_error();

inline cudaError_t to_error(CUresult r) {
    return r == CUDA_ERROR_STUB_LIBRARY ? cudaErrorInsufficientDriver : static_cast<cudaError_t>(r);
}

/// Makes sure that the calling thread has a context: the one that is current, else the primary context of the
/// thread's device, retained for good.
cudaError_t ensure_context();
int thread_device();
/// The primary context of any device, created when needed.
cudaError_t primary_context(int device, CUcontext* context);

#define CUDART_TRY(expression)                                            \
    do {                                                                  \
        if (const cudaError_t try_error = (expression)) return try_error; \
    } while (false)

/// Driver and runtime types are twins in layout; only the C++ types differ.
template <class To, class From>
To convert(From value) {
    if constexpr (std::is_convertible_v<From, To>) {
        return value;
    } else if constexpr (std::is_enum_v<To> || std::is_enum_v<From>) {
        return static_cast<To>(static_cast<std::int64_t>(value));
    } else if constexpr (std::is_pointer_v<To> && std::is_pointer_v<From>) {
        return (To)value;  // also drops const where the driver's prototype lacks it
    } else if constexpr (std::is_pointer_v<From>) {
        return static_cast<To>(reinterpret_cast<std::uintptr_t>(value));
    } else if constexpr (std::is_pointer_v<To>) {
        return reinterpret_cast<To>(static_cast<std::uintptr_t>(value));
    } else {
        static_assert(sizeof(To) == sizeof(From));
        To out;
        std::memcpy(&out, &value, sizeof out);
        return out;
    }
}

template <class... P, class... A>
cudaError_t forward(const Entry<CUresult (*)(P...)>& entry, A... arguments) {
    static_assert(sizeof...(P) == sizeof...(A));
    return to_error(entry(convert<P>(arguments)...));
}

/// Runs a body with the driver loaded; `context` also gives the thread a context first.
template <class Body, class... A>
cudaError_t run(bool per_thread, bool context, Body body, A... arguments) {
    CUDART_TRY(to_error(load_driver()));
    if (context) CUDART_TRY(ensure_context());
    return body(driver(per_thread), arguments...);
}

}  // namespace cudart

// An entry point: CUDART_API(name, (parameters), (arguments)) { body that uses `cu`, the driver }.
#define CUDART_ENTRY(name, body, per_thread, context, parameters, arguments)                      \
    CUDART_EXPORT cudaError_t name parameters {                                                   \
        return cudart::remember(cudart::run(per_thread, context, body, CUDART_UNWRAP arguments)); \
    }
#define CUDART_UNWRAP(...) __VA_ARGS__
#define CUDART_BODY(name, parameters) \
    static cudaError_t name##_body([[maybe_unused]] const cudart::Driver& cu, CUDART_UNWRAP parameters)

#define CUDART_API_(name, context, parameters, arguments)                  \
    CUDART_BODY(name, parameters);                                         \
    CUDART_ENTRY(name, name##_body, false, context, parameters, arguments) \
    CUDART_BODY(name, parameters)
#define CUDART_API(name, parameters, arguments) CUDART_API_(name, true, parameters, arguments)
// ... without arguments
#define CUDART_API0(name)                                               \
    static cudaError_t name##_body(const cudart::Driver& cu);           \
    CUDART_EXPORT cudaError_t name() {                                  \
        return cudart::remember(cudart::run(false, true, name##_body)); \
    }                                                                   \
    static cudaError_t name##_body([[maybe_unused]] const cudart::Driver& cu)
// ... that needs no context
#define CUDART_API_NC(name, parameters, arguments) CUDART_API_(name, false, parameters, arguments)
// ... with a twin for the per-thread default stream: suffix _ptsz or _ptds
#define CUDART_TWIN(name, suffix, parameters, arguments)                       \
    CUDART_BODY(name, parameters);                                             \
    CUDART_ENTRY(name, name##_body, false, true, parameters, arguments)        \
    CUDART_ENTRY(name##suffix, name##_body, true, true, parameters, arguments) \
    CUDART_BODY(name, parameters)

// The same where the body only hands the arguments on to one driver call.
#define CUDART_FORWARD(name, entry, parameters, arguments)         \
    CUDART_API(name, parameters, arguments) {                      \
        return cudart::forward(cu.entry, CUDART_UNWRAP arguments); \
    }
#define CUDART_FORWARD_NC(name, entry, parameters, arguments)      \
    CUDART_API_NC(name, parameters, arguments) {                   \
        return cudart::forward(cu.entry, CUDART_UNWRAP arguments); \
    }
#define CUDART_FORWARD_TWIN(name, suffix, entry, parameters, arguments) \
    CUDART_TWIN(name, suffix, parameters, arguments) {                  \
        return cudart::forward(cu.entry, CUDART_UNWRAP arguments);      \
    }
