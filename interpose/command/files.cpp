#include "interpose/command/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace swapadvisor::command {
namespace {

[[noreturn]] void fail(const char* what, const std::string& path) {
    throw std::runtime_error(std::string("cannot ") + what + " " + path + ": " + std::strerror(errno));
}

bool write_all(int file, const std::string& content) {
    for (std::size_t done = 0; done < content.size();) {
        const ssize_t wrote = write(file, content.data() + done, content.size() - done);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return false;
        done += static_cast<std::size_t>(wrote);
    }
    return true;
}

}  // namespace

std::string read_file(const std::string& path) {
    const int file = path == "-" ? dup(STDIN_FILENO) : open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) fail("read", path);
    std::string content;
    char buffer[1 << 16];
    while (true) {
        const ssize_t got = read(file, buffer, sizeof buffer);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            const int error = errno;
            close(file);
            errno = error;
            fail("read", path);
        }
        if (got == 0) break;
        content.append(buffer, static_cast<std::size_t>(got));
    }
    close(file);
    return content;
}

void write_file(const std::string& path, const std::string& content) {
    if (path == "-") {
        if (!write_all(STDOUT_FILENO, content)) fail("write to", "standard output");
        return;
    }
    // A device or pipe cannot be replaced by a rename.
    struct stat info;
    if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
        const int file = open(path.c_str(), O_WRONLY | O_CLOEXEC);
        if (file < 0) fail("write", path);
        const bool written = write_all(file, content);
        const int error = errno;
        close(file);
        errno = error;
        if (!written) fail("write", path);
        return;
    }
    std::string temporary = path + ".XXXXXX";
    const int file = mkstemp(temporary.data());
    if (file < 0) fail("write", path);
    const mode_t mask = umask(0);
    umask(mask);
    const bool written = write_all(file, content) && fchmod(file, 0666 & ~mask) == 0 && fsync(file) == 0;
    const int error = errno;
    if (close(file) == 0 && written && std::rename(temporary.c_str(), path.c_str()) == 0) return;
    if (!written) errno = error;
    const int reason = errno;
    unlink(temporary.c_str());
    errno = reason;
    fail("write", path);
}

}  // namespace swapadvisor::command
