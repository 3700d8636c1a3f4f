#include "interpose/log.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <vector>

#include "interpose/config.h"

namespace swapadvisor {

bool logging(LogTopic topic) {
    return (config().log_topics & static_cast<std::uint32_t>(topic)) != 0;
}

void say(const char* format, ...) {
    const int saved_errno = errno;
    char line[1024] = "swapadvisor: ";
    const std::size_t prefix = std::strlen(line);
    va_list arguments;
    va_start(arguments, format);
    const int wanted = std::vsnprintf(line + prefix, sizeof line - prefix - 1, format, arguments);
    va_end(arguments);
    std::size_t length = prefix + std::min<std::size_t>(std::max(wanted, 0), sizeof line - prefix - 2);
    line[length++] = '\n';
    (void)!write(2, line, length);
    errno = saved_errno;
}

bool first_time(std::uint64_t key) {
    // Never destroyed: hooks may run after static destructors.
    static std::mutex& mutex = *new std::mutex;
    static std::vector<std::uint64_t>& seen = *new std::vector<std::uint64_t>;
    const std::lock_guard lock(mutex);
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) return false;
    seen.push_back(key);
    return true;
}

}  // namespace swapadvisor
