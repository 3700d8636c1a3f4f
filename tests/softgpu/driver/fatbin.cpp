// Device images: PTX text, fat headers with compressed entries, and the wrappers that nvcc puts around them.
#include <lz4.h>
#include <zstd.h>

#include <cctype>
#include <cstring>

#include "tests/softgpu/driver/modules.h"

namespace softgpu {
namespace {

constexpr std::uint32_t kWrapperMagic = 0x466243b1, kFatMagic = 0xba55ed50, kElfMagic = 0x464c457f;

struct Wrapper {
    std::uint32_t magic, version;
    const void* data;
    const void* const* extra;  ///< version 2: NULL-terminated fat headers that need linking
};

struct FatHeader {
    std::uint32_t magic;
    std::uint16_t version, header_bytes;
    std::uint64_t entries_bytes;
};

struct FatEntry {
    std::uint16_t kind, unused;  ///< 1 PTX, 2 ELF
    std::uint32_t header_bytes;
    std::uint64_t payload_bytes;
    std::uint32_t compressed_bytes, unused2;
    std::uint16_t minor, major;
    std::uint32_t architecture;
    std::uint64_t unused3;
    std::uint64_t flags;
    std::uint64_t unused4;
    std::uint64_t uncompressed_bytes;
};
static_assert(sizeof(FatEntry) == 64 && offsetof(FatEntry, flags) == 40 &&
              offsetof(FatEntry, uncompressed_bytes) == 56);

constexpr std::uint64_t kLz4 = 0x2000, kZstd = 0x8000;

std::string text_of(std::string raw) {
    raw.resize(std::strlen(raw.c_str()));  // payloads are padded with zeros
    return raw;
}

bool unpack(const FatEntry& entry, const char* payload, std::string* out, std::string* why) {
    if (!(entry.flags & (kLz4 | kZstd))) {
        *out = text_of(std::string(payload, entry.payload_bytes));
        return true;
    }
    const std::size_t packed = entry.compressed_bytes ? entry.compressed_bytes : entry.payload_bytes;
    if (entry.uncompressed_bytes == 0 || entry.uncompressed_bytes > (4ull << 30)) {
        *why = "fat binary entry has an impossible size";
        return false;
    }
    std::string text(entry.uncompressed_bytes, '\0');
    bool good;
    if (entry.flags & kLz4) {
        good = LZ4_decompress_safe(payload, text.data(), static_cast<int>(packed),
                                   static_cast<int>(text.size())) >= 0;
    } else {
        good = !ZSTD_isError(ZSTD_decompress(text.data(), text.size(), payload, packed));
    }
    if (!good)
        *why = entry.flags & kLz4 ? "damaged LZ4 data in fat binary" : "damaged zstd data in fat binary";
    *out = text_of(std::move(text));
    return good;
}

CUresult from_fat_header(const FatHeader* header, unsigned cc, std::vector<std::string>* texts,
                         std::string* why) {
    if (header->magic != kFatMagic || header->version != 1 || header->header_bytes < sizeof(FatHeader)) {
        *why = "not a fat binary";
        return CUDA_ERROR_INVALID_IMAGE;
    }
    const char* at = reinterpret_cast<const char*>(header) + header->header_bytes;
    const char* const end = at + header->entries_bytes;
    unsigned best = 0;
    std::vector<std::pair<const FatEntry*, const char*>> chosen;
    std::string seen;
    while (at + sizeof(FatEntry) <= end) {
        const auto* entry = reinterpret_cast<const FatEntry*>(at);
        if (entry->header_bytes < sizeof(FatEntry) ||
            entry->header_bytes > static_cast<std::uint64_t>(end - at) ||
            entry->payload_bytes > static_cast<std::uint64_t>(end - at) - entry->header_bytes) {
            *why = "damaged fat binary entry";
            return CUDA_ERROR_INVALID_IMAGE;
        }
        const char* payload = at + entry->header_bytes;
        at = payload + entry->payload_bytes;
        seen += std::string(seen.empty() ? "" : ", ") + (entry->kind == 1 ? "compute_" : "sm_") +
                std::to_string(entry->architecture);
        if (entry->kind != 1 || entry->architecture > cc || entry->architecture < best) continue;
        if (entry->architecture > best) chosen.clear();
        best = entry->architecture;
        chosen.emplace_back(entry, payload);
    }
    if (chosen.empty()) {
        *why = "no PTX for compute capability " + std::to_string(cc / 10) + "." + std::to_string(cc % 10) +
               " or lower in the image (it has " + (seen.empty() ? "nothing" : seen) +
               "); build with PTX embedded, e.g. -gencode arch=compute_75,code=compute_75, or raise cc";
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    for (const auto& [entry, payload] : chosen) {
        std::string text;
        if (!unpack(*entry, payload, &text, why)) return CUDA_ERROR_INVALID_IMAGE;
        texts->push_back(std::move(text));
    }
    return CUDA_SUCCESS;
}

bool looks_like_ptx(const char* text) {
    // Comments and blanks, then a directive such as .version.
    for (;;) {
        while (std::isspace(static_cast<unsigned char>(*text))) ++text;
        if (text[0] == '/' && text[1] == '/') {
            while (*text && *text != '\n') ++text;
        } else if (text[0] == '/' && text[1] == '*') {
            const char* close = std::strstr(text, "*/");
            if (!close) return false;
            text = close + 2;
        } else {
            return *text == '.';
        }
    }
}

}  // namespace

CUresult ptx_from_image(const void* image, int cc_major, int cc_minor, std::vector<std::string>* texts,
                        std::string* why) {
    const unsigned cc = static_cast<unsigned>(cc_major * 10 + cc_minor);
    std::uint32_t magic;
    std::memcpy(&magic, image, sizeof magic);
    if (magic == kWrapperMagic) {
        const auto* wrapper = static_cast<const Wrapper*>(image);
        if (wrapper->version == 2 && wrapper->extra) {
            for (const void* const* part = wrapper->extra; *part; ++part) {
                // Parts without PTX for us (the toolkit's own device runtime) count only if they are needed:
                // then the link names what is missing.
                const CUresult r = from_fat_header(static_cast<const FatHeader*>(*part), cc, texts, why);
                if (r != CUDA_SUCCESS && r != CUDA_ERROR_NO_BINARY_FOR_GPU) return r;
            }
            if (!texts->empty()) return CUDA_SUCCESS;
        }
        return from_fat_header(static_cast<const FatHeader*>(wrapper->data), cc, texts, why);
    }
    if (magic == kFatMagic) return from_fat_header(static_cast<const FatHeader*>(image), cc, texts, why);
    if (magic == kElfMagic) {
        *why = "a cubin holds machine code only; the software GPU runs PTX";
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    if (looks_like_ptx(static_cast<const char*>(image))) {
        texts->emplace_back(static_cast<const char*>(image));
        return CUDA_SUCCESS;
    }
    *why = "neither PTX, fat binary nor ELF";
    return CUDA_ERROR_INVALID_IMAGE;
}

std::vector<std::string> kernel_names(const std::string& ptx) {
    std::vector<std::string> names;
    for (std::size_t at = 0; (at = ptx.find(".entry", at)) != std::string::npos;) {
        at += 6;
        if (!std::isspace(static_cast<unsigned char>(ptx[at]))) continue;
        while (std::isspace(static_cast<unsigned char>(ptx[at]))) ++at;
        const std::size_t begin = at;
        while (std::isalnum(static_cast<unsigned char>(ptx[at])) || ptx[at] == '_' || ptx[at] == '$') ++at;
        if (at > begin) names.push_back(ptx.substr(begin, at - begin));
    }
    return names;
}

}  // namespace softgpu
