// `swapadvisor diff A B`: what changed between two runs.
#include <cstdio>
#include <stdexcept>
#include <vector>

#include "interpose/command/commands.h"
#include "interpose/command/files.h"
#include "interpose/command/options.h"
#include "interpose/command/report_input.h"
#include "recorder/report_diff.h"

namespace swapadvisor::command {

int cmd_diff(int argc, char** argv) {
    Options app(
        "swapadvisor diff",
        "Compares two runs: traces, plans or reports. With --fail-if the exit status is 3 if a condition "
        "holds.",
        "A B",
        "  swapadvisor diff before.trace after.trace\n"
        "  swapadvisor diff main.txt.json branch.txt.json --fail-if 'peak>+5%' --fail-if 'measured>+10%'");
    std::string before, after, graph;
    bool json = false;
    std::vector<Regression> conditions;
    app.add_option("before", before, "trace, plan, or report (JSON)")->required()->type_name("A");
    app.add_option("after", after, "the one to compare with it")->required()->type_name("B");
    app.add_option("--graph", graph, "graph or trace that the plans were made for")->type_name("FILE");
    app.add_flag("--json", json, "as JSON");
    app.add_option_function<std::vector<std::string>>(
           "--fail-if",
           [&](const std::vector<std::string>& texts) {
               for (const std::string& text : texts) try {
                       conditions.push_back(parse_regression(text));
                   } catch (const std::runtime_error& error) {
                       throw CLI::ValidationError("--fail-if", error.what());
                   }
           },
           "a figure of B that is so much above that of A: peak>+5%; may be repeated")
        ->type_name("CONDITION")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    return app.run(argc, argv, [&] {
        const ReportModel a = load_report(before, graph), b = load_report(after, graph);
        write_file("-", json ? report_diff_json(a, b) : report_diff_text(a, b));
        int status = 0;
        for (const Regression& condition : conditions) {
            const std::string line = find_regression(a, b, condition);
            if (line.empty()) continue;
            std::fprintf(stderr, "error: %s\n", line.c_str());
            status = 3;
        }
        return status;
    });
}

}  // namespace swapadvisor::command
