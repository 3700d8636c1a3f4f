#include "graph.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace player {

namespace {

using Json = nlohmann::json;

std::uint64_t number(const Json& object, const char* field, const std::string& where) {
    const auto found = object.find(field);
    if (found == object.end()) throw std::runtime_error(where + field + " is missing");
    if (!found->is_number_unsigned())
        throw std::runtime_error(where + field + " is not a whole number from 0 up");
    return found->get<std::uint64_t>();
}

const Json& list(const Json& object, const char* field, const std::string& where) {
    const auto found = object.find(field);
    if (found == object.end() || !found->is_array())
        throw std::runtime_error(where + field + " is not a list");
    return *found;
}

Op read_op(const Json& json, std::size_t index, std::size_t tensors) {
    const std::string where = "ops[" + std::to_string(index) + "].";
    Op op;
    op.duration_ns = number(json, "duration_ns", where);
    std::map<std::size_t, std::size_t> place;
    const auto add = [&](const char* field, bool Use::*kind) {
        for (const auto& id : list(json, field, where)) {
            if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= tensors)
                throw std::runtime_error(where + field + " names a tensor that does not exist");
            const auto tensor = id.get<std::size_t>();
            const auto [at, fresh] = place.try_emplace(tensor, op.uses.size());
            if (fresh) op.uses.push_back({tensor, false, false});
            op.uses[at->second].*kind = true;
        }
    };
    add("reads", &Use::read);
    add("writes", &Use::write);
    return op;
}

Graph parse(const Json& json) {
    if (!json.is_object() || json.value("format", "") != "swapadvisor-graph")
        throw std::runtime_error("format is not \"swapadvisor-graph\"");
    if (json.value("version", 0) != 1) throw std::runtime_error("version is not 1");
    Graph g;
    g.name = json.value("name", "graph");
    for (const auto& t : list(json, "tensors", "")) {
        Tensor tensor;
        const std::string where = "tensors[" + std::to_string(g.tensors.size()) + "].";
        tensor.bytes = number(t, "bytes", where);
        tensor.persistent = t.value("persistent", false);
        tensor.first = 1;
        g.tensors.push_back(tensor);
    }
    for (const auto& o : list(json, "ops", "")) g.ops.push_back(read_op(o, g.ops.size(), g.tensors.size()));
    for (std::size_t i = 0; i < g.ops.size(); ++i)
        for (const auto& use : g.ops[i].uses) {
            auto& t = g.tensors[use.tensor];
            if (t.last < t.first) t.first = i;
            t.last = i;
        }
    return g;
}

}  // namespace

std::uint64_t Graph::duration_ns() const {
    std::uint64_t sum = 0;
    for (const auto& op : ops) sum += op.duration_ns;
    return sum;
}

std::uint64_t Graph::peak_bytes(std::uint64_t granularity) const {
    std::vector<std::int64_t> change(ops.size() + 1);
    std::uint64_t persistent_bytes = 0;
    for (const auto& t : tensors) {
        const auto bytes = (t.bytes + granularity - 1) / granularity * granularity;
        if (t.persistent) {
            persistent_bytes += bytes;
        } else if (t.first <= t.last) {
            change[t.first] += static_cast<std::int64_t>(bytes);
            change[t.last + 1] -= static_cast<std::int64_t>(bytes);
        }
    }
    std::int64_t live = 0, peak = 0;
    for (const auto c : change) peak = std::max(peak, live += c);
    return persistent_bytes + static_cast<std::uint64_t>(peak);
}

Graph read_graph(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error(path + ": cannot be read");
    try {
        return parse(Json::parse(file));
    } catch (const std::exception& e) {
        throw std::runtime_error(path + ": " + e.what());
    }
}

}  // namespace player
