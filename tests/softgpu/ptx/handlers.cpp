#include "tests/softgpu/ptx/handlers.h"

#include <cstdlib>
#include <string_view>
#include <unordered_map>

#include "tests/softgpu/ptx/builtins.h"

namespace softgpu::ptx {

// clang-format off
#define TABLES(X) \
    X(int) X(bits) X(float) X(round) X(math) X(compare) X(convert) X(memory) X(warp) X(atomic) X(half) X(mma) X(async) \
    X(video)
// clang-format on
#define DECLARE(t) extern const Table table_##t;
namespace base {
TABLES(DECLARE)
}
namespace avx2 {
TABLES(DECLARE)
}

namespace {

bool use_avx2() {
    static const bool yes = [] {
        const char* forced = std::getenv("SOFTGPU_ISA");
        if (forced != nullptr && std::string_view(forced) == "base") return false;
        __builtin_cpu_init();
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
               __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c");
    }();
    return yes;
}

std::unordered_map<std::string, Handler> build() {
    std::unordered_map<std::string, Handler> map;
#define ADD_BASE(t) &base::table_##t,
#define ADD_AVX2(t) &avx2::table_##t,
    const Table* base_tables[] = {TABLES(ADD_BASE)};
    const Table* avx2_tables[] = {TABLES(ADD_AVX2)};
    for (const Table* t : use_avx2() ? avx2_tables : base_tables) {
        for (std::size_t k = 0; k < t->count; ++k) map.emplace(t->entries[k].name, t->entries[k].fn);
    }
    for (std::size_t k = 0; k < builtin_table.count; ++k)
        map.emplace(builtin_table.entries[k].name, builtin_table.entries[k].fn);
    return map;
}

}  // namespace

Handler find_handler(const std::string& name) {
    static const auto& map = *new std::unordered_map<std::string, Handler>(build());
    auto it = map.find(name);
    return it == map.end() ? nullptr : it->second;
}

const char* handler_isa() {
    return use_avx2() ? "avx2" : "base";
}

}  // namespace softgpu::ptx
