/* A library whose name is that of a profiler's: where does a look-up from inside it lead? */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#define API __attribute__((visibility("default")))
API const char* whose(const char* driver, const char* name) {
    static char file[4096];
    Dl_info info;
    void* handle = dlopen(driver, RTLD_NOW);
    void* found = handle ? dlsym(handle, name) : 0;
    if (!found || !dladdr(found, &info)) return "none";
    const char* slash = strrchr(info.dli_fname, '/');
    strncpy(file, slash ? slash + 1 : info.dli_fname, sizeof file - 1);
    return file;
}
