// Symbols of one or more PTX texts, and the loaded module.
#pragma once

#include <mutex>

#include "tests/softgpu/ptx/program.h"

namespace softgpu::ptx {

/// What a name means within one text.
struct Symbol {
    enum Kind { none, variable, function } kind = none;
    const VariableAst* ast = nullptr;  ///< variable; shared ones have no address of their own
    u64 address = 0;
    const FunctionAst* code = nullptr;
};

class LoadedModule;

class LoadedFunction final : public Function {
  public:
    const FunctionInfo& info() const override { return info_; }
    const Program& program() const { return program_; }

    FunctionInfo info_;
    Program program_;
    LoadedModule* module_ = nullptr;
};

class LoadedModule final : public Module {
  public:
    LoadedModule(const std::vector<std::string>& texts, Memory& memory);
    const std::map<std::string, Function*>& functions() const override { return entries_; }
    std::vector<Variable*> variables() override;

    /// Looks `name` up as seen from text number `unit`: its own names first, then what other texts export.
    Symbol find(int unit, const std::string& name) const;
    int unit_of(const FunctionAst* f) const { return unit_.at(f); }
    u64 function_address(const FunctionAst* f) const;
    /// Functions whose address is taken in any initialiser or instruction: what an indirect call can reach.
    const std::vector<const FunctionAst*>& address_taken() const { return taken_; }

    /// Memory for malloc in kernels: 8 MiB taken from the owner at the first call. 0 when there is none left.
    u64 heap_allocate(u64 bytes, Memory& memory);
    void heap_free(u64 address);

  private:
    void collect(Memory& memory);
    void allocate(Memory& memory);
    void initialise();
    void find_taken();
    void build_entries();

    struct Unit {
        std::unique_ptr<ModuleAst> ast;
        std::unordered_map<std::string, Symbol> names;
    };
    std::vector<Unit> units_;
    std::unordered_map<std::string, Symbol> exported_;
    std::unordered_map<const FunctionAst*, int> unit_;
    std::unordered_map<const FunctionAst*, u64> function_ids_;
    std::unordered_map<const VariableAst*, Variable*> storage_;
    std::vector<std::unique_ptr<Variable>> variables_;
    std::vector<const FunctionAst*> taken_;
    std::map<std::string, std::unique_ptr<LoadedFunction>> built_;
    std::map<std::string, Function*> entries_;
    std::map<u64, u64> heap_used_;  // address -> bytes
    u64 heap_ = 0;
};

/// Fills in `program` for `entry` of `module`. Throws PtxError.
void lower_program(const LoadedModule& module, const FunctionAst& entry, Program& program);
/// Lowers a function that no kernel reaches, only to check that all its instructions are known.
void check_function(const LoadedModule& module, const FunctionAst& function);

}  // namespace softgpu::ptx
