// cuLink*: the pieces are PTX in any wrapping; "linking" yields an image that holds all their texts, which
// the PTX engine links when the image is loaded.
#include <cstring>
#include <fstream>
#include <iterator>

#include "tests/softgpu/driver/api.h"
#include "tests/softgpu/driver/modules.h"

struct CUlinkState_st {
    std::vector<std::string> texts;
    std::vector<char> image;
    softgpu::JitLog errors;
};

using namespace softgpu;

namespace {

CUresult create(unsigned count, CUjit_option* jit, void** values, CUlinkState* out) {
    if (!out || (count && (!jit || !values))) return CUDA_ERROR_INVALID_VALUE;
    auto* state = new CUlinkState_st;
    state->errors =
        find_jit_log(count, jit, values, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
    // A caller prints both logs when the link is done, whether or not there was anything to say.
    state->errors.write("");
    find_jit_log(count, jit, values, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES).write("");
    driver().alive[state] = Kind::link;
    *out = state;
    return CUDA_SUCCESS;
}

CUresult add(CUlinkState state, CUjitInputType type, const void* data, std::size_t size) {
    if (driver().kind(state) != Kind::link) return CUDA_ERROR_INVALID_HANDLE;
    if (!data || size == 0) return CUDA_ERROR_INVALID_VALUE;
    std::string why = "only PTX and fat binaries with PTX can be linked";
    CUresult r = CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (type == CU_JIT_INPUT_PTX || type == CU_JIT_INPUT_FATBINARY) {
        std::vector<char> copy(static_cast<const char*>(data), static_cast<const char*>(data) + size);
        copy.push_back('\0');
        r = ptx_from_image(copy.data(), options().cc_major, options().cc_minor, &state->texts, &why);
    }
    if (r != CUDA_SUCCESS) {
        say("cannot link: %s", why.c_str());
        state->errors.write(why);
    }
    return r;
}

CUresult add_file(CUlinkState state, CUjitInputType type, const char* path) {
    if (!path) return CUDA_ERROR_INVALID_VALUE;
    std::ifstream file(path, std::ios::binary);
    if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    return add(state, type, bytes.data(), bytes.size());
}

void put(std::vector<char>& image, std::size_t at, std::uint64_t value, unsigned bytes) {
    std::memcpy(image.data() + at, &value, bytes);
}

}  // namespace

SOFTCU cuLinkCreate_v2(unsigned count, CUjit_option* jit, void** values, CUlinkState* state) {
    SOFTGPU_CALL(kContext);
    return create(count, jit, values, state);
}

SOFTCU cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void* data, size_t size, const char*,
                        unsigned, CUjit_option*, void**) {
    SOFTGPU_CALL(kContext);
    return add(state, type, data, size);
}

SOFTCU cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char* path, unsigned, CUjit_option*,
                        void**) {
    SOFTGPU_CALL(kContext);
    return add_file(state, type, path);
}

SOFTCU cuLinkComplete(CUlinkState state, void** image, size_t* size) {
    SOFTGPU_CALL(kContext);
    if (driver().kind(state) != Kind::link) return CUDA_ERROR_INVALID_HANDLE;
    if (!image || state->texts.empty()) return CUDA_ERROR_INVALID_VALUE;
    // A fat header with one raw PTX entry per piece, all of the lowest architecture, so that none is left
    // out.
    std::vector<char>& out = state->image;
    out.assign(16, 0);
    for (const std::string& text : state->texts) {
        const std::size_t at = out.size(), padded = (text.size() + 1 + 7) / 8 * 8;
        out.resize(at + 64 + padded);
        put(out, at, 1, 2);
        put(out, at + 4, 64, 4);
        put(out, at + 8, padded, 8);
        put(out, at + 28, 10, 4);
        std::memcpy(out.data() + at + 64, text.data(), text.size());
    }
    put(out, 0, 0xba55ed50, 4);
    put(out, 4, 1, 2);
    put(out, 6, 16, 2);
    put(out, 8, out.size() - 16, 8);
    *image = out.data();
    if (size) *size = out.size();
    return CUDA_SUCCESS;
}

SOFTCU cuLinkDestroy(CUlinkState state) {
    SOFTGPU_CALL(kContext);
    if (driver().kind(state) != Kind::link) return CUDA_ERROR_INVALID_HANDLE;
    driver().alive.erase(state);
    delete state;
    return CUDA_SUCCESS;
}
