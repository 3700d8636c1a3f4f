// Kernel times that the user gives (option kernel-table) in place of the modelled ones.
#include <fstream>
#include <regex>

#include "tests/softgpu/driver/work.h"

namespace softgpu {

bool table_duration(const std::string& kernel, Time* ns) {
    static const auto* const table = [] {
        auto* rows = new std::vector<std::pair<std::regex, Time>>;
        const std::string& path = options().kernel_table;
        if (path.empty()) return rows;
        std::ifstream file(path);
        if (!file) {
            say("error: cannot read the kernel table %s", path.c_str());
            std::_Exit(2);
        }
        std::string line;
        for (int number = 1; std::getline(file, line); ++number) {
            if (line.empty() || line[0] == '#') continue;
            const auto space = line.find_last_of(" \t");
            try {
                // A time of "$1" is the number that the pattern's first group matched.
                const std::string time = line.substr(space + 1);
                rows->emplace_back(std::regex(line.substr(0, line.find_last_not_of(" \t", space) + 1)),
                                   time == "$1" ? kNever : std::stoull(time));
            } catch (const std::exception&) {
                say("error: %s line %d: expected 'REGEX NANOSECONDS'", path.c_str(), number);
                std::_Exit(2);
            }
        }
        return rows;
    }();
    if (table->empty()) return false;
    // Guarded by the driver's lock. As all that kernels are run with, it outlives the exit handlers.
    static auto& known = *new std::unordered_map<std::string, Time>;
    const auto it = known.find(kernel);
    if (it != known.end()) {
        *ns = it->second;
        return it->second != kNever;
    }
    Time found = kNever;
    std::smatch match;
    for (const auto& [pattern, time] : *table)
        if (std::regex_search(kernel, match, pattern)) {
            found = time != kNever ? time : match.size() > 1 ? std::stoull("0" + match[1].str()) : 0;
            break;
        }
    known[kernel] = found;
    *ns = found;
    return found != kNever;
}

}  // namespace softgpu
