// ld, st, ldu, atom, red, cvta, isspacep, prefetch.
#include "tests/softgpu/ptx/lower.h"

namespace softgpu::ptx {
namespace {

/// Type name of a memory access in handler names: b and f count as unsigned.
std::string memory_type(const Type& t) {
    if (t.bits == 128) return "b128";
    return std::string(t.kind == 's' && t.bits < 64 && t.bits != 0 ? "s" : "u") + std::to_string(t.bits);
}

int vector_length(const InstAst& i) {
    return i.has("v2") ? 2 : i.has("v4") ? 4 : i.has("v8") ? 8 : 1;
}

}  // namespace

void Lowering::load_store(const InstAst& i) {
    bool store = i.op == "st";
    operands(2, 3);  // a cache policy may follow
    const Operand& address = i.operands[store ? 0 : 1];
    const Operand& given = i.operands[store ? 1 : 0];
    // A vector of one in braces is its element; Triton writes all its loads and stores so.
    const Operand& data = given.kind == Operand::vector && given.list.size() == 1 ? given.list[0] : given;
    if (address.kind != Operand::address) bad("expected an address in brackets");
    Type type = type_of(i);
    int n = vector_length(i);
    Space space = Space::generic;
    for (const std::string& m : i.mods) {
        if (Space s = parse_space(m); s != Space::none) {
            space = s;
            break;
        }
    }
    if (n > 1 && (data.kind != Operand::vector || int(data.list.size()) != n))
        bad("expected a vector of " + std::to_string(n));
    if (space == Space::param && address.reg_id < 0 && address.symbol_id >= 0) {
        const VariableAst& v = f_->variables[std::size_t(address.symbol_id)];
        if (v.space == Space::param && !(f_->entry && address.symbol_id < int(f_->params.size()))) {
            return param_words(i, store, address.symbol_id, address.value, type, n);
        }
    }
    // Register width: the first one that is no sink decides.
    int width = type.bits < 16 ? 16 : type.bits;
    auto widen = [&](const Operand& o) {
        if (o.kind == Operand::reg)
            width = reg_type(o.reg_id).kind == 'p' ? 0 : std::max(16, reg_type(o.reg_id).bits);
    };
    if (n == 1) widen(data);
    for (const Operand& o : data.list) widen(o);
    if (width < type.bits) bad("register narrower than the access");
    if (width == 128 && type.bits != 128) bad("register wider than 64 bits");
    Type whole{'b', width};

    std::vector<u32> regs;
    auto one = [&](const Operand& o) {
        if (store) return in(o, o.kind == Operand::reg ? whole : Type{type.kind, width});
        return o.kind == Operand::sink ? ~0U : out(o, whole);
    };
    if (n == 1) {
        u32 r = one(data);
        regs.push_back(r == ~0U ? temp(width) : r);
    }
    for (const Operand& o : data.list) regs.push_back(one(o));

    Type access = type;
    if (store && type.kind == 's') access.kind = 'u';
    if (type.kind == 's' && width == type.bits) access.kind = 'u';
    std::string suffix = "." + memory_type(access) + ".b" + std::to_string(width);
    std::string op = store ? "st." : "ld.";
    u32 a = 0;
    i64 displacement = address.value;
    bool wide = true;
    std::string where;
    if (address.reg_id >= 0) {
        a = reg(address.reg_id);
        wide = reg_type(address.reg_id).bits == 64;
        if (!wide && reg_type(address.reg_id).bits != 32) bad("address register must have 32 or 64 bits");
    } else if (!address.name.empty()) {
        Operand symbol;
        symbol.kind = Operand::symbol, symbol.name = address.name, symbol.symbol_id = address.symbol_id;
        if (space == Space::generic) {
            // A symbol in a generic access means its address in its own space.
            Symbol s = address.symbol_id < 0 ? find(address.name) : Symbol{};
            if (address.symbol_id >= 0)
                space = f_->variables[std::size_t(address.symbol_id)].space;
            else if (s.kind == Symbol::variable)
                space = s.ast->space;
        }
        if (space == Space::param && f_->entry) {
            i64 at = i64(symbol_value(symbol) - kParamWindow) + displacement;
            const FunctionAst& f = *f_;
            u64 total = 0;
            for (const VariableAst& v : f.params) total = (total + v.align - 1) / v.align * v.align + v.size;
            if (at < 0 || u64(at) + u64(type.bits / 8 * n) > total) bad("reads beyond the parameters");
            if (store) bad("parameters of kernels are read-only");
            u32 l = list(regs);
            Inst& inst = emit("ld.param" + suffix, regs[0], 0, 0, 0, at);
            inst.n = u8(n);
            inst.list = p_.lists[l].data();
            return;
        }
        a = symbol_slot(symbol, space == Space::shared || space == Space::local ? 32 : 64);
        wide = !(space == Space::shared || space == Space::local);
    } else {
        a = constant(64, 0);
    }
    switch (space) {
        case Space::global:
        case Space::constant:
            where = "global";
            break;
        case Space::generic:
            where = "generic";
            break;
        case Space::shared:
            where = wide ? "shared64" : "shared32";
            break;
        case Space::local:
            where = wide ? "local64" : "local32";
            break;
        case Space::param:
            if (!f_->entry)
                fail_unsupported(i.line, i.text() + " at a computed address in a device function");
            where = "param_at";
            break;
        default:
            unsupported();
    }
    if (!wide && (where == "global" || where == "generic" || where == "param_at")) {
        u32 t = temp(64);
        emit("cvt.b64.u32", t, a);
        a = t;
    }
    if (i.has("shared::cluster") && known(op + "generic" + suffix)) {
        where = "generic";
        u32 t = temp(64);
        if (wide)
            emit("add.u64", t, a, constant(64, kSharedWindow));
        else
            emit("cvt.b64.u32", t, a), emit("add.u64", t, t, constant(64, kSharedWindow));
        a = t;
    }
    u32 l = list(regs);
    Inst& inst = store ? emit(op + where + suffix, 0, a, regs[0], 0, displacement)
                       : emit(op + where + suffix, regs[0], a, 0, 0, displacement);
    inst.n = u8(n);
    inst.list = p_.lists[l].data();
    if (!store && (i.has("volatile") || i.has("acquire") || i.has("relaxed"))) inst.kind = Kind::yielding;
}

/// ld.param and st.param of the parameter areas of calls and device functions.
void Lowering::param_words(const InstAst& i, bool store, int variable, i64 offset, const Type& type, int n) {
    const VariableAst& v = f_->variables[std::size_t(variable)];
    const Operand& data = i.operands[store ? 1 : 0];
    i64 bytes = type.bits / 8;
    if (offset < 0 || offset + bytes * n > i64((v.size + 3) / 4 * 4)) bad("beyond parameter " + v.name);
    u32 area = variables_[std::size_t(variable)];
    for (int k = 0; k < n; ++k) {
        const Operand& o = n == 1 ? data : data.list[std::size_t(k)];
        if (!store && o.kind == Operand::sink) continue;
        int width = std::max(16, operand_bits(o, std::max(16, type.bits)));
        i64 at = offset + bytes * k;
        Type whole{'b', width};
        u32 r = store ? in(o, o.kind == Operand::reg ? whole : Type{type.kind, width}) : out(o, whole);
        if (type.bits == 32 && width == 32) {
            u32 word = area + u32(at / 4) * 128;
            if (store)
                emit("mov.b32", word, r);
            else
                emit("mov.b32", r, word);
            continue;
        }
        Type access = type;
        if (store || width == type.bits) access.kind = 'u';
        std::string suffix = memory_type(access) + ".b" + std::to_string(width);
        if (store)
            emit("st.words." + suffix, area, r, 0, 0, at);
        else
            emit("ld.words." + suffix, r, area, 0, 0, at);
    }
}

void Lowering::atomic(const InstAst& i) {
    bool red = i.op == "red";
    std::size_t at = red ? 0 : 1;
    const auto& ops = i.operands;
    if (ops.size() < at + 2) bad("has too few operands");
    const Operand& address = ops[at];
    if (address.kind != Operand::address) bad("expected an address in brackets");
    Type type = type_of(i);
    Space space = Space::generic;
    std::string op;
    for (const std::string& m : i.mods) {
        if (Space s = parse_space(m); s != Space::none) space = s;
        for (const char* name : {"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"}) {
            if (m == name) op = name;
        }
    }
    if (op == "and" || op == "or" || op == "xor" || op == "exch" || op == "cas") type.kind = 'b';
    std::string name = (type.kind == 'h' ? "bf" : std::string(1, type.kind)) +
                       (type.packed == 2 ? "16x2" : std::to_string(type.bits));
    Type data{'b', type.bits};
    u32 a = 0;
    bool wide = true;
    if (address.reg_id >= 0) {
        a = reg(address.reg_id);
        wide = reg_type(address.reg_id).bits == 64;
    } else {
        Operand symbol;
        symbol.kind = Operand::symbol, symbol.name = address.name, symbol.symbol_id = address.symbol_id;
        if (space == Space::generic) {
            Symbol s = address.symbol_id < 0 ? find(address.name) : Symbol{};
            space = s.kind == Symbol::variable ? s.ast->space : Space::shared;
        }
        wide = space != Space::shared;
        a = symbol_slot(symbol, wide ? 64 : 32);
    }
    std::string where = space == Space::shared   ? (wide ? "shared64" : "shared32")
                        : space == Space::global ? "global"
                                                 : "generic";
    if (space == Space::shared && i.has("shared::cluster")) {
        u32 t = temp(64);
        if (!wide) emit("cvt.b64.u32", t, a), a = t;
        emit("add.u64", t, a, constant(64, kSharedWindow));
        a = t, where = "generic";
    }
    int n = vector_length(i);
    if (n > 1) {
        // Element by element: the vector form promises no more.
        for (int k = 0; k < n; ++k) {
            u32 b = in(ops[at + 1].list[std::size_t(k)], data);
            u32 d = red ? ~0U : out(ops[0].list[std::size_t(k)], data);
            emit("atom." + where + "." + op + "." + name, d, a, b, b, address.value + k * type.bits / 8);
        }
        return;
    }
    u32 b = in(ops[at + 1], data);
    u32 c = op == "cas" ? (ops.size() > at + 2 ? in(ops[at + 2], data) : (bad("needs two values"), 0)) : b;
    u32 d = red || ops[0].kind == Operand::sink ? ~0U : out(ops[0], data);
    Inst& inst = emit("atom." + where + "." + op + "." + name, d, a, b, c, address.value);
    if (d != ~0U) inst.kind = Kind::yielding;
}

void Lowering::address_convert(const InstAst& i) {
    const auto& ops = operands(2);
    bool to = i.has("to");
    Type type = type_of(i);
    Space space = Space::none;
    for (const std::string& m : i.mods) {
        if (Space s = parse_space(m); s != Space::none) space = s;
    }
    u64 window = space == Space::shared ? kSharedWindow : space == Space::local ? kLocalWindow : 0;
    u32 a = in_bits(ops[1], type.bits);
    u32 d = out_bits(ops[0], type.bits);
    if (space == Space::none) unsupported();
    // Kernel parameters keep their window in either form.
    if (window == 0)
        emit("mov.b" + std::to_string(type.bits), d, a);
    else if (type.bits != 64)
        unsupported();
    else if (to)
        emit("and.b64", d, a, constant(64, (u64(1) << kWindowShift) - 1));
    else
        emit("add.u64", d, a, constant(64, window));
}

void Lowering::is_space(const InstAst& i) {
    const auto& ops = operands(2);
    u32 a = in_bits(ops[1], operand_bits(ops[1], 64));
    u32 d = out(ops[0], Type{'p', 1});
    u64 window = i.has("shared") || i.has("shared::cta") || i.has("shared::cluster") ? kSharedWindow
                 : i.has("local")                                                    ? kLocalWindow
                 : i.has("param") || i.has("param::entry")                           ? kParamWindow
                                                                                     : 0;
    if (operand_bits(ops[1], 64) != 64) unsupported();
    u32 t = temp(64);
    emit("shr.u64", t, a, constant(32, kWindowShift));
    // Constant variables live in global memory here.
    emit("setp.eq.u64", d, t, constant(64, i.has("const") ? ~u64(0) : window >> kWindowShift));
}

}  // namespace softgpu::ptx
