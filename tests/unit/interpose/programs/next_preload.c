/* Another preload object, which wraps two of the driver's calls by RTLD_NEXT, and dlsym as many tools do:
 * through a plain call of the next one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#define API __attribute__((visibility("default")))

API int cuMemsetD8_v2(unsigned long long to, unsigned char value, unsigned long count) {
    static int (*next)(unsigned long long, unsigned char, unsigned long);
    if (!next)
        next = (int (*)(unsigned long long, unsigned char, unsigned long))dlsym(RTLD_NEXT, "cuMemsetD8_v2");
    fprintf(stderr, "next_preload saw a memset\n");
    return next ? next(to, value, count) : 999;
}

API int puts(const char* text) {
    static int (*next)(const char*);
    if (!next) next = (int (*)(const char*))dlsym(RTLD_NEXT, "puts");
    return next(text);
}
