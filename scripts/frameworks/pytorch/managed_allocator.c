/* PyTorch allocator on managed memory: the driver's own paging, the other thing to compare with. The runtime
   is looked up in the process (PyTorch has it loaded), so this builds with a C compiler alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <sys/types.h>

typedef int (*managed_fn)(void**, size_t, unsigned);
typedef int (*free_fn)(void*);

static void* look_up(const char* name) {
    void* found = dlsym(RTLD_DEFAULT, name);
    if (found) return found;
    const char* names[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void* library = dlopen(names[i], RTLD_NOW);
        if (library && (found = dlsym(library, name))) return found;
    }
    return NULL;
}

void* managed_malloc(ssize_t size, int device, void* stream) {
    static managed_fn allocate;
    void* memory = NULL;
    (void)device, (void)stream;
    if (!allocate) allocate = (managed_fn)look_up("cudaMallocManaged");
    return allocate && allocate(&memory, (size_t)size, 1 /* cudaMemAttachGlobal */) == 0 ? memory : NULL;
}

void managed_free(void* memory, ssize_t size, int device, void* stream) {
    static free_fn release;
    (void)size, (void)device, (void)stream;
    if (!release) release = (free_fn)look_up("cudaFree");
    if (release) release(memory);
}
