// A preload for programs that ask NVRTC for machine code (sm_XX and nvrtcGetCUBIN): they get the PTX of the
// same program instead, which is what the software GPU runs. It forwards to NVRTC itself and leaves all else
// alone.
#include <dlfcn.h>
#include <nvrtc.h>

#include <cstring>
#include <string>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {
template <class F>
F next(const char* name) {
    return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}
}  // namespace

EXPORT nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char* const* options) {
    std::vector<std::string> texts;
    for (int i = 0; i < count; ++i) {
        std::string text = options[i];
        const bool names_architecture = text.starts_with("--gpu-architecture") || text.starts_with("-arch");
        const bool is_value = i > 0 && (!std::strcmp(options[i - 1], "-arch") ||
                                        !std::strcmp(options[i - 1], "--gpu-architecture"));
        if (const auto at = text.find("sm_"); at != std::string::npos && (names_architecture || is_value))
            text.replace(at, 3, "compute_");
        texts.push_back(text);
    }
    std::vector<const char*> pointers;
    for (const std::string& text : texts) pointers.push_back(text.c_str());
    return next<decltype(&nvrtcCompileProgram)>("nvrtcCompileProgram")(program, count, pointers.data());
}

EXPORT nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* size) {
    return next<decltype(&nvrtcGetPTXSize)>("nvrtcGetPTXSize")(program, size);
}

EXPORT nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* code) {
    return next<decltype(&nvrtcGetPTX)>("nvrtcGetPTX")(program, code);
}
