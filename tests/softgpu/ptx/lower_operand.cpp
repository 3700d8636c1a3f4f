// Operands to frame slots.
#include <bit>

#include "tests/softgpu/ptx/lower.h"

namespace softgpu::ptx {

int Lowering::operand_bits(const Operand& o, int otherwise) const {
    return o.kind == Operand::reg ? reg_type(o.reg_id).bits : otherwise;
}

u32 Lowering::in(const Operand& o, const Type& type) {
    switch (o.kind) {
        case Operand::reg: {
            const Type& t = reg_type(o.reg_id);
            int want = type.bits < 16 && type.kind != 'p' ? 16 : type.bits;
            int have = t.bits < 16 && t.kind != 'p' ? 16 : t.bits;
            if ((t.kind == 'p') != (type.kind == 'p') || want != have) {
                bad("register " + f_->registers[std::size_t(o.reg_id)].name + " has the wrong width");
            }
            if (o.negated && type.kind == 'p') return in_predicate(o);
            return reg(o.reg_id);
        }
        case Operand::integer: {
            if (type.kind == 'p') return constant(1, o.value != 0 ? kAllLanes : 0);
            if (type.kind == 'f' && type.packed == 1 && type.bits >= 32) {
                // Integers are no float literals, but 0 is met in practice.
                if (o.value != 0) bad("integer operand for a floating-point instruction");
            }
            return constant(type.bits, u64(o.value), type.bits == 128 && o.value < 0 ? ~u64(0) : 0);
        }
        case Operand::float32: {
            if (type.bits == 64) {
                double v = std::bit_cast<float>(u32(o.value));
                return constant(64, std::bit_cast<u64>(v));
            }
            if (type.bits != 32) bad("single-precision literal for another type");
            return constant(32, u64(o.value));
        }
        case Operand::float64: {
            if (type.bits == 32)
                return constant(32, std::bit_cast<u32>(float(std::bit_cast<double>(u64(o.value)))));
            if (type.bits != 64) bad("double-precision literal for another type");
            return constant(64, u64(o.value));
        }
        case Operand::special:
            return special_operand(o, type.bits);
        case Operand::symbol:
            return symbol_slot(o, type.bits);
        case Operand::vector: {
            // {a, b} as a source: pack.
            std::size_t n = o.list.size();
            if (n == 0 || type.bits % int(n) != 0) bad("bad vector operand");
            int part = type.bits / int(n);
            std::vector<u32> parts;
            for (const Operand& e : o.list) parts.push_back(in(e, Type{'b', part}));
            u32 d = temp(type.bits);
            u32 at = list(parts);
            emit("pack.b" + std::to_string(part) + ".b" + std::to_string(type.bits) + "." + std::to_string(n),
                 d)
                .list = p_.lists[at].data();
            return d;
        }
        default:
            bad("bad operand");
    }
}

u32 Lowering::in_predicate(const Operand& o) {
    if (o.kind == Operand::integer) return constant(1, (o.value != 0) != o.negated ? kAllLanes : 0);
    if (o.kind != Operand::reg || reg_type(o.reg_id).kind != 'p') bad("expected a predicate");
    if (!o.negated) return reg(o.reg_id);
    u32 t = temp(1);
    emit("not.pred", t, reg(o.reg_id));
    return t;
}

u32 Lowering::out(const Operand& o, const Type& type) {
    if (o.kind == Operand::sink) return temp(type.kind == 'p' ? 1 : type.bits);
    if (o.kind != Operand::reg) bad("the result must be a register");
    const Type& t = reg_type(o.reg_id);
    int want = type.bits < 16 && type.kind != 'p' ? 16 : type.bits;
    int have = t.bits < 16 && t.kind != 'p' ? 16 : t.bits;
    if ((t.kind == 'p') != (type.kind == 'p') || want != have) {
        bad("register " + f_->registers[std::size_t(o.reg_id)].name + " has the wrong width");
    }
    return reg(o.reg_id);
}

/// The value of a symbol as an address in its own space (plus offset). Local ones: relative to the stack
/// pointer.
u64 Lowering::symbol_value(const Operand& o) {
    u64 offset = u64(o.value);
    if (o.symbol_id >= 0) {
        const VariableAst& v = f_->variables[std::size_t(o.symbol_id)];
        if (v.space == Space::shared) return shared_.at(&v) + offset;
        if (v.space == Space::local) return variables_[std::size_t(o.symbol_id)] + offset;
        if (v.space == Space::param && f_->entry) {
            u64 at = 0;
            for (int k = 0; k <= o.symbol_id; ++k) {
                const VariableAst& q = f_->params[std::size_t(k)];
                u64 align = std::max<u64>(q.align, 1);
                at = (at + align - 1) / align * align;
                if (k < o.symbol_id) at += q.size;
            }
            return kParamWindow + at + offset;
        }
        fail_unsupported(inst_->line, "address of parameter " + v.name + " of a device function");
    }
    Symbol s = find(o.name);
    if (s.kind == Symbol::variable) {
        if (s.ast->space == Space::shared) return shared_.at(s.ast) + offset;
        if (s.address == 0) bad("variable " + o.name + " is not defined in any linked text");
        return s.address + offset;
    }
    if (s.kind == Symbol::function && s.code->has_body) return module_.function_address(s.code);
    bad("unknown name " + o.name);
}

u32 Lowering::symbol_slot(const Operand& o, int bits) {
    u64 value = symbol_value(o);
    bool local = o.symbol_id >= 0 && f_->variables[std::size_t(o.symbol_id)].space == Space::local;
    if (!local) return constant(bits, value);
    if (!dynamic_stack_) return constant(bits, p_.functions[index_now_].local_base + value);
    u32 t = temp(32);
    emit("add.u32", t, p_.stack_pointer, constant(32, value));
    if (bits == 32) return t;
    u32 wide = temp(64);
    emit("cvt.b64.u32", wide, t);
    return wide;
}

Special Lowering::special_register(const std::string& name) const {
    static const auto& names = *new std::unordered_map<std::string, Special>{
        {"tid.x", Special::tid_x},
        {"tid.y", Special::tid_y},
        {"tid.z", Special::tid_z},
        {"ntid.x", Special::ntid_x},
        {"ntid.y", Special::ntid_y},
        {"ntid.z", Special::ntid_z},
        {"ctaid.x", Special::ctaid_x},
        {"ctaid.y", Special::ctaid_y},
        {"ctaid.z", Special::ctaid_z},
        {"nctaid.x", Special::nctaid_x},
        {"nctaid.y", Special::nctaid_y},
        {"nctaid.z", Special::nctaid_z},
        {"laneid", Special::laneid},
        {"warpid", Special::warpid},
        {"nwarpid", Special::nwarpid},
        {"smid", Special::smid},
        {"nsmid", Special::nsmid},
        {"gridid", Special::gridid},
        {"lanemask_eq", Special::lanemask_eq},
        {"lanemask_le", Special::lanemask_le},
        {"lanemask_lt", Special::lanemask_lt},
        {"lanemask_ge", Special::lanemask_ge},
        {"lanemask_gt", Special::lanemask_gt},
        {"dynamic_smem_size", Special::dynamic_smem_size},
        {"total_smem_size", Special::total_smem_size},
        {"aggr_smem_size", Special::aggr_smem_size},
        {"reserved_smem_offset_begin", Special::zero},
        {"reserved_smem_offset_end", Special::zero},
        {"reserved_smem_offset_cap", Special::zero},
        {"clusterid.x", Special::clusterid_x},
        {"clusterid.y", Special::clusterid_y},
        {"clusterid.z", Special::clusterid_z},
        {"nclusterid.x", Special::nclusterid_x},
        {"nclusterid.y", Special::nclusterid_y},
        {"nclusterid.z", Special::nclusterid_z},
        {"cluster_ctaid.x", Special::cluster_ctaid_x},
        {"cluster_ctaid.y", Special::cluster_ctaid_y},
        {"cluster_ctaid.z", Special::cluster_ctaid_z},
        {"cluster_nctaid.x", Special::cluster_nctaid_x},
        {"cluster_nctaid.y", Special::cluster_nctaid_y},
        {"cluster_nctaid.z", Special::cluster_nctaid_z},
        {"cluster_ctarank", Special::cluster_ctarank},
        {"cluster_nctarank", Special::cluster_nctarank},
        {"envreg0", Special::zero},
        {"envreg1", Special::envreg1},
        {"envreg2", Special::envreg2},
    };
    auto it = names.find(name);
    if (it == names.end()) fail_unsupported(inst_->line, "special register %" + name);
    return it->second;
}

u32 Lowering::special_operand(const Operand& o, int bits) {
    if (o.name == "clock" || o.name == "clock64" || o.name == "clock_hi" || o.name == "globaltimer" ||
        o.name == "globaltimer_lo" || o.name == "globaltimer_hi") {
        u32 d = temp(bits);
        std::string width = ".b" + std::to_string(bits);
        std::string handler = o.name.starts_with("clock") ? "clock" : "globaltimer";
        if (o.name.ends_with("_hi")) handler += "_hi";
        emit(handler + width, d).kind = Kind::timed;
        return d;
    }
    if (o.name == "is_explicit_cluster") return special(Special::is_explicit_cluster, 1);
    if (o.name.starts_with("envreg") && o.name != "envreg1" && o.name != "envreg2")
        return special(Special::zero, bits);
    Special s = special_register(o.name);
    if (bits != 16 && bits != 32 && bits != 64) bad("bad width of a special register");
    return special(s, bits);
}

}  // namespace softgpu::ptx
