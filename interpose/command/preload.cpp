#include "interpose/command/preload.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

namespace swapadvisor::command {

namespace fs = std::filesystem;

namespace {

bool is_elf(const std::string& path, Elf64_Ehdr& header) {
    std::ifstream file(path, std::ios::binary);
    return file.read(reinterpret_cast<char*>(&header), sizeof header) &&
           std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0;
}

}  // namespace

std::string find_preload_object(std::string& problem) {
    std::string path;
    if (const char* given = std::getenv("SWAPADVISOR_LIBRARY"); given && *given) {
        path = given;
    } else {
        std::error_code error;
        const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
        for (const fs::path& candidate :
             {folder / "libswapadvisor.so", folder / "../lib/swapadvisor/libswapadvisor.so"}) {
            if (!path.empty() && fs::exists(path, error)) break;
            path = candidate.lexically_normal();
        }
    }
    std::error_code error;
    path = fs::absolute(path, error);
    Elf64_Ehdr header;
    if (access(path.c_str(), R_OK) != 0) {
        problem = "cannot read the preload object " + path + ": " + std::strerror(errno) +
                  " (build or install again, or set SWAPADVISOR_LIBRARY)";
    } else if (!is_elf(path, header) || header.e_type != ET_DYN) {
        problem = path + " is no shared object (build or install again, or set SWAPADVISOR_LIBRARY)";
    } else if (path.find_first_of(": ") != std::string::npos) {
        problem = path + ": the loader cannot preload from a path with a space or colon; install elsewhere";
    } else {
        return path;
    }
    return "";
}

std::string preload_list(const std::string& object, const char* existing) {
    if (!existing || !*existing) return object;
    std::string_view rest = existing;
    while (!rest.empty()) {
        const std::size_t end = std::min(rest.find_first_of(": "), rest.size());
        if (rest.substr(0, end) == object) return existing;
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return object + ":" + existing;
}

std::string preload_obstacle(const std::string& program) {
    struct stat status;
    if (stat(program.c_str(), &status) == 0) {
        if ((status.st_mode & S_ISUID && status.st_uid != geteuid()) ||
            (status.st_mode & S_ISGID && status.st_gid != getegid())) {
            return "it changes its user or group when started";
        }
    }
    Elf64_Ehdr header;
    if (!is_elf(program, header)) return "";  // a script: its interpreter decides
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64)
        return "it is not a 64-bit x86 program";
    std::ifstream file(program, std::ios::binary);
    std::vector<Elf64_Phdr> segments(header.e_phnum);
    file.seekg(static_cast<std::streamoff>(header.e_phoff));
    file.read(reinterpret_cast<char*>(segments.data()),
              static_cast<std::streamsize>(segments.size() * sizeof(Elf64_Phdr)));
    for (const Elf64_Phdr& segment : segments) {
        if (segment.p_type == PT_INTERP) return "";
    }
    return file ? "it is statically linked" : "";
}

bool names_driver(const std::string& program) {
    Elf64_Ehdr header;
    if (!is_elf(program, header)) return false;
    const int file = open(program.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (file < 0 || fstat(file, &status) != 0) return false;
    const auto bytes = static_cast<std::size_t>(status.st_size);
    void* text = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (text == MAP_FAILED) return false;
    static constexpr char kName[] = "libcuda";  // libcuda.so.1, libcudart.so.13
    const bool found = memmem(text, bytes, kName, sizeof kName - 1) != nullptr;
    munmap(text, bytes);
    return found;
}

}  // namespace swapadvisor::command
