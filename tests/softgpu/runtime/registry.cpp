#include "registry.h"

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace cudart {

namespace {

struct Variable {
    std::string name;
    void** host_pointer = nullptr;  // managed: where the program's pointer lives
    bool managed = false;
};

struct Image {
    void* binary = nullptr;  // what nvcc emitted: the driver reads it
    CUlibrary library = nullptr;
    cudaError_t failure = cudaSuccess;
    std::vector<const void*> managed;
};

struct Kernel {
    Image* image = nullptr;
    std::string name;
    CUkernel handle = nullptr;
};

struct Symbol {
    Image* image = nullptr;
    Variable variable;
};

// Never destroyed: programs unregister from their exit handlers.
struct Registry {
    std::recursive_mutex mutex;
    std::unordered_map<Image*, std::unique_ptr<Image>> images;
    std::unordered_map<const void*, Kernel> kernels;
    std::unordered_map<const void*, Symbol> symbols;
};
Registry& registry() {
    static auto* r = new Registry;
    return *r;
}

// Loads the image on first use. A failure is kept: the next try would fail the same way, and quickly.
cudaError_t load(Image& image) {
    if (image.library) return cudaSuccess;
    if (image.failure != cudaSuccess) return image.failure;
    const auto& cu = driver();
    const CUresult r =
        cu.cuLibraryLoadData(&image.library, image.binary, nullptr, nullptr, 0, nullptr, nullptr, 0);
    if (r != CUDA_SUCCESS) {
        image.library = nullptr;
        if (r != CUDA_ERROR_OUT_OF_MEMORY) image.failure = to_error(r);
        return to_error(r);
    }
    auto& all = registry();
    for (const void* key : image.managed) {
        const auto& variable = all.symbols.at(key).variable;
        CUdeviceptr address = 0;
        std::size_t bytes = 0;
        CUDART_TRY(to_error(cu.cuLibraryGetManaged(&address, &bytes, image.library, variable.name.c_str())));
        *variable.host_pointer = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
    }
    return cudaSuccess;
}

void** handle_of(Image* image) {
    return reinterpret_cast<void**>(image);
}
Image* image_of(void** handle) {
    return reinterpret_cast<Image*>(handle);
}

}  // namespace

bool is_stub(const void* stub) {
    auto& all = registry();
    std::lock_guard lock(all.mutex);
    return all.kernels.count(stub) != 0;
}

cudaError_t find_kernel(const void* stub, CUkernel* kernel) {
    if (!stub) return cudaErrorInvalidDeviceFunction;
    auto& all = registry();
    std::lock_guard lock(all.mutex);
    const auto found = all.kernels.find(stub);
    if (found == all.kernels.end()) {
        // Not one of ours: a handle, or a wrong address that the driver will refuse.
        *kernel = reinterpret_cast<CUkernel>(const_cast<void*>(stub));
        return cudaSuccess;
    }
    Kernel& k = found->second;
    if (!k.handle) {
        CUDART_TRY(load(*k.image));
        const CUresult r = driver().cuLibraryGetKernel(&k.handle, k.image->library, k.name.c_str());
        if (r != CUDA_SUCCESS)
            return r == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidDeviceFunction : to_error(r);
    }
    *kernel = k.handle;
    return cudaSuccess;
}

cudaError_t find_function(const void* stub, CUfunction* function) {
    CUkernel kernel = nullptr;
    const bool ours = is_stub(stub);
    CUDART_TRY(find_kernel(stub, &kernel));
    const CUresult r = driver().cuKernelGetFunction(function, kernel);
    if (r == CUDA_SUCCESS || ours) return to_error(r);
    *function = reinterpret_cast<CUfunction>(kernel);  // a cudaFunction_t
    return cudaSuccess;
}

cudaError_t find_symbol(const void* symbol, SymbolSpan* span) {
    auto& all = registry();
    std::lock_guard lock(all.mutex);
    const auto found = all.symbols.find(symbol);
    if (found == all.symbols.end()) return cudaErrorInvalidSymbol;
    auto& s = found->second;
    CUDART_TRY(load(*s.image));
    const auto& cu = driver();
    const auto& get = s.variable.managed ? cu.cuLibraryGetManaged : cu.cuLibraryGetGlobal;
    const CUresult r = get(&span->address, &span->bytes, s.image->library, s.variable.name.c_str());
    return r == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidSymbol : to_error(r);
}

}  // namespace cudart

using namespace cudart;

CUDART_EXPORT void** __cudaRegisterFatBinary(void* binary) {
    auto& all = registry();
    std::lock_guard lock(all.mutex);
    auto image = std::make_unique<Image>();
    image->binary = binary;
    Image* raw = image.get();
    all.images.emplace(raw, std::move(image));
    return handle_of(raw);
}

CUDART_EXPORT void __cudaRegisterFatBinaryEnd(void**) {}

CUDART_EXPORT void __cudaUnregisterFatBinary(void** handle) {
    auto& all = registry();
    std::lock_guard lock(all.mutex);
    const auto found = all.images.find(image_of(handle));
    if (found == all.images.end()) return;
    Image* image = found->first;
    std::erase_if(all.kernels, [&](const auto& entry) { return entry.second.image == image; });
    std::erase_if(all.symbols, [&](const auto& entry) { return entry.second.image == image; });
    // While the process exits the driver may be gone already, and takes its libraries with it.
    if (image->library && !exiting()) driver().cuLibraryUnload(image->library);
    all.images.erase(found);
}

CUDART_EXPORT void __cudaRegisterFunction(void** handle, const char* stub, char*, const char* name, int,
                                          uint3*, uint3*, dim3*, dim3*, int*) {
    auto& all = registry();
    std::lock_guard lock(all.mutex);
    all.kernels[stub] = {image_of(handle), name, nullptr};
}

CUDART_EXPORT void __cudaRegisterVar(void** handle, char* variable, char*, const char* name, int, size_t, int,
                                     int) {
    auto& all = registry();
    std::lock_guard lock(all.mutex);
    all.symbols[variable] = {image_of(handle), {name, nullptr, false}};
}

CUDART_EXPORT void __cudaRegisterManagedVar(void** handle, void** pointer, char*, const char* name, int,
                                            size_t, int, int) {
    auto& all = registry();
    std::lock_guard lock(all.mutex);
    all.symbols[pointer] = {image_of(handle), {name, pointer, true}};
    image_of(handle)->managed.push_back(pointer);
}

// Called before the first use of a managed variable on the host.
CUDART_EXPORT char __cudaInitModule(void** handle) {
    const cudaError_t error = run(false, true, [&](const Driver&) {
        auto& all = registry();
        std::lock_guard lock(all.mutex);
        return load(*image_of(handle));
    });
    return remember(error) == cudaSuccess;
}

CUDART_API(cudaGetSymbolAddress, (void** address, const void* symbol), (address, symbol)) {
    (void)cu;
    if (!address) return cudaErrorInvalidValue;
    SymbolSpan span;
    CUDART_TRY(find_symbol(symbol, &span));
    *address = reinterpret_cast<void*>(static_cast<std::uintptr_t>(span.address));
    return cudaSuccess;
}

CUDART_API(cudaGetSymbolSize, (size_t * bytes, const void* symbol), (bytes, symbol)) {
    (void)cu;
    if (!bytes) return cudaErrorInvalidValue;
    SymbolSpan span;
    CUDART_TRY(find_symbol(symbol, &span));
    *bytes = span.bytes;
    return cudaSuccess;
}
