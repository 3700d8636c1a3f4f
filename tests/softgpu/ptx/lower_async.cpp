// cp.async, bulk copies, mbarrier, cluster addresses, stack allocation.
#include "tests/softgpu/ptx/lower.h"

namespace softgpu::ptx {

/// Asynchronous copies are done at once: waiting for them finds them finished.
void Lowering::async_copy(const InstAst& i) {
    const auto& ops = i.operands;
    if (i.has("commit_group") || i.has("wait_group") || i.has("wait_all")) return nothing(i);
    if (i.has("tensor") || i.has("reduce")) unsupported();
    if (i.has("mbarrier") && i.has("arrive")) {  // cp.async.mbarrier.arrive[.noinc].b64 [addr]
        u32 a = address_slot(ops[0], Space::shared);
        // Without .noinc the pending count is first raised by one: nothing changes in sum.
        if (i.has("noinc"))
            emit("mbarrier.arrive", ~0U, a, constant(32, 1), 0, ops[0].value);
        else
            emit("nop");
        return;
    }
    if (ops.size() < 3 || ops[0].kind != Operand::address || ops[1].kind != Operand::address) unsupported();
    if (i.has("bulk")) {
        bool to_shared = i.mods.size() > 2 && parse_space(i.mods[2]) == Space::shared &&
                         parse_space(i.mods[1]) != Space::none;
        // cp{.async}.bulk.dst.src...: the first space named is the destination.
        Space spaces[2] = {Space::global, Space::global};
        int n = 0;
        for (const std::string& m : i.mods) {
            if (Space s = parse_space(m); s != Space::none && n < 2) spaces[n++] = s;
        }
        (void)to_shared;
        if (n != 2) unsupported();
        u32 d = address_slot(ops[0], spaces[0]), s = address_slot(ops[1], spaces[1]);
        u32 size = in_bits(ops[2], 32);
        emit("copy.bulk", 0, d, s, size, ops[0].value).list = p_.lists[list({u32(ops[1].value)})].data();
        if (ops.size() > 3 && ops[3].kind == Operand::address) {
            u32 m = address_slot(ops[3], Space::shared);
            emit("mbarrier.complete_tx", 0, m, size, 0, ops[3].value);
        }
        return;
    }
    // cp.async.{ca,cg}.shared.global [dst], [src], cp-size{, src-size | ignore-src}{, cache-policy}
    u32 d = address_slot(ops[0], Space::shared), s = address_slot(ops[1], Space::global);
    if (ops[2].kind != Operand::integer) bad("the size must be a number");
    i64 size = ops[2].value;
    if (size != 4 && size != 8 && size != 16) bad("copies 4, 8 or 16 bytes");
    u32 source = constant(32, u64(size));
    if (ops.size() > 3) {
        const Operand& o = ops[3];
        bool policy = o.kind == Operand::reg && reg_type(o.reg_id).bits == 64;
        if (o.kind == Operand::reg && reg_type(o.reg_id).kind == 'p') {
            u32 t = temp(32);
            emit("selp.b32", t, constant(32, 0), source, in_predicate(o));
            source = t;
        } else if (!policy) {
            source = in_bits(o, 32);
        }
    }
    Inst& inst = emit("copy.async", 0, d, s, source, ops[0].value);
    inst.n = u8(size);
    inst.list = p_.lists[list({u32(ops[1].value)})].data();
}

void Lowering::mbarrier(const InstAst& i) {
    const auto& ops = i.operands;
    auto address = [&](std::size_t k) {
        if (k >= ops.size() || ops[k].kind != Operand::address) bad("expected an address in brackets");
        return address_slot(ops[k], Space::shared);
    };
    if (ops.empty()) bad("has no operands");
    if (i.has("init")) {
        u32 a = address(0);
        emit("mbarrier.init", 0, a, in_bits(ops[1], 32), 0, ops[0].value);
    } else if (i.has("inval")) {
        u32 a = address(0);
        emit("mbarrier.inval", 0, a, 0, 0, ops[0].value);
    } else if (i.has("expect_tx") && !i.has("arrive") && !i.has("arrive_drop")) {
        u32 a = address(0);
        emit("mbarrier.expect_tx", 0, a, in_bits(ops[1], 32), 0, ops[0].value);
    } else if (i.has("complete_tx")) {
        u32 a = address(0);
        emit("mbarrier.complete_tx", 0, a, in_bits(ops[1], 32), 0, ops[0].value);
    } else if (i.has("arrive") || i.has("arrive_drop")) {
        std::size_t at = ops[0].kind == Operand::address ? 0 : 1;
        u32 a = address(at);
        u32 d = at == 1 && ops[0].kind == Operand::reg ? out_bits(ops[0], 64) : ~0U;
        u32 count = constant(32, 1);
        if (i.has("expect_tx")) {
            emit("mbarrier.expect_tx", 0, a, in_bits(ops[at + 1], 32), 0, ops[at].value);
        } else if (ops.size() > at + 1) {
            count = in_bits(ops[at + 1], 32);
        }
        emit(i.has("arrive_drop") ? "mbarrier.arrive_drop" : "mbarrier.arrive", d, a, count, 0,
             ops[at].value);
    } else if (i.has("test_wait") || i.has("try_wait")) {
        u32 a = address(1);
        bool parity = i.has("parity");
        u32 state = in_bits(ops[2], parity ? 32 : 64);
        Inst& inst = emit(parity ? "mbarrier.test_parity" : "mbarrier.test", out(ops[0], Type{'p', 1}), a,
                          state, 0, ops[1].value);
        inst.kind = Kind::yielding;
    } else if (i.has("pending_count")) {
        u32 a = in_bits(ops[1], 64);
        emit("mbarrier.pending_count", out_bits(ops[0], 32), a);
    } else {
        unsupported();
    }
}

/// mapa, getctarank: shared memory of another block of the cluster.
void Lowering::cluster_address(const InstAst& i) {
    p_.cluster_ops = true;
    Type t = type_of(i);
    bool narrow = i.has("shared::cluster") || i.has("shared");
    if (i.op == "getctarank") {
        const auto& ops = operands(2);
        u32 a = in_bits(ops[1], t.bits);
        emit("getctarank.b" + std::to_string(t.bits) + (narrow ? ".shared" : ""), out_bits(ops[0], 32), a);
        return;
    }
    const auto& ops = operands(3);
    u32 a = in_bits(ops[1], t.bits), rank = in_bits(ops[2], 32);
    emit("mapa.b" + std::to_string(t.bits) + (narrow ? ".shared" : ""), out_bits(ops[0], t.bits), a, rank);
}

/// createpolicy gives a cache hint, which has no effect here.
void Lowering::policy(const InstAst& i) {
    emit("mov.b64", out_bits(i.operands[0], 64), constant(64, 0));
}

/// alloca takes from the far end of the thread's local memory, downwards; a function that uses it gives all
/// back when it returns (prologue and ret). stacksave and stackrestore read and set that end.
void Lowering::alloca_op(const InstAst& i) {
    const auto& ops = i.operands;
    u32 top = special(Special::stack_top, 32);
    Type t = type_of(i);
    auto narrow = [&](const Operand& o) {
        u32 s = in_bits(o, t.bits);
        if (t.bits == 32) return s;
        u32 n = temp(32);
        emit("cvt.b32.u64", n, s);
        return n;
    };
    if (i.op == "stackrestore") {
        operands(1);
        emit("mov.b32", top, narrow(ops[0]));
        return;
    }
    if (i.op == "alloca") {
        operands(2, 3);
        u64 align = ops.size() > 2 ? u64(ops[2].value) : 8;
        emit("sub.u32", top, top, narrow(ops[1]));
        emit("and.b32", top, top, constant(32, ~(std::max<u64>(align, 4) - 1)));
    }
    u32 d = out_bits(ops[0], t.bits);
    if (t.bits == 64)
        emit("cvt.b64.u32", d, top);
    else
        emit("mov.b32", d, top);
}

}  // namespace softgpu::ptx
