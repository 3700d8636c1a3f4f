#include "recorder/python_stack.h"

#include <dlfcn.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <vector>

namespace swapadvisor {
namespace {

constexpr std::size_t kLongestText = 1 << 12, kLongestTable = 1 << 20;
constexpr std::size_t kLinesShown = 4;

// Offsets in bytes, by CPython's headers of each version.
struct Layout {
    const char* version;
    std::size_t thread_to_cframe, cframe_to_frame;
    std::size_t frame_to_code, frame_to_previous, frame_to_instruction;
    std::size_t first_line, file_name, qualified_name, line_table, instructions;
    std::size_t text;  // of a string in ASCII
};
constexpr Layout kLayouts[] = {
    {"3.11.", 56, 8, 32, 48, 56, 72, 112, 128, 136, 184, 48},
    {"3.12.", 56, 0, 0, 8, 56, 68, 112, 128, 136, 192, 40},
};
constexpr std::size_t kType = 8, kStringLength = 16, kBytesSize = 16, kBytes = 32;  // in every version

struct Interpreter {
    const Layout* layout = nullptr;  // null: none that is known
    void* (*thread)() = nullptr;
    std::uintptr_t code_type = 0, text_type = 0, bytes_type = 0;

    Interpreter() {
        const auto version = reinterpret_cast<const char* (*)()>(dlsym(RTLD_DEFAULT, "Py_GetVersion"));
        thread = reinterpret_cast<void* (*)()>(dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState"));
        const auto address = [](const char* name) {
            return reinterpret_cast<std::uintptr_t>(dlsym(RTLD_DEFAULT, name));
        };
        code_type = address("PyCode_Type");
        text_type = address("PyUnicode_Type");
        bytes_type = address("PyBytes_Type");
        if (!version || !thread || !code_type || !text_type || !bytes_type) return;
        for (const Layout& known : kLayouts)
            if (std::strncmp(version(), known.version, std::strlen(known.version)) == 0) layout = &known;
    }
};

const Interpreter& interpreter() {
    static const Interpreter one;
    return one;
}

// False instead of a fault where nothing is mapped.
bool read_memory(std::uintptr_t address, void* out, std::size_t bytes) {
    iovec to{out, bytes}, from{reinterpret_cast<void*>(address), bytes};
    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == static_cast<ssize_t>(bytes);
}
bool read_word(std::uintptr_t address, std::uintptr_t& out) {
    return read_memory(address, &out, sizeof out);
}
bool has_type(std::uintptr_t object, std::uintptr_t type) {
    std::uintptr_t seen = 0;
    return object != 0 && read_word(object + kType, seen) && seen == type;
}

std::uintptr_t word_at(std::uintptr_t address) {
    return *reinterpret_cast<const std::uintptr_t*>(address);
}

bool is_code(const Interpreter& py, std::uintptr_t code) {
    const Layout& at = *py.layout;
    std::uintptr_t file = 0, name = 0, table = 0;
    return has_type(code, py.code_type) && read_word(code + at.file_name, file) &&
           read_word(code + at.qualified_name, name) && read_word(code + at.line_table, table) &&
           has_type(file, py.text_type) && has_type(name, py.text_type) && has_type(table, py.bytes_type);
}

// Walks once by reading that cannot fault.
bool layout_holds(const Interpreter& py, std::uintptr_t thread) {
    const Layout& at = *py.layout;
    std::uintptr_t cframe = 0, frame = 0;
    if (!read_word(thread + at.thread_to_cframe, cframe) || !read_word(cframe + at.cframe_to_frame, frame))
        return false;
    constexpr int kDeepest = 1 << 16;
    std::uintptr_t code = 0, instruction = 0;
    for (int i = 0; frame != 0; ++i)
        if (i == kDeepest || !read_word(frame + at.frame_to_code, code) || !is_code(py, code) ||
            !read_word(frame + at.frame_to_instruction, instruction) ||
            !read_word(frame + at.frame_to_previous, frame))
            return false;
    return true;
}

std::string text_of(const Interpreter& py, std::uintptr_t string) {
    std::uintptr_t length = 0;
    if (!has_type(string, py.text_type) || !read_word(string + kStringLength, length)) return "";
    std::string text(std::min<std::size_t>(length, kLongestText), '\0');
    if (text.empty() || !read_memory(string + py.layout->text, text.data(), text.size())) return "";
    for (const char c : text)
        if (c < 0x20 || c > 0x7E) return "?";  // no ASCII: laid out otherwise
    return text;
}

struct Place {
    std::string file, function;
    int line = 0;
    std::string text() const {
        const std::size_t slash = file.rfind('/');
        std::string out = function + " " + (slash == std::string::npos ? file : file.substr(slash + 1));
        return line > 0 ? out + ":" + std::to_string(line) : out;
    }
    /// Of Python itself or of a package: not what the user wrote.
    bool installed() const {
        for (const char* part : {"/site-packages/", "/dist-packages/", "/lib/python3"})
            if (file.find(part) != std::string::npos) return true;
        return made_up();
    }
    /// Code that came from no file: made by a package, or the command line's.
    bool made_up() const { return file.starts_with("<"); }
    /// The same on the way to every allocation.
    bool plumbing() const {
        for (const char* part : {"alloc", "_call_impl", "wrapper", "<locals>", "__call__"})
            if (function.find(part) != std::string::npos) return true;
        return made_up();
    }
};

Place place_of(const PythonFrame& frame) {
    Place place;
    const Interpreter& py = interpreter();
    if (!py.layout || !is_code(py, frame.code)) return place;
    const Layout& at = *py.layout;
    place.file = text_of(py, word_at(frame.code + at.file_name));
    place.function = text_of(py, word_at(frame.code + at.qualified_name));
    const std::uintptr_t table = word_at(frame.code + at.line_table);
    const std::size_t bytes = word_at(table + kBytesSize);
    if (bytes > kLongestTable) return place;
    int first = 0;
    std::memcpy(&first, reinterpret_cast<const void*>(frame.code + at.first_line), sizeof first);
    place.line =
        python_line(reinterpret_cast<const unsigned char*>(table + kBytes), bytes, first, frame.offset);
    return place;
}

}  // namespace

__attribute__((no_sanitize("address", "thread"))) std::size_t python_stack(PythonFrame* frames,
                                                                           std::size_t capacity) noexcept {
    const Interpreter& py = interpreter();
    if (!py.layout) return 0;
    const auto thread = reinterpret_cast<std::uintptr_t>(py.thread());
    if (thread == 0) return 0;
    enum : int { unknown, holds, other };
    static std::atomic<int> state{unknown};
    if (state.load(std::memory_order_relaxed) == unknown)
        state.store(layout_holds(py, thread) ? holds : other, std::memory_order_relaxed);
    if (state.load(std::memory_order_relaxed) != holds) return 0;
    const Layout& at = *py.layout;
    const std::uintptr_t cframe = word_at(thread + at.thread_to_cframe);
    if (cframe == 0) return 0;
    std::size_t count = 0;
    for (std::uintptr_t frame = word_at(cframe + at.cframe_to_frame); frame != 0 && count < capacity;
         frame = word_at(frame + at.frame_to_previous)) {
        const std::uintptr_t code = word_at(frame + at.frame_to_code);
        if (code == 0 || word_at(code + kType) != py.code_type) continue;
        frames[count++] = {code, word_at(frame + at.frame_to_instruction) - code - at.instructions};
    }
    return count;
}

int python_line(const unsigned char* table, std::size_t bytes, int first_line, std::size_t offset) {
    constexpr std::size_t kUnit = 2;  // bytes of an instruction
    constexpr unsigned kNoPlace = 15, kLong = 14, kNoColumns = 13, kOneLine = 10;
    std::size_t at = 0, end = 0;
    const auto varint = [&] {
        unsigned value = 0;
        for (unsigned shift = 0; at < bytes && shift < 30; shift += 6) {
            const unsigned char byte = table[at++];
            value |= (byte & 0x3Fu) << shift;
            if ((byte & 0x40) == 0) break;
        }
        return value;
    };
    const auto signed_varint = [&] {
        const unsigned value = varint();
        return (value & 1) != 0 ? -static_cast<int>(value >> 1) : static_cast<int>(value >> 1);
    };
    int line = first_line;
    while (at < bytes) {
        const unsigned char head = table[at++];
        const unsigned kind = head >> 3 & 15;
        end += ((head & 7u) + 1) * kUnit;
        if (kind == kLong) {
            line += signed_varint();
            varint();
            varint();
            varint();
        } else if (kind == kNoColumns) {
            line += signed_varint();
        } else if (kind >= kOneLine && kind < kNoColumns) {
            line += static_cast<int>(kind - kOneLine);
            at += 2;
        } else if (kind < kOneLine) {
            at += 1;
        }
        if (offset < end) return kind == kNoPlace ? 0 : line;
    }
    return 0;
}

std::string describe_python_frame(const PythonFrame& frame) {
    const Place place = place_of(frame);
    return place.file.empty() ? "" : place.text();
}

std::string describe_python_stack(const PythonFrame* frames, std::size_t count) {
    std::vector<Place> places;
    for (std::size_t i = 0; i < count; ++i)
        if (Place place = place_of(frames[i]); !place.file.empty()) places.push_back(std::move(place));
    bool own = false;
    for (const Place& place : places) own = own || !place.installed();
    std::string text;
    std::size_t shown = 0;
    bool inner = false;  // a package's frame was shown
    for (const Place& place : places) {
        if (own && place.installed() && (inner || shown > 0 || place.plumbing())) continue;
        inner = inner || place.installed();
        if (shown++ > 0) text += " < ";
        text += place.text();
        if (shown == kLinesShown) break;
    }
    return text;
}

}  // namespace swapadvisor
