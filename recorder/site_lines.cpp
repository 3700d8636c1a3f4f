#include "recorder/site_lines.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <gelf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <vector>

#include "recorder/names.h"

namespace swapadvisor {
namespace {

const Dwfl_Callbacks kCallbacks = {
    .find_elf = dwfl_build_id_find_elf,
    .find_debuginfo = dwfl_standard_find_debuginfo,
    .section_address = dwfl_offline_section_address,
    .debuginfo_path = nullptr,
};

std::string base_name(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? path : path.substr(slash + 1);
}

struct Object {
    Dwfl* dwfl = nullptr;
    Dwfl_Module* module = nullptr;
    Dwarf_Addr base = 0;  // address in dwfl of offset 0 in the loaded object

    explicit Object(const std::string& path) {
        struct stat info {};
        if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return;
        dwfl = dwfl_begin(&kCallbacks);
        if (!dwfl) return;
        module = dwfl_report_offline(dwfl, path.c_str(), path.c_str(), -1);
        dwfl_report_end(dwfl, nullptr, nullptr);
        if (!module) return;
        GElf_Addr bias = 0;
        Elf* elf = dwfl_module_getelf(module, &bias);
        std::size_t headers = 0;
        if (!elf || elf_getphdrnum(elf, &headers) != 0) {
            module = nullptr;
            return;
        }
        // Offsets count from the page of the first loaded segment.
        for (std::size_t i = 0; i < headers; ++i) {
            GElf_Phdr header;
            if (gelf_getphdr(elf, static_cast<int>(i), &header) && header.p_type == PT_LOAD) {
                base = bias + (header.p_vaddr & ~static_cast<GElf_Addr>(0xFFF));
                break;
            }
        }
    }
    ~Object() {
        if (dwfl) dwfl_end(dwfl);
    }
    Object(const Object&) = delete;
    Object& operator=(const Object&) = delete;

    std::string place(std::uint64_t offset) const {
        if (!module) return "";
        Dwfl_Line* line = dwfl_module_getsrc(module, base + offset);
        int number = 0;
        const char* file = line ? dwfl_lineinfo(line, nullptr, &number, nullptr, nullptr, nullptr) : nullptr;
        return file && number > 0 ? base_name(file) + ":" + std::to_string(number) : "";
    }
    std::string function(std::uint64_t offset) const {
        const char* name = module ? dwfl_module_addrname(module, base + offset) : nullptr;
        return name ? without_arguments(name) : "";
    }
    /// Functions that the compiler put into the one at `offset`, innermost first: name, and where it is called ("" unknown).
    struct Inlined {
        std::string name, call;
    };
    std::vector<Inlined> inlined(std::uint64_t offset) const {
        std::vector<Inlined> found;
        Dwarf_Addr bias = 0;
        Dwarf_Die* unit = module ? dwfl_module_addrdie(module, base + offset, &bias) : nullptr;
        Dwarf_Files* files = nullptr;
        if (!unit || dwarf_getsrcfiles(unit, &files, nullptr) != 0) return found;
        // The scopes of the address are those of the source; those around the innermost are those of the code.
        Dwarf_Die *scopes = nullptr, *around = nullptr;
        int count = dwarf_getscopes(unit, base + offset - bias, &scopes);
        if (count > 0) count = dwarf_getscopes_die(&scopes[0], &around);
        for (int i = 0; i < count; ++i) {
            const int tag = dwarf_tag(&around[i]);
            if (tag == DW_TAG_subprogram) break;
            if (tag != DW_TAG_inlined_subroutine) continue;
            const char* name = dwarf_diename(&around[i]);
            Dwarf_Attribute attribute;
            Dwarf_Word file = 0, line = 0;
            dwarf_formudata(dwarf_attr(&around[i], DW_AT_call_file, &attribute), &file);
            dwarf_formudata(dwarf_attr(&around[i], DW_AT_call_line, &attribute), &line);
            const char* path = file > 0 ? dwarf_filesrc(files, file, nullptr, nullptr) : nullptr;
            found.push_back({name ? without_arguments(name) : "",
                             path && line > 0 ? base_name(path) + ":" + std::to_string(line) : ""});
        }
        std::free(around);
        std::free(scopes);
        return found;
    }
};

}  // namespace

struct SiteLines::Impl {
    std::map<std::string, std::unique_ptr<Object>> objects;

    const Object& object(const std::string& path) {
        auto& slot = objects[path];
        if (!slot) slot = std::make_unique<Object>(objects.size() <= 256 ? path : "");
        return *slot;
    }

    // "function (object+0xoffset)"
    std::string frame(const std::string& text) {
        const std::size_t open = text.rfind('('), plus = text.rfind("+0x");
        if (open == std::string::npos || plus == std::string::npos || plus < open || text.back() != ')')
            return text;
        const std::string path = text.substr(open + 1, plus - open - 1);
        char* end = nullptr;
        const std::uint64_t offset = std::strtoull(text.c_str() + plus + 3, &end, 16);
        if (!end || *end != ')') return text;
        std::string name = open > 0 ? without_arguments(text.substr(0, open - 1)) : "";
        const bool absolute = !path.empty() && path[0] == '/';
        std::string place, inner;
        if (absolute) {
            const Object& o = object(path);
            place = o.place(offset);
            if (name.empty()) name = o.function(offset);
            if (!place.empty())
                for (const Object::Inlined& f : o.inlined(offset)) {
                    if (f.name.empty() || f.call.empty()) continue;
                    if (!f.name.starts_with("cudaMalloc")) inner += f.name + " " + place + " < ";
                    place = f.call;
                }
        }
        if (place.empty()) place = "(" + base_name(path) + text.substr(plus);
        return inner + (name.empty() ? place : name + " " + place);
    }
};

SiteLines::SiteLines() : impl_(std::make_unique<Impl>()) {}
SiteLines::~SiteLines() = default;

std::string SiteLines::resolve(const std::string& site) {
    std::string out;
    for (std::size_t at = 0; at <= site.size();) {
        const std::size_t next = std::min(site.find(" < ", at), site.size());
        if (!out.empty()) out += " < ";
        if (next > at) out += impl_->frame(site.substr(at, next - at));
        at = next + 3;
    }
    return out;
}

}  // namespace swapadvisor
