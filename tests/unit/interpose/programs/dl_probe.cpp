// Reaches a driver in one way given by the arguments, and prints where that led. Knows nothing of the shim;
// the test compares runs with and without it. The driver is the fake one, which counts calls.
#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

using Call = int (*)(...);
using LookUp = int (*)(const char*, void**, int, std::uint64_t);
using LookUp2 = int (*)(const char*, void**, int, std::uint64_t, int*);

const char* owner(void* address) {
    Dl_info info;
    if (!address) return "none";
    if (!dladdr(address, &info) || !info.dli_fname) return "?";
    const char* slash = std::strrchr(info.dli_fname, '/');
    return slash ? slash + 1 : info.dli_fname;
}

int call_with_nulls(void* address) {
    void* const no = nullptr;
    return reinterpret_cast<Call>(address)(no, no, no, no, no, no, no, no, no, no, no, no);
}

/// The fake driver's own view: which calls arrived in the copy that `handle` stands for.
struct Fake {
    explicit Fake(void* handle)
        : count(reinterpret_cast<unsigned long (*)(const char*)>(dlsym(handle, "fake_count"))),
          reset(reinterpret_cast<void (*)()>(dlsym(handle, "fake_reset"))),
          choose(reinterpret_cast<const char* (*)(const char*, int, std::uint64_t)>(
              dlsym(handle, "fake_choose"))) {}
    unsigned long (*count)(const char*);
    void (*reset)();
    const char* (*choose)(const char*, int, std::uint64_t);
};

void* open_driver(const char* path, int flags = RTLD_NOW) {
    void* handle = dlopen(path, flags);
    if (!handle) {
        std::printf("dlopen failed\n");
        std::exit(3);
    }
    return handle;
}

void show(const char* route, const char* name, void* address, const Fake& fake) {
    std::printf("%s %s: %s", route, name, owner(address));
    if (address) {
        fake.reset();
        const int result = call_with_nulls(address);
        std::printf(" result %d arrived %lu", result, fake.count(name));
    } else {
        const char* error = dlerror();
        std::printf(" error %s", error ? "yes" : "no");
    }
    std::printf("\n");
}

int by_dlsym(const char* path, const std::vector<std::string>& names) {
    void* handle = open_driver(path);
    const Fake fake(handle);
    for (const std::string& name : names) {
        dlerror();
        void* found = dlsym(handle, name.c_str());
        const char* error = found ? dlerror() : nullptr;
        show("dlsym", name.c_str(), found, fake);
        if (error) std::printf("stale error %s\n", error);
        found = dlvsym(handle, name.c_str(), "NO_SUCH_VERSION");
        std::printf("dlvsym %s: %s\n", name.c_str(), owner(found));
    }
    return 0;
}

/// Look-ups that depend on the caller. `global`: the driver is in the global scope.
int by_scope(const char* path, bool global, const std::vector<std::string>& names) {
    void* handle = *path ? open_driver(path, RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL)) : nullptr;
    for (const std::string& name : names) {
        void* main_program = dlopen(nullptr, RTLD_NOW);
        void* found[] = {dlsym(RTLD_DEFAULT, name.c_str()), dlsym(RTLD_NEXT, name.c_str()),
                         dlsym(main_program, name.c_str())};
        const char* kinds[] = {"default", "next", "main"};
        for (int i = 0; i < 3; ++i) {
            std::printf("%s %s: %s\n", kinds[i], name.c_str(), found[i] ? owner(found[i]) : "none");
        }
    }
    (void)handle;
    return 0;
}

/// Every ABI of every name in the list read from standard input ("name version" lines), through both
/// look-ups.
int by_look_up(const char* path) {
    void* handle = open_driver(path);
    const Fake fake(handle);
    void* self = dlsym(handle, "cuGetProcAddress_v2");
    void* self_v1 = dlsym(handle, "cuGetProcAddress");
    // The runtime asks for the look-up by the look-up.
    void* again = nullptr;
    if (self) {
        reinterpret_cast<LookUp2>(self)("cuGetProcAddress", &again, 13000, 0, nullptr);
        self = again;
    } else {
        reinterpret_cast<LookUp>(self_v1)("cuGetProcAddress", &again, 11030, 0);
        self_v1 = again;
    }
    std::printf("self %s\n", owner(again));
    char name[128];
    int version = 0;
    while (std::scanf("%127s %d", name, &version) == 2) {
        for (std::uint64_t flags = 0; flags < 3; ++flags) {
            void* found = nullptr;
            int status = -1;
            const int result = self ? reinterpret_cast<LookUp2>(self)(name, &found, version, flags, &status)
                                    : reinterpret_cast<LookUp>(self_v1)(name, &found, version, flags);
            std::printf("%s %d %d: %d %d %s", name, version, static_cast<int>(flags), result, status,
                        owner(found));
            const char* symbol = fake.choose(name, version, flags);
            if (found && symbol) {
                fake.reset();
                const int called = call_with_nulls(found);
                std::printf(" %s %lu %d", symbol, fake.count(symbol), called);
            }
            std::printf("\n");
        }
    }
    return 0;
}

/// Errors of the look-up itself.
int by_bad_look_up(const char* path) {
    void* handle = open_driver(path);
    void* self = dlsym(handle, "cuGetProcAddress_v2");
    const auto ask = reinterpret_cast<LookUp2>(self);
    void* found = &found;
    int status = -1;
    std::printf("null name %d\n", ask(nullptr, &found, 13000, 0, &status));
    std::printf("null out %d\n", ask("cuMemAlloc", nullptr, 13000, 0, &status));
    std::printf("empty name %d %s %d\n", ask("", &found, 13000, 0, &status), found ? "kept" : "null", status);
    found = &found;
    std::printf("unknown %d %s %d\n", ask("cuNoSuchCall", &found, 13000, 0, &status), found ? "kept" : "null",
                status);
    std::printf("null status %d %s\n", ask("cuMemAlloc", &found, 13000, 0, nullptr),
                found ? "found" : "null");
    std::printf("too old %d\n", ask("cuMemAllocAsync", &found, 9000, 0, &status));
    for (int i = 0; i < 3; ++i) {
        const int result = ask("cuFutureCall", &found, 13000, 0, &status);
        std::printf("future %d %s\n", result, owner(found));
    }
    return 0;
}

/// Two copies of the driver: calls must arrive in the copy that each handle stands for.
int by_copies(const char* first_path, const char* second_path) {
    void* handles[] = {open_driver(first_path), second_path ? open_driver(second_path) : nullptr,
                       dlmopen(LM_ID_NEWLM, first_path, RTLD_NOW)};
    for (void* handle : handles) {
        if (!handle) continue;
        const Fake fake(handle);
        fake.reset();
    }
    for (int asked = 0; asked < 3; ++asked) {
        if (!handles[asked]) continue;
        std::uint64_t out = 0;
        reinterpret_cast<Call>(dlsym(handles[asked], "cuMemAlloc_v2"))(&out, 4096);
        void* found = nullptr;
        reinterpret_cast<LookUp2>(dlsym(handles[asked], "cuGetProcAddress_v2"))("cuLaunchKernel", &found,
                                                                                13000, 0, nullptr);
        reinterpret_cast<Call>(found)(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
        for (int i = 0; i < 3; ++i) {
            if (!handles[i]) continue;
            const Fake fake(handles[i]);
            std::printf("asked %d: copy %d has %lu %lu\n", asked, i, fake.count("cuMemAlloc_v2"),
                        fake.count("cuLaunchKernel"));
        }
    }
    return 0;
}

/// Sixteen threads meet at the first look-up, each by one of two routes.
int by_threads(const char* path) {
    void* handle = open_driver(path);
    const Fake fake(handle);
    std::atomic<int> ready{0}, failed{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 16; ++i) {
        threads.emplace_back([&, i] {
            for (++ready; ready < 16;) continue;
            void* found = dlsym(handle, i % 2 ? "cuMemsetD8_v2" : "cuGetProcAddress_v2");
            if (i % 2 == 0) {
                const auto ask = reinterpret_cast<LookUp2>(found);
                found = nullptr;
                ask("cuMemsetD8", &found, 13000, 0, nullptr);
            }
            if (!found || call_with_nulls(found) != 0) ++failed;
        });
    }
    for (std::thread& thread : threads) thread.join();
    std::printf("failed %d\n", failed.load());
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.size() < 2) return 2;
    const std::vector<std::string> names(words.begin() + 2, words.end());
    const char* path = words[1].c_str();
    if (words[0] == "dlsym") return by_dlsym(path, names);
    if (words[0] == "global") return by_scope(path, true, names);
    if (words[0] == "local") return by_scope(path, false, names);
    if (words[0] == "look-up") return by_look_up(path);
    if (words[0] == "bad-look-up") return by_bad_look_up(path);
    if (words[0] == "threads") return by_threads(path);
    if (words[0] == "copies") return by_copies(path, names.empty() ? nullptr : names[0].c_str());
    return 2;
}
