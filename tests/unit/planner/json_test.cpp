#include <catch2/catch.hpp>
#include <string>

#include "planner/planner.h"
#include "random_graph.h"

using namespace swapadvisor::planner;
using namespace swapadvisor::planner::testing;

namespace {

const std::string graph_text = R"({"format":"swapadvisor-graph","version":1,"name":"g","source":"hand",
"device":{"memory_bytes":1000,"h2d_bytes_per_s":10,"d2h_bytes_per_s":11,"duplex_bytes_per_s":12,"transfer_latency_ns":3},
"tensors":[{"id":0,"bytes":100,"persistent":true,"name":"w"},{"id":1,"bytes":7,"persistent":false}],
"ops":[{"id":0,"name":"a","duration_ns":5,"reads":[0],"writes":[1]},
{"id":1,"name":"b","duration_ns":6,"reads":[1],"writes":[],"stream":7,"after":[0]}]})";

const std::string plan_text =
    R"({"format":"swapadvisor-plan","version":1,"graph":"g","limit_bytes":900,"schedule":[0,1],
"pool":{"chunk_bytes":50,"chunks":4},"arena_bytes":512,"arena":[],"initial":[{"tensor":0,"at":[[0,2]]}],
"actions":[{"action":"alloc","tensor":1,"at":[[2,1]],"before":0},{"action":"free","tensor":1,"after":1},
{"action":"out","tensor":0,"after":0},{"action":"in","tensor":0,"at":[[0,2]],"after":-1,"before":2}],"predicted_ns":11})";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const auto at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
}

// The line of the error, which must be one line.
template <class Parse>
std::string error_of(Parse parse, const std::string& text) {
    try {
        parse(text);
    } catch (const PlanError& error) {
        const std::string line = error.what();
        CHECK(line.find('\n') == std::string::npos);
        CHECK(line.size() < 300);
        return line;
    }
    return "accepted";
}
std::string graph_error(const std::string& from, const std::string& to) {
    return error_of(parse_graph, replaced(graph_text, from, to));
}
std::string plan_error(const std::string& from, const std::string& to) {
    return error_of(parse_plan, replaced(plan_text, from, to));
}

}  // namespace

TEST_CASE("a graph is read in full", "[json]") {
    const Graph graph = parse_graph(graph_text);
    CHECK(graph.name == "g");
    CHECK(graph.source == "hand");
    CHECK(graph.device.duplex_bytes_per_s == 12);
    CHECK(graph.device.transfer_latency_ns == 3);
    REQUIRE(graph.tensors.size() == 2);
    CHECK(graph.tensors[0].persistent);
    CHECK(graph.tensors[0].name == "w");
    REQUIRE(graph.ops.size() == 2);
    CHECK(graph.ops[1].stream == 7);
    CHECK(graph.ops[1].after == std::vector<OpId>{0});
    CHECK(graph.ops[0].writes == std::vector<TensorId>{1});
}

TEST_CASE("a plan is read in full", "[json]") {
    const Plan plan = parse_plan(plan_text);
    CHECK(plan.limit_bytes == 900);
    CHECK(plan.chunks == 4);
    REQUIRE(plan.actions.size() == 4);
    CHECK(plan.actions[3].kind == ActionKind::in);
    CHECK(plan.actions[3].after == -1);
    CHECK(plan.actions[3].before == 2);
    CHECK(plan.actions[3].at == Placement{{0, 2}});
    CHECK(plan.initial[0].tensor == 0);
}

TEST_CASE("what is wrong in a graph is named", "[json]") {
    CHECK(graph_error("swapadvisor-graph", "other") ==
          "format: expected \"swapadvisor-graph\", found \"other\"");
    CHECK(graph_error("\"version\":1", "\"version\":2").rfind("version: version 2 is newer", 0) == 0);
    CHECK(graph_error("\"version\":1", "\"version\":0") == "version: must be at least 1, found 0");
    CHECK(graph_error("\"source\":\"hand\",", "") == "graph: field \"source\" is missing");
    CHECK(graph_error("\"name\":\"g\"", "\"name\":5") == "name: expected text, found a number");
    CHECK(graph_error("\"bytes\":7,", "") == "tensors[1]: field \"bytes\" is missing");
    CHECK(graph_error("\"bytes\":7", "\"bytes\":-7") == "tensors[1].bytes: must not be negative, found -7");
    CHECK(graph_error("\"bytes\":7", "\"bytes\":7.5").find("tensors[1].bytes: expected an integer") == 0);
    CHECK(graph_error("\"bytes\":7", "\"bytes\":9223372036854775808") ==
          "tensors[1].bytes: the number is too large for 64 bits");
    CHECK(graph_error("\"bytes\":7", "\"bytes\":98765432109876543210")
              .find("tensors[1].bytes: expected an integer") == 0);
    CHECK(graph_error("\"bytes\":7", "\"bytes\":9223372036854775807") ==
          "tensors[1].bytes: the sizes of the tensors add up to more than 2^60");
    CHECK(graph_error("\"bytes\":7", "\"bytes\":\"7\"") ==
          "tensors[1].bytes: expected an integer, found text");
    CHECK(graph_error("\"persistent\":false", "\"persistent\":0") ==
          "tensors[1].persistent: expected true or false, found a number");
    CHECK(graph_error("\"id\":1,\"bytes\"", "\"id\":0,\"bytes\"") ==
          "tensors[1].id: must equal its index 1, found 0");
    CHECK(graph_error("\"reads\":[1]", "\"reads\":[2]") ==
          "ops[1].reads[0]: tensor 2 does not exist (the graph has 2)");
    CHECK(graph_error("\"reads\":[1]", "\"reads\":[-1]") ==
          "ops[1].reads[0]: must not be negative, found -1");
    CHECK(graph_error("\"reads\":[1]", "\"reads\":1") == "ops[1].reads: expected a list, found a number");
    CHECK(graph_error("\"reads\":[1]", "\"reads\":[null]") ==
          "ops[1].reads[0]: expected an integer, found null");
    CHECK(graph_error("\"after\":[0]", "\"after\":[1]") ==
          "ops[1].after[0]: op 1 cannot follow op 1, which is not before it in program order");
    CHECK(graph_error("\"after\":[0]", "\"after\":[9]") ==
          "ops[1].after[0]: op 9 does not exist (the graph has 2)");
    CHECK(graph_error("\"duration_ns\":6", "\"duration_ns\":-1") ==
          "ops[1].duration_ns: must not be negative, found -1");
    CHECK(graph_error("\"h2d_bytes_per_s\":10", "\"h2d_bytes_per_s\":0") ==
          "device.h2d_bytes_per_s: must be at least 1, found 0");
    CHECK(graph_error("\"device\":{", "\"device\":[],\"x\":{") == "device: expected an object, found a list");
    CHECK(graph_error("\"name\":\"a\"", "\"name\":\"a\",\"name\":\"b\"") ==
          "graph: key \"name\" appears twice in one object");
    CHECK(error_of(parse_graph, "").rfind("graph: not valid JSON", 0) == 0);
    CHECK(error_of(parse_graph, graph_text + "x").rfind("graph: not valid JSON", 0) == 0);
    CHECK(error_of(parse_graph, "[1,2]") == "graph: expected an object, found a list");
    CHECK(error_of(parse_graph, "{\"format\":\"\xff\"}").rfind("graph: not valid JSON", 0) == 0);
    CHECK(error_of(parse_graph, "{\"format\":\"a\\nb" + std::string(5000, 'z') + "\"}").size() < 200);
}

TEST_CASE("what is wrong in a plan is named", "[json]") {
    CHECK(plan_error("swapadvisor-plan", "swapadvisor-graph").rfind("format: expected", 0) == 0);
    CHECK(plan_error("[0,1]", "[0,0]") == "schedule[1]: op 0 appears twice");
    CHECK(plan_error("[0,1]", "[0,2]") == "schedule[1]: op 2 does not exist (the schedule has 2)");
    CHECK(plan_error("\"chunks\":4", "\"chunks\":3") == "accepted");
    CHECK(plan_error("\"chunks\":4", "\"chunks\":2") ==
          "actions[0].at[0]: chunks 2 to 2 do not exist (the pool has 2)");
    CHECK(plan_error("\"chunk_bytes\":50", "\"chunk_bytes\":0") ==
          "pool.chunk_bytes: must be at least 1, found 0");
    CHECK(plan_error("\"chunk_bytes\":50", "\"chunk_bytes\":9223372036854775807") ==
          "pool.chunk_bytes: the pool is larger than 2^63 bytes");
    CHECK(plan_error("\"arena\":[]", "\"arena\":[1,1]") == "arena: tensor 1 appears twice");
    CHECK(plan_error("\"initial\":[", "\"initial\":[{\"tensor\":0,\"at\":[]},") ==
          "initial: tensor 0 appears twice");
    CHECK(plan_error("[[0,2]]", "[[0,2],[1,1]]") == "initial[0].at: chunk 1 appears twice");
    CHECK(plan_error("[[0,2]]", "[[0,2,3]]") == "initial[0].at[0]: expected [first_chunk, count]");
    CHECK(plan_error("[[0,2]]", "[[-1,2]]") == "initial[0].at[0][0]: must not be negative, found -1");
    CHECK(plan_error("\"action\":\"out\"", "\"action\":\"move\"") ==
          "actions[2].action: expected alloc, free, save, out, drop or in, found \"move\"");
    CHECK(plan_error("\"tensor\":0,\"after\":0", "\"tensor\":0,\"after\":-1") ==
          "actions[2].after: position -1 is not in 0 to 1");
    CHECK(plan_error("\"after\":-1", "\"after\":-2") == "actions[3].after: position -2 is not in -1 to 1");
    CHECK(plan_error("\"before\":2", "\"before\":3") == "actions[3].before: position 3 is not in 0 to 2");
    CHECK(plan_error("\"before\":0", "\"before\":2") == "actions[0].before: position 2 is not in 0 to 1");
    CHECK(plan_error(",\"before\":0", "") == "actions[0]: field \"before\" is missing");
    CHECK(plan_error(",\"predicted_ns\":11", "") == "plan: field \"predicted_ns\" is missing");
}

TEST_CASE("deep nesting is refused without recursion", "[json]") {
    CHECK(error_of(parse_graph, std::string(2'000'000, '[')) == "graph: nested deeper than 100 levels");
    std::string text;
    for (int i = 0; i < 200'000; ++i) text += "{\"a\":";
    CHECK(error_of(parse_plan, text) == "plan: nested deeper than 100 levels");
}

TEST_CASE("unknown fields survive a round trip", "[json]") {
    std::string text =
        replaced(graph_text, "\"version\":1", "\"version\":1,\"note\":{\"x\":[1,2.5,\"\\u00e9\"]}");
    text = replaced(text, "\"memory_bytes\"", "\"vendor\":\"v\",\"memory_bytes\"");
    text = replaced(text, "\"bytes\":7", "\"colour\":null,\"bytes\":7");
    text = replaced(text, "\"stream\":7", "\"stream\":7,\"phase\":\"backward\"");
    const std::string out = to_json(parse_graph(text));
    CHECK(out.find(R"("note":{"x":[1,2.5,"é"]})") != std::string::npos);
    CHECK(out.find(R"("vendor":"v")") != std::string::npos);
    CHECK(out.find(R"("colour":null)") != std::string::npos);
    CHECK(out.find(R"("phase":"backward")") != std::string::npos);
    CHECK(to_json(parse_graph(out)) == out);

    text = replaced(plan_text, "\"version\":1", "\"version\":1,\"seed\":4");
    text = replaced(text, "\"chunks\":4", "\"chunks\":4,\"kind\":\"paper\"");
    text = replaced(text, "{\"tensor\":0", "{\"why\":\"hot\",\"tensor\":0");
    text = replaced(text, "{\"action\":\"free\"",
                    "{\"before\":\"odd\",\"action\":\"free\"");  // free has no `before`
    const std::string plan = to_json(parse_plan(text));
    for (const char* kept : {"\"seed\":4", "\"kind\":\"paper\"", "\"why\":\"hot\"", "\"before\":\"odd\""})
        CHECK(plan.find(kept) != std::string::npos);
    CHECK(to_json(parse_plan(plan)) == plan);
}

TEST_CASE("extra text cannot break the output", "[json]") {
    Graph graph = parse_graph(graph_text);
    for (const char* extra : {"{\"name\":\"hijack\"}", "not json", "[1]", "{\"a\":1"}) {
        graph.extra = extra;
        CHECK(parse_graph(to_json(graph)).name == "g");
    }
    graph.name = "bad \xff utf-8 \"quote\"\n";
    CHECK(parse_graph(to_json(graph)).name.find("quote") != std::string::npos);
}

TEST_CASE("random graphs and plans survive a round trip", "[json]") {
    Rng rng(7);
    for (int i = 0; i < 200; ++i) {
        Graph graph = random_graph(rng);
        const Plan plan = random_plan(rng, graph);
        CHECK(to_json(parse_graph(to_json(graph))) == to_json(graph));
        CHECK(to_json(parse_plan(to_json(plan))) == to_json(plan));
    }
}
