#include "recorder/unwinder.h"

#include <dlfcn.h>
#include <unwind.h>

#include <type_traits>

#define UNW_LOCAL_ONLY
#include <libunwind.h>

namespace swapadvisor {
namespace {

struct Libunwind {
    int (*getcontext)(unw_context_t*) = nullptr;
    int (*init_local)(unw_cursor_t*, unw_context_t*) = nullptr;
    int (*step)(unw_cursor_t*) = nullptr;
    int (*get_reg)(unw_cursor_t*, unw_regnum_t, unw_word_t*) = nullptr;

    Libunwind() {
        void* library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
        if (!library) return;
        const auto get = [&](auto& function, const char* name) {
            function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
            return function != nullptr;
        };
#if defined(__x86_64__)
        if (!get(getcontext, "_Ux86_64_getcontext") || !get(init_local, "_ULx86_64_init_local") ||
            !get(step, "_ULx86_64_step") || !get(get_reg, "_ULx86_64_get_reg"))
            init_local = nullptr;
#endif
    }
};

const Libunwind& libunwind() {
    static const Libunwind library;
    return library;
}

struct Walk {
    StackFrame* frames;
    std::size_t capacity, count = 0, skip = 1;  // the frame of unwind() itself
};

// The compiler's unwinder tells a frame's CFA, which is the stack pointer in the frame around it.
_Unwind_Reason_Code take_frame(_Unwind_Context* context, void* argument) {
    Walk& walk = *static_cast<Walk*>(argument);
    const std::uintptr_t address = _Unwind_GetIP(context);
    const std::uintptr_t cfa = _Unwind_GetCFA(context);
    if (address == 0) return _URC_END_OF_STACK;
    if (walk.skip > 0) {
        --walk.skip;
        return _URC_NO_REASON;
    }
    if (walk.count == walk.capacity) return _URC_END_OF_STACK;
    walk.frames[walk.count++] = {address, cfa};
    return _URC_NO_REASON;
}

}  // namespace

__attribute__((noinline)) std::size_t unwind(StackFrame* frames, std::size_t capacity) {
    const Libunwind& u = libunwind();
    if (!u.init_local) {
        Walk walk{frames, capacity};
        _Unwind_Backtrace(take_frame, &walk);
        return walk.count;
    }
    unw_context_t context;
    unw_cursor_t cursor;
    if (u.getcontext(&context) != 0 || u.init_local(&cursor, &context) != 0) return 0;
    std::size_t count = 0;
    while (count < capacity && u.step(&cursor) > 0) {
        unw_word_t address = 0, stack = 0;
        if (u.get_reg(&cursor, UNW_REG_IP, &address) != 0 || u.get_reg(&cursor, UNW_REG_SP, &stack) != 0)
            break;
        if (address == 0) break;
        frames[count++] = {address, stack};
    }
    return count;
}

}  // namespace swapadvisor
