// mma, wmma, ldmatrix, stmatrix, movmatrix, and the SIMD video instructions.
#include "tests/softgpu/ptx/lower.h"

namespace softgpu::ptx {
namespace {

void flatten(const Operand& o, std::vector<const Operand*>& out) {
    if (o.kind == Operand::vector) {
        for (const Operand& e : o.list) out.push_back(&e);
    } else {
        out.push_back(&o);
    }
}
bool is_shape(const std::string& m) {
    return m.size() > 4 && m[0] == 'm' && m[1] >= '0' && m[1] <= '9';
}

}  // namespace

/// Registers of several operands one after the other; 64-bit ones for f64.
u32 Lowering::register_list(const std::vector<std::pair<const Operand*, bool>>& operands) {
    std::vector<u32> regs;
    for (auto [o, result] : operands) {
        std::vector<const Operand*> parts;
        flatten(*o, parts);
        for (const Operand* e : parts) {
            int bits = operand_bits(*e, 32);
            if (bits != 32 && bits != 64) bad("fragment registers must have 32 or 64 bits");
            regs.push_back(result ? out_bits(*e, bits)
                                  : in(*e, Type{e->kind == Operand::float32   ? 'f'
                                                : e->kind == Operand::float64 ? 'f'
                                                                              : 'b',
                                                bits}));
        }
    }
    return list(std::move(regs));
}

void Lowering::mma(const InstAst& i) {
    const auto& ops = operands(4);
    std::string shape, types;
    for (const std::string& m : i.mods) {
        if (is_shape(m)) shape = m;
    }
    bool b1 = i.has("b1");
    if (i.has("sp") || i.has("block_scale") || i.has("col") == false) unsupported();
    std::string name = "mma." + shape;
    if (b1) {
        name += i.has("and") ? ".and" : ".xor";
    } else {
        // mma.sync.aligned.shape.alayout.blayout[.satfinite].d.a.b.c
        std::vector<std::string> found;
        for (const std::string& m : i.mods) {
            Type t;
            if (parse_type(m, t) || m == "s4" || m == "u4") found.push_back(m);
        }
        if (found.size() != 4) unsupported();
        for (const std::string& t : found) name += "." + t;
    }
    if (!known(name)) unsupported();
    u32 at = register_list({{&ops[0], true}, {&ops[1], false}, {&ops[2], false}, {&ops[3], false}});
    Inst& inst = emit(name, 0, 0, 0, constant(32, kAllLanes), i.has("satfinite") ? 1 : 0);
    inst.list = p_.lists[at].data();
    inst.kind = Kind::warp_sync;
}

void Lowering::wmma(const InstAst& i) {
    const auto& ops = i.operands;
    std::string shape;
    for (const std::string& m : i.mods) {
        if (is_shape(m)) shape = m;
    }
    u32 m = 0, n = 0, k = 0;
    if (std::sscanf(shape.c_str(), "m%un%uk%u", &m, &n, &k) != 3) unsupported();
    if (i.has("mma")) {
        operands(4);
        std::vector<std::string> types;
        for (const std::string& mod : i.mods) {
            Type t;
            if (parse_type(mod, t)) types.push_back(mod);
        }
        std::string name = "wmma." + shape;
        if (types.size() == 2)
            name += "." + types[0] + ".f16.f16." + types[1];
        else if (types.size() == 4)
            name += "." + types[0] + "." + types[1] + "." + types[2] + "." + types[3];
        else
            unsupported();
        if (i.has("satfinite") || !known(name)) unsupported();
        u32 at = register_list({{&ops[0], true}, {&ops[1], false}, {&ops[2], false}, {&ops[3], false}});
        Inst& inst = emit(name, 0, 0, 0, constant(32, kAllLanes));
        inst.list = p_.lists[at].data();
        inst.kind = Kind::warp_sync;
        return;
    }
    bool store = i.has("store");
    if (!store && !i.has("load")) unsupported();
    operands(2, 3);
    const Operand& address = ops[store ? 0 : 1];
    const Operand& fragment = ops[store ? 1 : 0];
    Type t = type_of(i);
    u32 rows = i.has("b") ? k : m, columns = i.has("a") ? k : n;
    if (i.has("a")) rows = m;
    bool by_column = i.has("col");
    int bits = t.kind == 't' ? 32 : t.bits;
    u32 l = register_list({{&fragment, !store}});
    u32 stride = ops.size() > 2 ? in_bits(ops[2], 32) : constant(32, by_column ? rows : columns);
    // All spaces through the generic one.
    Space space = Space::generic;
    for (const std::string& mod : i.mods) {
        if (Space s = parse_space(mod); s != Space::none) space = s;
    }
    u32 a = address_slot(address, space);
    Inst& inst = emit(store ? "wmma.store" : "wmma.load",
                      rows | columns << 8 | (by_column ? 1U << 16 : 0) | u32(bits) << 24, a, stride,
                      constant(32, kAllLanes), address.value);
    inst.list = p_.lists[l].data();
    inst.n = u8(p_.lists[l].size());
    inst.kind = Kind::warp_sync;
}

/// Generic 64-bit address (without its displacement) of an address operand in `space`.
u32 Lowering::address_slot(const Operand& address, Space space) {
    u32 a = 0;
    bool wide = true;
    if (address.reg_id >= 0) {
        a = reg(address.reg_id);
        wide = reg_type(address.reg_id).bits == 64;
    } else if (!address.name.empty()) {
        Operand symbol;
        symbol.kind = Operand::symbol, symbol.name = address.name, symbol.symbol_id = address.symbol_id;
        if (space == Space::generic) {
            Symbol s = address.symbol_id < 0 ? find(address.name) : Symbol{};
            space = s.kind == Symbol::variable ? s.ast->space
                    : address.symbol_id >= 0   ? f_->variables[std::size_t(address.symbol_id)].space
                                               : space;
        }
        a = symbol_slot(symbol, 64);
    } else {
        a = constant(64, 0);
    }
    if (!wide) {
        u32 t = temp(64);
        emit("cvt.b64.u32", t, a);
        a = t;
    }
    u64 window = space == Space::shared ? kSharedWindow : space == Space::local ? kLocalWindow : 0;
    if (window == 0) return a;
    // 64-bit shared addresses may already be generic.
    u32 low = temp(64);
    emit("and.b64", low, a, constant(64, (u64(1) << kWindowShift) - 1));
    u32 t = temp(64);
    emit("add.u64", t, low, constant(64, window));
    return t;
}

void Lowering::matrix_move(const InstAst& i) {
    const auto& ops = operands(2);
    if (i.op == "movmatrix") {
        u32 a = in_bits(ops[1], 32);
        emit("movmatrix.trans", out_bits(ops[0], 32), a, 0, constant(32, kAllLanes)).kind = Kind::warp_sync;
        return;
    }
    bool store = i.op == "stmatrix";
    if (!i.has("m8n8") || type_of(i).bits != 16) unsupported();
    const Operand& address = ops[store ? 0 : 1];
    u32 l = register_list({{&ops[store ? 1 : 0], !store}});
    u32 a = 0;
    bool wide = true;
    if (address.reg_id >= 0)
        a = reg(address.reg_id), wide = reg_type(address.reg_id).bits == 64;
    else
        a = address_slot(address, Space::shared);
    Inst& inst = emit(i.op + (wide ? "64" : "32") + (i.has("trans") ? ".trans" : ""), 0, a, 0,
                      constant(32, kAllLanes), address.value);
    inst.list = p_.lists[l].data();
    inst.n = u8(p_.lists[l].size());
    inst.kind = Kind::warp_sync;
}

/// vadd2/4, vsub2/4, vavrg2/4, vabsdiff2/4, vmin2/4, vmax2/4 without selectors; scalar video forms are out.
void Lowering::video(const InstAst& i) {
    const auto& ops = operands(4);
    bool add = i.has("add");
    std::vector<std::string> types;
    for (const std::string& m : i.mods) {
        Type t;
        if (parse_type(m, t)) types.push_back(m);
    }
    if (types.size() != 3) unsupported();
    u32 a = in_bits(ops[1], 32), b = in_bits(ops[2], 32), c = in_bits(ops[3], 32);
    emit(i.op + "." + types[0] + "." + types[1] + (types[1] == types[2] ? "" : "." + types[2]) +
             (i.has("sat") ? ".sat" : "") + (add ? ".add" : ""),
         out_bits(ops[0], 32), a, b, c);
}

}  // namespace softgpu::ptx
