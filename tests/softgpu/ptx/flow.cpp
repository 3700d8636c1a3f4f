#include "tests/softgpu/ptx/flow.h"

#include <algorithm>
#include <limits>
#include <list>
#include <set>

namespace softgpu::ptx {
namespace {

/// Instructions whose first operand is no result.
bool has_no_result(const InstAst& inst) {
    static const auto& names = *new std::set<std::string>{"st",
                                                          "red",
                                                          "bra",
                                                          "brx",
                                                          "ret",
                                                          "exit",
                                                          "membar",
                                                          "fence",
                                                          "prefetch",
                                                          "prefetchu",
                                                          "trap",
                                                          "brkpt",
                                                          "pmevent",
                                                          "nanosleep",
                                                          "stmatrix",
                                                          "stackrestore",
                                                          "discard",
                                                          "applypriority",
                                                          "griddepcontrol",
                                                          "setmaxnreg"};
    if (names.contains(inst.op)) return true;
    const std::string& op = inst.op;
    if (op == "bar" || op == "barrier") return !inst.has("red");
    if (op == "cp") return true;
    if (op == "wmma") return inst.has("store");
    if (op == "mbarrier")
        return inst.has("init") || inst.has("inval") || inst.has("expect_tx") || inst.has("complete_tx");
    return false;
}

void add_reads(const Operand& o, std::vector<int>& out) {
    if (o.reg_id >= 0) out.push_back(o.reg_id);
    if (o.reg2 >= 0) out.push_back(o.reg2);
    for (const Operand& e : o.list) add_reads(e, out);
}

/// Lane-by-lane instructions lowered in one step: the result may take the place of an operand that dies
/// there.
bool may_reuse(const InstAst& inst) {
    static const auto& names = *new std::set<std::string>{"add", "sub", "mul", "fma", "and", "or",
                                                          "xor", "shl", "shr", "mov", "neg"};
    if (inst.op == "mad" && (inst.has("lo") || inst.has("wide"))) return !inst.has("cc");
    return names.contains(inst.op) && !inst.has("cc") &&
           !(inst.op == "mov" && inst.operands.size() == 2 &&
             (inst.operands[0].kind == Operand::vector || inst.operands[1].kind == Operand::vector));
}

class Bourdoncle {
  public:
    explicit Bourdoncle(const std::vector<BasicBlock>& blocks) : blocks_(blocks), number_(blocks.size()) {}
    std::vector<int> run() {
        std::list<int> all;
        if (!blocks_.empty()) visit(0, all);
        return {all.begin(), all.end()};
    }

  private:
    static constexpr int kDone = std::numeric_limits<int>::max();
    int visit(int v, std::list<int>& partition) {
        stack_.push_back(v);
        int head = number_[std::size_t(v)] = ++count_;
        bool loop = false;
        for (int s : blocks_[std::size_t(v)].successors) {
            int least = number_[std::size_t(s)] == 0 ? visit(s, partition) : number_[std::size_t(s)];
            if (least <= head) head = least, loop = true;
        }
        if (head == number_[std::size_t(v)]) {
            number_[std::size_t(v)] = kDone;
            int element = stack_.back();
            stack_.pop_back();
            if (loop) {
                for (; element != v; element = stack_.back(), stack_.pop_back())
                    number_[std::size_t(element)] = 0;
                std::list<int> body;
                for (int s : blocks_[std::size_t(v)].successors) {
                    if (number_[std::size_t(s)] == 0) visit(s, body);
                }
                partition.splice(partition.begin(), body);
            }
            partition.push_front(v);
        }
        return head;
    }
    const std::vector<BasicBlock>& blocks_;
    std::vector<int> number_, stack_;
    int count_ = 0;
};

std::vector<BasicBlock> split(const FunctionAst& f) {
    std::set<int> leaders{0};
    int n = int(f.body.size());
    for (const auto& [name, at] : f.labels) leaders.insert(at);
    auto ends = [](const InstAst& i) {
        return i.op == "bra" || i.op == "brx" || i.op == "ret" || i.op == "exit";
    };
    for (int i = 0; i < n; ++i) {
        if (ends(f.body[std::size_t(i)])) leaders.insert(i + 1);
    }
    std::vector<BasicBlock> blocks;
    std::vector<int> block_at(std::size_t(n) + 1, -1);
    for (auto it = leaders.begin(); it != leaders.end(); ++it) {
        auto next = std::next(it);
        BasicBlock b;
        b.first = *it, b.last = next == leaders.end() ? n : *next;
        if (b.first > n) continue;
        block_at[std::size_t(b.first)] = int(blocks.size());
        blocks.push_back(b);
    }
    for (BasicBlock& b : blocks) {
        const InstAst* last = b.last > b.first ? &f.body[std::size_t(b.last - 1)] : nullptr;
        bool jumps = last != nullptr && ends(*last);
        auto target = [&](const std::string& label) {
            auto it = f.labels.find(label);
            if (it == f.labels.end()) fail(last->line, "unknown label " + label);
            return block_at[std::size_t(it->second)];
        };
        if (!jumps || last->guard >= 0) {
            if (b.last < n) b.fallthrough = block_at[std::size_t(b.last)];
            if (b.fallthrough >= 0) b.successors.push_back(b.fallthrough);
        }
        if (jumps && last->op == "bra") {
            if (last->operands.empty()) fail(last->line, "bra without a label");
            b.successors.push_back(target(last->operands[0].name));
        } else if (jumps && last->op == "brx") {
            if (last->operands.size() < 2) fail(last->line, "brx.idx needs an index and a target list");
            auto it = f.branch_targets.find(last->operands[1].name);
            if (it == f.branch_targets.end())
                fail(last->line, "unknown target list " + last->operands[1].name);
            for (const std::string& l : it->second) b.successors.push_back(target(l));
        }
    }
    return blocks;
}

using Bits = std::vector<std::uint64_t>;
bool get(const Bits& b, int i) {
    return (b[std::size_t(i) / 64] >> (i % 64)) & 1;
}
void set(Bits& b, int i) {
    b[std::size_t(i) / 64] |= std::uint64_t(1) << (i % 64);
}

struct Interval {
    int reg = 0, from = std::numeric_limits<int>::max(), until = -1;
};

std::vector<Interval> intervals(const FunctionAst& f, Flow& flow) {
    std::size_t words = (f.registers.size() + 63) / 64, n = flow.blocks.size();
    std::vector<Bits> in(n, Bits(words)), out(n, Bits(words)), gen(n, Bits(words)), kill(n, Bits(words));
    std::vector<RegisterUse> use(f.body.size());
    for (std::size_t b = 0; b < n; ++b) {
        for (int i = flow.blocks[b].first; i < flow.blocks[b].last; ++i) {
            const InstAst& inst = f.body[std::size_t(i)];
            use[std::size_t(i)] = register_use(inst);
            for (int r : use[std::size_t(i)].uses) {
                if (!get(kill[b], r)) set(gen[b], r);
            }
            if (inst.guard < 0) {
                for (int r : use[std::size_t(i)].defs) set(kill[b], r);
            }
        }
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (std::size_t k = flow.order.size(); k-- > 0;) {
            auto b = std::size_t(flow.order[k]);
            for (int s : flow.blocks[b].successors) {
                for (std::size_t w = 0; w < words; ++w) out[b][w] |= in[std::size_t(s)][w];
            }
            for (std::size_t w = 0; w < words; ++w) {
                std::uint64_t v = gen[b][w] | (out[b][w] & ~kill[b][w]);
                if (v != in[b][w]) in[b][w] = v, changed = true;
            }
        }
    }
    std::vector<Interval> all(f.registers.size());
    for (std::size_t r = 0; r < all.size(); ++r) all[r].reg = int(r);
    auto extend = [&](int r, int at) {
        Interval& v = all[std::size_t(r)];
        v.from = std::min(v.from, at), v.until = std::max(v.until, at);
    };
    int at = 0;
    for (int b : flow.order) {
        const BasicBlock& block = flow.blocks[std::size_t(b)];
        int start = at, end = at + 2 * (block.last - block.first) + 1;
        for (std::size_t w = 0; w < words; ++w) {
            for (std::uint64_t bits = in [std::size_t(b)][w]; bits != 0; bits &= bits - 1) {
                extend(int(w * 64) + __builtin_ctzll(bits), start);
            }
            for (std::uint64_t bits = out[std::size_t(b)][w]; bits != 0; bits &= bits - 1) {
                extend(int(w * 64) + __builtin_ctzll(bits), end);
            }
        }
        for (int i = block.first; i < block.last; ++i, at += 2) {
            bool reuse = may_reuse(f.body[std::size_t(i)]);
            for (int r : use[std::size_t(i)].uses) extend(r, reuse ? at : at + 1);
            for (int r : use[std::size_t(i)].defs) extend(r, at + 1);
        }
        at = end + 1;
    }
    if (!flow.order.empty()) {
        const Bits& entry = in[std::size_t(flow.order[0])];
        for (std::size_t r = 0; r < f.registers.size(); ++r) {
            if (get(entry, int(r))) flow.uninitialised.push_back(int(r));
        }
    }
    return all;
}

}  // namespace

SlotClass slot_class(const Type& type) {
    if (type.kind == 'p') return kPredicateSlot;
    if (type.bits <= 16) return kSlot16;
    if (type.bits == 32) return kSlot32;
    return type.bits == 64 ? kSlot64 : kSlot128;
}

RegisterUse register_use(const InstAst& inst) {
    RegisterUse u;
    if (inst.guard >= 0) u.uses.push_back(inst.guard);
    bool call = inst.op == "call";
    for (std::size_t k = 0; k < inst.operands.size(); ++k) {
        const Operand& o = inst.operands[k];
        bool result = k == 0 && o.kind != Operand::address && !has_no_result(inst);
        if (call && o.kind != Operand::vector) result = false;
        if (inst.op == "mbarrier" && inst.has("try_wait")) result = k == 0;
        add_reads(o, result ? u.defs : u.uses);
    }
    return u;
}

Flow analyse(const FunctionAst& f) {
    Flow flow;
    flow.blocks = split(f);
    flow.order = Bourdoncle(flow.blocks).run();
    std::vector<bool> placed(flow.blocks.size());
    for (int b : flow.order) placed[std::size_t(b)] = true;
    for (std::size_t b = 0; b < flow.blocks.size(); ++b) {
        if (!placed[b])
            flow.order.push_back(int(b));  // unreachable, but its instructions are checked all the same
    }
    std::vector<Interval> all = intervals(f, flow);
    flow.slot.assign(f.registers.size(), -1);
    std::sort(all.begin(), all.end(), [](const Interval& a, const Interval& b) {
        return a.from != b.from ? a.from < b.from : a.reg < b.reg;
    });
    // Linear scan per class: a slot is free again once its interval has ended.
    std::set<std::pair<int, int>> active[kSlotClasses];  // end, slot
    std::set<int> free[kSlotClasses];
    for (const Interval& v : all) {
        if (v.until < 0) continue;
        SlotClass c = slot_class(f.registers[std::size_t(v.reg)].type);
        while (!active[c].empty() && active[c].begin()->first < v.from) {
            free[c].insert(active[c].begin()->second);
            active[c].erase(active[c].begin());
        }
        int slot = flow.slots[c];
        if (free[c].empty()) {
            ++flow.slots[c];
        } else {
            slot = *free[c].begin();
            free[c].erase(free[c].begin());
        }
        active[c].insert({v.until, slot});
        flow.slot[std::size_t(v.reg)] = slot;
    }
    return flow;
}

}  // namespace softgpu::ptx
