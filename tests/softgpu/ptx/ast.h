// Parsed PTX, before lowering: names resolved to registers, symbols and labels, nothing executed yet.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/softgpu/ptx/engine.h"

namespace softgpu::ptx {

[[noreturn]] void fail(int line, const std::string& text);
[[noreturn]] void fail_unsupported(int line, const std::string& text);

/// A PTX fundamental type: kind 'b' 'u' 's' 'f' 'p' (predicate) or 'h' (bfloat16), and its width.
struct Type {
    char kind = 'b';
    int bits = 32;
    int packed = 1;  ///< 2 for .f16x2 / .bf16x2 and the like (bits is then the whole width)
    bool operator==(const Type&) const = default;
};

/// ".u32" or "u32" to a type; false when it is not a type name.
bool parse_type(std::string_view text, Type& type);

enum class Space : std::uint8_t { none, reg, global, shared, local, constant, param, generic };
/// "shared", ".shared::cta" ... to a space; none when it is not a space name.
Space parse_space(std::string_view word);

struct Operand {
    enum Kind : std::uint8_t {
        none,
        reg,
        integer,
        float32,
        float64,
        symbol,
        address,
        vector,
        special,
        sink,
        label
    };
    Kind kind = none;
    bool negated = false;    ///< !%p
    int reg_id = -1;         ///< reg, or base register of an address
    int reg2 = -1;           ///< second predicate of "%p|%q" (-2: sink)
    std::int64_t value = 0;  ///< integer; bits of a float; offset of a symbol or address
    std::string name;        ///< symbol, special register, label, or base symbol of an address
    int symbol_id = -1;  ///< function-level variable (index in FunctionAst::variables), -1 for module scope
    std::vector<Operand> list;
};

struct InstAst {
    int line = 0;
    int guard = -1;  ///< predicate register
    bool guard_negated = false;
    std::string op;                 ///< first part: "add", "ld"
    std::vector<std::string> mods;  ///< what follows, without dots
    std::vector<Operand> operands;
    std::string text() const;  ///< "ld.global.u32"
    bool has(std::string_view mod) const;
};

/// A variable of any scope: .shared/.local/.param/.global/.const.
struct VariableAst {
    std::string name;
    Space space = Space::none;
    Type type;
    std::uint64_t align = 1, size = 0;
    bool external = false, weak = false, visible = false, common = false, managed = false;
    bool unsized = false;  ///< "name[]"
    int line = 0;
    std::vector<unsigned char> init;
    struct Relocation {
        std::uint64_t offset = 0;
        std::string symbol;
        std::int64_t addend = 0;
        int bytes = 8;
        bool generic = false;
        int mask_shift = -1;  ///< 0xFF(symbol) style byte selections, -1 for none
    };
    std::vector<Relocation> relocations;
};

struct RegisterAst {
    std::string name;
    Type type;
};

struct PrototypeAst {
    std::vector<VariableAst> results, params;
};

struct FunctionAst {
    std::string name;
    int line = 0;
    bool entry = false, external = false, weak = false, visible = false, has_body = false;
    std::vector<VariableAst> results, params;  ///< also first in `variables`
    std::vector<VariableAst> variables;        ///< .param, .local and .shared of the body
    std::vector<RegisterAst> registers;
    std::vector<InstAst> body;
    std::unordered_map<std::string, int> labels;  ///< label -> index in body
    std::unordered_map<std::string, std::vector<std::string>> branch_targets;
    std::unordered_map<std::string, PrototypeAst> prototypes;
    std::array<std::uint32_t, 3> max_block{0, 0, 0};
    std::array<std::uint32_t, 3> required_cluster{0, 0, 0};
};

struct ModuleAst {
    int version = 0, target = 0;
    std::string file_name;
    std::vector<VariableAst> variables;
    std::vector<std::unique_ptr<FunctionAst>> functions;
    std::map<std::string, std::string> aliases;
};

std::unique_ptr<ModuleAst> parse(const std::string& text);

}  // namespace softgpu::ptx
