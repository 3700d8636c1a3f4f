/* The fake driver's own table, and what tests find out from it. */
#pragma once

struct fake_entry {
    const char* symbol;
    void* function;
    void* private_function; /* leads to the same, but is no exported address */
    unsigned long* count;
    int* result;
};

extern const struct fake_entry fake_entries[];
extern const unsigned fake_entry_count;
extern int fake_counting; /* FAKE_DRIVER_COUNT=0: calls really do nothing */
