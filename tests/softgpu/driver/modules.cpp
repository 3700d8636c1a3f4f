#include "tests/softgpu/driver/modules.h"

#include <algorithm>
#include <cstring>

#include "tests/softgpu/driver/kernel_memory.h"

namespace softgpu {

std::size_t JitLog::write(const std::string& what) const {
    if (!wanted()) return 0;
    const std::size_t written = std::min(room - 1, what.size());
    std::memcpy(text, what.data(), written);
    text[written] = '\0';
    return written;
}

JitLog find_jit_log(unsigned count, const CUjit_option* options, void** values, CUjit_option buffer,
                    CUjit_option size) {
    JitLog log;
    for (unsigned i = 0; i < count; ++i) {
        if (options[i] == buffer) log.text = static_cast<char*>(values[i]);
        if (options[i] != size) continue;
        log.room = reinterpret_cast<std::size_t>(values[i]);
        log.length = &values[i];
    }
    return log;
}

CUresult load_module(CUctx_st* context, const std::vector<std::string>& texts, std::unique_ptr<CUmod_st>* out,
                     std::string* why) {
    auto module = std::make_unique<CUmod_st>();
    module->context = context;
    Driver& d = driver();
    KernelMemory& memory = *context->kernel_memory;
    const auto discard = [&] {
        for (const std::uint64_t address : memory.take_globals())
            if (Span* span = d.memory.find(address)) d.memory.free(*span);
    };
    try {
        memory.take_globals();
        module->code = ptx::load(texts, memory);
    } catch (const ptx::PtxError& e) {
        *why = e.what();
        discard();
        return why->find("out of device memory") != std::string::npos ? CUDA_ERROR_OUT_OF_MEMORY
                                                                      : CUDA_ERROR_INVALID_PTX;
    } catch (const std::exception& e) {
        *why = e.what();
        discard();
        return CUDA_ERROR_INVALID_IMAGE;
    }
    module->globals = memory.take_globals();
    for (const auto& [name, function] : module->code->functions()) {
        auto handle = std::make_unique<CUfunc_st>();
        handle->module = module.get();
        handle->function = function;
        handle->name = std::make_shared<const std::string>(name);
        d.alive[handle.get()] = Kind::function;
        module->functions[name] = std::move(handle);
    }
    d.alive[module.get()] = Kind::module;
    *out = std::move(module);
    return CUDA_SUCCESS;
}

void unload_module(CUmod_st* module) {
    Driver& d = driver();
    d.alive.erase(module);
    for (const auto& [name, function] : module->functions) d.alive.erase(function.get());
    for (const std::uint64_t address : module->globals)
        if (Span* span = d.memory.find(address); span && span->begin == address) d.memory.free(*span);
}

CUresult library_module(CUlib_st* library, CUctx_st* context, CUmod_st** out) {
    auto& module = library->modules[context];
    if (!module) {
        std::string why;
        if (const CUresult r = load_module(context, library->texts, &module, &why); r != CUDA_SUCCESS) {
            say("cannot load module: %s", why.c_str());
            return r;
        }
        module->library = library;
        for (const auto& [name, kernel] : library->kernels) {
            const auto set = kernel->max_dynamic_shared.find(context->device);
            if (set == kernel->max_dynamic_shared.end()) continue;
            if (CUfunc_st* function = find_function(module.get(), name.c_str()))
                function->max_dynamic_shared = set->second;
        }
    }
    *out = module.get();
    return CUDA_SUCCESS;
}

CUfunc_st* find_function(CUmod_st* module, const char* name) {
    const auto it = module->functions.find(name);
    return it == module->functions.end() ? nullptr : it->second.get();
}

CUresult resolve_function(CUfunction handle, CUctx_st* context, CUfunc_st** out) {
    switch (driver().kind(handle)) {
        case Kind::function:
            *out = handle;
            return handle->module->context == context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
        case Kind::kernel: {
            auto* kernel = reinterpret_cast<CUkern_st*>(handle);
            CUmod_st* module = nullptr;
            if (const CUresult r = library_module(kernel->library, context, &module); r != CUDA_SUCCESS)
                return r;
            *out = find_function(module, kernel->name.c_str());
            return *out ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
        }
        default:
            return CUDA_ERROR_INVALID_HANDLE;
    }
}

unsigned shared_per_block_optin() {
    switch (options().cc_major * 10 + options().cc_minor) {
        case 70:
            return 96 << 10;
        case 75:
            return 64 << 10;
        case 80:
        case 87:
            return 163 << 10;
        case 86:
        case 89:
        case 120:
            return 99 << 10;
        case 90:
        case 100:
        case 103:
            return 227 << 10;
        default:
            return kSharedPerBlock;
    }
}

unsigned dynamic_shared_limit(const CUfunc_st* function) {
    const unsigned fixed = function->function->info().static_shared_bytes;
    const unsigned normal = fixed < kSharedPerBlock ? kSharedPerBlock - fixed : 0;
    return std::max<unsigned>(normal, static_cast<unsigned>(function->max_dynamic_shared));
}

}  // namespace softgpu
