// Branches, calls, barriers and warp-level instructions.
#include "tests/softgpu/ptx/lower.h"

namespace softgpu::ptx {

void Lowering::nothing(const InstAst&) {
    emit("nop");
}

void Lowering::branch(const InstAst& i) {
    const auto& ops = operands(1, 2);
    auto it = f_->labels.find(ops[0].name);
    if (it == f_->labels.end()) bad("unknown label " + ops[0].name);
    for (std::size_t b = 0; b < flow_->blocks.size(); ++b) {
        const BasicBlock& block = flow_->blocks[b];
        if (block.first != it->second || (block.first == block.last && it->second != int(f_->body.size())))
            continue;
        Inst& inst = emit("nop");
        inst.kind = Kind::branch;
        fixups_.push_back({p_.code.size() - 1, int(b), -1});
        return;
    }
    bad("label " + ops[0].name + " starts no block");
    (void)i;
}

void Lowering::branch_index(const InstAst& i) {
    const auto& ops = operands(2);
    if (!i.has("idx")) unsupported();
    u32 index = in_bits(ops[0], 32);
    auto it = f_->branch_targets.find(ops[1].name);
    if (it == f_->branch_targets.end()) bad("unknown target list " + ops[1].name);
    u32 at = list(std::vector<u32>(it->second.size()));
    Inst& inst = emit("nop", 0, index);
    inst.kind = Kind::branch_index;
    inst.list = p_.lists[at].data();
    inst.imm = i64(it->second.size());
    std::size_t code = p_.code.size() - 1;
    for (std::size_t k = 0; k < it->second.size(); ++k) {
        int target = f_->labels.at(it->second[k]);
        for (std::size_t b = 0; b < flow_->blocks.size(); ++b) {
            if (flow_->blocks[b].first == target) {
                fixups_.push_back({code, int(b), int(k)});
                break;
            }
        }
    }
}

// Calls
// -------------------------------------------------------------------------------------------------------

std::vector<Lowering::AbiSlot> Lowering::abi_layout(const std::vector<const VariableAst*>& variables) {
    std::vector<AbiSlot> layout;
    u32 at = 0;
    for (const VariableAst* v : variables) {
        u32 words = u32((v->size + 3) / 4);
        layout.push_back({at, words});
        at += words;
    }
    return layout;
}

void Lowering::copy_words(u32 to, u32 from, u32 words) {
    for (u32 k = 0; k < words; ++k) emit("mov.b32", to + k * 128, from + k * 128);
}

/// The words of the argument or result area; both grow in place, so the largest use is allocated first.
u32 Lowering::abi_area(u32 words, bool results) {
    u32& at = results ? abi_results_ : abi_args_;
    if (at == 0) {
        u32 most = 1;
        for (const FunctionAst* f : reachable_) {
            u32 formal = 0, result = 0;
            for (const VariableAst& v : f->params) formal += u32((v.size + 3) / 4);
            for (const VariableAst& v : f->results) result += u32((v.size + 3) / 4);
            most = std::max({most, formal, result});
            for (const VariableAst& v : f->variables) most = std::max(most, u32((v.size + 3) / 4));
            for (const InstAst& i : f->body) {
                if (i.op != "call") continue;
                for (const Operand& o : i.operands) {
                    u32 n = 0;
                    for (const Operand& e : o.list) {
                        n +=
                            e.symbol_id >= 0 ? u32((f->variables[std::size_t(e.symbol_id)].size + 3) / 4) : 4;
                    }
                    most = std::max(most, n);
                }
            }
        }
        at = allocate(most * 128);
    }
    if (words > p_.frame_bytes) bad("too many parameters");
    return at;
}

void Lowering::call(const InstAst& i) {
    std::vector<Operand> results, args;
    const Operand* target = nullptr;
    std::string prototype;
    for (const Operand& o : i.operands) {
        if (o.kind == Operand::vector)
            (target == nullptr ? results : args) = o.list;
        else if (target == nullptr)
            target = &o;
        else
            prototype = o.name;
    }
    if (target == nullptr) bad("no target");
    Symbol callee;
    if (target->kind != Operand::reg) {
        callee = find(target->name);
        if (callee.kind != Symbol::function) bad("unknown function " + target->name);
        if (!callee.code->has_body) return builtin_call(i, target->name, results, args);
    }
    auto words_of = [&](const Operand& o) {
        if (o.kind == Operand::symbol && o.symbol_id >= 0) {
            return u32((f_->variables[std::size_t(o.symbol_id)].size + 3) / 4);
        }
        return operand_bits(o, 32) == 64 ? 2U : 1U;
    };
    u32 at = 0;
    if (!args.empty()) {
        u32 area = abi_area(0, false);
        for (const Operand& o : args) {
            if (o.kind == Operand::symbol && o.symbol_id >= 0) {
                copy_words(area + at * 128, variables_[std::size_t(o.symbol_id)], words_of(o));
            } else {
                int bits = operand_bits(o, 32);
                u32 s = in_bits(o, bits);
                std::string n = std::to_string(bits);
                emit("st.words.u" + n + ".b" + n, area + at * 128, s);
            }
            at += words_of(o);
        }
    }
    if (callee.kind == Symbol::function) {
        auto it = index_.find(callee.code);
        if (it == index_.end()) bad("unreachable callee");
        Inst& inst = emit("nop");
        inst.kind = Kind::call;
        call_fixups_.push_back({p_.code.size() - 1, it->second});
    } else {
        u32 pointer = in_bits(*target, 64);
        Inst& inst = emit("nop", 0, pointer);
        inst.kind = Kind::call_indirect;
        (void)prototype;
    }
    at = 0;
    if (!results.empty()) {
        u32 area = abi_area(0, true);
        for (const Operand& o : results) {
            if (o.kind == Operand::symbol && o.symbol_id >= 0) {
                copy_words(variables_[std::size_t(o.symbol_id)], area + at * 128, words_of(o));
            } else {
                int bits = operand_bits(o, 32);
                std::string n = std::to_string(bits);
                emit("ld.words.u" + n + ".b" + n, out_bits(o, bits), area + at * 128);
            }
            at += words_of(o);
        }
    }
}

/// Functions the device runtime provides. list: word areas of the result (or ~0) and of each argument.
void Lowering::builtin_call(const InstAst& i, const std::string& name, const std::vector<Operand>& results,
                            const std::vector<Operand>& args) {
    if (!known("call." + name))
        fail_unsupported(i.line, "call of " + name + ", which no linked text defines");
    std::vector<u32> areas;
    auto area = [&](const Operand& o) {
        if (o.kind != Operand::symbol || o.symbol_id < 0)
            bad("argument of " + name + " is no parameter variable");
        return variables_[std::size_t(o.symbol_id)];
    };
    areas.push_back(results.empty() ? ~0U : area(results[0]));
    for (const Operand& o : args) areas.push_back(area(o));
    u32 at = list(std::move(areas));
    Inst& inst = emit("call." + name);
    inst.list = p_.lists[at].data();
    if (name == "vprintf" || name == "malloc" || name == "free") p_.ordered = true;
}

void Lowering::ret(const InstAst&) {
    if (saved_top_ != ~0U) emit("mov.b32", special(Special::stack_top, 32), saved_top_);
    if (!f_->entry) {
        std::vector<const VariableAst*> formals;
        for (const VariableAst& v : f_->results) formals.push_back(&v);
        std::vector<AbiSlot> layout = abi_layout(formals);
        for (std::size_t k = 0; k < layout.size(); ++k) {
            copy_words(abi_area(0, true) + layout[k].offset * 128, variables_[k], layout[k].words);
        }
    }
    emit("nop").kind = f_->entry ? Kind::exit : Kind::ret;
}

void Lowering::exit(const InstAst&) {
    emit("nop").kind = Kind::exit;
}
void Lowering::stop(const InstAst&) {
    emit("nop").kind = Kind::stop;
}

// Barriers
// ----------------------------------------------------------------------------------------------------

/// d: result of a reduction; a: barrier number; b: thread count or ~0; c: predicate of a reduction.
/// imm: 0 sync, 1 arrive, 2 popc, 3 and, 4 or.
void Lowering::barrier(const InstAst& i) {
    if (i.has("warp")) {
        const auto& ops = operands(1);
        u32 members = in_bits(ops[0], 32);
        emit("nop", 0, 0, 0, members).kind = Kind::warp_sync;
        return;
    }
    if (i.has("cluster")) {
        p_.cluster_ops = true;
        emit("nop", 0, 0, 0, 0, i.has("arrive") ? 1 : i.has("wait") ? 2 : 0).kind = Kind::cluster_barrier;
        return;
    }
    bool red = i.has("red");
    const auto& ops = i.operands;
    if (ops.empty() && !red) bad("has no barrier number");
    std::size_t k = red ? 1 : 0;
    u32 d = 0, p = 0, what = 0, count = ~0U;
    u32 temp_d = ~0U;
    if (red) {
        if (ops.size() < 3) bad("has too few operands");
        bool popc = i.has("popc");
        what = popc ? 2 : i.has("and") ? 3 : 4;
        d = popc ? out_bits(ops[0], 32) : out(ops[0], Type{'p', 1});
        p = in_predicate(ops.back());
    } else if (i.has("arrive")) {
        what = 1;
    }
    (void)temp_d;
    u32 number = in_bits(ops[k], 32);
    std::size_t more = ops.size() - k - 1 - (red ? 1 : 0);
    if (more > 0) count = in_bits(ops[k + 1], 32);
    if (what == 1 && count == ~0U) bad("needs a thread count");
    emit("nop", d, number, count, p, i64(what)).kind = Kind::barrier;
}

// Warp level
// --------------------------------------------------------------------------------------------------

void Lowering::warp_op(const InstAst& i) {
    const auto& ops = i.operands;
    bool sync = i.has("sync") || i.op == "redux" || i.op == "match" || i.op == "elect";
    auto finish = [&](Inst& inst) {
        if (sync) inst.kind = Kind::warp_sync;
    };
    if (i.op == "activemask") {
        operands(1);
        emit("activemask", out_bits(ops[0], 32));
        return;
    }
    u32 members = sync && ops.size() > 1 ? in_bits(ops.back(), 32) : constant(32, kAllLanes);
    auto second = [&] {
        u32 p = ops[0].reg2 >= 0 ? reg(ops[0].reg2) : ~0U;
        return list({p});
    };
    if (i.op == "shfl") {
        operands(sync ? 5 : 4);
        std::string mode = i.has("up") ? "up" : i.has("down") ? "down" : i.has("bfly") ? "bfly" : "idx";
        u32 at = second();
        u32 a = in_bits(ops[1], 32), b = in_bits(ops[2], 32), c = in_bits(ops[3], 32);
        Inst& inst = emit("shfl." + mode, out_bits(ops[0], 32), a, b, members, c);
        inst.list = p_.lists[at].data();
        finish(inst);
    } else if (i.op == "vote") {
        operands(sync ? 3 : 2);
        u32 p = in_predicate(ops[1]);
        if (i.has("ballot")) {
            finish(emit("vote.ballot", out_bits(ops[0], 32), p, 0, members));
        } else {
            std::string mode = i.has("all") ? "all" : i.has("any") ? "any" : "uni";
            finish(emit("vote." + mode, out(ops[0], Type{'p', 1}), p, 0, members));
        }
    } else if (i.op == "match") {
        operands(3);
        Type t = type_of(i);
        u32 at = second();
        u32 a = in_bits(ops[1], t.bits);
        Inst& inst =
            emit(std::string("match.") + (i.has("all") ? "all" : "any") + ".b" + std::to_string(t.bits),
                 out_bits(ops[0], 32), a, 0, members);
        inst.list = p_.lists[at].data();
        finish(inst);
    } else if (i.op == "redux") {
        operands(3);
        Type t = type_of(i);
        std::string op;
        for (const char* name : {"add", "min", "max", "and", "or", "xor"}) {
            if (i.has(name)) op = name;
        }
        u32 a = in_bits(ops[1], t.bits);
        finish(emit("redux." + op + (i.has("abs") ? ".abs" : "") + (i.has("NaN") ? ".NaN" : "") + "." +
                        t.kind + std::to_string(t.bits),
                    out_bits(ops[0], t.bits), a, 0, members));
    } else {  // elect
        operands(2);
        u32 at = second();
        Inst& inst = emit("elect", out_bits(ops[0], 32), 0, 0, members);
        inst.list = p_.lists[at].data();
        finish(inst);
    }
}

}  // namespace softgpu::ptx
