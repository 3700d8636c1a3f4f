#include "recorder/graph_import.h"

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <unordered_map>
#include <vector>

#include "recorder/recorder.h"
#include "recorder/signature.h"

namespace swapadvisor {
namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse(const std::string& why) {
    throw std::runtime_error("the graph cannot be imported: " + why);
}

const Json& member(const Json& object, const char* name, const std::string& where) {
    if (!object.is_object()) refuse(where + " is no object");
    const auto found = object.find(name);
    if (found == object.end()) refuse(where + " lacks " + name);
    return *found;
}

std::int64_t number(const Json& object, const char* name, const std::string& where) {
    const Json& value = member(object, name, where);
    if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<std::uint64_t>() >> 48) ||
        value.get<std::int64_t>() < 0)
        refuse(where + "." + name + " is no size below 2^48");
    return value.get<std::int64_t>();
}

std::string text_or(const Json& object, const char* name, const std::string& otherwise) {
    const auto found = object.find(name);
    return found != object.end() && found->is_string() ? found->get<std::string>() : otherwise;
}

const Json& list(const Json& object, const char* name, const std::string& where) {
    const Json& value = member(object, name, where);
    if (!value.is_array()) refuse(where + "." + name + " is no list");
    return value;
}

struct Tensor {
    std::int64_t bytes = 0;
    bool persistent = false;
    std::string name, site;
    std::int64_t first = -1, last = -1;  // ops
    BufferId buffer = kNoBuffer;
};

struct Op {
    std::string name;
    std::int64_t duration_ns = 0, stream = 0;
    std::vector<std::pair<std::size_t, Access>> uses;
};

OpKind kind_of(const std::string& name) {
    static const std::unordered_map<std::string, OpKind> kinds{{"memcpy_h2d", OpKind::memcpy_h2d},
                                                               {"memcpy_d2h", OpKind::memcpy_d2h},
                                                               {"memcpy_d2d", OpKind::memcpy_d2d},
                                                               {"memset", OpKind::memset},
                                                               {"graph", OpKind::graph}};
    const auto found = kinds.find(name);
    return found == kinds.end() ? OpKind::kernel : found->second;
}

struct Imported {
    std::string name;
    DeviceModel device;
    std::vector<Tensor> tensors;
    std::vector<Op> ops;
};

Imported parse(const std::string& text) {
    const Json json = Json::parse(text, nullptr, false);
    if (json.is_discarded()) refuse("it is no JSON");
    Imported graph;
    if (member(json, "format", "graph") != "swapadvisor-graph") refuse("format is not swapadvisor-graph");
    if (number(json, "version", "graph") != 1) refuse("only version 1 is known here");
    graph.name = text_or(json, "name", "graph");
    const Json& device = member(json, "device", "graph");
    graph.device.name = text_or(device, "name", "");
    graph.device.memory_bytes = number(device, "memory_bytes", "device");
    graph.device.h2d_bytes_per_s = number(device, "h2d_bytes_per_s", "device");
    graph.device.d2h_bytes_per_s = number(device, "d2h_bytes_per_s", "device");
    graph.device.duplex_bytes_per_s = number(device, "duplex_bytes_per_s", "device");
    graph.device.transfer_latency_ns = number(device, "transfer_latency_ns", "device");
    for (const Json& t : list(json, "tensors", "graph")) {
        const std::string where = "tensors[" + std::to_string(graph.tensors.size()) + "]";
        Tensor tensor;
        tensor.bytes = number(t, "bytes", where);
        const Json& persistent = member(t, "persistent", where);
        if (!persistent.is_boolean()) refuse(where + ".persistent is neither true nor false");
        tensor.persistent = persistent.get<bool>();
        tensor.name = text_or(t, "name", "");
        tensor.site = text_or(t, "site", "");
        graph.tensors.push_back(std::move(tensor));
    }
    for (const Json& o : list(json, "ops", "graph")) {
        const std::string where = "ops[" + std::to_string(graph.ops.size()) + "]";
        Op op;
        op.name = text_or(o, "name", "op");
        op.duration_ns = number(o, "duration_ns", where);
        if (o.contains("stream")) op.stream = number(o, "stream", where);
        for (const bool write : {false, true})
            for (const Json& id : list(o, write ? "writes" : "reads", where)) {
                if (!id.is_number_integer() || id.get<std::int64_t>() < 0 ||
                    id.get<std::uint64_t>() >= graph.tensors.size())
                    refuse(where + (write ? ".writes" : ".reads") + " names a tensor that does not exist");
                const auto t = id.get<std::size_t>();
                const auto known =
                    std::find_if(op.uses.begin(), op.uses.end(), [&](auto& use) { return use.first == t; });
                if (known != op.uses.end())
                    known->second =
                        write == (known->second == Access::write) ? known->second : Access::read_write;
                else
                    op.uses.emplace_back(t, write ? Access::write : Access::read);
                Tensor& tensor = graph.tensors[t];
                tensor.last = static_cast<std::int64_t>(graph.ops.size());
                if (tensor.first < 0) tensor.first = tensor.last;
            }
        graph.ops.push_back(std::move(op));
    }
    if (graph.ops.empty()) refuse("it has no ops");
    return graph;
}

}  // namespace

void import_graph(const std::string& graph_json, const std::string& path, int iterations) {
    Imported graph = parse(graph_json);
    Recorder recorder(
        {.trace_path = path, .program = graph.name, .device = graph.device, .synchronous = true});
    if (!recorder.trace_error().empty()) throw std::runtime_error(recorder.trace_error());
    BufferId last_id = 0;
    std::unordered_map<std::string, std::uint64_t> sites;
    const auto site_of = [&](const std::string& text) -> std::uint64_t {
        constexpr std::uint64_t kFirst = std::uint64_t{1} << 40;  // no stack of this process
        if (text.empty()) return 0;
        const auto [site, fresh] = sites.emplace(text, kFirst + sites.size());
        if (fresh) recorder.name_site(site->second, text);
        return site->second;
    };
    const auto make = [&](Tensor& t) {
        t.buffer = ++last_id;
        recorder.allocate(t.buffer, t.bytes, false, site_of(t.site), nullptr);
        if (!t.name.empty()) recorder.name_buffer(t.buffer, t.name);
    };
    for (Tensor& t : graph.tensors)
        if (t.persistent) make(t);
    std::unordered_map<std::string, std::uint64_t> functions;
    for (int i = 0; i < iterations; ++i) {
        recorder.mark();
        for (std::size_t o = 0; o < graph.ops.size(); ++o) {
            const Op& op = graph.ops[o];
            OpView view;
            view.kind = kind_of(op.name);
            if (view.kind == OpKind::kernel) {
                const auto [function, fresh] = functions.emplace(op.name, functions.size() + 1);
                if (fresh) recorder.name_function(function->second, op.name);
                view.function = function->second;
            }
            view.stream = reinterpret_cast<void*>(op.stream + 1);
            std::vector<Touch> touches;
            for (const auto& [t, access] : op.uses) {
                Tensor& tensor = graph.tensors[t];
                if (!tensor.persistent && tensor.first == static_cast<std::int64_t>(o) &&
                    tensor.buffer == kNoBuffer)
                    make(tensor);
                touches.push_back({tensor.buffer, access});
            }
            view.touches = touches.data();
            view.touch_count = static_cast<std::uint32_t>(touches.size());
            recorder.op_duration(recorder.op(view), op.duration_ns);
            for (const auto& [t, access] : op.uses) {
                Tensor& tensor = graph.tensors[t];
                if (tensor.persistent || tensor.last != static_cast<std::int64_t>(o)) continue;
                recorder.release(tensor.buffer);
                tensor.buffer = kNoBuffer;
            }
        }
    }
    recorder.mark();
    recorder.close();
    if (!recorder.trace_error().empty()) throw std::runtime_error(recorder.trace_error());
}

}  // namespace swapadvisor
