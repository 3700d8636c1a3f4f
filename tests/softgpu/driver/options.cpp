#include "tests/softgpu/driver/options.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>

#include "tests/softgpu/driver/proc_table.h"

namespace softgpu {
namespace {

[[noreturn]] void bad(const std::string& setting, const std::string& why) {
    throw std::invalid_argument("setting '" + setting + "': " + why);
}

/// A number and one of `units`, which say how much one of each is.
double parse_quantity(const std::string& setting, const std::string& text,
                      const std::map<std::string, double>& units, const char* what) {
    char* end = nullptr;
    const double number = std::strtod(text.c_str(), &end);
    if (end == text.c_str() || !std::isfinite(number) || number < 0)
        bad(setting, std::string("not a ") + what);
    const auto unit = units.find(end);
    if (unit != units.end()) return number * unit->second;
    std::string known;
    for (const auto& [name, value] : units) known += (known.empty() || name.empty() ? "" : ", ") + name;
    bad(setting, "unknown unit '" + std::string(end) + "' (known: " + known + ")");
}

double parse_size(const std::string& setting, std::string text) {
    if (text.size() > 2 && text.ends_with("/s")) text.resize(text.size() - 2);
    static const auto& units = *new std::map<std::string, double>{
        {"", 1},        {"B", 1},       {"kB", 1e3},      {"KB", 1e3},      {"MB", 1e6},
        {"GB", 1e9},    {"TB", 1e12},   {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30},
        {"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30},   {"TiB", 0x1p40},  {"T", 0x1p40}};
    return parse_quantity(setting, text, units, "size");
}

Time parse_time(const std::string& setting, const std::string& text) {
    static const auto& units =
        *new std::map<std::string, double>{{"", 1}, {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    const double ns = parse_quantity(setting, text, units, "time");
    if (ns > 1e18) bad(setting, "too long a time");
    return static_cast<Time>(std::llround(ns));
}

int parse_int(const std::string& setting, const std::string& text, int low, int high) {
    char* end = nullptr;
    const long number = std::strtol(text.c_str(), &end, 10);
    if (end == text.c_str() || *end || number < low || number > high)
        bad(setting, "must be a whole number from " + std::to_string(low) + " to " + std::to_string(high));
    return static_cast<int>(number);
}

bool parse_bool(const std::string& setting, const std::string& text) {
    if (text.empty() || text == "1" || text == "on" || text == "yes") return true;
    if (text == "0" || text == "off" || text == "no") return false;
    bad(setting, "must be 0 or 1");
}

double parse_rate(const std::string& setting, const std::string& text) {
    const double rate = parse_size(setting, text);
    if (rate < 1 || rate > 1e18) bad(setting, "must be a rate such as 12GB/s");
    return std::floor(rate);
}

// cuMemCreate:3=CUDA_ERROR_OUT_OF_MEMORY | cuMemCreate:3+=2 | copy:4=slow*10 | copy:4=stuck | alloc=1GiB |
// hostmem=8GiB
void parse_fault(Options& o, const std::string& text) {
    const auto equals = text.rfind('=');
    if (equals == std::string::npos)
        bad("fault", "'" + text + "' lacks '=' (cuMemCreate:3=CUDA_ERROR_OUT_OF_MEMORY)");
    const std::string value = text.substr(equals + 1);
    std::string what = text.substr(0, equals);
    if (what == "alloc")
        return void(o.max_allocation = static_cast<std::uint64_t>(parse_size("fault", value)));
    if (what == "hostmem")
        return void(o.host_memory = static_cast<std::uint64_t>(parse_size("fault", value)));
    std::uint64_t nth = 1;
    bool onwards = false;
    if (const auto colon = what.find(':'); colon != std::string::npos) {
        std::string count = what.substr(colon + 1);
        what.resize(colon);
        if (!count.empty() && count.back() == '+') onwards = true, count.pop_back();
        nth = static_cast<std::uint64_t>(parse_int("fault", count, 1, 2'000'000'000));
    }
    if (what == "copy") {
        CopyFault fault{nth, 1, value == "stuck"};
        if (value.starts_with("slow*"))
            fault.factor = parse_size("fault", value.substr(5));
        else if (!fault.stuck)
            bad("fault", "a copy can be 'stuck' or 'slow*FACTOR'");
        return o.copy_faults.push_back(fault);
    }
    const auto error = result_from_text(value);
    if (!error) bad("fault", "unknown error '" + value + "'");
    o.call_faults.push_back({what, nth, onwards, *error});
}

void set(Options& o, const std::string& key, const std::string& v) {
    const auto size = [&] { return static_cast<std::uint64_t>(parse_size(key, v)); };
    if (key == "memory") {
        o.memory = size() / (2u << 20) * (2u << 20);
        if (o.memory == 0) bad(key, "must be at least 2MiB");
    } else if (key == "devices")
        o.devices = parse_int(key, v, 0, 8);
    else if (key == "cc") {
        if (std::sscanf(v.c_str(), "%d.%d", &o.cc_major, &o.cc_minor) != 2 || o.cc_major < 5 ||
            o.cc_major > 12)
            bad(key, "must be a compute capability such as 7.5");
    } else if (key == "h2d")
        o.h2d = parse_rate(key, v);
    else if (key == "d2h")
        o.d2h = parse_rate(key, v);
    else if (key == "duplex")
        o.duplex = parse_rate(key, v);
    else if (key == "latency")
        o.latency = parse_time(key, v);
    else if (key == "instructions")
        o.instructions_per_s = parse_rate(key, v);
    else if (key == "bandwidth")
        o.memory_bytes_per_s = parse_rate(key, v);
    else if (key == "launch")
        o.launch = parse_time(key, v);
    else if (key == "call")
        o.call = parse_time(key, v);
    else if (key == "map-call")
        o.map_call = parse_time(key, v);
    else if (key == "create-call")
        o.create_call = parse_time(key, v);
    else if (key == "host-function")
        o.host_function = parse_time(key, v);
    else if (key == "pinning")
        o.pinning_bytes_per_s = parse_rate(key, v);
    else if (key == "threads")
        o.threads = parse_int(key, v, 0, 256);
    else if (key == "kernel-table")
        o.kernel_table = v;
    else if (key == "stats")
        o.stats = v;
    else if (key == "timeline")
        o.timeline = v;
    else if (key == "racecheck")
        o.racecheck = parse_bool(key, v);
    else if (key == "strict")
        o.strict = parse_bool(key, v);
    else if (key == "vmm")
        o.vmm = parse_bool(key, v);
    else if (key == "verbose")
        o.verbose = parse_bool(key, v);
    else if (key == "host-memory")
        o.host_memory = size();
    else if (key == "queue")
        o.queue = static_cast<std::uint64_t>(parse_int(key, v, 1, 1'000'000'000));
    else if (key == "idle")
        o.idle = parse_time(key, v);
    else if (key == "fault")
        parse_fault(o, v);
    else
        bad(key, "unknown setting");
}

}  // namespace

Options parse_options(const std::string& text) {
    Options o;
    std::size_t at = 0;
    while (at < text.size()) {
        std::size_t end = text.find(',', at);
        if (end == std::string::npos) end = text.size();
        const std::string item = text.substr(at, end - at);
        at = end + 1;
        if (item.empty()) continue;
        const auto equals = item.find('=');
        set(o, item.substr(0, equals), equals == std::string::npos ? "" : item.substr(equals + 1));
    }
    return o;
}

const Options& options() {
    static const Options* const settings = [] {
        auto* o = new Options;
        try {
            const char* text = std::getenv("SOFTGPU_OPTIONS");
            if (text) *o = parse_options(text);
            if (const char* race = std::getenv("SOFTGPU_RACECHECK"))
                o->racecheck = parse_bool("racecheck", race);
        } catch (const std::exception& e) {
            std::fprintf(stderr, "softgpu: error: SOFTGPU_OPTIONS: %s\n", e.what());
            std::_Exit(2);
        }
        return o;
    }();
    return *settings;
}

std::optional<CUresult> result_from_text(const std::string& text) {
    for (std::size_t i = 0; i < kErrorTableSize; ++i)
        if (text == kErrorTable[i].name || text == std::to_string(kErrorTable[i].value))
            return kErrorTable[i].value;
    return std::nullopt;
}

const char* result_name(CUresult r) {
    for (std::size_t i = 0; i < kErrorTableSize; ++i)
        if (kErrorTable[i].value == r) return kErrorTable[i].name;
    return nullptr;
}

const char* result_description(CUresult r) {
    // Where the plain words of the name would mislead, the sentence says more.
    static const auto& special = *new std::map<CUresult, const char*>{
        {CUDA_SUCCESS, "no error"},
        {CUDA_ERROR_INVALID_VALUE, "invalid argument"},
        {CUDA_ERROR_NOT_INITIALIZED, "initialization error"},
        {CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"},
        {CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"},
        {CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"},
        {CUDA_ERROR_INVALID_CONTEXT, "invalid device context"},
        {CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"},
        {CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"},
        {CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"},
        {CUDA_ERROR_NOT_FOUND, "named symbol not found"},
        {CUDA_ERROR_NOT_READY, "device not ready"},
        {CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"},
        {CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"},
        {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"},
        {CUDA_ERROR_ASSERT, "device-side assert triggered"},
        {CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"},
        {CUDA_ERROR_NOT_PERMITTED, "operation not permitted"},
        {CUDA_ERROR_NOT_SUPPORTED, "operation not supported"},
        {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"},
        {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture"},
        {CUDA_ERROR_UNKNOWN, "unknown error"},
    };
    if (const auto it = special.find(r); it != special.end()) return it->second;
    const char* name = result_name(r);
    if (!name) return nullptr;
    static std::map<CUresult, std::string>* const words = [] {
        auto* all = new std::map<CUresult, std::string>;
        for (std::size_t i = 0; i < kErrorTableSize; ++i) {
            std::string text = kErrorTable[i].name;
            text = text.substr(text.starts_with("CUDA_ERROR_") ? 11 : 5);
            for (char& c : text) c = c == '_' ? ' ' : static_cast<char>(c | 32);
            (*all)[kErrorTable[i].value] = text;
        }
        return all;
    }();
    return (*words)[r].c_str();
}

}  // namespace softgpu
