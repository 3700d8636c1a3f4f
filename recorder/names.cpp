#include "recorder/names.h"

#include <cxxabi.h>

#include <cstdlib>

namespace swapadvisor {
namespace {
constexpr std::size_t kLongestMangled = 2000;
}

std::string demangled(std::string_view name) {
    const std::string text(name);
    if (text.rfind("_Z", 0) != 0 || text.size() > kLongestMangled) return text;
    int status = 0;
    char* plain = abi::__cxa_demangle(text.c_str(), nullptr, nullptr, &status);
    if (!plain) return text;
    std::string result(plain);
    std::free(plain);
    return result;
}

}  // namespace swapadvisor
