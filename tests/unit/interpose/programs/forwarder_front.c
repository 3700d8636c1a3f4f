/* A library that has the same function as the one it forwards to, as cuDNN's front library does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#define API __attribute__((visibility("default")))
API int cudnnCreate(int depth) {
    void* back = dlopen(getenv("FORWARDER_BACK"), RTLD_NOW);
    int (*next)(int) = back ? (int (*)(int))dlsym(back, "cudnnCreate") : 0;
    if (depth > 10 || !next) return -1;
    return next == cudnnCreate ? -2 : next(depth + 1);
}
