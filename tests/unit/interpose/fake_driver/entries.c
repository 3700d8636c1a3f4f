/* One function for every symbol that the driver exports by the toolkit's header: counts its calls, returns
 * success (or what FAKE_DRIVER_FAIL says). Weak, so that behaviour.c can give some of them more sense. No
 * cuda.h here: the names would be macros. */
#include "fake_driver.h"

enum {
#define FAKE_ENTRY(symbol) index_##symbol,
#include "interpose/generated/fake_driver.inc"
#undef FAKE_ENTRY
    entry_count
};

/* Plain counters, as a single thread needs; several would measure how they take the line from each other. */
unsigned long fake_counts[entry_count];
int fake_counting = 1;
int fake_results[entry_count];

#define FAKE_ENTRY(symbol)                                          \
    __attribute__((weak, visibility("default"))) int symbol(void) { \
        if (fake_counting) ++fake_counts[index_##symbol];           \
        return fake_results[index_##symbol];                        \
    }
#include "interpose/generated/fake_driver.inc"
#undef FAKE_ENTRY

/* A second address for each, which no symbol leads to: for drivers that answer cuGetProcAddress so. */
#define FAKE_ENTRY(symbol) __asm__(".text\nprivate_" #symbol ": jmp " #symbol "@PLT\n");
#include "interpose/generated/fake_driver.inc"
#undef FAKE_ENTRY
#define FAKE_ENTRY(symbol) extern void private_##symbol(void) __attribute__((visibility("hidden")));
#include "interpose/generated/fake_driver.inc"
#undef FAKE_ENTRY

const struct fake_entry fake_entries[] = {
#define FAKE_ENTRY(symbol)                                                          \
    {#symbol, (void*)symbol, (void*)private_##symbol, &fake_counts[index_##symbol], \
     &fake_results[index_##symbol]},
#include "interpose/generated/fake_driver.inc"
#undef FAKE_ENTRY
};
const unsigned fake_entry_count = entry_count;
