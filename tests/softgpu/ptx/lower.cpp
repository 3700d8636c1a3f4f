// Program level of the lowering: which functions and shared variables a kernel needs, the frame, blocks and
// jumps.
#include "tests/softgpu/ptx/lower.h"

#include <algorithm>
#include <functional>

namespace softgpu::ptx {

void lower_program(const LoadedModule& module, const FunctionAst& entry, Program& program) {
    Lowering(module, program).run(entry);
}
void check_function(const LoadedModule& module, const FunctionAst& function) {
    Program scratch;
    Lowering(module, scratch).run_unreached(function);
}

void Lowering::run(const FunctionAst& entry) {
    p_.name = entry.name;
    reach(entry);
    find_recursion();
    place_shared();
    for (std::size_t i = 0; i < reachable_.size(); ++i) layout_function(i);
    entry_of_.resize(reachable_.size());
    for (std::size_t i = 0; i < reachable_.size(); ++i) lower_function(i);
    for (auto [at, function] : call_fixups_) p_.code[at].target = entry_of_[function];
    for (std::size_t i = 0; i < reachable_.size(); ++i) {
        p_.functions[i].entry = entry_of_[i];
        p_.by_address[module_.function_address(reachable_[i])] = u32(i);
    }
    p_.frame_bytes = (p_.frame_bytes + 63) / 64 * 64;
}

void Lowering::run_unreached(const FunctionAst& function) {
    check_only_ = true;
    run(function);
}

// Reachability
// ------------------------------------------------------------------------------------------------

Symbol Lowering::find(const std::string& name) const {
    return module_.find(unit_, name);
}

void Lowering::note_symbols(const FunctionAst& f, std::vector<const FunctionAst*>& callees, bool& indirect) {
    unit_ = module_.unit_of(&f);
    for (const VariableAst& v : f.variables) {
        if (v.space == Space::shared) shared_[&v] = 0;
    }
    std::function<void(const Operand&)> look = [&](const Operand& o) {
        if (!o.name.empty() && o.symbol_id < 0 && (o.kind == Operand::symbol || o.kind == Operand::address)) {
            Symbol s = find(o.name);
            if (s.kind == Symbol::variable && s.ast->space == Space::shared) shared_[s.ast] = 0;
        }
        for (const Operand& e : o.list) look(e);
    };
    for (const InstAst& i : f.body) {
        for (const Operand& o : i.operands) look(o);
        if (i.op != "call") continue;
        const Operand* target = nullptr;
        for (const Operand& o : i.operands) {
            if (o.kind != Operand::vector) {
                target = &o;
                break;
            }
        }
        if (target == nullptr) fail(i.line, "call without a target");
        if (target->kind == Operand::reg) {
            indirect = true;
        } else {
            Symbol s = find(target->name);
            if (s.kind == Symbol::function && s.code->has_body) callees.push_back(s.code);
        }
    }
}

void Lowering::reach(const FunctionAst& entry) {
    reachable_.push_back(&entry);
    index_[&entry] = 0;
    bool any_indirect = false;
    auto add = [&](const FunctionAst* f) {
        auto [it, fresh] = index_.emplace(f, u32(reachable_.size()));
        if (fresh) reachable_.push_back(f);
        return it->second;
    };
    for (std::size_t i = 0; i < reachable_.size(); ++i) {
        std::vector<const FunctionAst*> callees;
        bool indirect = false;
        note_symbols(*reachable_[i], callees, indirect);
        callees_.emplace_back();
        for (const FunctionAst* c : callees) callees_[i].push_back(add(c));
        indirect_.push_back(indirect);
        if (indirect && !any_indirect) {
            any_indirect = true;
            for (const FunctionAst* f : module_.address_taken()) add(f);
        }
    }
    for (std::size_t i = 0; i < reachable_.size(); ++i) {
        if (!indirect_[i]) continue;
        for (const FunctionAst* f : module_.address_taken()) callees_[i].push_back(index_.at(f));
    }
    for (const FunctionAst* f : reachable_) {
        for (const InstAst& i : f->body)
            dynamic_stack_ = dynamic_stack_ || i.op == "alloca" || i.op == "stacksave";
    }
}

/// A function is recursive when it can reach itself.
void Lowering::find_recursion() {
    std::size_t n = reachable_.size();
    p_.functions.resize(n);
    for (std::size_t i = 0; i < n; ++i) {
        std::vector<bool> seen(n);
        std::vector<u32> todo(callees_[i]);
        while (!todo.empty()) {
            u32 c = todo.back();
            todo.pop_back();
            if (seen[c]) continue;
            seen[c] = true;
            todo.insert(todo.end(), callees_[c].begin(), callees_[c].end());
        }
        p_.functions[i].recursive = seen[i];
        dynamic_stack_ = dynamic_stack_ || seen[i];
    }
}

void Lowering::place_shared() {
    std::vector<const VariableAst*> sized;
    std::vector<const VariableAst*> dynamic;
    for (auto& [v, at] : shared_) (v->unsized || v->size == 0 ? dynamic : sized).push_back(v);
    auto by_line = [&](const VariableAst* a, const VariableAst* b) {
        return a->line != b->line ? a->line < b->line : a->name < b->name;
    };
    std::sort(sized.begin(), sized.end(), by_line);
    u64 at = 0;
    for (const VariableAst* v : sized) {
        at = (at + v->align - 1) / v->align * v->align;
        shared_[v] = u32(at);
        at += v->size;
    }
    p_.static_shared = u32(at);
    u64 align = 16;
    for (const VariableAst* v : dynamic) align = std::max(align, v->align);
    at = (at + align - 1) / align * align;
    if (dynamic.empty()) at = (p_.static_shared + 15) / 16 * 16;
    for (const VariableAst* v : dynamic) shared_[v] = u32(at);
    p_.dynamic_shared_at = u32(at);
}

// Frame
// -------------------------------------------------------------------------------------------------------

u32 Lowering::allocate(u32 bytes, u32 align) {
    u32 at = (p_.frame_bytes + align - 1) / align * align;
    p_.frame_bytes = at + bytes;
    return at;
}

u32 slot_bytes(int bits) {
    return bits == 1 ? 4 : bits <= 16 ? 64 : u32(bits) * 4;
}

u32 Lowering::constant(int bits, u64 low, u64 high) {
    if (bits < 16 && bits != 1) bits = 16;
    if (bits < 64 && bits != 1) low &= (u64(1) << bits) - 1;
    auto [it, fresh] = constants_.try_emplace({bits, low, high}, 0);
    if (fresh) {
        it->second = allocate(slot_bytes(bits), bits == 1 ? 4 : 64);
        p_.constants.push_back({it->second, bits, low, high});
    }
    return it->second;
}

u32 Lowering::special(Special what, int bits) {
    auto [it, fresh] = specials_.try_emplace({int(what), bits}, 0);
    if (fresh) {
        it->second = allocate(slot_bytes(bits));
        p_.specials.push_back({what, it->second, u8(bits)});
    }
    return it->second;
}

u32 Lowering::temp(int bits) {
    if (bits < 16 && bits != 1) bits = 16;
    std::vector<u32>& pool = temps_[bits];
    std::size_t& used = temps_used_[bits];
    if (used == pool.size()) pool.push_back(allocate(slot_bytes(bits), bits == 1 ? 4 : 64));
    return pool[used++];
}

u32 Lowering::list(std::vector<u32> offsets) {
    p_.lists.push_back(std::move(offsets));
    return u32(p_.lists.size() - 1);
}

void Lowering::layout_function(std::size_t index) {
    const FunctionAst& f = *reachable_[index];
    FunctionCode& code = p_.functions[index];
    code.ast = &f;
    flows_.push_back(analyse(f));
    const Flow& flow = flows_.back();
    p_.frame_bytes = (p_.frame_bytes + 63) / 64 * 64;
    code.window_from = p_.frame_bytes;
    u32 base[kSlotClasses];
    const int bits[kSlotClasses] = {1, 16, 32, 64, 128};
    for (int c = kSlot16; c < kSlotClasses; ++c) base[c] = allocate(slot_bytes(bits[c]) * u32(flow.slots[c]));
    code.until16 = base[kSlot32], code.until32 = base[kSlot64], code.until64 = base[kSlot128];
    code.until128 = p_.frame_bytes;
    std::vector<u32> variables(f.variables.size());
    for (std::size_t v = 0; v < f.variables.size(); ++v) {
        const VariableAst& a = f.variables[v];
        if (a.space == Space::param && !(f.entry && v < f.params.size())) {
            variables[v] = allocate(u32((a.size + 3) / 4) * 128);
        } else if (a.space == Space::local) {
            u32 align = u32(std::max<u64>(a.align, 4));
            code.local_bytes = (code.local_bytes + align - 1) / align * align;
            variables[v] = code.local_bytes;
            code.local_bytes += u32((a.size + 3) / 4 * 4);
        }
    }
    code.local_bytes = (code.local_bytes + 15) / 16 * 16;
    code_saved_top_.push_back(allocate(128));
    code.window_until = (p_.frame_bytes + 63) / 64 * 64;
    p_.frame_bytes = code.window_until;
    code.predicates_from = p_.frame_bytes;
    base[kPredicateSlot] = allocate(4 * u32(flow.slots[kPredicateSlot]), 4);
    code.predicates_until = p_.frame_bytes;
    code.local_base = p_.local_bytes;
    p_.local_bytes += code.local_bytes;

    std::vector<u32> slots(f.registers.size(), ~0U);
    for (std::size_t r = 0; r < f.registers.size(); ++r) {
        if (flow.slot[r] < 0) continue;
        SlotClass c = slot_class(f.registers[r].type);
        slots[r] = base[c] + slot_bytes(bits[c]) * u32(flow.slot[r]);
    }
    for (int r : flow.uninitialised) {
        SlotClass c = slot_class(f.registers[std::size_t(r)].type);
        p_.zeroed.push_back({slots[std::size_t(r)], slot_bytes(bits[c])});
    }
    p_.registers = std::max(p_.registers, u32(flow.slots[kSlot32] + 2 * flow.slots[kSlot64] +
                                              4 * flow.slots[kSlot128] + (flow.slots[kSlot16] + 1) / 2 + 4));
    slots_of_.push_back(std::move(slots));
    variables_of_.push_back(std::move(variables));
}

// Bodies
// ------------------------------------------------------------------------------------------------------

void Lowering::lower_function(std::size_t index) {
    f_ = reachable_[index];
    flow_ = &flows_[index];
    unit_ = module_.unit_of(f_);
    index_now_ = u32(index);
    slots_ = slots_of_[index];
    variables_ = variables_of_[index];
    carry_ = 0;
    entry_of_[index] = u32(p_.code.size());
    block_at_.assign(flow_->blocks.size(), 0);
    fixups_.clear();
    if (dynamic_stack_ && p_.stack_pointer == ~0U) p_.stack_pointer = special(Special::stack_pointer, 32);
    InstAst prologue;
    prologue.line = f_->line, prologue.op = "prologue of " + f_->name;
    inst_ = &prologue;
    first_step_ = false;
    if (!f_->entry) {
        std::vector<const VariableAst*> formals;
        for (const VariableAst& v : f_->params) formals.push_back(&v);
        std::vector<AbiSlot> layout = abi_layout(formals);
        for (std::size_t k = 0; k < layout.size(); ++k) {
            copy_words(variables_[f_->results.size() + k],
                       abi_area(layout[k].offset + layout[k].words, false) + layout[k].offset * 128,
                       layout[k].words);
        }
    }
    saved_top_ = ~0U;
    for (const InstAst& i : f_->body) {
        if (i.op != "alloca" || f_->entry || saved_top_ != ~0U) continue;
        saved_top_ = code_saved_top_[index];
        emit("mov.b32", saved_top_, special(Special::stack_top, 32));
    }
    for (std::size_t k = 0; k < flow_->order.size(); ++k) {
        lower_block(flow_->order[k], k + 1 < flow_->order.size() ? flow_->order[k + 1] : -1);
    }
    for (const Fixup& fix : fixups_) {
        u32 at = block_at_[std::size_t(fix.block)];
        Inst& inst = p_.code[fix.inst];
        if (fix.list_entry < 0)
            inst.target = at;
        else
            const_cast<u32*>(inst.list)[fix.list_entry] = at;
    }
}

void Lowering::lower_block(int block, int next) {
    const BasicBlock& b = flow_->blocks[std::size_t(block)];
    block_at_[std::size_t(block)] = u32(p_.code.size());
    for (int i = b.first; i < b.last; ++i) lower_inst(f_->body[std::size_t(i)]);
    bool ends = b.last > b.first;
    if (ends) {
        const InstAst& last = f_->body[std::size_t(b.last - 1)];
        ends =
            last.guard < 0 && (last.op == "bra" || last.op == "brx" || last.op == "ret" || last.op == "exit");
    }
    if (ends || (b.fallthrough >= 0 && b.fallthrough == next)) return;
    InstAst jump;
    jump.line = b.last > b.first ? f_->body[std::size_t(b.last - 1)].line : f_->line;
    jump.op = "end of block";
    inst_ = &jump;
    first_step_ = false;
    if (b.fallthrough < 0) {
        // Falling off the end of a function acts as ret.
        ret(jump);
        return;
    }
    Inst& inst = emit("nop");
    inst.kind = Kind::branch;
    fixups_.push_back({p_.code.size() - 1, b.fallthrough, -1});
}

void Lowering::lower_inst(const InstAst& inst) {
    inst_ = &inst;
    first_step_ = true;
    for (auto& [bits, used] : temps_used_) used = 0;
    auto it = methods().find(inst.op);
    if (it == methods().end()) unsupported();
    classify_order(inst);
    (this->*it->second)(inst);
}

/// Kernels whose result may depend on the order of blocks are run one block after the other.
void Lowering::classify_order(const InstAst& i) {
    auto is_shared = [&] {
        for (const std::string& m : i.mods) {
            if (parse_space(m) != Space::none)
                return parse_space(m) == Space::shared || parse_space(m) == Space::local;
        }
        return false;
    };
    if ((i.op == "atom" || i.op == "red") && !is_shared()) {
        const Type t = type_of(i);
        bool commutes = t.kind != 'f' && t.kind != 'h' && !i.has("exch") && !i.has("cas") && !i.has("inc") &&
                        !i.has("dec");
        bool result = false;
        if (i.op == "atom" && !i.operands.empty() && i.operands[0].kind == Operand::reg) {
            int r = i.operands[0].reg_id;
            for (const InstAst& other : f_->body) {
                if (result) break;
                for (int u : register_use(other).uses) result = result || u == r;
            }
        }
        if (!commutes || result || i.operands[0].kind == Operand::vector) p_.ordered = true;
    }
    if ((i.op == "ld" || i.op == "st") && !is_shared() &&
        (i.has("volatile") || i.has("acquire") || i.has("release") || i.has("relaxed") || i.has("mmio"))) {
        p_.ordered = true;
    }
    if (i.op == "fence" || i.op == "membar") {
        if (!i.has("cta") && !i.has("proxy")) p_.ordered = true;
    }
}

Inst& Lowering::emit(const std::string& handler, u32 d, u32 a, u32 b, u32 c, i64 imm) {
    Handler fn = find_handler(handler);
    if (fn == nullptr) unsupported();
    Inst inst;
    inst.fn = fn;
    inst.d = d, inst.a = a, inst.b = b, inst.c = c, inst.imm = imm;
    inst.function = index_now_;
    inst.counted = first_step_ ? 1 : 0;
    first_step_ = false;
    if (inst_->guard >= 0) {
        inst.guard = reg(inst_->guard);
        inst.guard_mode = inst_->guard_negated ? 2 : 1;
    }
    p_.code.push_back(inst);
    p_.lines.push_back(inst_->line);
    return p_.code.back();
}

void Lowering::unsupported() const {
    fail_unsupported(inst_->line, "instruction " + inst_->text());
}
void Lowering::bad(const std::string& text) const {
    fail(inst_->line, inst_->text() + ": " + text);
}

const std::vector<Operand>& Lowering::operands(std::size_t least, std::size_t most) {
    if (most == 0) most = least;
    std::size_t n = inst_->operands.size();
    if (n < least || n > most) bad("has " + std::to_string(n) + " operands");
    return inst_->operands;
}

Type Lowering::type_of(const InstAst& inst, std::size_t from_end) const {
    for (std::size_t k = inst.mods.size(); k-- > 0;) {
        Type t;
        if (!parse_type(inst.mods[k], t)) continue;
        if (from_end-- == 0) return t;
    }
    fail(inst.line, inst.text() + ": no type");
}

}  // namespace softgpu::ptx
