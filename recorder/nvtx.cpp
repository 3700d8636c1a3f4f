#include "recorder/nvtx.h"

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "recorder/signature.h"

namespace swapadvisor {
namespace {

constexpr std::size_t kMaxDepth = 64;  // deeper ranges count, but have no names
constexpr std::size_t kMaxRanges = 1 << 16;
constexpr std::size_t kMaxName = 200;

// All paths ever open. Never destroyed: ranges are popped in exit handlers too.
struct Ranges {
    std::mutex mutex;
    std::unordered_map<std::uint64_t, std::uint64_t> by_hash;
    std::vector<std::string> paths;      // by number - 1
    std::deque<std::string> registered;  // strings that the program holds handles of
};
Ranges& ranges() {
    static Ranges* const all = new Ranges;
    return *all;
}

struct ThreadStack {
    std::uint64_t open[kMaxDepth];
    int depth = 0;
};
thread_local ThreadStack stack;

std::uint64_t hash_text(std::string_view text, std::uint64_t seed) {
    std::uint64_t hash = mix(seed, text.size());
    for (; text.size() >= 8; text.remove_prefix(8)) {
        std::uint64_t word;
        std::memcpy(&word, text.data(), 8);
        hash = mix(hash, word);
    }
    std::uint64_t word = 0;
    std::memcpy(&word, text.data(), text.size());
    return mix(hash, word);
}

std::uint64_t range_number(std::uint64_t outer, std::string_view name) {
    Ranges& r = ranges();
    const std::uint64_t hash = hash_text(name, outer);
    const std::lock_guard lock(r.mutex);
    const auto found = r.by_hash.find(hash);
    if (found != r.by_hash.end()) return found->second;
    if (r.paths.size() >= kMaxRanges)
        return outer;  // names that never repeat ("step 17"): keep the outer one
    std::string path = outer ? r.paths[outer - 1] + "/" : "";
    path += name;
    r.paths.push_back(std::move(path));
    r.by_hash.emplace(hash, r.paths.size());
    return r.paths.size();
}

std::string narrow(const wchar_t* text) {
    std::string out;
    for (; text && *text && out.size() < kMaxName; ++text) {
        const auto c = static_cast<std::uint32_t>(*text);
        if (c < 0x80) {
            out += static_cast<char>(c);
        } else if (c < 0x800) {
            out += static_cast<char>(0xC0 | c >> 6);
            out += static_cast<char>(0x80 | (c & 63));
        } else if (c < 0x10000) {
            out += static_cast<char>(0xE0 | c >> 12);
            out += static_cast<char>(0x80 | (c >> 6 & 63));
            out += static_cast<char>(0x80 | (c & 63));
        } else {
            out += static_cast<char>(0xF0 | (c >> 18 & 7));
            out += static_cast<char>(0x80 | (c >> 12 & 63));
            out += static_cast<char>(0x80 | (c >> 6 & 63));
            out += static_cast<char>(0x80 | (c & 63));
        }
    }
    return out;
}

int push(std::string_view name) {
    const int depth = stack.depth++;
    if (depth < static_cast<int>(kMaxDepth)) {
        const std::uint64_t outer = depth > 0 ? stack.open[depth - 1] : 0;
        stack.open[depth] = range_number(outer, name.substr(0, kMaxName));
    }
    return depth;
}

int push_event(const nvtxEventAttributes_t* event) {
    if (!event || !event->message.ascii) return push("");
    switch (event->messageType) {
        case NVTX_MESSAGE_TYPE_ASCII:
            return push(event->message.ascii);
        case NVTX_MESSAGE_TYPE_UNICODE:
            return push(narrow(event->message.unicode));
        case NVTX_MESSAGE_TYPE_REGISTERED:
            return push(reinterpret_cast<const char*>(event->message.registered));
        default:
            return push("");
    }
}

// What NVTX calls, in the shapes it wants. Strings that a program registers and domains that it makes live
// for ever.
using Entry = void (*)();

int push_ascii(const char* name) {
    return push(name ? name : "");
}
int push_wide(const wchar_t* name) {
    return push(narrow(name));
}
int pop() {
    if (stack.depth == 0) return -2;  // NVTX_NO_PUSH_POP_TRACKING
    return --stack.depth;
}
int domain_push(nvtxDomainHandle_t, const nvtxEventAttributes_t* event) {
    return push_event(event);
}
int domain_pop(nvtxDomainHandle_t) {
    return pop();
}
nvtxStringHandle_t keep_string(std::string text) {
    Ranges& r = ranges();
    const std::lock_guard lock(r.mutex);
    r.registered.push_back(std::move(text));
    return reinterpret_cast<nvtxStringHandle_t>(r.registered.back().data());
}
nvtxStringHandle_t register_string(nvtxDomainHandle_t, const char* text) {
    return keep_string(text ? text : "");
}
nvtxStringHandle_t register_wide(nvtxDomainHandle_t, const wchar_t* text) {
    return keep_string(narrow(text));
}
char some_domain;
nvtxDomainHandle_t make_domain(const char*) {
    return reinterpret_cast<nvtxDomainHandle_t>(&some_domain);
}
nvtxDomainHandle_t make_wide_domain(const wchar_t*) {
    return make_domain(nullptr);
}

// The injection interface: modules and places in their tables.
constexpr std::uint32_t kCallbacksTable = 1;
enum Module : int { kCore = 1, kCore2 = 5 };
struct Callbacks {
    std::size_t struct_size;
    int (*get_module_table)(int module, Entry*** table, unsigned* size);
};
struct Placement {
    Module module;
    unsigned place;
    Entry entry;
};

template <class Function>
Entry entry(Function* function) {
    return reinterpret_cast<Entry>(function);
}

}  // namespace

std::uint64_t current_range() {
    const int depth = stack.depth;
    if (depth == 0) return 0;
    return stack.open[std::min<std::size_t>(static_cast<std::size_t>(depth), kMaxDepth) - 1];
}

std::string describe_range(std::uint64_t range) {
    Ranges& r = ranges();
    const std::lock_guard lock(r.mutex);
    return range > 0 && range <= r.paths.size() ? r.paths[range - 1] : "";
}

int push_range(const char* name) {
    return push_ascii(name);
}
int pop_range() {
    return pop();
}

}  // namespace swapadvisor

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    const void* (*get_export_table)(std::uint32_t table)) {
    using namespace swapadvisor;
    const auto* callbacks = static_cast<const Callbacks*>(get_export_table(kCallbacksTable));
    if (!callbacks || callbacks->struct_size < sizeof(Callbacks) || !callbacks->get_module_table) return 0;
    const Placement placements[] = {
        {kCore, 8, entry(push_event)},        {kCore, 9, entry(push_ascii)},
        {kCore, 10, entry(push_wide)},        {kCore, 11, entry(pop)},
        {kCore2, 4, entry(domain_push)},      {kCore2, 5, entry(domain_pop)},
        {kCore2, 10, entry(register_string)}, {kCore2, 11, entry(register_wide)},
        {kCore2, 12, entry(make_domain)},     {kCore2, 13, entry(make_wide_domain)},
    };
    for (const Placement& p : placements) {
        Entry** table = nullptr;
        unsigned size = 0;
        if (callbacks->get_module_table(p.module, &table, &size) && table && p.place < size && table[p.place])
            *table[p.place] = p.entry;
    }
    return 1;
}
