#include "recorder/output_path.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace swapadvisor {
namespace {

struct RankVariables {
    const char *rank, *ranks;
};
constexpr RankVariables kVariables[] = {{"RANK", "WORLD_SIZE"},
                                        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                        {"SLURM_PROCID", "SLURM_NTASKS"}};

std::int64_t number_of(const char* name) {
    const char* text = std::getenv(name);
    if (!text || !*text) return -1;
    char* end = nullptr;
    const long long value = std::strtoll(text, &end, 10);
    return *end == '\0' && value >= 0 ? value : -1;
}

std::string size_text(double bytes) {
    const char* const units[] = {"bytes", "KiB", "MiB", "GiB"};
    int unit = 0;
    for (; bytes >= 1024 && unit < 3; ++unit) bytes /= 1024;
    char text[48];
    std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
    return text;
}

void add_output(std::string& all, const char* what, const std::string& path) {
    struct stat info {};
    if (path.empty() || path == "-" || stat(path.c_str(), &info) != 0 || info.st_size == 0) return;
    if (!all.empty()) all += ", ";
    all += std::string(what) + " " + path + " (" + size_text(static_cast<double>(info.st_size)) + ")";
}

}  // namespace

std::int64_t process_rank() {
    for (const RankVariables& names : kVariables)
        if (const std::int64_t rank = number_of(names.rank); rank >= 0) return rank;
    return -1;
}

std::int64_t process_ranks() {
    for (const RankVariables& names : kVariables)
        if (number_of(names.rank) >= 0) return number_of(names.ranks);
    return -1;
}

std::string expand_output_path(const std::string& given, const std::string& ending) {
    struct stat info {};
    if (stat(given.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
        const char* program = program_invocation_short_name;
        std::string path = given + "/swapadvisor-" + (program && *program ? program : "program") + "-" +
                           std::to_string(getpid());
        if (const std::int64_t rank = process_rank(); rank >= 0) path += "-rank" + std::to_string(rank);
        return path + ending;
    }
    std::string path;
    for (std::size_t i = 0; i < given.size(); ++i) {
        const char next = given[i] == '%' && i + 1 < given.size() ? given[i + 1] : '\0';
        if (next == 'p')
            path += std::to_string(getpid());
        else if (next == 'r')
            path += std::to_string(std::max<std::int64_t>(process_rank(), 0));
        else
            path += given[i];
        if (next == 'p' || next == 'r') ++i;
    }
    return path;
}

std::string tagged_path(const std::string& path, const std::string& tag) {
    if (tag.empty() || path.empty()) return path;
    const std::size_t slash = path.rfind('/'), dot = path.rfind('.');
    const std::size_t name = slash == std::string::npos ? 0 : slash + 1;
    std::string tagged = path;
    const bool has_ending = dot != std::string::npos && dot > name;
    tagged.insert(has_ending ? dot : path.size(), "." + tag);
    return tagged;
}

std::string outputs_text(const std::string& report, const std::string& trace) {
    std::string all;
    add_output(all, "report", report);
    add_output(all, "trace", trace);
    return all;
}

}  // namespace swapadvisor
