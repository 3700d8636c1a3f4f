#include "interpose/real_dl.h"

#include <elf.h>
#include <link.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace swapadvisor {

extern "C" {
DlsymFunction swapadvisor_real_dlsym = nullptr;
DlvsymFunction swapadvisor_real_dlvsym = nullptr;
void* (*swapadvisor_real_dlopen)(const char* name, int flags) = nullptr;
}

namespace {

/// The parts of one loaded object's dynamic section that a look-up by name needs.
struct DynamicTables {
    const ElfW(Sym) * symbols = nullptr;
    const char* strings = nullptr;
    const std::uint32_t* gnu_hash = nullptr;
    const std::uint32_t* sysv_hash = nullptr;
    const ElfW(Half) * versions = nullptr;
};

DynamicTables read_dynamic(const dl_phdr_info& object) {
    DynamicTables tables;
    for (int i = 0; i < object.dlpi_phnum; ++i) {
        if (object.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
        const auto* entry =
            reinterpret_cast<const ElfW(Dyn)*>(object.dlpi_addr + object.dlpi_phdr[i].p_vaddr);
        for (; entry->d_tag != DT_NULL; ++entry) {
            // glibc relocates these in place for ordinary objects, but not for the vDSO.
            ElfW(Addr) address = entry->d_un.d_ptr;
            if (address < object.dlpi_addr) address += object.dlpi_addr;
            if (entry->d_tag == DT_SYMTAB) tables.symbols = reinterpret_cast<const ElfW(Sym)*>(address);
            if (entry->d_tag == DT_STRTAB) tables.strings = reinterpret_cast<const char*>(address);
            if (entry->d_tag == DT_GNU_HASH)
                tables.gnu_hash = reinterpret_cast<const std::uint32_t*>(address);
            if (entry->d_tag == DT_HASH) tables.sysv_hash = reinterpret_cast<const std::uint32_t*>(address);
            if (entry->d_tag == DT_VERSYM) tables.versions = reinterpret_cast<const ElfW(Half)*>(address);
        }
    }
    return tables;
}

bool defines(const DynamicTables& tables, std::uint32_t index, const char* name) {
    const ElfW(Sym)& symbol = tables.symbols[index];
    return symbol.st_shndx != SHN_UNDEF && symbol.st_value != 0 &&
           ELF64_ST_TYPE(symbol.st_info) == STT_FUNC &&
           std::strcmp(tables.strings + symbol.st_name, name) == 0;
}

/// Index of the definition, the default version before hidden ones; 0: none.
std::uint32_t find_symbol(const DynamicTables& tables, const char* name) {
    std::uint32_t found = 0;
    const auto take = [&](std::uint32_t index) {
        if (!defines(tables, index, name)) return;
        const bool hidden = tables.versions && (tables.versions[index] & 0x8000);
        if (!found || !hidden) found = index;
    };
    if (tables.gnu_hash) {
        const std::uint32_t buckets = tables.gnu_hash[0], first = tables.gnu_hash[1],
                            words = tables.gnu_hash[2];
        const std::uint32_t* bucket = tables.gnu_hash + 4 + words * (sizeof(ElfW(Addr)) / 4);
        const std::uint32_t* chain = bucket + buckets;
        std::uint32_t hash = 5381;
        for (const char* c = name; *c; ++c) hash = hash * 33 + static_cast<unsigned char>(*c);
        for (std::uint32_t i = buckets ? bucket[hash % buckets] : 0; i >= first && i != 0; ++i) {
            if ((chain[i - first] | 1) == (hash | 1)) take(i);
            if (chain[i - first] & 1) break;
        }
    } else if (tables.sysv_hash) {
        for (std::uint32_t i = 1; i < tables.sysv_hash[1]; ++i) take(i);
    }
    return found;
}

struct Search {
    const void* self = nullptr;
    bool passed_self = false;
    void* dlsym = nullptr;
    void* dlvsym = nullptr;
    void* dlopen = nullptr;
};

int visit(dl_phdr_info* object, std::size_t, void* data) {
    auto& search = *static_cast<Search*>(data);
    if (!search.passed_self) {
        for (int i = 0; i < object->dlpi_phnum; ++i) {
            const auto& segment = object->dlpi_phdr[i];
            const auto begin = object->dlpi_addr + segment.p_vaddr;
            const auto self = reinterpret_cast<ElfW(Addr)>(search.self);
            if (segment.p_type == PT_LOAD && self >= begin && self < begin + segment.p_memsz)
                search.passed_self = true;
        }
        return 0;
    }
    const DynamicTables tables = read_dynamic(*object);
    if (!tables.symbols || !tables.strings) return 0;
    const auto address = [&](const char* name) -> void* {
        const std::uint32_t index = find_symbol(tables, name);
        return index ? reinterpret_cast<void*>(object->dlpi_addr + tables.symbols[index].st_value) : nullptr;
    };
    if (!search.dlsym) search.dlsym = address("dlsym");
    if (!search.dlvsym) search.dlvsym = address("dlvsym");
    if (!search.dlopen) search.dlopen = address("dlopen");
    return search.dlsym && search.dlvsym && search.dlopen ? 1 : 0;
}

}  // namespace

void find_real_dl() {
    Search search;
    search.self = reinterpret_cast<const void*>(&find_real_dl);
    dl_iterate_phdr(visit, &search);
    if (!search.dlsym || !search.dlvsym || !search.dlopen) {
        // Cannot happen under a dynamic loader: libc (or libdl) comes after every preload.
        static const char text[] = "swapadvisor: no dlsym found behind the preload object\n";
        (void)!write(2, text, sizeof text - 1);
        std::abort();
    }
    __atomic_store_n(&swapadvisor_real_dlopen, reinterpret_cast<void* (*)(const char*, int)>(search.dlopen),
                     __ATOMIC_RELEASE);
    __atomic_store_n(&swapadvisor_real_dlsym, reinterpret_cast<DlsymFunction>(search.dlsym),
                     __ATOMIC_RELEASE);
    __atomic_store_n(&swapadvisor_real_dlvsym, reinterpret_cast<DlvsymFunction>(search.dlvsym),
                     __ATOMIC_RELEASE);
}

}  // namespace swapadvisor
