// Plays a training iteration given as a graph file on a CUDA device: real allocations, one small kernel per
// op.
#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "player.h"

namespace {

const char* const usage =
    "usage: graph_player GRAPH.json [options]\n"
    "Plays a graph: cuMemAlloc and cuMemFree of every tensor, a small kernel named op_<ns> for every op. The "
    "kernels\n"
    "take no time of their own: give the device a table of kernel times (software GPU: --kernel-table).\n"
    "  --iterations N   (3)\n"
    "  --op-speedup K   divide the durations of the ops by K (1)\n"
    "  --timings FILE   write the device time of every iteration, in ns, one a line\n"
    "  --pause MS       let that much real time pass before each iteration: playing is quick, planners are "
    "not (0)\n"
    "  --pause-before I  pause only before iteration I, counted from 0 (each); may be repeated\n"
    "  --mark           tell whoever listens where each iteration starts (swapadvisor_iteration)\n"
    "  --info           print the size of the graph and stop\n"
    "  --help           this text\n";

[[noreturn]] void wrong(const std::string& what) {
    std::fprintf(stderr, "graph_player: %s (see --help)\n", what.c_str());
    std::exit(2);
}

struct Options {
    std::string graph, timings;
    std::uint64_t iterations = 3, pause_ms = 0;
    std::vector<std::uint64_t> pause_before;  // none: each
    bool info = false;
    player::Settings settings;
};

std::uint64_t number(const char* name, const char* text) {
    char* end = nullptr;
    const auto value = std::strtoull(text, &end, 10);
    if (end == text || *end || value == 0 || *text == '-')
        wrong(std::string(name) + ": expected a number from 1 up");
    return value;
}

Options parse(int argc, char** argv) {
    Options o;
    for (int i = 1; i < argc; ++i) {
        const char* name = argv[i];
        const auto is = [&](const char* option) { return std::strcmp(name, option) == 0; };
        const auto value = [&] {
            if (i + 1 >= argc) wrong(std::string(name) + " needs a value");
            return argv[++i];
        };
        if (is("--help") || is("-h")) {
            std::fputs(usage, stdout);
            std::exit(0);
        } else if (is("--iterations")) {
            o.iterations = number(name, value());
        } else if (is("--op-speedup")) {
            o.settings.op_speedup = number(name, value());
        } else if (is("--pause")) {
            o.pause_ms = number(name, value());
        } else if (is("--pause-before")) {
            o.pause_before.push_back(number(name, value()));
        } else if (is("--timings")) {
            o.timings = value();
        } else if (is("--mark")) {
            o.settings.mark = true;
        } else if (is("--info")) {
            o.info = true;
        } else if (name[0] == '-' || !o.graph.empty()) {
            wrong(std::string("unknown argument '") + name + "'");
        } else {
            o.graph = name;
        }
    }
    if (o.graph.empty()) wrong("no graph given");
    return o;
}

void play(const Options& o, const player::Graph& graph) {
    std::FILE* timings = nullptr;
    if (!o.timings.empty() && !(timings = std::fopen(o.timings.c_str(), "w")))
        wrong(o.timings + ": cannot be written");
    player::Player player(graph, o.settings);
    for (std::uint64_t i = 0; i < o.iterations; ++i) {
        const auto& named = o.pause_before;
        if (named.empty() || std::find(named.begin(), named.end(), i) != named.end())
            std::this_thread::sleep_for(std::chrono::milliseconds(o.pause_ms));
        const double ns = player.iterate(true);
        std::printf("iteration %" PRIu64 " device ns %.0f\n", i, ns);
        std::fflush(stdout);
        if (timings) std::fprintf(timings, "%.0f\n", ns);
    }
    if (timings) std::fclose(timings);
    std::printf("stamps %016" PRIx64 "\n", player.stamps());
}

}  // namespace

int main(int argc, char** argv) {
    const Options o = parse(argc, argv);
    try {
        const auto graph = player::read_graph(o.graph);
        std::printf("graph %s: %zu ops, %zu tensors, peak %" PRIu64 " bytes, ops take %" PRIu64 " ns\n",
                    graph.name.c_str(), graph.ops.size(), graph.tensors.size(), graph.peak_bytes(2 << 20),
                    graph.duration_ns());
        if (!o.info) play(o, graph);
    } catch (const player::CudaError& e) {
        std::fflush(stdout);
        std::fprintf(stderr, "graph_player: %s\n", e.text.c_str());
        std::_Exit(3);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "graph_player: %s\n", e.what());
        return 2;
    }
    return 0;
}
