// A graph of the interchange format as a trace, so that what another tool wrote can be reported, diffed and
// planned like a recording. For the command-line tool; not linked into the preload object.
#pragma once

#include <string>

namespace swapadvisor {

/// Writes a trace of `iterations` marked iterations of the graph to `path`. Exporting it gives the graph
/// back, with tensors numbered in order of appearance. Throws std::runtime_error with one line that names the
/// field.
void import_graph(const std::string& graph_json, const std::string& path, int iterations = 3);

}  // namespace swapadvisor
