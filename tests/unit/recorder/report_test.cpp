// Reports: one model, and every form of it says the same.
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "recorder/json_writer.h"
#include "recorder/report_diff.h"
#include "recorder/report_fields.h"
#include "recorder/report_html.h"
#include "recorder/report_model.h"
#include "recorder/report_parse.h"
#include "recorder/report_perfetto.h"
#include "recorder/report_sections.h"
#include "tests/unit/recorder/recorder_sink.h"

using namespace swapadvisor;
using namespace swapadvisor::test;
using nlohmann::json;

namespace {

std::string odd_text(std::mt19937& random) {
    static const char* const pieces[] = {"conv",      "<b>",  "\"q\"",    "&amp;", "\\", "gr\xC3\xBC\xC3\x9F",
                                         "</script>", "\x01", "\xFF\xFE", " "};
    std::string text;
    for (unsigned n = random() % 6; n > 0; --n) text += pieces[random() % std::size(pieces)];
    return text;
}

ReportModel random_model(unsigned seed, std::size_t rows) {
    std::mt19937 random(seed);
    std::mt19937_64 wide(seed);
    const auto number = [&] { return static_cast<std::int64_t>(wide() >> (20 + random() % 40)); };
    ReportModel m;
    m.source = "trace";
    m.program = "train " + odd_text(random);
    m.device = {"device " + odd_text(random), number(), number(), number(), number(), number()};
    m.mode = "planned";
    for_each_field([&](const ReportField& f) {
        if (random() % 4) m.*f.member = number();
    });
    m.peak_op_name = odd_text(random);
    for (std::size_t i = 0; i < rows; ++i) {
        const auto index = static_cast<std::int64_t>(i);
        m.ops.push_back({index, odd_text(random), "", static_cast<std::int64_t>(random() % 3), index * 1000,
                         number(), number(), number(), number(), number()});
        m.buffers.push_back({index, odd_text(random), odd_text(random), number(), random() % 2 == 0, index,
                             index + number()});
        m.swaps.push_back({index, odd_text(random), random() % 2 ? "in" : "out", number(), index * 1000,
                           index * 1000 + number(), index - 1, index});
        const std::int64_t live = number(), away = live / 3;
        m.timeline.push_back({index * 1000, live, live - away, away, away});
        if (i % 7 == 0) m.peak.push_back({odd_text(random), 3, number(), false});
        if (i % 9 == 0) m.unmovable.push_back({odd_text(random), "why " + odd_text(random), 1, number()});
    }
    m.fallbacks = {{"graph unrolled", 3}};
    m.notes = {"A note " + odd_text(random)};
    return m;
}

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
    const std::size_t from = text.find(begin);
    REQUIRE(from != std::string::npos);
    const std::size_t to = text.find(end, from + begin.size());
    REQUIRE(to != std::string::npos);
    return text.substr(from + begin.size(), to - from - begin.size());
}

std::string html_escaped(const std::string& text) {
    std::string out;
    for (const char c : text)
        out += c == '&'   ? "&amp;"
               : c == '<' ? "&lt;"
               : c == '>' ? "&gt;"
               : c == '"' ? "&quot;"
                          : std::string(1, c);
    return out;
}

}  // namespace

TEST_CASE("text, JSON and HTML agree to the byte") {
    for (unsigned seed = 0; seed < 50; ++seed) {
        const ReportModel m = random_model(seed, seed);
        const std::string as_text = report_text(m), as_json = report_json(m), as_html = report_html(m);
        const json parsed = json::parse(as_json);
        CHECK(parsed["format"] == "swapadvisor-report");
        // The page carries the JSON as it is...
        CHECK(between(as_html, "<script type=\"application/json\" id=\"report\">", "</script>") == as_json);
        // ...and every line of the text, figure by figure.
        for (const ReportSection& section : report_sections(m))
            for (const ReportLine& line : section.lines) {
                if (line.key.empty() || line.key == "device.name" || line.key == "peak_op" ||
                    line.key == "mode")
                    continue;
                CAPTURE(line.key, line.value);
                CHECK(as_text.find("  " + line.value + "\n") != std::string::npos);
                CHECK(as_html.find("data-field=\"" + line.key + "\">" + html_escaped(line.value) + "</dd>") !=
                      std::string::npos);
                const json* value = &parsed;
                const bool device = line.key.rfind("device.", 0) == 0;
                if (device) value = &parsed["device"];
                const std::string name = device ? line.key.substr(7) : line.key;
                REQUIRE(value->contains(name));
                CHECK(line.value.rfind(std::to_string((*value)[name].get<std::int64_t>()), 0) == 0);
            }
        for_each_field(
            [&](const ReportField& f) { CHECK(parsed.contains(f.name) == (m.*f.member != kUnknown)); });
        // Every cell of every table is on the page as it is in the text.
        for (const ReportSection& section : report_sections(m))
            for (const ReportTable& table : section.tables)
                for (const auto& row : table.rows)
                    for (std::size_t c = 0; c < row.size(); ++c)
                        if (table.numeric[c]) {
                            CHECK(as_text.find(row[c]) != std::string::npos);
                            CHECK(as_html.find("<td class=\"n\">" + row[c] + "</td>") != std::string::npos);
                        }
    }
}

TEST_CASE("text and page can be made again from the JSON, byte for byte: it holds all that they show") {
    for (unsigned seed = 0; seed < 30; ++seed) {
        ReportModel m = random_model(seed, seed);
        const auto valid = [](std::string& text) {
            text = json::parse(json_string(text)).get<std::string>();
        };
        for (std::string* text : {&m.program, &m.device.name, &m.peak_op_name, &m.notes[0]}) valid(*text);
        for (auto& op : m.ops) valid(op.name);
        for (auto& b : m.buffers) {
            valid(b.name);
            valid(b.site);
        }
        for (auto& swap : m.swaps) valid(swap.name);
        for (auto& p : m.peak) valid(p.site);
        for (auto& u : m.unmovable) {
            valid(u.site);
            valid(u.reason);
        }
        const ReportModel back = parse_report_json(report_json(m));
        CHECK(report_text(back) == report_text(m));
        CHECK(report_html(back) == report_html(m));
    }
}

TEST_CASE("JSON comes back as the model it was") {
    for (unsigned seed = 0; seed < 30; ++seed) {
        const ReportModel m = random_model(seed, 20);
        const std::string text = report_json(m);
        const ReportModel back = parse_report_json(text);
        CHECK(report_json(back) == text);
        CHECK(back.swaps.size() == m.swaps.size());
        for_each_field([&](const ReportField& f) { CHECK(back.*f.member == m.*f.member); });
    }
    CHECK_THROWS_WITH(parse_report_json("{"), Catch::Contains("no JSON"));
    CHECK_THROWS_WITH(parse_report_json("{}"), Catch::Contains("lacks format"));
    CHECK_THROWS_WITH(parse_report_json(R"({"format":"swapadvisor-report","version":2})"),
                      Catch::Contains("version 2"));
    json bad = json::parse(report_json(random_model(1, 5)));
    bad["ops"][3]["duration_ns"] = -4;
    CHECK_THROWS_WITH(parse_report_json(bad.dump()),
                      Catch::Contains("report.ops[3].duration_ns is negative"));
}

TEST_CASE("the page stays below 5 MB whatever it shows, and keeps peaks and figures") {
    ReportModel m = random_model(3, 40000);
    for (auto& op : m.ops) op.name += std::string(500, '<');
    for (auto& b : m.buffers) b.name = std::string(3000, '\x02');
    m.program = std::string(1 << 20, 'p');
    const std::string html = report_html(m);
    CHECK(html.size() < kMaxHtmlBytes);
    const json shown =
        json::parse(between(html, "<script type=\"application/json\" id=\"report\">", "</script>"));
    std::int64_t most = 0, kept = 0;
    for (const auto& s : m.timeline) most = std::max(most, s.live_bytes);
    for (const auto& s : shown["timeline"]) kept = std::max(kept, s["live_bytes"].get<std::int64_t>());
    CHECK(kept == most);
    for_each_field([&](const ReportField& f) {
        if (m.*f.member != kUnknown) CHECK(shown[f.name] == m.*f.member);
    });
    std::int64_t longest = 0, kept_longest = 0;
    for (const auto& op : m.ops) longest = std::max(longest, op.stall_ns);
    for (const auto& op : shown["ops"])
        kept_longest = std::max(kept_longest, op["stall_ns"].get<std::int64_t>());
    CHECK(kept_longest == longest);
    CHECK(html.find("2000 largest of 40000") != std::string::npos);
}

TEST_CASE("Perfetto: slices, counters, and arrows that bind") {
    ReportModel m = random_model(9, 0);
    for (std::int64_t i = 0; i < 10; ++i) {
        m.ops.push_back({i, "op" + std::to_string(i), "", 0, i * 1000, 900, 64, 0, 0, i == 5 ? 100 : 0});
        m.timeline.push_back({i * 1000, 100, 60, 40, 40});
    }
    m.swaps.push_back({3, "weights", "in", 4096, 2500, 4500, 1, 5});
    m.swaps.push_back({4, "activations", "out", 4096, 3950, 5555, 3, kUnknown});
    m.swaps.push_back({kUnknown, "gone", "drop", 4096, 1, 1, 0, 1});
    const json trace = json::parse(report_perfetto(m));
    std::map<std::string, int> phases;
    std::map<int, std::vector<json>> flows;
    std::set<std::string> counters;
    for (const auto& e : trace["traceEvents"]) {
        ++phases[e["ph"]];
        if (e["ph"] == "s" || e["ph"] == "f") flows[e["id"]].push_back(e);
        if (e["ph"] == "C") counters.insert(e["name"]);
    }
    CHECK(phases["X"] == 10 + 1 + 2);
    CHECK(counters == std::set<std::string>{"limit", "live", "pinned", "resident", "stalled", "swapped"});
    REQUIRE(flows.size() == 3);
    for (const auto& [id, ends] : flows) {
        REQUIRE(ends.size() == 2);
        for (const auto& end : ends) {  // each lies inside a slice of its track
            bool inside = false;
            for (const auto& e : trace["traceEvents"])
                inside =
                    inside || (e["ph"] == "X" && e["tid"] == end["tid"] && e["ts"] <= end["ts"] &&
                               e["ts"].get<double>() + e["dur"].get<double>() >= end["ts"].get<double>());
            CHECK(inside);
        }
    }
    for (const auto& e : trace["traceEvents"])
        if (e["ph"] == "X" && e["name"] == "in weights") CHECK(e["ts"].get<double>() == 2.5);
}

TEST_CASE("diff names what changed, and nothing when nothing did") {
    ReportModel a = random_model(4, 30), b = a;
    CHECK_THAT(report_diff_text(a, b), Catch::Contains("No figure differs."));
    a.peak_bytes = 1 << 30;
    b.peak_bytes = 3 << 29;
    b.ops[7].name = a.ops[7].name = "slow_kernel";
    b.ops[7].duration_ns = a.ops[7].duration_ns + 5000;
    const std::string text = report_diff_text(a, b);
    CHECK_THAT(text, Catch::Contains("1073741824 bytes (1.00 GiB) -> 1610612736 bytes (1.50 GiB), 1.500x"));
    CHECK_THAT(text, Catch::Contains("+5000 ns  slow_kernel"));
    const json parsed = json::parse(report_diff_json(a, b));
    CHECK(parsed["op_time"][0]["name"] == "slow_kernel");
}

TEST_CASE("the exit report goes to a file and its JSON beside it, and never throws") {
    const TemporaryFile file(".txt");
    const TemporaryFile beside("");
    const ReportModel m = random_model(5, 3);
    REQUIRE(write_exit_report(m, file.path()));
    std::ifstream text(file.path()), as_json(file.path() + ".json");
    CHECK(std::string(std::istreambuf_iterator<char>(text), {}) == report_text(m));
    CHECK(std::string(std::istreambuf_iterator<char>(as_json), {}) == report_json(m));
    ::unlink((file.path() + ".json").c_str());
    CHECK_FALSE(write_exit_report(m, "/proc/nonexistent/report.txt"));
}

TEST_CASE("JSON strings are valid UTF-8 and safe inside a script") {
    std::mt19937 random(2);
    for (int round = 0; round < 3000; ++round) {
        std::string text(random() % 12, ' ');
        for (char& c : text) c = static_cast<char>(random() % 3 ? random() : 0xC0 + random() % 64);
        const std::string quoted = json_string(text);
        CHECK_NOTHROW(json::parse(quoted));
        CHECK(quoted.find('<') == std::string::npos);
    }
    CHECK(json_string("a\"b\\\n\x01") == "\"a\\\"b\\\\\\n\\u0001\"");
}
