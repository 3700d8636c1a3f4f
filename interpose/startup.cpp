// What the preload object does in every process it is loaded into: tell a waiting launcher that it is there,
// and say at the end if the program wanted a driver that was not to be found. No CUDA call is made here.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "interpose/config.h"
#include "interpose/driver.h"
#include "interpose/log.h"
#include "interpose/real_dl.h"
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

std::atomic<pid_t> g_wanted_driver{0};  ///< the process that asked for it; a forked child did not

__attribute__((destructor)) void say_if_driver_was_missing() {
    if (g_wanted_driver.load() != getpid() || config().quiet) return;
    if (std::getenv("SWAPADVISOR_NO_DRIVER_SAID")) return;  // the launcher has, before the program started
    if (void* handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD)) {
        dlclose(handle);
    } else if (!driver_known()) {
        say("no CUDA driver was found (libcuda.so.1), the program ran without it: install NVIDIA's driver or "
            "name "
            "its folder in LD_LIBRARY_PATH; swapadvisor doctor tells what else is missing");
    }
}

}  // namespace

/// Called from dlsym.S ahead of every dlopen.
extern "C" void swapadvisor_note_open(const char* name, int flags) {
    ensure_real_dl();
    if (!name || (flags & RTLD_NOLOAD)) return;
    const char* slash = std::strrchr(name, '/');
    if (std::strncmp(slash ? slash + 1 : name, "libcuda.so", 10) == 0) g_wanted_driver.store(getpid());
}

/// For programs that mark their iterations; declared weak there.
extern "C" SWAPADVISOR_EXPORT void swapadvisor_iteration() {
    if (detail::managed.load(std::memory_order_relaxed) < 0 || in_forked_child()) return;
    if (Runtime* runtime = Runtime::get()) runtime->iteration_mark();
}

}  // namespace swapadvisor
