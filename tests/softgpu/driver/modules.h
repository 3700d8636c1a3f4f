// Modules, libraries, kernels and functions; images in all the wrappings that reach the driver.
#pragma once

#include <optional>
#include <string_view>

#include "tests/softgpu/driver/core.h"
#include "tests/softgpu/ptx/engine.h"

struct CUfunc_st {
    CUmod_st* module = nullptr;
    const softgpu::ptx::Function* function = nullptr;
    softgpu::Name name;
    int max_dynamic_shared = 0;
    int carveout = -1;
    bool non_portable_cluster = false;
    CUfunc_cache cache = CU_FUNC_CACHE_PREFER_NONE;
};

struct CUmod_st {
    CUctx_st* context = nullptr;
    CUlib_st* library = nullptr;  ///< set when it belongs to one
    std::unique_ptr<softgpu::ptx::Module> code;
    std::map<std::string, std::unique_ptr<CUfunc_st>> functions;
    std::vector<std::uint64_t> globals;  ///< device memory of its variables
};

struct CUkern_st {
    CUlib_st* library = nullptr;
    std::string name;
    std::map<int, int> max_dynamic_shared;  ///< by device, set through cuKernelSetAttribute
};

struct CUlib_st {
    std::vector<std::string> texts;
    std::map<CUctx_st*, std::unique_ptr<CUmod_st>> modules;  ///< loaded when first needed in a context
    std::map<std::string, std::unique_ptr<CUkern_st>> kernels;
};

namespace softgpu {

/// A buffer of the caller's for one of the two logs of a JIT compilation or link; empty if it was not asked
/// for.
struct JitLog {
    char* text = nullptr;
    std::size_t room = 0;
    void** length =
        nullptr;  ///< during the call that brought it: the option's value, where the length is told
    bool wanted() const { return text != nullptr && room != 0; }
    /// As much of it as there is room for, terminated. Returns its length.
    std::size_t write(const std::string& what) const;
};
JitLog find_jit_log(unsigned count, const CUjit_option* options, void** values, CUjit_option buffer,
                    CUjit_option size);

/// PTX texts for a device of the given compute capability, out of PTX text, a fat header or a wrapper.
/// On failure: an error code, and a line in `why`.
CUresult ptx_from_image(const void* image, int cc_major, int cc_minor, std::vector<std::string>* texts,
                        std::string* why);
/// Names of the kernels that a PTX text defines.
std::vector<std::string> kernel_names(const std::string& ptx);

CUresult load_module(CUctx_st* context, const std::vector<std::string>& texts, std::unique_ptr<CUmod_st>* out,
                     std::string* why);
void unload_module(CUmod_st* module);
/// The library's code in a context, loaded now if need be.
CUresult library_module(CUlib_st* library, CUctx_st* context, CUmod_st** out);
/// A CUfunction, or a CUkernel passed as one, as the function of `context`.
CUresult resolve_function(CUfunction handle, CUctx_st* context, CUfunc_st** out);
CUfunc_st* find_function(CUmod_st* module, const char* name);
/// Largest dynamic shared memory this function may be launched with.
unsigned dynamic_shared_limit(const CUfunc_st* function);
constexpr unsigned kSharedPerBlock = 48 << 10;
unsigned shared_per_block_optin();

}  // namespace softgpu
