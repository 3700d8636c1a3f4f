// Lowering of PTX instructions to pre-decoded ones; split by family over lower_*.cpp.
#pragma once

#include "tests/softgpu/ptx/flow.h"
#include "tests/softgpu/ptx/handlers.h"
#include "tests/softgpu/ptx/linker.h"

namespace softgpu::ptx {

class Lowering {
  public:
    Lowering(const LoadedModule& module, Program& program) : module_(module), p_(program) {}
    void run(const FunctionAst& entry);
    void run_unreached(const FunctionAst& function);

  private:
    using Method = void (Lowering::*)(const InstAst&);
    static const std::unordered_map<std::string, Method>& methods();

    // Program level.
    void reach(const FunctionAst& f);
    void note_symbols(const FunctionAst& f, std::vector<const FunctionAst*>& callees, bool& indirect);
    void place_shared();
    void find_recursion();
    void layout_function(std::size_t index);
    void lower_function(std::size_t index);
    void lower_block(int block, int next);
    void lower_inst(const InstAst& inst);
    void classify_order(const InstAst& inst);

    // Frame.
    u32 allocate(u32 bytes, u32 align = 64);
    u32 constant(int bits, u64 low, u64 high = 0);
    u32 special(Special what, int bits);
    u32 temp(int bits);  ///< until the end of the PTX instruction; bits 1: predicate
    u32 list(std::vector<u32> offsets);

    // Operands.
    u32 in(const Operand& o, const Type& type);
    u32 in_bits(const Operand& o, int bits) { return in(o, Type{'b', bits}); }
    u32 in_predicate(const Operand& o);  ///< with negation applied
    u32 out(const Operand& o, const Type& type);
    u32 out_bits(const Operand& o, int bits) { return out(o, Type{'b', bits}); }
    u32 reg(int id) const { return slots_[std::size_t(id)]; }
    const Type& reg_type(int id) const { return f_->registers[std::size_t(id)].type; }
    int operand_bits(const Operand& o, int otherwise) const;
    u64 symbol_value(const Operand& o);
    u32 symbol_slot(const Operand& o, int bits);
    Symbol find(const std::string& name) const;
    Special special_register(const std::string& name) const;
    u32 special_operand(const Operand& o, int bits);

    // Emission.
    Inst& emit(const std::string& handler, u32 d = 0, u32 a = 0, u32 b = 0, u32 c = 0, i64 imm = 0);
    bool known(const std::string& handler) const { return find_handler(handler) != nullptr; }
    [[noreturn]] void unsupported() const;
    [[noreturn]] void bad(const std::string& text) const;
    const std::vector<Operand>& operands(std::size_t least, std::size_t most = 0);
    Type type_of(const InstAst& inst, std::size_t from_end = 0) const;

    // Families.
    void arithmetic(const InstAst& i);
    void multiply(const InstAst& i);
    void extended(const InstAst& i);
    void logic(const InstAst& i);
    void shift(const InstAst& i);
    void bit_field(const InstAst& i);
    void dot(const InstAst& i);
    void approximate(const InstAst& i);
    void select(const InstAst& i);
    void compare(const InstAst& i);
    void mov(const InstAst& i);
    void convert(const InstAst& i);
    void convert_pack(const InstAst& i);
    void address_convert(const InstAst& i);
    void is_space(const InstAst& i);
    void load_store(const InstAst& i);
    void param_words(const InstAst& i, bool store, int variable, i64 offset, const Type& type, int n);
    void atomic(const InstAst& i);
    void nothing(const InstAst& i);
    void branch(const InstAst& i);
    void branch_index(const InstAst& i);
    void call(const InstAst& i);
    void builtin_call(const InstAst& i, const std::string& name, const std::vector<Operand>& results,
                      const std::vector<Operand>& args);
    void ret(const InstAst& i);
    void exit(const InstAst& i);
    void stop(const InstAst& i);
    void barrier(const InstAst& i);
    void warp_op(const InstAst& i);
    void alloca_op(const InstAst& i);
    void mma(const InstAst& i);
    void wmma(const InstAst& i);
    void matrix_move(const InstAst& i);
    void video(const InstAst& i);
    void async_copy(const InstAst& i);
    void mbarrier(const InstAst& i);
    void cluster_address(const InstAst& i);
    void policy(const InstAst& i);
    u32 register_list(const std::vector<std::pair<const Operand*, bool>>& operands);
    u32 address_slot(const Operand& address, Space space);

    // Calls move parameters through an area that caller and callee lay out alike.
    struct AbiSlot {
        u32 offset = 0, words = 0;
    };
    static std::vector<AbiSlot> abi_layout(const std::vector<const VariableAst*>& variables);
    void copy_words(u32 to, u32 from, u32 words);
    u32 abi_area(u32 words, bool results);

    const LoadedModule& module_;
    Program& p_;
    std::vector<const FunctionAst*> reachable_;
    std::unordered_map<const FunctionAst*, u32> index_;
    std::vector<std::vector<u32>> callees_;
    std::vector<bool> indirect_;
    std::unordered_map<const VariableAst*, u32> shared_;
    std::vector<Flow> flows_;
    std::vector<std::vector<u32>> slots_of_, variables_of_;
    std::vector<u32> code_saved_top_;
    std::map<std::tuple<int, u64, u64>, u32> constants_;
    std::map<std::pair<int, int>, u32> specials_;
    std::map<int, std::vector<u32>> temps_;
    std::map<int, std::size_t> temps_used_;
    u32 abi_args_ = 0, abi_results_ = 0;
    bool dynamic_stack_ = false, check_only_ = false;

    // The function and instruction at work.
    const FunctionAst* f_ = nullptr;
    const Flow* flow_ = nullptr;
    int unit_ = 0;
    u32 index_now_ = 0;
    std::vector<u32> slots_;      ///< per register: frame offset
    std::vector<u32> variables_;  ///< per variable: .param word area, or .local offset
    std::vector<u32> block_at_;   ///< code index of each block
    struct Fixup {
        std::size_t inst;
        int block;
        int list_entry;  ///< -1: the target field
    };
    std::vector<Fixup> fixups_;
    std::vector<std::pair<std::size_t, u32>> call_fixups_;
    std::vector<u32> entry_of_;
    const InstAst* inst_ = nullptr;
    bool first_step_ = true;
    u32 carry_ = 0;
    u32 saved_top_ = ~0U;  ///< slot with the caller's stack_top, for functions with alloca
};

}  // namespace softgpu::ptx
