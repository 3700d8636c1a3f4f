#include "recorder/symbol_table.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace swapadvisor {
namespace {

class MappedFile {
  public:
    explicit MappedFile(const std::string& path) {
        const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd < 0) return;
        struct stat info {};
        if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0) {
            void* at = mmap(nullptr, static_cast<std::size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
            if (at != MAP_FAILED) {
                data_ = static_cast<const char*>(at);
                size_ = static_cast<std::size_t>(info.st_size);
            }
        }
        close(fd);
    }
    ~MappedFile() {
        if (data_) munmap(const_cast<char*>(data_), size_);
    }
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    /// `count` things of type T at `offset`; null if the file is too short for that.
    template <class T>
    const T* at(std::uint64_t offset, std::uint64_t count = 1) const {
        if (offset > size_ || count > (size_ - offset) / sizeof(T) || offset % alignof(T) != 0)
            return nullptr;
        return reinterpret_cast<const T*>(data_ + offset);
    }

  private:
    const char* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace

std::string function_in_file(const std::string& path, std::uint64_t offset) {
    const MappedFile file(path);
    const auto* header = file.at<Elf64_Ehdr>(0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64)
        return "";
    const auto* segments = file.at<Elf64_Phdr>(header->e_phoff, header->e_phnum);
    const auto* sections = file.at<Elf64_Shdr>(header->e_shoff, header->e_shnum);
    if (!segments || !sections) return "";
    // Where the object is loaded stands for the page of its lowest segment.
    std::uint64_t lowest = std::numeric_limits<std::uint64_t>::max();
    for (unsigned i = 0; i < header->e_phnum; ++i)
        if (segments[i].p_type == PT_LOAD) lowest = std::min<std::uint64_t>(lowest, segments[i].p_vaddr);
    constexpr std::uint64_t kPage = 4096;
    const std::uint64_t wanted = offset + lowest / kPage * kPage;
    for (unsigned s = 0; s < header->e_shnum; ++s) {
        const Elf64_Shdr& table = sections[s];
        if (table.sh_type != SHT_SYMTAB || table.sh_link >= header->e_shnum) continue;
        const Elf64_Shdr& strings = sections[table.sh_link];
        const std::uint64_t count = table.sh_size / sizeof(Elf64_Sym);
        const auto* symbols = file.at<Elf64_Sym>(table.sh_offset, count);
        const char* names = file.at<char>(strings.sh_offset, strings.sh_size);
        if (!symbols || !names) continue;
        for (std::uint64_t i = 0; i < count; ++i) {
            const Elf64_Sym& symbol = symbols[i];
            if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_name >= strings.sh_size ||
                wanted < symbol.st_value || wanted - symbol.st_value >= symbol.st_size)
                continue;
            const char* name = names + symbol.st_name;
            return {name, strnlen(name, strings.sh_size - symbol.st_name)};
        }
    }
    return "";
}

}  // namespace swapadvisor
