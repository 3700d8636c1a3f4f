// Entry points for modules, libraries, kernels and functions.
#include <cstring>
#include <fstream>
#include <iterator>

#include "tests/softgpu/driver/api.h"
#include "tests/softgpu/driver/modules.h"

using namespace softgpu;

namespace {

CUresult read_file(const char* path, std::string* bytes) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
    bytes->assign(std::istreambuf_iterator<char>(file), {});
    bytes->push_back('\0');
    return CUDA_SUCCESS;
}

/// Fills the caller's JIT log buffers, as far as they were asked for.
void write_log(unsigned count, const CUjit_option* options, void** values, const std::string& text) {
    const JitLog log =
        find_jit_log(count, options, values, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
    if (!log.wanted()) return;
    const std::size_t length = log.write(text);
    if (log.length) *log.length = reinterpret_cast<void*>(length);
}

CUresult load(Call& call, CUmodule* out, const void* image, unsigned count, const CUjit_option* options,
              void** values) {
    if (!out || !image) return CUDA_ERROR_INVALID_VALUE;
    std::vector<std::string> texts;
    std::string why;
    const Options& o = softgpu::options();
    CUresult r = ptx_from_image(image, o.cc_major, o.cc_minor, &texts, &why);
    std::unique_ptr<CUmod_st> module;
    if (r == CUDA_SUCCESS) r = load_module(call.context(), texts, &module, &why);
    if (r != CUDA_SUCCESS) {
        say("cannot load module: %s", why.c_str());
        write_log(count, options, values, why);
        return r;
    }
    *out = module.release();
    return CUDA_SUCCESS;
}

CUresult function_attribute(const CUfunc_st* f, CUfunction_attribute attribute, int* value) {
    const ptx::FunctionInfo& info = f->function->info();
    switch (attribute) {
        case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
            *value = static_cast<int>(info.max_threads);
            break;
        case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
            *value = static_cast<int>(info.static_shared_bytes);
            break;
        case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
            *value = 0;
            break;
        case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
            *value = static_cast<int>(info.local_bytes);
            break;
        case CU_FUNC_ATTRIBUTE_NUM_REGS:
            *value = static_cast<int>(info.registers);
            break;
        case CU_FUNC_ATTRIBUTE_PTX_VERSION:
            *value = info.target;
            break;
        case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
            *value = options().cc_major * 10 + options().cc_minor;
            break;
        case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
            *value = 0;
            break;
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
            *value = static_cast<int>(dynamic_shared_limit(f));
            break;
        case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
            *value = f->carveout;
            break;
        case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
            *value = 0;
            break;
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
            *value = static_cast<int>(info.required_cluster[0]);
            break;
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
            *value = static_cast<int>(info.required_cluster[1]);
            break;
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
            *value = static_cast<int>(info.required_cluster[2]);
            break;
        case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
            *value = f->non_portable_cluster;
            break;
        case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
            *value = 0;
            break;
        default:
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult check_dynamic_shared(const CUfunc_st* f, int bytes) {
    if (bytes < 0 ||
        static_cast<unsigned>(bytes) + f->function->info().static_shared_bytes > shared_per_block_optin())
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult param_info(const CUfunc_st* f, std::size_t index, std::size_t* offset, std::size_t* size) {
    const auto& params = f->function->info().params;
    if (!offset || index >= params.size()) return CUDA_ERROR_INVALID_VALUE;
    *offset = params[index].offset;
    if (size) *size = params[index].size;
    return CUDA_SUCCESS;
}

/// A kernel's function in the current context.
CUresult kernel_function(CUctx_st* context, CUkernel kernel, CUfunc_st** out) {
    if (driver().kind(kernel) != Kind::kernel) return CUDA_ERROR_INVALID_HANDLE;
    return resolve_function(reinterpret_cast<CUfunction>(kernel), context, out);
}

CUresult variable(CUmod_st* module, const char* name, CUdeviceptr* address, std::size_t* bytes,
                  bool managed_only) {
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    for (const ptx::Variable* v : module->code->variables()) {
        if (v->name != name || (managed_only && !v->managed)) continue;
        if (address) *address = v->address;
        if (bytes) *bytes = v->size;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult new_library(CUlibrary* out, const void* image, unsigned count, const CUjit_option* jit,
                     void** values) {
    if (!out || !image) return CUDA_ERROR_INVALID_VALUE;
    auto library = std::make_unique<CUlib_st>();
    std::string why;
    const Options& o = options();
    if (const CUresult r = ptx_from_image(image, o.cc_major, o.cc_minor, &library->texts, &why);
        r != CUDA_SUCCESS) {
        say("cannot load library: %s", why.c_str());
        write_log(count, jit, values, why);
        return r;
    }
    Driver& d = driver();
    for (const std::string& text : library->texts)
        for (const std::string& name : kernel_names(text)) {
            auto kernel = std::make_unique<CUkern_st>();
            kernel->library = library.get();
            kernel->name = name;
            auto& slot = library->kernels[name];
            if (slot) continue;
            d.alive[kernel.get()] = Kind::kernel;
            slot = std::move(kernel);
        }
    d.alive[library.get()] = Kind::library;
    *out = library.release();
    return CUDA_SUCCESS;
}

}  // namespace

// ---- modules ----

SOFTCU cuModuleLoadData(CUmodule* module, const void* image) {
    SOFTGPU_CALL(kContext | kUnsafe);
    return load(call, module, image, 0, nullptr, nullptr);
}

SOFTCU cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned count, CUjit_option* jit,
                          void** values) {
    SOFTGPU_CALL(kContext | kUnsafe);
    return load(call, module, image, count, jit, values);
}

SOFTCU cuModuleLoadFatBinary(CUmodule* module, const void* image) {
    SOFTGPU_CALL(kContext | kUnsafe);
    return load(call, module, image, 0, nullptr, nullptr);
}

SOFTCU cuModuleLoad(CUmodule* module, const char* path) {
    SOFTGPU_CALL(kContext | kUnsafe);
    std::string bytes;
    if (!path) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult r = read_file(path, &bytes); r != CUDA_SUCCESS) return r;
    return load(call, module, bytes.data(), 0, nullptr, nullptr);
}

SOFTCU cuModuleUnload(CUmodule module) {
    SOFTGPU_CALL(kContext | kUnsafe);
    if (driver().kind(module) != Kind::module || module->library) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult r = wait_for_context(call.lock(), module->context);  // its code may be running
    unload_module(module);
    delete module;
    return r;
}

SOFTCU cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
    SOFTGPU_CALL(kContext);
    if (!function || !name) return CUDA_ERROR_INVALID_VALUE;
    if (driver().kind(module) != Kind::module) return CUDA_ERROR_INVALID_HANDLE;
    CUfunc_st* found = find_function(module, name);
    if (!found) return CUDA_ERROR_NOT_FOUND;
    *function = found;
    return CUDA_SUCCESS;
}

SOFTCU cuModuleGetFunctionCount(unsigned* count, CUmodule module) {
    SOFTGPU_CALL(kContext);
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    if (driver().kind(module) != Kind::module) return CUDA_ERROR_INVALID_HANDLE;
    *count = static_cast<unsigned>(module->functions.size());
    return CUDA_SUCCESS;
}

SOFTCU cuModuleEnumerateFunctions(CUfunction* functions, unsigned count, CUmodule module) {
    SOFTGPU_CALL(kContext);
    if (!functions) return CUDA_ERROR_INVALID_VALUE;
    if (driver().kind(module) != Kind::module) return CUDA_ERROR_INVALID_HANDLE;
    unsigned i = 0;
    for (const auto& [name, function] : module->functions)
        if (i < count) functions[i++] = function.get();
    return CUDA_SUCCESS;
}

SOFTCU cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule module, const char* name) {
    SOFTGPU_CALL(kContext);
    if (driver().kind(module) != Kind::module) return CUDA_ERROR_INVALID_HANDLE;
    return variable(module, name, address, bytes, false);
}

SOFTCU cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
    SOFTGPU_CALL(kPlain);
    if (!mode) return CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

// ---- functions ----

SOFTCU cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
    SOFTGPU_CALL(kContext);
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    CUfunc_st* f = nullptr;
    if (const CUresult r = resolve_function(function, call.context(), &f); r != CUDA_SUCCESS) return r;
    return function_attribute(f, attribute, value);
}

SOFTCU cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    SOFTGPU_CALL(kContext);
    CUfunc_st* f = nullptr;
    if (const CUresult r = resolve_function(function, call.context(), &f); r != CUDA_SUCCESS) return r;
    switch (attribute) {
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
            if (const CUresult r = check_dynamic_shared(f, value); r != CUDA_SUCCESS) return r;
            f->max_dynamic_shared = value;
            return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
            if (value < -1 || value > 100) return CUDA_ERROR_INVALID_VALUE;
            f->carveout = value;
            return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
            f->non_portable_cluster = value != 0;
            return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
            return options().cc_major >= 9 ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
        default:
            return CUDA_ERROR_INVALID_VALUE;
    }
}

SOFTCU cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config) {
    SOFTGPU_CALL(kContext);
    CUfunc_st* f = nullptr;
    if (const CUresult r = resolve_function(function, call.context(), &f); r != CUDA_SUCCESS) return r;
    f->cache = config;
    return CUDA_SUCCESS;
}

SOFTCU cuFuncSetSharedMemConfig(CUfunction function, CUsharedconfig) {
    SOFTGPU_CALL(kContext);
    CUfunc_st* f = nullptr;
    return resolve_function(function, call.context(), &f);
}

SOFTCU cuFuncGetModule(CUmodule* module, CUfunction function) {
    SOFTGPU_CALL(kFree | kContext);
    if (!module) return CUDA_ERROR_INVALID_VALUE;
    CUfunc_st* f = nullptr;
    if (const CUresult r = resolve_function(function, call.context(), &f); r != CUDA_SUCCESS) return r;
    *module = f->module;
    return CUDA_SUCCESS;
}

SOFTCU cuFuncGetName(const char** name, CUfunction function) {
    SOFTGPU_CALL(kFree);
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    if (driver().kind(function) == Kind::function) {
        *name = function->name->c_str();
        return CUDA_SUCCESS;
    }
    if (driver().kind(function) != Kind::kernel) return CUDA_ERROR_INVALID_HANDLE;
    *name = reinterpret_cast<CUkernel>(function)->name.c_str();
    return CUDA_SUCCESS;
}

SOFTCU cuFuncGetParamInfo(CUfunction function, size_t index, size_t* offset, size_t* size) {
    SOFTGPU_CALL(kFree | kContext);
    CUfunc_st* f = nullptr;
    if (const CUresult r = resolve_function(function, call.context(), &f); r != CUDA_SUCCESS) return r;
    return param_info(f, index, offset, size);
}

SOFTCU cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction function) {
    SOFTGPU_CALL(kContext);
    if (!state) return CUDA_ERROR_INVALID_VALUE;
    CUfunc_st* f = nullptr;
    if (const CUresult r = resolve_function(function, call.context(), &f); r != CUDA_SUCCESS) return r;
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
}

SOFTCU cuFuncLoad(CUfunction function) {
    SOFTGPU_CALL(kContext);
    CUfunc_st* f = nullptr;
    return resolve_function(function, call.context(), &f);
}

// ---- libraries ----

SOFTCU cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jit, void** values,
                         unsigned count, CUlibraryOption*, void**, unsigned) {
    SOFTGPU_CALL(kPlain);
    return new_library(library, code, count, jit, values);
}

SOFTCU cuLibraryLoadFromFile(CUlibrary* library, const char* path, CUjit_option* jit, void** values,
                             unsigned count, CUlibraryOption*, void**, unsigned) {
    SOFTGPU_CALL(kPlain);
    std::string bytes;
    if (!path) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult r = read_file(path, &bytes); r != CUDA_SUCCESS) return r;
    return new_library(library, bytes.data(), count, jit, values);
}

SOFTCU cuLibraryUnload(CUlibrary library) {
    SOFTGPU_CALL(kPlain);
    Driver& d = driver();
    if (d.kind(library) != Kind::library) return CUDA_ERROR_INVALID_HANDLE;
    for (const auto& [context, module] : library->modules) {
        if (!module) continue;
        if (context->alive) wait_for_context(call.lock(), context);
        unload_module(module.get());
    }
    for (const auto& [name, kernel] : library->kernels) d.alive.erase(kernel.get());
    d.alive.erase(library);
    delete library;
    return CUDA_SUCCESS;
}

SOFTCU cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
    SOFTGPU_CALL(kPlain);
    if (!kernel || !name) return CUDA_ERROR_INVALID_VALUE;
    if (driver().kind(library) != Kind::library) return CUDA_ERROR_INVALID_HANDLE;
    const auto it = library->kernels.find(name);
    if (it == library->kernels.end()) return CUDA_ERROR_NOT_FOUND;
    *kernel = it->second.get();
    return CUDA_SUCCESS;
}

SOFTCU cuLibraryGetKernelCount(unsigned* count, CUlibrary library) {
    SOFTGPU_CALL(kPlain);
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    if (driver().kind(library) != Kind::library) return CUDA_ERROR_INVALID_HANDLE;
    *count = static_cast<unsigned>(library->kernels.size());
    return CUDA_SUCCESS;
}

SOFTCU cuLibraryEnumerateKernels(CUkernel* kernels, unsigned count, CUlibrary library) {
    SOFTGPU_CALL(kPlain);
    if (!kernels) return CUDA_ERROR_INVALID_VALUE;
    if (driver().kind(library) != Kind::library) return CUDA_ERROR_INVALID_HANDLE;
    unsigned i = 0;
    for (const auto& [name, kernel] : library->kernels)
        if (i < count) kernels[i++] = kernel.get();
    return CUDA_SUCCESS;
}

SOFTCU cuLibraryGetModule(CUmodule* module, CUlibrary library) {
    SOFTGPU_CALL(kContext);
    if (!module) return CUDA_ERROR_INVALID_VALUE;
    if (driver().kind(library) != Kind::library) return CUDA_ERROR_INVALID_HANDLE;
    return library_module(library, call.context(), module);
}

SOFTCU cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary library, const char* name) {
    SOFTGPU_CALL(kContext);
    if (driver().kind(library) != Kind::library) return CUDA_ERROR_INVALID_HANDLE;
    CUmod_st* module = nullptr;
    if (const CUresult r = library_module(library, call.context(), &module); r != CUDA_SUCCESS) return r;
    return variable(module, name, address, bytes, false);
}

SOFTCU cuLibraryGetManaged(CUdeviceptr* address, size_t* bytes, CUlibrary library, const char* name) {
    SOFTGPU_CALL(kContext);
    if (driver().kind(library) != Kind::library) return CUDA_ERROR_INVALID_HANDLE;
    CUmod_st* module = nullptr;
    if (const CUresult r = library_module(library, call.context(), &module); r != CUDA_SUCCESS) return r;
    return variable(module, name, address, bytes, true);
}

// ---- kernels ----

SOFTCU cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
    SOFTGPU_CALL(kFree | kContext);
    if (!function) return CUDA_ERROR_INVALID_VALUE;
    return kernel_function(call.context(), kernel, function);
}

SOFTCU cuKernelGetLibrary(CUlibrary* library, CUkernel kernel) {
    SOFTGPU_CALL(kFree);
    if (!library) return CUDA_ERROR_INVALID_VALUE;
    if (driver().kind(kernel) != Kind::kernel) return CUDA_ERROR_INVALID_HANDLE;
    *library = kernel->library;
    return CUDA_SUCCESS;
}

SOFTCU cuKernelGetName(const char** name, CUkernel kernel) {
    SOFTGPU_CALL(kFree);
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    if (driver().kind(kernel) != Kind::kernel) return CUDA_ERROR_INVALID_HANDLE;
    *name = kernel->name.c_str();
    return CUDA_SUCCESS;
}

SOFTCU cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t* offset, size_t* size) {
    SOFTGPU_CALL(kFree | kContext);
    CUfunc_st* f = nullptr;
    if (const CUresult r = kernel_function(call.context(), kernel, &f); r != CUDA_SUCCESS) return r;
    return param_info(f, index, offset, size);
}

SOFTCU cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device) {
    SOFTGPU_CALL(kContext);
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    if (device < 0 || device >= options().devices) return CUDA_ERROR_INVALID_DEVICE;
    CUfunc_st* f = nullptr;
    if (const CUresult r = kernel_function(call.context(), kernel, &f); r != CUDA_SUCCESS) return r;
    return function_attribute(f, attribute, value);
}

SOFTCU cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device) {
    SOFTGPU_CALL(kContext);
    if (device < 0 || device >= options().devices) return CUDA_ERROR_INVALID_DEVICE;
    CUfunc_st* f = nullptr;
    if (const CUresult r = kernel_function(call.context(), kernel, &f); r != CUDA_SUCCESS) return r;
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
        if (const CUresult r = check_dynamic_shared(f, value); r != CUDA_SUCCESS) return r;
        kernel->max_dynamic_shared[device] = value;
        for (const auto& [context, module] : kernel->library->modules)
            if (module && context->device == device)
                find_function(module.get(), kernel->name.c_str())->max_dynamic_shared = value;
        return CUDA_SUCCESS;
    }
    if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) {
        f->carveout = value;
        return CUDA_SUCCESS;
    }
    if (attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) {
        f->non_portable_cluster = value != 0;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

SOFTCU cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice) {
    SOFTGPU_CALL(kContext);
    CUfunc_st* f = nullptr;
    if (const CUresult r = kernel_function(call.context(), kernel, &f); r != CUDA_SUCCESS) return r;
    f->cache = config;
    return CUDA_SUCCESS;
}
