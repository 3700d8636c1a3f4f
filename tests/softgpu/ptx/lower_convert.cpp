// cvt in all its forms: narrowing steps around the handlers of ops_convert.cpp and ops_round.cpp.
#include "tests/softgpu/ptx/lower.h"

namespace softgpu::ptx {
namespace {

bool is_int(const Type& t) {
    return t.kind == 'u' || t.kind == 's' || t.kind == 'b';
}
int register_bits(int bits) {
    return bits < 16 ? 16 : bits;
}
std::string int_name(char kind, int bits) {
    return std::string(1, kind == 's' ? 's' : 'u') + std::to_string(bits);
}
std::string short_name(const Type& t) {
    if (t.kind == 'e') return "e4m3x2";
    if (t.kind == 'E') return "e5m2x2";
    if (t.kind == 't') return "tf32";
    std::string prefix = t.kind == 'h' ? "bf" : std::string(1, t.kind);
    return t.packed == 2 ? prefix + "16x2" : prefix + std::to_string(t.bits);
}

}  // namespace

void Lowering::convert(const InstAst& i) {
    if (i.has("pack")) return convert_pack(i);
    const auto& ops = operands(2, 3);
    Type from = type_of(i, 0), to = type_of(i, 1);
    if (from.kind == 'b') from.kind = 'u';
    if (to.kind == 'b') to.kind = 'u';
    std::string round, flags;
    for (const char* m : {"rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi"}) {
        if (i.has(m)) round = m;
    }
    bool sat = i.has("sat"), ftz = i.has("ftz");
    if (i.has("satfinite")) flags += ".satfinite";
    if (i.has("relu")) flags += ".relu";

    // Formats packed in pairs and tf32: by name.
    if (to.packed == 2 || from.packed == 2 || to.kind == 't') {
        std::string name = "cvt." + round + flags + "." + short_name(to) + "." + short_name(from);
        int from_bits = from.bits == 32 || from.kind == 'f' ? 32 : 16;
        if (from.kind == 'e' || from.kind == 'E') from_bits = 16;
        u32 a = in_bits(ops[1], from_bits), b = ops.size() > 2 ? in_bits(ops[2], from_bits) : 0;
        emit(name, out_bits(ops[0], to.bits), a, b);
        return;
    }
    operands(2);

    // The source at its natural width; floats of 16 bits become single first (exact).
    int from_width = register_bits(from.bits);
    int have = ops[1].kind == Operand::reg ? register_bits(reg_type(ops[1].reg_id).bits) : from_width;
    u32 a = in(ops[1], Type{ops[1].kind == Operand::reg ? 'b' : from.kind, have});
    if (is_int(from)) {
        if (have < from_width) bad("source register narrower than the type");
        if (have > from_width || from.bits < 16) {
            // Bring the low bits to the front: extend in place, then go on at the register's width.
            u32 t = temp(have);
            emit("ext." + int_name(from.kind, from.bits) + ".b" + std::to_string(have), t, a);
            a = t;
            from.bits = have;
        }
    } else if (have != from_width) {
        bad("source register has the wrong width");
    }

    int to_width = register_bits(to.bits);
    int want = ops[0].kind == Operand::reg ? register_bits(reg_type(ops[0].reg_id).bits) : to_width;
    u32 d = ops[0].kind == Operand::reg ? reg(ops[0].reg_id) : temp(want);
    if (ops[0].kind == Operand::reg && reg_type(ops[0].reg_id).kind == 'p') bad("result is a predicate");
    if (want < to_width || (!is_int(to) && want != to_width)) bad("result register has the wrong width");

    if (is_int(from) && is_int(to)) {
        if (sat) {
            u32 t = temp(from.bits);
            emit("clamp." + int_name(to.kind, to.bits) + "." + int_name(from.kind, from.bits), t, a);
            a = t;
        }
        bool extend = want > to.bits;
        u32 r = extend ? temp(want) : d;
        emit("cvt.b" + std::to_string(want) + "." + int_name(from.kind, from.bits), r, a);
        if (extend) emit("ext." + int_name(to.kind, to.bits) + ".b" + std::to_string(want), d, r);
        return;
    }
    if (is_int(from)) {  // to float
        if (to.bits == 16) {
            // Through double precision where it is exact, else through single with one rounding at the end.
            u32 t = temp(64);
            emit("cvt.rz.f64." + int_name(from.kind, from.bits), t, a);
            if (!round.empty() && round != "rn") unsupported();
            emit("cvt.rn." + short_name(to) + ".f64", d, t);
            return;
        }
        u32 r = sat ? temp(to.bits) : d;
        emit("cvt." + (round.empty() ? "rn" : round) + "." + short_name(to) + "." +
                 int_name(from.kind, from.bits),
             r, a);
        if (sat) emit("cvt.sat." + short_name(to) + "." + short_name(to), d, r);
        return;
    }
    if (from.bits == 16) {
        u32 t = temp(32);
        emit("cvt.f32." + short_name(from), t, a);
        a = t;
        if (is_int(to) || to.bits != 16) {
            from = Type{'f', 32};
        } else if (!round.empty() && round.size() == 3) {  // rounding to integral
            u32 u = temp(32);
            emit("cvt." + round + ".f32.f32", u, a);
            a = u, from = Type{'f', 32}, round = "rn";
        } else {
            from = Type{'f', 32};
            if (round.empty()) round = "rn";
        }
    }
    if (is_int(to)) {
        if (round.size() != 3) bad("needs an integer rounding (.rzi and the like)");
        if (ftz && from.bits == 32) {
            u32 t = temp(32);
            emit("flush.f32", t, a);
            a = t;
        }
        bool widen = want > to_width;
        u32 r = widen ? temp(to_width) : d;
        emit("cvt." + round + "." + int_name(to.kind, to.bits) + "." + short_name(from), r, a);
        if (widen) emit("cvt.b" + std::to_string(want) + "." + int_name(to.kind, to_width), d, r);
        return;
    }
    std::string name = "cvt";
    bool widening = from.bits == 32 && to.bits == 64;
    bool same = from.bits == to.bits && to.kind == from.kind;
    if (!widening && !round.empty() && !(same && round == "rn")) name += "." + round;
    if (!widening && !same && round.empty()) name += ".rn";
    if (to.bits == 16) {
        name += flags;
        if (sat) name += ".sat";
    } else {
        if (ftz && (from.bits == 32 || to.bits == 32)) name += ".ftz";
        if (sat) name += ".sat";
    }
    if (from.bits == 32 && from.kind == 'f' && to.bits == 32 && !same) unsupported();
    emit(name + "." + short_name(to) + "." + short_name(from), d, a);
}

void Lowering::convert_pack(const InstAst& i) {
    const auto& ops = operands(3, 4);
    // cvt.pack.sat.convertType.abType[.cType]
    std::vector<std::string> types;
    for (const std::string& m : i.mods) {
        if (m != "pack" && m != "sat") types.push_back(m);
    }
    std::string name = "cvt.pack.sat";
    for (const std::string& t : types) name += "." + t;
    u32 a = in_bits(ops[1], 32), b = in_bits(ops[2], 32), c = ops.size() > 3 ? in_bits(ops[3], 32) : 0;
    emit(name, out_bits(ops[0], 32), a, b, c);
}

}  // namespace softgpu::ptx
