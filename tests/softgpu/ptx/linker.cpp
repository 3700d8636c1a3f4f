#include "tests/softgpu/ptx/linker.h"

#include <cstring>

namespace softgpu::ptx {

LoadedModule::LoadedModule(const std::vector<std::string>& texts, Memory& memory) {
    if (texts.empty()) throw PtxError("no PTX text to load");
    for (const std::string& text : texts) {
        units_.emplace_back();
        units_.back().ast = parse(text);
    }
    collect(memory);
    allocate(memory);
    initialise();
    find_taken();
    build_entries();
}

void LoadedModule::collect(Memory&) {
    int n = 0;
    for (Unit& unit : units_) {
        for (const auto& f : unit.ast->functions) {
            unit_[f.get()] = n;
            Symbol& s = unit.names[f->name];
            if (s.kind == Symbol::function && s.code->has_body && f->has_body) {
                fail(f->line, "function " + f->name + " defined twice");
            }
            if (s.kind == Symbol::none || f->has_body) s = {Symbol::function, nullptr, 0, f.get()};
        }
        for (const VariableAst& v : unit.ast->variables) {
            Symbol& s = unit.names[v.name];
            if (s.kind == Symbol::none || (s.ast != nullptr && s.ast->external))
                s = {Symbol::variable, &v, 0, nullptr};
        }
        for (const auto& [alias, target] : unit.ast->aliases) {
            auto it = unit.names.find(target);
            if (it != unit.names.end()) unit.names[alias] = it->second;
        }
        ++n;
    }
    for (Unit& unit : units_) {
        for (const auto& f : unit.ast->functions) {
            if (!f->has_body || !(f->visible || f->weak || f->entry)) continue;
            Symbol& s = exported_[f->name];
            if (s.kind == Symbol::function && !s.code->weak && !f->weak) {
                fail(f->line, "function " + f->name + " defined in two linked texts");
            }
            if (s.kind == Symbol::none || s.code->weak) s = {Symbol::function, nullptr, 0, f.get()};
        }
        for (const VariableAst& v : unit.ast->variables) {
            if (v.external || !(v.visible || v.weak || v.common)) continue;
            Symbol& s = exported_[v.name];
            if (s.kind == Symbol::variable && !(s.ast->weak || s.ast->common) && !(v.weak || v.common)) {
                fail(v.line, "variable " + v.name + " defined in two linked texts");
            }
            if (s.kind == Symbol::none || s.ast->weak || (s.ast->common && !v.weak))
                s = {Symbol::variable, &v, 0, nullptr};
        }
    }
    u64 id = 0;
    for (Unit& unit : units_) {
        for (const auto& f : unit.ast->functions) {
            if (f->has_body) function_ids_[f.get()] = kFunctionWindow + 16 * ++id;
        }
    }
}

void LoadedModule::allocate(Memory& memory) {
    for (Unit& unit : units_) {
        for (const VariableAst& v : unit.ast->variables) {
            if (v.space != Space::global && v.space != Space::constant) continue;
            if (v.external) continue;
            // A weak or common one that lost to another definition has no storage.
            if (v.weak || v.common) {
                if (exported_.at(v.name).ast != &v) continue;
            }
            if (unit.names.at(v.name).ast != &v) continue;
            auto variable = std::make_unique<Variable>();
            variable->name = v.name;
            variable->size = v.size, variable->align = v.align;
            variable->constant = v.space == Space::constant;
            variable->managed = v.managed;
            variable->address =
                memory.allocate_global(std::max<u64>(v.size, 1), std::max<u64>(v.align, 1), v.managed);
            if (variable->address == 0)
                throw PtxError("line " + std::to_string(v.line) + ": no memory for variable " + v.name);
            storage_[&v] = variable.get();
            variables_.push_back(std::move(variable));
        }
    }
}

Symbol LoadedModule::find(int unit, const std::string& name) const {
    const Unit& u = units_[std::size_t(unit)];
    Symbol s;
    if (auto it = u.names.find(name); it != u.names.end()) s = it->second;
    bool foreign = s.kind == Symbol::none ||
                   (s.kind == Symbol::function && (!s.code->has_body || s.code->weak)) ||
                   (s.kind == Symbol::variable && (s.ast->external || s.ast->weak || s.ast->common));
    if (foreign) {
        auto it = exported_.find(name);
        if (it != exported_.end()) s = it->second;
    }
    if (s.kind == Symbol::variable) {
        if (auto it = storage_.find(s.ast); it != storage_.end()) s.address = it->second->address;
    }
    return s;
}

u64 LoadedModule::function_address(const FunctionAst* f) const {
    return function_ids_.at(f);
}

void LoadedModule::initialise() {
    for (std::size_t u = 0; u < units_.size(); ++u) {
        for (const VariableAst& v : units_[u].ast->variables) {
            auto it = storage_.find(&v);
            if (it == storage_.end() || (v.init.empty() && v.relocations.empty())) continue;
            std::vector<unsigned char> bytes = v.init;
            for (const VariableAst::Relocation& r : v.relocations) {
                Symbol s = find(int(u), r.symbol);
                u64 value = 0;
                if (s.kind == Symbol::variable && s.address != 0)
                    value = s.address;
                else if (s.kind == Symbol::function && s.code->has_body)
                    value = function_address(s.code);
                else
                    fail(v.line,
                         "initialiser of " + v.name + " names " + r.symbol + ", which has no address here");
                value += u64(r.addend);
                if (r.mask_shift >= 0) value >>= r.mask_shift;
                std::memcpy(bytes.data() + r.offset, &value, std::size_t(std::min(r.bytes, 8)));
            }
            std::memcpy(reinterpret_cast<void*>(it->second->address), bytes.data(), bytes.size());
        }
    }
}

void LoadedModule::find_taken() {
    std::unordered_map<const FunctionAst*, bool> seen;
    auto take = [&](int unit, const std::string& name) {
        Symbol s = find(unit, name);
        if (s.kind == Symbol::function && s.code->has_body && !s.code->entry && !seen[s.code]) {
            seen[s.code] = true;
            taken_.push_back(s.code);
        }
    };
    for (std::size_t u = 0; u < units_.size(); ++u) {
        for (const VariableAst& v : units_[u].ast->variables) {
            for (const VariableAst::Relocation& r : v.relocations) take(int(u), r.symbol);
        }
        for (const auto& f : units_[u].ast->functions) {
            for (const InstAst& i : f->body) {
                if (i.op == "call") continue;
                for (const Operand& o : i.operands) {
                    if (o.kind == Operand::symbol && o.symbol_id < 0) take(int(u), o.name);
                }
            }
        }
    }
}

std::vector<Variable*> LoadedModule::variables() {
    std::vector<Variable*> all;
    for (const auto& v : variables_) all.push_back(v.get());
    return all;
}

void LoadedModule::build_entries() {
    std::unordered_map<const FunctionAst*, bool> reached;
    for (Unit& unit : units_) {
        for (const auto& f : unit.ast->functions) {
            if (!f->entry || !f->has_body || built_.contains(f->name)) continue;
            auto built = std::make_unique<LoadedFunction>();
            built->module_ = this;
            lower_program(*this, *f, built->program_);
            for (const FunctionCode& c : built->program_.functions) reached[c.ast] = true;
            FunctionInfo& info = built->info_;
            info.name = f->name;
            u32 at = 0;
            for (const VariableAst& v : f->params) {
                u32 align = u32(std::max<u64>(v.align, 1));
                at = (at + align - 1) / align * align;
                info.params.push_back({at, u32(v.size), align});
                at += u32(v.size);
            }
            info.param_bytes = at;
            info.static_shared_bytes = built->program_.static_shared;
            info.local_bytes = built->program_.local_bytes;
            info.registers = std::min<u32>(255, std::max<u32>(built->program_.registers, 8));
            u32 most = f->max_block[0] * f->max_block[1] * f->max_block[2];
            info.max_threads = most != 0 ? most : 1024;
            info.required_cluster = f->required_cluster;
            info.ptx_version = unit.ast->version, info.target = unit.ast->target;
            entries_[f->name] = built.get();
            built_[f->name] = std::move(built);
        }
    }
    for (Unit& unit : units_) {
        for (const auto& f : unit.ast->functions) {
            if (f->has_body && !f->entry && !reached[f.get()]) check_function(*this, *f);
        }
    }
}

u64 LoadedModule::heap_allocate(u64 bytes, Memory& memory) {
    constexpr u64 kHeap = u64(8) << 20;
    if (heap_ == 0) heap_ = memory.allocate_global(kHeap, 256, false);
    bytes = (std::max<u64>(bytes, 1) + 15) / 16 * 16;
    if (heap_ == 0 || bytes > kHeap) return 0;
    // First fit between the blocks in use.
    u64 at = heap_;
    for (const auto& [start, size] : heap_used_) {
        if (start - at >= bytes) break;
        at = start + size;
    }
    if (at + bytes > heap_ + kHeap) return 0;
    heap_used_[at] = bytes;
    return at;
}

void LoadedModule::heap_free(u64 address) {
    heap_used_.erase(address);
}

std::unique_ptr<Module> load(const std::vector<std::string>& texts, Memory& memory) {
    return std::make_unique<LoadedModule>(texts, memory);
}

}  // namespace softgpu::ptx
