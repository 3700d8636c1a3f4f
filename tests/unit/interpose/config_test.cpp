#include "interpose/config.h"

#include <catch2/catch.hpp>
#include <map>

#include "interpose/log.h"

using namespace swapadvisor;

namespace {

std::map<std::string, std::string> g_variables;

Config parse(std::map<std::string, std::string> variables, std::vector<std::string>& problems) {
    g_variables = std::move(variables);
    return parse_config(
        [](const char* name) -> const char* {
            const auto found = g_variables.find(name);
            return found == g_variables.end() ? nullptr : found->second.c_str();
        },
        problems);
}

}  // namespace

TEST_CASE("sizes as people write them") {
    const std::pair<const char*, std::uint64_t> good[] = {
        {"0", 0},
        {"4096", 4096},
        {"512MiB", 512ull << 20},
        {"16GiB", 16ull << 30},
        {"1.5G", 3ull << 29},
        {"16 GB", 16000000000ull},
        {"2k", 2048},
        {"2kB", 2000},
        {"3TiB", 3ull << 40},
        {"7B", 7},
    };
    for (const auto& [text, wanted] : good) {
        CAPTURE(text);
        std::uint64_t bytes = 99;
        CHECK(parse_bytes(text, bytes));
        CHECK(bytes == wanted);
    }
    for (const char* text :
         {"", "-1", "12Q", "MiB", "1e30", "inf", "nan", "0x10G", " 5", "5 i", ".", "5MiBB", "99999999T"}) {
        CAPTURE(text);
        std::uint64_t bytes = 99;
        CHECK_FALSE(parse_bytes(text, bytes));
    }
}

TEST_CASE("bare letters as the caller means them") {
    std::uint64_t bytes = 0;
    CHECK(parse_bytes("25G", bytes, 1000));
    CHECK(bytes == 25000000000ull);
    CHECK(parse_bytes("25GiB", bytes, 1000));
    CHECK(bytes == 25ull << 30);
    CHECK(parse_bytes("25e9", bytes, 1000));
    CHECK(bytes == 25000000000ull);
    CHECK(parse_bytes(".5Mi", bytes));
    CHECK(bytes == 512u << 10);
}

TEST_CASE("settings from the environment") {
    std::vector<std::string> problems;
    const Config config = parse({{"SWAPADVISOR_MEMORY", "64MiB"},
                                 {"SWAPADVISOR_STRICT", "1"},
                                 {"SWAPADVISOR_PROVE_READS", "1"},
                                 {"SWAPADVISOR_PLANNER", "none"},
                                 {"SWAPADVISOR_LOG", "routes,plan"},
                                 {"SWAPADVISOR_PLAIN", "4KiB,1MiB"},
                                 {"SWAPADVISOR_SECONDS", "2.5"},
                                 {"SWAPADVISOR_TIMING", "events"},
                                 {"SWAPADVISOR_REPORT", ""}},
                                problems);
    CHECK(problems.empty());
    CHECK(config.memory_bytes == 64u << 20);
    CHECK(config.strict);
    CHECK(config.prove_reads);
    CHECK_FALSE(config.plan_in_background);
    CHECK(config.log_topics ==
          (static_cast<unsigned>(LogTopic::routes) | static_cast<unsigned>(LogTopic::plan)));
    CHECK(config.plain_bytes == std::vector<std::uint64_t>{4096, 1u << 20});
    CHECK(config.plan_seconds == 2.5);
    CHECK(config.timing == TimingSource::events);
    CHECK(config.enabled);

    const Config share = parse({{"SWAPADVISOR_MEMORY", "37.5%"}}, problems);
    CHECK(problems.empty());
    CHECK(share.memory_bytes == 0);
    CHECK(share.memory_fraction == 0.375);
}

TEST_CASE("each bad setting is one problem, and the others hold") {
    std::vector<std::string> problems;
    const Config config = parse({{"SWAPADVISOR_MEMORY", "100"},
                                 {"SWAPADVISOR_HOST_MEMORY", "much"},
                                 {"SWAPADVISOR_STRICT", "perhaps"},
                                 {"SWAPADVISOR_SECONDS", "soon"},
                                 {"SWAPADVISOR_THREADS", "-3"},
                                 {"SWAPADVISOR_LOG", "routes,nonsense"},
                                 {"SWAPADVISOR_TIMING", "sundial"},
                                 {"SWAPADVISOR_SEED", "7"}},
                                problems);
    CHECK(problems.size() == 7);
    for (const std::string& problem : problems) {
        CAPTURE(problem);
        CHECK(problem.starts_with("SWAPADVISOR_"));
        CHECK(problem.find(": ") != std::string::npos);
        CHECK(problem.find('\n') == std::string::npos);
    }
    CHECK(config.timing == TimingSource::automatic);
    CHECK(config.memory_bytes == 0);
    CHECK(config.plan_seed == 7);
    CHECK(config.log_topics == static_cast<unsigned>(LogTopic::routes));

    problems.clear();
    parse({{"SWAPADVISOR_MEMORY", "0%"}}, problems);
    parse({{"SWAPADVISOR_MEMORY", "101%"}}, problems);
    CHECK(problems.size() == 2);
}
