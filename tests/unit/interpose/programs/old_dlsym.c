/* Built against a C library before 2.34: its dlsym is dlsym@GLIBC_2.2.5. Also a preload object of its own. */
#define _GNU_SOURCE
#include <dlfcn.h>
__asm__(".symver old_dlsym, dlsym@GLIBC_2.2.5");
void* old_dlsym(void*, const char*);
__attribute__((visibility("default"))) void* find_old_way(void* handle, const char* name) {
    return old_dlsym(handle, name);
}
