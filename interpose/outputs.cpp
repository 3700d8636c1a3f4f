#include "interpose/outputs.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace swapadvisor {

std::string own_output_path(const std::string& wanted, long long run_start_ns) {
    std::string own = wanted + "." + std::to_string(getpid());
    const int file = open(wanted.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) return wanted;  // whoever writes there will say why it cannot
    struct stat status;
    if (!fstat(file, &status) && !S_ISREG(status.st_mode)) {
        close(file);
        return wanted;  // /dev/stdout and the like
    }
    const bool free_now = flock(file, LOCK_EX | LOCK_NB) == 0;
    const long long written = status.st_mtim.tv_sec * 1000000000ll + status.st_mtim.tv_nsec;
    const bool created = status.st_size == 0 && written >= run_start_ns;
    if (!free_now || (written >= run_start_ns && !created)) {
        close(file);
        return own;
    }
    // Claimed: the lock is held, and the time tells those who come after this process has ended.
    futimens(file, nullptr);
    return wanted;
}

}  // namespace swapadvisor
