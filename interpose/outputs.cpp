#include "interpose/outputs.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace swapadvisor {

namespace {

std::string with_pid(const std::string& path) {
    return path + "." + std::to_string(getpid());
}

bool written_since(const struct stat& status, long long start_ns) {
    return S_ISREG(status.st_mode) && status.st_size > 0 &&
           status.st_mtim.tv_sec * 1000000000ll + status.st_mtim.tv_nsec >= start_ns;
}

}  // namespace

std::string own_output_path(const std::string& wanted, long long run_start_ns) {
    const int file = open(wanted.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) return wanted;  // whoever writes there will say why it cannot
    struct stat status;
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
        close(file);
        return wanted;  // /dev/stdout and the like
    }
    // Its age is asked for under the lock: another process may have written it and ended since.
    if (flock(file, LOCK_EX | LOCK_NB) != 0 || fstat(file, &status) != 0 ||
        written_since(status, run_start_ns)) {
        close(file);
        return with_pid(wanted);
    }
    return wanted;  // the lock is held until the process ends
}

std::string unwritten_output_path(const std::string& wanted, long long run_start_ns) {
    struct stat status;
    const bool taken = stat(wanted.c_str(), &status) == 0 && written_since(status, run_start_ns);
    return taken ? with_pid(wanted) : wanted;
}

}  // namespace swapadvisor
