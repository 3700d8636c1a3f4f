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

std::string without_folders(std::string site) {
    for (std::size_t open = site.find("(/"); open != std::string::npos; open = site.find("(/", open + 1)) {
        const std::size_t end = site.find("+0x", open);
        if (end == std::string::npos) break;
        const std::size_t slash = site.rfind('/', end);
        site.erase(open + 1, slash - open);
    }
    return site;
}

std::string without_arguments(std::string_view name) {
    std::string text = demangled(name);
    int depth = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '<') ++depth;
        if (text[i] == '>') --depth;
        if (text[i] == '(' && depth == 0 && i > 0 && text.compare(i, 11, "(anonymous ") != 0)
            return text.substr(0, i);
    }
    return text;
}

std::string short_function_name(const std::string& name) {
    std::size_t begin = 0, end = name.size();
    int depth = 0;
    for (std::size_t i = 0; i < name.size(); ++i) {
        const char c = name[i];
        if (c == '<') ++depth;
        if (c == '>' && depth > 0) --depth;
        if (depth > 0) continue;
        if (c == '(') {
            if (name.compare(i, 21, "(anonymous namespace)") == 0) {
                i += 20;
                continue;
            }
            end = i;
            break;
        }
        if (c == ' ') begin = i + 1;
    }
    return end > begin ? name.substr(begin, end - begin) : name;
}

}  // namespace swapadvisor
