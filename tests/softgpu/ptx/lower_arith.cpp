// Arithmetic, logic, comparison, selection and moves.
#include "tests/softgpu/ptx/lower.h"

namespace softgpu::ptx {
namespace {

std::string type_name(const Type& t) {
    if (t.kind == 'p') return "pred";
    std::string prefix = t.kind == 'h' ? "bf" : std::string(1, t.kind);
    if (t.packed == 2) return prefix + std::to_string(t.bits / 2) + "x2";
    return prefix + std::to_string(t.bits);
}

}  // namespace

const std::unordered_map<std::string, Lowering::Method>& Lowering::methods() {
    using L = Lowering;
    static const auto& map = *new std::unordered_map<std::string, Method>{
        {"add", &L::arithmetic},
        {"sub", &L::arithmetic},
        {"div", &L::arithmetic},
        {"rem", &L::arithmetic},
        {"abs", &L::arithmetic},
        {"neg", &L::arithmetic},
        {"min", &L::arithmetic},
        {"max", &L::arithmetic},
        {"fma", &L::arithmetic},
        {"rcp", &L::arithmetic},
        {"sqrt", &L::arithmetic},
        {"rsqrt", &L::arithmetic},
        {"ex2", &L::arithmetic},
        {"lg2", &L::arithmetic},
        {"sin", &L::arithmetic},
        {"cos", &L::arithmetic},
        {"tanh", &L::arithmetic},
        {"copysign", &L::arithmetic},
        {"sad", &L::arithmetic},
        {"mul", &L::multiply},
        {"mad", &L::multiply},
        {"mul24", &L::multiply},
        {"mad24", &L::multiply},
        {"addc", &L::extended},
        {"subc", &L::extended},
        {"madc", &L::extended},
        {"and", &L::logic},
        {"or", &L::logic},
        {"xor", &L::logic},
        {"not", &L::logic},
        {"cnot", &L::logic},
        {"lop3", &L::logic},
        {"shl", &L::shift},
        {"shr", &L::shift},
        {"shf", &L::shift},
        {"popc", &L::bit_field},
        {"clz", &L::bit_field},
        {"brev", &L::bit_field},
        {"bfind", &L::bit_field},
        {"bfe", &L::bit_field},
        {"bfi", &L::bit_field},
        {"bmsk", &L::bit_field},
        {"szext", &L::bit_field},
        {"prmt", &L::bit_field},
        {"fns", &L::bit_field},
        {"dp4a", &L::dot},
        {"dp2a", &L::dot},
        {"setp", &L::compare},
        {"set", &L::compare},
        {"testp", &L::compare},
        {"selp", &L::select},
        {"slct", &L::select},
        {"mov", &L::mov},
        {"cvt", &L::convert},
        {"cvta", &L::address_convert},
        {"isspacep", &L::is_space},
        {"ld", &L::load_store},
        {"ldu", &L::load_store},
        {"st", &L::load_store},
        {"atom", &L::atomic},
        {"red", &L::atomic},
        {"bra", &L::branch},
        {"brx", &L::branch_index},
        {"call", &L::call},
        {"ret", &L::ret},
        {"exit", &L::exit},
        {"trap", &L::stop},
        {"brkpt", &L::nothing},
        {"bar", &L::barrier},
        {"barrier", &L::barrier},
        {"shfl", &L::warp_op},
        {"vote", &L::warp_op},
        {"match", &L::warp_op},
        {"redux", &L::warp_op},
        {"elect", &L::warp_op},
        {"activemask", &L::warp_op},
        {"membar", &L::nothing},
        {"fence", &L::nothing},
        {"prefetch", &L::nothing},
        {"prefetchu", &L::nothing},
        {"discard", &L::nothing},
        {"applypriority", &L::nothing},
        {"nanosleep", &L::nothing},
        {"pmevent", &L::nothing},
        {"griddepcontrol", &L::nothing},
        {"setmaxnreg", &L::nothing},
        {"mma", &L::mma},
        {"wmma", &L::wmma},
        {"ldmatrix", &L::matrix_move},
        {"stmatrix", &L::matrix_move},
        {"movmatrix", &L::matrix_move},
        {"cp", &L::async_copy},
        {"mbarrier", &L::mbarrier},
        {"mapa", &L::cluster_address},
        {"getctarank", &L::cluster_address},
        {"createpolicy", &L::policy},
        {"vadd2", &L::video},
        {"vadd4", &L::video},
        {"vsub2", &L::video},
        {"vsub4", &L::video},
        {"vavrg2", &L::video},
        {"vavrg4", &L::video},
        {"vabsdiff2", &L::video},
        {"vabsdiff4", &L::video},
        {"vmin2", &L::video},
        {"vmin4", &L::video},
        {"vmax2", &L::video},
        {"vmax4", &L::video},
        {"alloca", &L::alloca_op},
        {"stacksave", &L::alloca_op},
        {"stackrestore", &L::alloca_op},
    };
    return map;
}

/// Instructions whose operands all have the instruction's type. The handler's name is the PTX name in a fixed
/// order of modifiers, without those that change nothing here.
void Lowering::arithmetic(const InstAst& i) {
    if (i.has("cc")) return extended(i);
    Type t = type_of(i);
    std::string name = i.op;
    std::size_t sources = i.operands.size() - 1;
    if (i.operands.empty()) bad("has no operands");
    if (sources == 3 && (i.op == "min" || i.op == "max")) name += "3";
    for (const char* m : {"rz", "rm", "rp"}) {
        if (i.has(m)) name += std::string(".") + m;
    }
    for (const char* m : {"ftz", "sat", "NaN", "xorsign", "abs", "relu", "oob"}) {
        if (i.has(m)) name += std::string(".") + m;
    }
    name += "." + type_name(t);
    static const auto& counts = *new std::unordered_map<std::string, std::size_t>{
        {"add", 2}, {"sub", 2}, {"mul", 2},      {"div", 2}, {"rem", 2},
        {"min", 2}, {"max", 2}, {"copysign", 2}, {"fma", 3}, {"sad", 3}};
    auto want = counts.find(i.op);
    std::size_t n = want == counts.end() ? 1 : want->second;
    if (sources != n && !(sources == 3 && (i.op == "min" || i.op == "max")))
        bad("has " + std::to_string(sources) + " sources");
    for (const std::string& m : i.mods) {
        static const auto& fine = *new std::unordered_map<std::string, int>{
            {"rn", 0},      {"rz", 0},  {"rm", 0},   {"rp", 0},     {"ftz", 0},  {"sat", 0}, {"NaN", 0},
            {"xorsign", 0}, {"abs", 0}, {"relu", 0}, {"approx", 0}, {"full", 0}, {"rni", 0}};
        Type type;
        if (!fine.contains(m) && !parse_type(m, type)) unsupported();
    }
    u32 s[3] = {0, 0, 0};
    for (std::size_t k = 0; k < sources; ++k) s[k] = in(i.operands[k + 1], t);
    emit(name, out(i.operands[0], t), s[0], s[1], s[2]);
}

void Lowering::multiply(const InstAst& i) {
    if (i.has("cc")) return extended(i);
    Type t = type_of(i);
    if (t.kind == 'f' || t.kind == 'h') {
        if (i.op == "mul") return arithmetic(i);
        // mad of floats is fma.
        InstAst fma = i;
        fma.op = "fma";
        return arithmetic(fma);
    }
    bool mad = i.op.starts_with("mad");
    operands(mad ? 4 : 3);
    std::string part = i.has("wide") ? "wide" : i.has("hi") ? "hi" : "lo";
    std::string name = i.op + "." + part + (i.has("sat") ? ".sat" : "") + "." + type_name(t);
    Type result = part == "wide" ? Type{t.kind, t.bits * 2} : t;
    u32 a = in(i.operands[1], t), b = in(i.operands[2], t);
    u32 c = mad ? in(i.operands[3], result) : 0;
    emit(name, out(i.operands[0], result), a, b, c);
}

/// Carry chains: add.cc, addc, madc and so on. The carry flag is a predicate of the function.
void Lowering::extended(const InstAst& i) {
    Type t = type_of(i);
    bool mad = i.op.starts_with("mad");
    operands(mad ? 4 : 3);
    if (carry_ == 0) carry_ = allocate(4, 4);
    Type plain = t;
    if (!mad && t.kind == 's') plain.kind = 'u';
    std::string name = i.op + (mad ? (i.has("hi") ? ".hi" : ".lo") : "") + (i.has("cc") ? ".cc" : "") + "." +
                       type_name(plain);
    u32 a = in(i.operands[1], t), b = in(i.operands[2], t);
    u32 c = mad ? in(i.operands[3], t) : 0;
    emit(name, out(i.operands[0], t), a, b, c, carry_);
}

void Lowering::logic(const InstAst& i) {
    if (i.op == "lop3") {
        // lop3.b32 d, a, b, c, table; lop3.and/or.b32 d|p, a, b, c, table, q.
        bool combined = i.has("and") || i.has("or");
        operands(combined ? 6 : 5);
        u32 a = in_bits(i.operands[1], 32), b = in_bits(i.operands[2], 32), c = in_bits(i.operands[3], 32);
        i64 table = i.operands[4].value;
        if (i.operands[4].kind != Operand::integer) bad("the table must be a number");
        if (!combined) {
            emit("lop3.b32", out_bits(i.operands[0], 32), a, b, c, table);
            return;
        }
        u32 q = in_predicate(i.operands[5]);
        u32 d = i.operands[0].kind == Operand::sink ? temp(32) : out_bits(i.operands[0], 32);
        emit("lop3.b32", d, a, b, c, table);
        u32 p = temp(1);
        emit("setp.ne.u32", p, d, constant(32, 0));
        if (i.operands[0].reg2 >= 0)
            emit(i.has("and") ? "and.pred" : "or.pred", reg(i.operands[0].reg2), p, q);
        return;
    }
    Type t = type_of(i);
    bool one = i.op == "not" || i.op == "cnot";
    operands(one ? 2 : 3);
    std::string name = i.op + "." + type_name(t);
    if (t.kind == 'p') {
        u32 a = in_predicate(i.operands[1]), b = one ? 0 : in_predicate(i.operands[2]);
        emit(name, out(i.operands[0], t), a, b);
        return;
    }
    u32 a = in(i.operands[1], t), b = one ? 0 : in(i.operands[2], t);
    emit(name, out(i.operands[0], t), a, b);
}

void Lowering::shift(const InstAst& i) {
    Type t = type_of(i);
    if (i.op == "shf") {
        operands(4);
        u32 a = in_bits(i.operands[1], 32), b = in_bits(i.operands[2], 32), c = in_bits(i.operands[3], 32);
        emit(std::string("shf.") + (i.has("l") ? "l" : "r") + (i.has("clamp") ? ".clamp" : ".wrap") + ".b32",
             out_bits(i.operands[0], 32), a, b, c);
        return;
    }
    operands(3);
    if (i.op == "shl" || t.kind == 'b') t.kind = i.op == "shl" ? 'b' : 'u';
    u32 a = in(i.operands[1], t), b = in_bits(i.operands[2], 32);
    emit(i.op + "." + type_name(t), out(i.operands[0], t), a, b);
}

void Lowering::bit_field(const InstAst& i) {
    Type t = type_of(i);
    const auto& ops = i.operands;
    std::string type = type_name(t);
    if (i.op == "popc" || i.op == "clz") {
        operands(2);
        u32 a = in(ops[1], t);
        emit(i.op + "." + type, out_bits(ops[0], 32), a);
    } else if (i.op == "brev") {
        operands(2);
        u32 a = in(ops[1], t);
        emit("brev." + type, out(ops[0], t), a);
    } else if (i.op == "bfind") {
        operands(2);
        u32 a = in(ops[1], t);
        emit(std::string("bfind.") + (i.has("shiftamt") ? "shiftamt." : "") + type, out_bits(ops[0], 32), a);
    } else if (i.op == "bfe") {
        operands(4);
        u32 a = in(ops[1], t), b = in_bits(ops[2], 32), c = in_bits(ops[3], 32);
        emit("bfe." + type, out(ops[0], t), a, b, c);
    } else if (i.op == "bfi") {
        operands(5);
        u32 a = in(ops[1], t), b = in(ops[2], t), c = in_bits(ops[3], 32), d = in_bits(ops[4], 32);
        emit("bfi." + type, out(ops[0], t), a, b, c, d);
    } else if (i.op == "bmsk" || i.op == "szext") {
        operands(3);
        u32 a = in(ops[1], t), b = in_bits(ops[2], 32);
        emit(i.op + (i.has("clamp") ? ".clamp." : ".wrap.") + type, out(ops[0], t), a, b);
    } else if (i.op == "prmt") {
        operands(4);
        u32 a = in_bits(ops[1], 32), b = in_bits(ops[2], 32), c = in_bits(ops[3], 32);
        std::string name = "prmt.b32";
        for (const char* m : {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"}) {
            if (i.has(m)) name += std::string(".") + m;
        }
        emit(name, out_bits(ops[0], 32), a, b, c);
    } else {  // fns
        operands(4);
        u32 a = in_bits(ops[1], 32), b = in_bits(ops[2], 32), c = in_bits(ops[3], 32);
        emit("fns.b32", out_bits(ops[0], 32), a, b, c);
    }
}

void Lowering::dot(const InstAst& i) {
    operands(4);
    Type a_type = type_of(i, 1), b_type = type_of(i, 0);
    std::string half = i.op == "dp2a" ? (i.has("hi") ? ".hi" : ".lo") : "";
    u32 a = in_bits(i.operands[1], 32), b = in_bits(i.operands[2], 32), c = in_bits(i.operands[3], 32);
    emit(i.op + half + "." + type_name(a_type) + "." + type_name(b_type), out_bits(i.operands[0], 32), a, b,
         c);
}

void Lowering::select(const InstAst& i) {
    const auto& ops = operands(4);
    if (i.op == "selp") {
        Type t = type_of(i);
        u32 a = in(ops[1], t), b = in(ops[2], t), c = in_predicate(ops[3]);
        emit("selp.b" + std::to_string(t.bits), out(ops[0], t), a, b, c);
        return;
    }
    Type t = type_of(i, 1), by = type_of(i, 0);
    u32 a = in(ops[1], t), b = in(ops[2], t), c = in(ops[3], by);
    emit("slct.b" + std::to_string(t.bits) + (i.has("ftz") ? ".ftz" : "") + "." + type_name(by),
         out(ops[0], t), a, b, c);
}

void Lowering::compare(const InstAst& i) {
    const auto& ops = operands(i.op == "testp" ? 2 : 3, 4);
    Type t = type_of(i);
    if (i.op == "testp") {
        u32 a = in(ops[1], t);
        emit("testp." + i.mods[0] + "." + type_name(t), out(ops[0], Type{'p', 1}), a);
        return;
    }
    if (i.mods.empty()) unsupported();
    std::string cmp = i.mods[0], boolean;
    for (const char* m : {"and", "or", "xor"}) {
        if (i.has(m)) boolean = m;
    }
    if ((boolean.empty() ? 3U : 4U) != ops.size()) bad("has " + std::to_string(ops.size()) + " operands");
    // Unsigned names for the orderings: lo ls hi hs.
    Type as = t;
    if (cmp == "lo" || cmp == "ls" || cmp == "hi" || cmp == "hs") {
        cmp = cmp == "lo" ? "lt" : cmp == "ls" ? "le" : cmp == "hi" ? "gt" : "ge";
        as.kind = 'u';
    }
    if (as.kind == 'b') as.kind = 'u';
    std::string handler =
        "setp." + cmp + (i.has("ftz") && t.bits == 32 && t.packed == 1 ? ".ftz" : "") + "." + type_name(as);
    u32 a = in(ops[1], t), b = in(ops[2], t);
    u32 with = boolean.empty() ? 0 : in_predicate(ops[3]);
    bool set = i.op == "set";
    if (t.packed == 2) {
        // Two comparisons, one predicate each.
        u32 p = temp(1), q = temp(1);
        emit(handler, p, a, b, q);
        if (!boolean.empty()) emit(boolean + ".pred", p, p, with), emit(boolean + ".pred", q, q, with);
        if (set) {
            Type result = type_of(i, 1);
            i64 one = result.kind == 'f' ? 0x3c00 : result.kind == 'h' ? 0x3f80 : 0xffff;
            emit("spread2", out(ops[0], result), p, q, 0, one);
            return;
        }
        if (ops[0].kind == Operand::reg) emit("mov.pred", out(ops[0], Type{'p', 1}), p);
        if (ops[0].reg2 >= 0) emit("mov.pred", reg(ops[0].reg2), q);
        return;
    }
    if (set) {
        Type result = type_of(i, 1);
        u32 p = temp(1);
        emit(handler, p, a, b);
        if (!boolean.empty()) emit(boolean + ".pred", p, p, with);
        i64 one = result.kind == 'f'   ? (result.bits == 16 ? 0x3c00 : 0x3f800000)
                  : result.kind == 'h' ? 0x3f80
                                       : -1;
        emit("spread.b" + std::to_string(result.bits), out(ops[0], result), p, 0, 0, one);
        return;
    }
    bool second = ops[0].reg2 >= 0;
    if (boolean.empty() && !second) {
        emit(handler, out(ops[0], Type{'p', 1}), a, b);
        return;
    }
    // p = (a cmp b) op c, q = !(a cmp b) op c.
    u32 p = temp(1), q = temp(1);
    emit(handler, p, a, b);
    if (second) emit("not.pred", q, p);
    if (!boolean.empty()) {
        emit(boolean + ".pred", p, p, with);
        if (second) emit(boolean + ".pred", q, q, with);
    }
    if (ops[0].kind != Operand::sink) emit("mov.pred", out(ops[0], Type{'p', 1}), p);
    if (second) emit("mov.pred", reg(ops[0].reg2), q);
}

void Lowering::mov(const InstAst& i) {
    const auto& ops = operands(2);
    Type t = type_of(i);
    if (ops[0].kind == Operand::vector) {
        std::size_t n = ops[0].list.size();
        int part = t.bits / int(n);
        if (ops[1].kind == Operand::vector) unsupported();
        u32 a = in(ops[1], Type{'b', t.bits});
        std::vector<u32> parts;
        for (const Operand& o : ops[0].list)
            parts.push_back(o.kind == Operand::sink ? ~0U : out_bits(o, part));
        u32 at = list(parts);
        emit("unpack.b" + std::to_string(part) + ".b" + std::to_string(t.bits) + "." + std::to_string(n), 0,
             a)
            .list = p_.lists[at].data();
        return;
    }
    if (t.kind == 'p') {
        u32 a = in_predicate(ops[1]);
        emit("mov.pred", out(ops[0], t), a);
        return;
    }
    if (t.packed == 2) t = Type{'b', t.bits};
    u32 a = in(ops[1], t);
    emit("mov.b" + std::to_string(t.bits), out(ops[0], t), a);
}

}  // namespace softgpu::ptx
