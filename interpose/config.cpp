#include "interpose/config.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "interpose/log.h"

namespace swapadvisor {

namespace {

/// Less than this is a mistake in the unit, not a limit: the arena for small allocations alone needs more.
constexpr std::uint64_t kLeastMemory = 4ull << 20;

struct Reader {
    const char* (*look_up)(const char*);
    std::vector<std::string>& problems;

    /// The value if set and not empty, else null.
    const char* value(const char* name) const {
        const char* text = look_up(name);
        return text && *text ? text : nullptr;
    }
    void bad(const char* name, const char* text, const char* hint) const {
        problems.push_back(std::string(name) + "=" + text + ": " + hint);
    }

    void flag(const char* name, bool& out) const {
        const char* text = value(name);
        if (!text) return;
        if (!std::strcmp(text, "1") || !std::strcmp(text, "yes") || !std::strcmp(text, "true")) {
            out = true;
        } else if (!std::strcmp(text, "0") || !std::strcmp(text, "no") || !std::strcmp(text, "false")) {
            out = false;
        } else {
            bad(name, text, "not 0 or 1");
        }
    }
    void size(const char* name, std::uint64_t& out) const {
        const char* text = value(name);
        if (text && !parse_bytes(text, out)) bad(name, text, "not a size (write 512MiB or 16GiB)");
    }
    void text(const char* name, std::string& out) const {
        if (const char* found = value(name)) out = found;
    }
    void number(const char* name, double low, double high, double& out) const {
        const char* found = value(name);
        if (!found) return;
        char* end = nullptr;
        const double parsed = std::strtod(found, &end);
        if (*end || !(parsed >= low && parsed <= high)) {
            char hint[96];
            std::snprintf(hint, sizeof hint, "not a number from %g to %g", low, high);
            bad(name, found, hint);
        } else {
            out = parsed;
        }
    }
};

void read_memory(const Reader& reader, Config& config) {
    const char* name = "SWAPADVISOR_MEMORY";
    const char* text = reader.value(name);
    if (!text) return;
    if (const std::string problem = parse_memory(text, config.memory_bytes, config.memory_fraction);
        !problem.empty()) {
        reader.bad(name, text, problem.c_str());
    } else if (config.memory_fraction == 0 && config.memory_bytes < kLeastMemory) {
        reader.bad(name, text, "less than the 4MiB that small allocations alone need");
        config.memory_bytes = 0;
    }
}

/// Calls `take(word)` for each word of a comma-separated list.
template <class Take>
void for_each_word(std::string_view text, Take take) {
    while (!text.empty()) {
        const std::size_t comma = std::min(text.find(','), text.size());
        if (comma > 0) take(text.substr(0, comma));
        text.remove_prefix(std::min(comma + 1, text.size()));
    }
}

void read_plain(const Reader& reader, Config& config) {
    const char* name = "SWAPADVISOR_PLAIN";
    const char* text = reader.value(name);
    if (!text) return;
    for_each_word(text, [&](std::string_view word) {
        std::uint64_t bytes = 0;
        if (parse_bytes(word, bytes)) {
            config.plain_bytes.push_back(bytes);
        } else {
            reader.bad(name, text, "not sizes with commas between them");
        }
    });
}

void read_planner(const Reader& reader, Config& config) {
    const char* text = reader.value("SWAPADVISOR_PLANNER");
    if (!text) return;
    const auto is_named = [&](const char* name) { return !std::strcmp(text, name); };
    if (is_named("none") || std::any_of(std::begin(kPlanners), std::end(kPlanners), is_named))
        config.planner = text;
    else
        reader.bad("SWAPADVISOR_PLANNER", text, "planners are ga, fast, belady-prefetch, belady, lru, none");
}

void read_timing(const Reader& reader, Config& config) {
    const char* name = "SWAPADVISOR_TIMING";
    const char* text = reader.value(name);
    if (!text) return;
    const std::string_view word = text;
    if (word == "auto")
        config.timing = TimingSource::automatic;
    else if (word == "cupti")
        config.timing = TimingSource::cupti;
    else if (word == "events")
        config.timing = TimingSource::events;
    else
        reader.bad(name, text, "timing is auto, cupti or events");
}

void read_info(const Reader& reader, Config& config) {
    const char* name = "SWAPADVISOR_INFO";
    const char* text = reader.value(name);
    if (!text) return;
    const std::string_view word = text;
    if (word == "device")
        config.info = MemoryInfo::device;
    else if (word == "host")
        config.info = MemoryInfo::host;
    else
        reader.bad(name, text, "what is counted as memory is device or host");
}

std::uint32_t read_log_topics(const Reader& reader) {
    const char* name = "SWAPADVISOR_LOG";
    const char* text = reader.value(name);
    if (!text) return 0;
    std::uint32_t topics = 0;
    for_each_word(text, [&](std::string_view word) {
        if (word == "routes") {
            topics |= static_cast<std::uint32_t>(LogTopic::routes);
        } else if (word == "memory") {
            topics |= static_cast<std::uint32_t>(LogTopic::memory);
        } else if (word == "ops") {
            topics |= static_cast<std::uint32_t>(LogTopic::ops);
        } else if (word == "plan") {
            topics |= static_cast<std::uint32_t>(LogTopic::plan);
        } else if (word == "all") {
            topics = ~0u;
        } else {
            reader.bad(name, text, "topics are routes, memory, ops, plan, all");
        }
    });
    return topics;
}

}  // namespace

bool parse_bytes(std::string_view text, std::uint64_t& bytes, double bare_letter) {
    const std::string copy(text);
    const char* begin = copy.c_str();
    // strtod would take "inf", "nan", hexadecimal, signs and spaces.
    if ((*begin < '0' || *begin > '9') && *begin != '.') return false;
    if (begin[0] == '0' && (begin[1] | 0x20) == 'x') return false;
    char* end = nullptr;
    const double amount = std::strtod(begin, &end);
    if (end == begin) return false;
    while (*end == ' ') ++end;
    double unit = 1;
    const char* const letters = "KMGT";
    if (const char* letter = *end ? std::strchr(letters, *end & ~0x20) : nullptr) {
        const auto power = static_cast<double>(letter - letters + 1);
        const char second = static_cast<char>(*++end | 0x20);
        unit = std::pow(second == 'i' ? 1024 : second == 'b' ? 1000 : bare_letter, power);
        if (second == 'i') ++end;
    }
    if (*end == 'B' || *end == 'b') ++end;
    const double value = amount * unit;
    if (*end || !(value < 9e18)) return false;
    bytes = static_cast<std::uint64_t>(std::llround(value));
    return true;
}

std::string parse_memory(std::string_view text, std::uint64_t& bytes, double& fraction) {
    const std::string_view amount = text.ends_with('%') ? text.substr(0, text.size() - 1) : text;
    std::uint64_t size = 0;
    if (text.empty()) return "empty (write 16GiB, 512MiB or 50%)";
    if (amount.size() < text.size()) {
        const std::string copy(amount);
        char* end = nullptr;
        const double per_cent = std::strtod(copy.c_str(), &end);
        const bool number = !copy.empty() && *end == '\0' && (std::isdigit(copy[0]) || copy[0] == '.');
        if (!number || !(per_cent > 0 && per_cent <= 100)) return "not a share from 0% to 100%";
        fraction = per_cent / 100;
        bytes = 0;
        return "";
    }
    if (!parse_bytes(text, size)) return "not a size (write 512MiB, 16GiB or 50%)";
    if (size == 0) return "no memory at all (leave it out for all there is)";
    bytes = size;
    fraction = 0;
    return "";
}

Config parse_config(const char* (*look_up)(const char* name), std::vector<std::string>& problems) {
    const Reader reader{look_up, problems};
    Config config;
    reader.flag("SWAPADVISOR", config.enabled);
    read_memory(reader, config);
    reader.size("SWAPADVISOR_HOST_MEMORY", config.host_memory_bytes);
    reader.text("SWAPADVISOR_REPORT", config.report_path);
    reader.text("SWAPADVISOR_TRACE", config.trace_path);
    reader.text("SWAPADVISOR_PLAN", config.plan_path);
    reader.flag("SWAPADVISOR_PLAN_OR_SEARCH", config.plan_or_search);
    reader.flag("SWAPADVISOR_QUIET", config.quiet);
    reader.flag("SWAPADVISOR_STRICT", config.strict);
    reader.flag("SWAPADVISOR_SYNC_FREE", config.sync_free);
    reader.flag("SWAPADVISOR_PROVE_READS", config.prove_reads);
    read_planner(reader, config);
    config.plan_in_background = config.planner != "none";
    reader.number("SWAPADVISOR_SECONDS", 0, 86400, config.plan_seconds);
    double threads = config.plan_threads, seed = static_cast<double>(config.plan_seed);
    reader.number("SWAPADVISOR_THREADS", 0, 4096, threads);
    reader.number("SWAPADVISOR_SEED", 0, 9e15, seed);
    config.plan_threads = static_cast<int>(threads);
    config.plan_seed = static_cast<std::uint64_t>(seed);
    read_plain(reader, config);
    read_timing(reader, config);
    read_info(reader, config);
    config.log_topics = read_log_topics(reader);
    return config;
}

const Config& config() {
    // Never destroyed: hooks may run after static destructors.
    static const Config& instance = *[] {
        std::vector<std::string> problems;
        auto* parsed = new Config(
            parse_config([](const char* name) -> const char* { return std::getenv(name); }, problems));
        for (const std::string& problem : problems) {
            // Not say(): it must not come back here.
            std::fprintf(stderr, "swapadvisor: %s; ignored\n", problem.c_str());
        }
        return parsed;
    }();
    return instance;
}

}  // namespace swapadvisor
