#include "recorder/callsite.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "recorder/names.h"
#include "recorder/python_stack.h"
#include "recorder/signature.h"
#include "recorder/symbol_table.h"
#include "recorder/unwinder.h"

namespace swapadvisor {
namespace {

constexpr std::size_t kDepth = 32;  // frames that make a site
constexpr std::size_t kFrameTable = 1 << 15;
constexpr std::size_t kSiteTable = 1 << 17;
constexpr std::size_t kMaxSites = 1 << 16;
constexpr std::size_t kFramesShown = 6;
constexpr std::size_t kPythonDepth = 24;

constexpr std::uint32_t kOutermost = 0xFFFFFFFF;  // the stack ends here
constexpr std::uint32_t kVaries = 0xFFFFFFFE;
constexpr std::uint32_t kUnknownFrame = 0;

struct FrameEntry {
    std::atomic<std::uintptr_t> address{0};
    std::atomic<std::uint32_t> size{
        0};  // from the stack pointer at this return address to the one in the frame around it
};

struct SiteEntry {
    std::atomic<std::uint64_t> hash{0};
    std::atomic<std::uint32_t> site{0};
};

// One for the process, never destroyed: programs allocate and free in exit handlers.
struct Sites {
    std::array<FrameEntry, kFrameTable> frames;
    std::array<SiteEntry, kSiteTable> sites;
    std::mutex mutex;  // for changes
    std::size_t frames_used = 0;
    std::vector<std::vector<std::uintptr_t>> stacks;  // by site - 1
    std::unordered_map<std::uint64_t, std::string>
        python;  // by site: what can only be read while it is there
    std::atomic<std::uint64_t> unwinds{0};
};

Sites& sites() {
    static Sites* const all = new Sites;
    return *all;
}

struct StackBounds {
    std::uintptr_t low = 0, high = 0;
    StackBounds() {
        pthread_attr_t attributes;
        if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
        void* base = nullptr;
        std::size_t size = 0;
        if (pthread_attr_getstack(&attributes, &base, &size) == 0) {
            low = reinterpret_cast<std::uintptr_t>(base);
            high = low + size;
        }
        pthread_attr_destroy(&attributes);
    }
};

std::size_t frame_slot(std::uintptr_t address) {
    return mix(address, 1) & (kFrameTable - 1);
}

std::uint32_t frame_size(const Sites& s, std::uintptr_t address) {
    for (std::size_t i = frame_slot(address);; i = (i + 1) & (kFrameTable - 1)) {
        const std::uintptr_t there = s.frames[i].address.load(std::memory_order_acquire);
        if (there == address) return s.frames[i].size.load(std::memory_order_relaxed);
        if (there == 0) return kUnknownFrame;
    }
}

void learn_frame(Sites& s, std::uintptr_t address, std::uint32_t size) {
    for (std::size_t i = frame_slot(address);; i = (i + 1) & (kFrameTable - 1)) {
        FrameEntry& entry = s.frames[i];
        const std::uintptr_t there = entry.address.load(std::memory_order_relaxed);
        if (there == address) {
            if (entry.size.load(std::memory_order_relaxed) != size)
                entry.size.store(kVaries, std::memory_order_relaxed);
            return;
        }
        if (there != 0) continue;
        if (s.frames_used * 4 > kFrameTable * 3) return;
        ++s.frames_used;
        entry.size.store(size, std::memory_order_relaxed);
        entry.address.store(address, std::memory_order_release);
        return;
    }
}

// Walks by the table alone. 0 frames: something on the way is not known. Reads return addresses between other
// functions' locals, and may look at a wrong place on the stack before it notices: nothing for sanitizers.
__attribute__((no_sanitize("address", "thread"))) std::size_t walk_known(const Sites& s,
                                                                         std::uintptr_t address,
                                                                         std::uintptr_t stack,
                                                                         std::uintptr_t* out) {
    thread_local const StackBounds bounds;
    if (stack < bounds.low || stack >= bounds.high) return 0;
    std::size_t count = 0;
    while (true) {
        out[count++] = address;
        if (count == kDepth) return count;
        const std::uint32_t size = frame_size(s, address);
        if (size == kOutermost) return count;
        if (size == kUnknownFrame || size == kVaries || size < 8 || size > bounds.high - stack) return 0;
        stack += size;
        address = *reinterpret_cast<const std::uintptr_t*>(stack - 8);
    }
}

// Asks the unwinder, and keeps what it says.
__attribute__((noinline)) std::size_t walk_and_learn(Sites& s, std::uintptr_t address, std::uintptr_t stack,
                                                     std::uintptr_t* out) {
    s.unwinds.fetch_add(1, std::memory_order_relaxed);
    std::array<StackFrame, kDepth + 8> frames;
    const std::size_t all = unwind(frames.data(), frames.size());
    std::size_t first = 0;
    while (first < all && !(frames[first].address == address && frames[first].stack == stack)) ++first;
    if (first == all) {
        out[0] = address;
        return 1;
    }
    const std::lock_guard lock(s.mutex);
    std::size_t count = 0;
    for (std::size_t i = first; i < all && count < kDepth; ++i) {
        out[count++] = frames[i].address;
        const bool last = i + 1 == all;
        if (last && all < frames.size()) {
            learn_frame(s, frames[i].address, kOutermost);
        } else if (!last) {
            const std::uintptr_t size = frames[i + 1].stack - frames[i].stack;
            std::uintptr_t next = 0;  // where the walk by table will look
            if (size >= 8 && size % 8 == 0 && size < kVaries)
                std::memcpy(&next, reinterpret_cast<const void*>(frames[i + 1].stack - 8), sizeof next);
            learn_frame(s, frames[i].address,
                        next == frames[i + 1].address ? static_cast<std::uint32_t>(size) : kVaries);
        }
    }
    return count;
}

std::uint64_t site_of(Sites& s, const std::uintptr_t* addresses, std::size_t count) {
    std::uint64_t hash = count;
    for (std::size_t i = 0; i < count; ++i) hash = mix(hash, addresses[i]);
    PythonFrame python[kPythonDepth];
    const std::size_t lines = python_stack(python, kPythonDepth);
    for (std::size_t i = 0; i < lines; ++i) hash = mix(mix(hash, python[i].code), python[i].offset);
    hash |= 1;
    std::size_t i = hash >> 7 & (kSiteTable - 1);
    for (;; i = (i + 1) & (kSiteTable - 1)) {
        const std::uint64_t there = s.sites[i].hash.load(std::memory_order_acquire);
        if (there == hash) return s.sites[i].site.load(std::memory_order_relaxed);
        if (there == 0) break;
    }
    const std::lock_guard lock(s.mutex);
    for (;; i = (i + 1) & (kSiteTable - 1)) {
        const std::uint64_t there = s.sites[i].hash.load(std::memory_order_relaxed);
        if (there == hash) return s.sites[i].site.load(std::memory_order_relaxed);
        if (there == 0) break;
    }
    if (s.stacks.size() >= kMaxSites) return 0;
    s.stacks.emplace_back(addresses, addresses + count);
    if (lines > 0) s.python[s.stacks.size()] = describe_python_stack(python, lines);
    s.sites[i].site.store(static_cast<std::uint32_t>(s.stacks.size()), std::memory_order_relaxed);
    s.sites[i].hash.store(hash, std::memory_order_release);
    return s.stacks.size();
}

// The last part of a path.
const char* file_name(const char* path) {
    const char* slash = std::strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// The main program's name may be relative to where it was started.
std::string object_path(const Dl_info& info) {
    if (info.dli_fname[0] == '/') return info.dli_fname;
    char path[4096];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    return length > 0 && length < static_cast<ssize_t>(sizeof path)
               ? std::string(path, static_cast<std::size_t>(length))
               : info.dli_fname;
}

std::string function_text(const Dl_info& info, std::uintptr_t offset) {
    std::string name = info.dli_sname ? info.dli_sname : function_in_file(object_path(info), offset);
    if (name.empty()) return "";
    name = without_arguments(name);
    constexpr std::size_t kLongest = 120;
    if (name.size() > kLongest) name = name.substr(0, kLongest - 3) + "...";
    return name + " ";
}

}  // namespace

__attribute__((noinline)) std::uint64_t capture_site() {
    Sites& s = sites();
    const auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    const auto address = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
    const std::uintptr_t stack =
        frame + 2 * sizeof(void*);  // saved frame pointer and return address lie below it
    std::uintptr_t addresses[kDepth];
    std::size_t count = walk_known(s, address, stack, addresses);
    if (count == 0) count = walk_and_learn(s, address, stack, addresses);
    return site_of(s, addresses, count);
}

std::vector<std::uintptr_t> site_addresses(std::uint64_t site) {
    Sites& s = sites();
    const std::lock_guard lock(s.mutex);
    if (site == 0 || site > s.stacks.size()) return {};
    return s.stacks[site - 1];
}

std::uint64_t site_unwinds() {
    return sites().unwinds.load(std::memory_order_relaxed);
}

namespace {

struct FrameText {
    std::string text;     // "" unknown
    bool inner = false;   // the CUDA libraries' or ours: not where a reader would begin
    bool folded = false;  // how a framework or an interpreter gets to an allocation, which is always the same
};

// Whose frames say nothing of who wants the memory.
bool is_plumbing(const char* file, const std::string& function) {
    for (const char* library :
         {"libc.so.", "libffi.", "_ctypes.", "libc10", "libpython3", "python3", "libtorch_python."})
        if (std::strncmp(file, library, std::strlen(library)) == 0) return true;
    for (const char* name : {"c10::", "at::_ops::", "at::detail::empty", "at::native::empty", "at::empty",
                             "at::(anonymous namespace)::", "at::detail::make_tensor",
                             "torch::autograd::VariableType::", "cudaMalloc", "__libc_start", "_start "})
        if (function.starts_with(name)) return true;
    return false;
}

// A symbol look-up walks the library's whole table, so each address is asked about once.
FrameText describe_frame(std::uintptr_t address) {
    static auto* known = new std::unordered_map<std::uintptr_t, FrameText>;
    static auto* guard = new std::mutex;
    const std::lock_guard lock(*guard);
    const auto [entry, fresh] = known->try_emplace(address);
    FrameText& frame = entry->second;
    if (!fresh) return frame;
    Dl_info own{}, info{};
    dladdr(reinterpret_cast<const void*>(&capture_site), &own);
    const auto code = reinterpret_cast<const void*>(address - 1);  // inside the call, not after it
    if (dladdr(code, &info) == 0 || !info.dli_fname) return frame;
    const bool library = std::strncmp(file_name(info.dli_fname), "libcuda", 7) == 0;
    const bool ours =
        info.dli_fbase == own.dli_fbase && std::strstr(file_name(info.dli_fname), "libswapadvisor");
    frame.inner = library || ours;
    const std::uintptr_t offset = address - 1 - reinterpret_cast<std::uintptr_t>(info.dli_fbase);
    char text[32];
    std::snprintf(text, sizeof text, "+0x%zx)", static_cast<std::size_t>(offset));
    const std::string function = function_text(info, offset);
    frame.folded = is_plumbing(file_name(info.dli_fname), function);
    frame.text = function + "(" + object_path(info) + text;
    return frame;
}

// Frames of `addresses`, innermost first; `all`: those of frameworks and interpreters, too.
std::string describe_frames(const std::vector<std::uintptr_t>& addresses, bool all) {
    std::string text;
    std::size_t shown = 0;
    for (const std::uintptr_t address : addresses) {
        const FrameText frame = describe_frame(address);
        if (frame.text.empty() || (shown == 0 && frame.inner) || (frame.folded && !all)) continue;
        if (shown > 0) text += " < ";
        text += frame.text;
        if (++shown == kFramesShown) break;
    }
    return text;
}

}  // namespace

std::string describe_site(std::uint64_t site) {
    {
        Sites& s = sites();
        const std::lock_guard lock(s.mutex);
        const auto python = s.python.find(site);
        if (python != s.python.end() && !python->second.empty()) return python->second;
    }
    const std::vector<std::uintptr_t> addresses = site_addresses(site);
    const std::string text = describe_frames(addresses, false);
    return text.empty() ? describe_frames(addresses, true) : text;
}

}  // namespace swapadvisor
