// "swapadvisor-graph" version 1 as JSON text.
#include <limits>

#include "planner/format/format.h"
#include "planner/format/json_fields.h"

namespace swapadvisor::planner {
namespace {

constexpr std::int64_t any_size = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t any_id = std::numeric_limits<std::int32_t>::max();
// Sums of sizes and of times stay far from the end of 64 bits, so that nobody has to think of overflow later.
constexpr std::int64_t largest_sum = std::int64_t{1} << 60;

constexpr std::initializer_list<const char*> graph_fields = {"format", "version", "name", "source",
                                                             "device", "tensors", "ops",  "may_reorder"};
constexpr std::initializer_list<const char*> device_fields = {
    "memory_bytes", "h2d_bytes_per_s", "d2h_bytes_per_s", "duplex_bytes_per_s", "transfer_latency_ns"};
constexpr std::initializer_list<const char*> tensor_fields = {"id", "bytes", "persistent", "name", "site"};
constexpr std::initializer_list<const char*> op_fields = {
    "id",     "name",  "duration_ns", "reads",    "writes",
    "stream", "after", "keeps_order", "issue_ns", "host_waits"};

void add_within(std::int64_t& sum, std::int64_t more, const Field& field, const char* what) {
    if (more > largest_sum - sum) field.fail(std::string("the ") + what + " add up to more than 2^60");
    sum += more;
}

void check_id(const Field& element, std::size_t index) {
    const Field id = element.at("id");
    const std::int64_t found = id.integer(0, any_id);
    if (found != static_cast<std::int64_t>(index))
        id.fail("must equal its index " + std::to_string(index) + ", found " + std::to_string(found));
}

Device read_device(const Field& field, ElementExtras& extras) {
    Device device;
    device.memory_bytes = field.at("memory_bytes").integer(0, any_size);
    device.h2d_bytes_per_s = field.at("h2d_bytes_per_s").integer(1, any_size);
    device.d2h_bytes_per_s = field.at("d2h_bytes_per_s").integer(1, any_size);
    device.duplex_bytes_per_s = field.at("duplex_bytes_per_s").integer(1, any_size);
    device.transfer_latency_ns = field.at("transfer_latency_ns").integer(0, largest_sum);
    keep_unknown(field, device_fields, extras);
    return device;
}

std::vector<TensorId> read_tensor_ids(const Field& list, std::size_t tensors) {
    std::vector<TensorId> ids;
    const std::size_t count = list.size();
    ids.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
        const Field field = list[i];
        const std::int64_t id = field.integer(0, any_size);
        if (id >= static_cast<std::int64_t>(tensors))
            field.fail("tensor " + std::to_string(id) + " does not exist (the graph has " +
                       std::to_string(tensors) + ")");
        ids.push_back(static_cast<TensorId>(id));
    }
    return ids;
}

std::vector<OpId> read_after(const Field& list, std::size_t self, std::size_t ops) {
    std::vector<OpId> ids;
    for (std::size_t i = 0, count = list.size(); i < count; ++i) {
        const Field field = list[i];
        const std::int64_t id = field.integer(0, any_size);
        if (id >= static_cast<std::int64_t>(ops))
            field.fail("op " + std::to_string(id) + " does not exist (the graph has " + std::to_string(ops) +
                       ")");
        if (id >= static_cast<std::int64_t>(self))
            field.fail("op " + std::to_string(self) + " cannot follow op " + std::to_string(id) +
                       ", which is not before it in program order");
        ids.push_back(static_cast<OpId>(id));
    }
    return ids;
}

template <class Ids>
void append_ids(std::string& out, const char* key, const Ids& ids) {
    out += key;
    out += '[';
    const char* separator = "";
    for (auto id : ids) {
        out += separator;
        out += std::to_string(id);
        separator = ",";
    }
    out += ']';
}

}  // namespace

Graph parse_graph(const std::string& json) {
    const Json document = parse_document(json, "graph");
    const Field root(document, "graph");
    check_header(root, "swapadvisor-graph", 1);

    Graph graph;
    graph.name = root.at("name").text();
    graph.source = root.at("source").text();
    const Field device = root.at("device");
    graph.device = read_device(device, graph.element_extra);

    const Field tensors = root.at("tensors");
    const std::size_t tensor_count = tensors.size();
    if (tensor_count > static_cast<std::size_t>(any_id)) tensors.fail("too many tensors");
    graph.tensors.resize(tensor_count);
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < tensor_count; ++i) {
        const Field field = tensors[i];
        Tensor& tensor = graph.tensors[i];
        check_id(field, i);
        tensor.bytes = field.at("bytes").integer(0, any_size);
        add_within(bytes, tensor.bytes, field.at("bytes"), "sizes of the tensors");
        tensor.persistent = field.at("persistent").boolean();
        if (auto name = field.maybe("name")) tensor.name = name->text();
        if (auto site = field.maybe("site")) tensor.site = site->text();
        keep_unknown(field, tensor_fields, graph.element_extra);
    }

    const Field ops = root.at("ops");
    const std::size_t op_count = ops.size();
    if (op_count > static_cast<std::size_t>(any_id)) ops.fail("too many ops");
    graph.ops.resize(op_count);
    std::int64_t duration = 0;
    for (std::size_t i = 0; i < op_count; ++i) {
        const Field field = ops[i];
        Op& op = graph.ops[i];
        check_id(field, i);
        op.name = field.at("name").text();
        op.duration_ns = field.at("duration_ns").integer(0, any_size);
        add_within(duration, op.duration_ns, field.at("duration_ns"), "durations of the ops");
        op.reads = read_tensor_ids(field.at("reads"), tensor_count);
        op.writes = read_tensor_ids(field.at("writes"), tensor_count);
        if (auto stream = field.maybe("stream"))
            op.stream = stream->integer(std::numeric_limits<std::int64_t>::min(), any_size);
        if (auto after = field.maybe("after")) op.after = read_after(*after, i, op_count);
        if (auto group = field.maybe("keeps_order")) op.keeps_order = group->integer(0, any_size);
        if (auto issued = field.maybe("issue_ns")) op.issue_ns = issued->integer(0, largest_sum);
        if (auto waits = field.maybe("host_waits")) op.host_waits = waits->boolean();
        keep_unknown(field, op_fields, graph.element_extra);
    }
    if (auto may = root.maybe("may_reorder")) graph.may_reorder = may->boolean();
    graph.extra = root.unknown(graph_fields);
    return graph;
}

std::string to_json(const Graph& graph) {
    const ExtraLookup extras(graph.element_extra);
    const Device& device = graph.device;
    std::string out;
    out.reserve(512 + 80 * graph.tensors.size() + 160 * graph.ops.size());
    out += "{\"format\":\"swapadvisor-graph\",\"version\":1,\"name\":" + json_text(graph.name) +
           ",\"source\":" + json_text(graph.source);
    out += ",\n\"device\":{\"memory_bytes\":" + std::to_string(device.memory_bytes) +
           ",\"h2d_bytes_per_s\":" + std::to_string(device.h2d_bytes_per_s) +
           ",\"d2h_bytes_per_s\":" + std::to_string(device.d2h_bytes_per_s) +
           ",\"duplex_bytes_per_s\":" + std::to_string(device.duplex_bytes_per_s) +
           ",\"transfer_latency_ns\":" + std::to_string(device.transfer_latency_ns) +
           extras("device", device_fields) + "}";
    out += ",\n\"tensors\":[";
    for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
        const Tensor& tensor = graph.tensors[i];
        out += i == 0 ? "\n" : ",\n";
        out += "{\"id\":" + std::to_string(i) + ",\"bytes\":" + std::to_string(tensor.bytes) +
               ",\"persistent\":" + (tensor.persistent ? "true" : "false");
        if (!tensor.name.empty()) out += ",\"name\":" + json_text(tensor.name);
        if (!tensor.site.empty()) out += ",\"site\":" + json_text(tensor.site);
        out += extras("tensors", i, tensor_fields) + "}";
    }
    out += "],\n\"ops\":[";
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
        const Op& op = graph.ops[i];
        out += i == 0 ? "\n" : ",\n";
        out += "{\"id\":" + std::to_string(i) + ",\"name\":" + json_text(op.name) +
               ",\"duration_ns\":" + std::to_string(op.duration_ns);
        append_ids(out, ",\"reads\":", op.reads);
        append_ids(out, ",\"writes\":", op.writes);
        if (op.stream != 0) out += ",\"stream\":" + std::to_string(op.stream);
        if (!op.after.empty()) append_ids(out, ",\"after\":", op.after);
        if (op.keeps_order >= 0) out += ",\"keeps_order\":" + std::to_string(op.keeps_order);
        if (op.issue_ns > 0) out += ",\"issue_ns\":" + std::to_string(op.issue_ns);
        if (op.host_waits) out += ",\"host_waits\":true";
        out += extras("ops", i, op_fields) + "}";
    }
    out += "]";
    if (graph.may_reorder) out += std::string(",\"may_reorder\":") + (*graph.may_reorder ? "true" : "false");
    out += splice(graph.extra, graph_fields) + "}\n";
    return out;
}

}  // namespace swapadvisor::planner
