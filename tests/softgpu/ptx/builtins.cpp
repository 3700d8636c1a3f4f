// Device runtime functions (printf, assert) and clocks: handlers that need the launch, so not per instruction
// set.
#include "tests/softgpu/ptx/builtins.h"

#include <cstdio>
#include <cstring>

#include "tests/softgpu/ptx/exec.h"
#include "tests/softgpu/ptx/linker.h"

namespace softgpu::ptx {
namespace {

u64 word_value(const Warp& w, u32 area, u32 bytes, u32 lane) {
    u64 v = 0;
    for (u32 k = 0; k < bytes; k += 4) {
        u32 part;
        std::memcpy(&part, w.regs + area + (k / 4) * 128 + lane * 4, 4);
        v |= u64(part) << (8 * k);
    }
    return v;
}
void set_word(Warp& w, u32 area, u32 lane, u32 value) {
    if (area != ~0U) std::memcpy(w.regs + area + lane * 4, &value, 4);
}

/// Reads device memory of any space, byte by byte.
u8 device_byte(Warp& w, u32 lane, u64 address) {
    u64 window = address >> kWindowShift, at = address & ((u64(1) << kWindowShift) - 1);
    if (window == 0) {
        if (!check_range(w, address, 1, false)) raise_illegal(w, lane, address, 1, false, "global");
        return *reinterpret_cast<const u8*>(address);
    }
    if (window == kSharedWindow >> kWindowShift && at < w.shared_bytes) return w.shared[at];
    if (window == kLocalWindow >> kWindowShift && at < w.local_bytes) {
        return w.local[(at & ~u64(3)) * kLanes + lane * 4 + (at & 3)];
    }
    if (window == kParamWindow >> kWindowShift && at < w.param_bytes) return w.params[at];
    raise_illegal(w, lane, address, 1, false, "generic");
}
u64 device_value(Warp& w, u32 lane, u64 address, u32 bytes) {
    u64 v = 0;
    for (u32 k = 0; k < bytes; ++k) v |= u64(device_byte(w, lane, address + k)) << (8 * k);
    return v;
}
std::string device_string(Warp& w, u32 lane, u64 address) {
    std::string s;
    if (address == 0) return "(null)";
    for (;; ++address) {
        char c = char(device_byte(w, lane, address));
        if (c == 0 || s.size() > (1U << 20)) return s;
        s += c;
    }
}

/// printf's format against a buffer of arguments: 32-bit ones at multiples of 4, 64-bit ones of 8. Returns
/// how many.
std::string format(Warp& w, u32 lane, const std::string& f, u64 args, int& count) {
    std::string out;
    count = 0;
    auto next = [&](u32 bytes) {
        args = (args + bytes - 1) / bytes * bytes;
        u64 v = device_value(w, lane, args, bytes);
        args += bytes;
        return v;
    };
    for (std::size_t k = 0; k < f.size(); ++k) {
        if (f[k] != '%') {
            out += f[k];
            continue;
        }
        std::string spec = "%";
        int longs = 0;
        bool wide = false;
        for (++k; k < f.size() && std::strchr("-+ #0123456789.*", f[k]) != nullptr; ++k) {
            if (f[k] == '*')
                spec += std::to_string(int(next(4)));
            else
                spec += f[k];
        }
        for (; k < f.size() && std::strchr("hljztL", f[k]) != nullptr; ++k) {
            if (f[k] == 'l') ++longs;
            if (f[k] == 'j' || f[k] == 'z' || f[k] == 't') wide = true;
        }
        if (k >= f.size()) {
            out += spec;
            break;
        }
        char c = f[k];
        char text[512];
        text[0] = 0;
        if (c == '%') {
            out += '%';
            continue;
        }
        ++count;
        bool is64 = longs > 0 || wide;
        switch (c) {
            case 'd':
            case 'i': {
                auto v = is64 ? i64(next(8)) : i64(i32(next(4)));
                std::snprintf(text, sizeof text, (spec + "ll" + c).c_str(), static_cast<long long>(v));
                break;
            }
            case 'u':
            case 'x':
            case 'X':
            case 'o': {
                u64 v = is64 ? next(8) : next(4);
                std::snprintf(text, sizeof text, (spec + "ll" + c).c_str(),
                              static_cast<unsigned long long>(v));
                break;
            }
            case 'c':
                std::snprintf(text, sizeof text, (spec + c).c_str(), int(next(4)));
                break;
            case 'p':
                std::snprintf(text, sizeof text, (spec + c).c_str(), reinterpret_cast<void*>(next(8)));
                break;
            case 's': {
                std::string s = device_string(w, lane, next(8));
                int n = std::snprintf(nullptr, 0, (spec + c).c_str(), s.c_str());
                std::string big(std::size_t(std::max(n, 0)) + 1, 0);
                std::snprintf(big.data(), big.size(), (spec + c).c_str(), s.c_str());
                big.pop_back();
                out += big;
                continue;
            }
            case 'e':
            case 'E':
            case 'f':
            case 'F':
            case 'g':
            case 'G':
            case 'a':
            case 'A': {
                u64 bits = next(8);
                double v;
                std::memcpy(&v, &bits, 8);
                std::snprintf(text, sizeof text, (spec + c).c_str(), v);
                break;
            }
            default:
                out += spec + c;
                continue;
        }
        out += text;
    }
    return out;
}

void call_vprintf(Warp& w, const Inst& i, u32 mask) {
    std::string all;
    for (u32 l = 0; l < u32(kLanes); ++l) {
        if (((mask >> l) & 1) == 0) continue;
        std::string f = device_string(w, l, word_value(w, i.list[1], 8, l));
        int count = 0;
        all += format(w, l, f, word_value(w, i.list[2], 8, l), count);
        set_word(w, i.list[0], l, u32(count));
    }
    w.worker->launch->memory->print(all);
}

/// __assertfail(message, file, line, function, char size)
void call_assertfail(Warp& w, const Inst& i, u32 mask) {
    u32 l = u32(__builtin_ctz(mask));
    const BlockState& b = *w.block;
    const auto& block = w.worker->launch->config->block;
    u32 t = w.index * kLanes + l;
    std::string text = device_string(w, l, word_value(w, i.list[2], 8, l)) + ":" +
                       std::to_string(word_value(w, i.list[3], 4, l)) + ": " +
                       device_string(w, l, word_value(w, i.list[4], 8, l)) + ": block: [" +
                       std::to_string(b.ctaid[0]) + "," + std::to_string(b.ctaid[1]) + "," +
                       std::to_string(b.ctaid[2]) + "], thread: [" + std::to_string(t % block[0]) + "," +
                       std::to_string(t / block[0] % block[1]) + "," +
                       std::to_string(t / block[0] / block[1]) + "] Assertion `" +
                       device_string(w, l, word_value(w, i.list[1], 8, l)) + "` failed.";
    w.worker->launch->memory->print(text + "\n");
    throw FaultError{Fault::assert_failed, 0, text, w.index, l, static_cast<WarpState&>(w).current};
}

void call_malloc(Warp& w, const Inst& i, u32 mask) {
    const Launch& launch = *w.worker->launch;
    for (u32 l = 0; l < u32(kLanes); ++l) {
        if (((mask >> l) & 1) == 0) continue;
        u64 p = launch.module->heap_allocate(word_value(w, i.list[1], 8, l), *launch.memory);
        set_word(w, i.list[0], l, u32(p));
        set_word(w, i.list[0] + 128, l, u32(p >> 32));
    }
}
void call_free(Warp& w, const Inst& i, u32 mask) {
    for (u32 l = 0; l < u32(kLanes); ++l) {
        if ((mask >> l) & 1) w.worker->launch->module->heap_free(word_value(w, i.list[1], 8, l));
    }
}

/// An instruction takes a cycle, and the clock runs at one gigahertz.
u64 cycles(const Warp& w) {
    return static_cast<const WarpState&>(w).warp_instructions;
}
u64 nanoseconds(const Warp& w) {
    return w.worker->launch->config->clock_base_ns + cycles(w);
}

template <class T, u64 (*Time)(const Warp&), int Shift>
void read_time(Warp& w, const Inst& i, u32 mask) {
    T v = T(Time(w) >> Shift);
    for (u32 l = 0; l < u32(kLanes); ++l) {
        if ((mask >> l) & 1) std::memcpy(w.regs + i.d + l * sizeof(T), &v, sizeof(T));
    }
}

const TableEntry kEntries[] = {
    {"call.vprintf", call_vprintf},
    {"call.__assertfail", call_assertfail},
    {"call.malloc", call_malloc},
    {"call.free", call_free},
    {"clock.b32", read_time<u32, cycles, 0>},
    {"clock.b64", read_time<u64, cycles, 0>},
    {"clock_hi.b32", read_time<u32, cycles, 32>},
    {"globaltimer.b32", read_time<u32, nanoseconds, 0>},
    {"globaltimer.b64", read_time<u64, nanoseconds, 0>},
    {"globaltimer_hi.b32", read_time<u32, nanoseconds, 32>},
};

}  // namespace

const Table builtin_table{kEntries, sizeof(kEntries) / sizeof(kEntries[0])};

}  // namespace softgpu::ptx
