// What the preload object does in every process it is loaded into: tell a waiting launcher that it is there.
// No CUDA.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "interpose/driver.h"
#include "interpose/runtime.h"

namespace swapadvisor {

namespace {

/// The launcher passes the write end of a pipe; children of the program must not find the number again.
__attribute__((constructor)) void confirm_to_launcher() {
    const char* text = std::getenv("SWAPADVISOR_CONFIRM_FD");
    if (!text) return;
    char* end = nullptr;
    const long descriptor = std::strtol(text, &end, 10);
    if (end != text && !*end && descriptor > 2 && fcntl(static_cast<int>(descriptor), F_GETFD) >= 0) {
        (void)!write(static_cast<int>(descriptor), "1", 1);
        close(static_cast<int>(descriptor));
    }
    unsetenv("SWAPADVISOR_CONFIRM_FD");
}

}  // namespace

/// For programs that mark their iterations; declared weak there.
extern "C" SWAPADVISOR_EXPORT void swapadvisor_iteration() {
    if (detail::managed.load(std::memory_order_relaxed) < 0 || in_forked_child()) return;
    if (Runtime* runtime = Runtime::get()) runtime->iteration_mark();
}

}  // namespace swapadvisor
