// The PTX engine of the software GPU: PTX text -> pre-decoded module -> execution, a warp at a time.
// It knows nothing of the CUDA driver: the driver half (tests/softgpu/driver) owns memory, streams and time.
// Device addresses are host addresses inside the driver's reserved region, so a checked access is a plain
// load. Thread rules: parse and link from any thread; one launch at a time per device, which itself uses
// `threads` workers.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace softgpu::ptx {

/// Thrown for text that cannot be run: "line N: ..." with the instruction named. Never a silent skip.
struct PtxError : std::exception {
    explicit PtxError(std::string text, bool unsupported_instruction = false)
        : text_(std::move(text)), unsupported(unsupported_instruction) {}
    const char* what() const noexcept override { return text_.c_str(); }

  private:
    std::string text_;

  public:
    bool unsupported = false;
};

struct Param {
    std::uint32_t offset = 0, size = 0, align = 0;
};

/// A global or constant variable; the driver gives it device memory (through Memory::allocate_global at
/// load).
struct Variable {
    std::string name;
    std::uint64_t size = 0, align = 0;
    std::uint64_t address = 0;  ///< device address after load
    bool constant = false;
    bool external = false;
    bool managed = false;
};

struct FunctionInfo {
    std::string name;
    std::vector<Param> params;  ///< in order, offsets as in the parameter block
    std::uint32_t param_bytes = 0;
    std::uint32_t static_shared_bytes = 0;
    std::uint32_t local_bytes = 0;
    std::uint32_t registers = 0;       ///< estimate, for attributes and occupancy
    std::uint32_t max_threads = 1024;  ///< .maxntid
    std::array<std::uint32_t, 3> required_cluster{0, 0, 0};
    int ptx_version = 0, target = 0;  ///< 87, 75 ...
};

/// What the engine needs of the driver's memory. Called from worker threads: must be thread-safe and quick.
struct Memory {
    virtual ~Memory() = default;
    /// Storage for a module variable at load (zeroed). Released by the driver at unload.
    virtual std::uint64_t allocate_global(std::uint64_t bytes, std::uint64_t align, bool managed) = 0;
    /// True when every byte of [address, address+bytes) may be read (or written) by a kernel. The engine
    /// caches positive answers per warp for `*valid_until` exclusive upper bound / `*valid_from` lower bound,
    /// within a launch.
    virtual bool check(std::uint64_t address, std::uint64_t bytes, bool write, std::uint64_t* valid_from,
                       std::uint64_t* valid_until) = 0;
    /// Optional page touch tracking (race checker, sparse store): called once per warp-access range when
    /// enabled.
    virtual bool tracking() const { return false; }
    virtual void touched(std::uint64_t address, std::uint64_t bytes, bool write) {
        (void)address, (void)bytes, (void)write;
    }
    /// Text from device printf / assert.
    virtual void print(const std::string& text) = 0;
};

struct LaunchConfig {
    std::array<std::uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1}, cluster{1, 1, 1};
    std::uint32_t dynamic_shared_bytes = 0;
    bool cooperative = false;
    const void* params = nullptr;     ///< the parameter block, FunctionInfo::param_bytes long
    int threads = 0;                  ///< worker threads, 0 = all cores; results never depend on it
    std::uint64_t clock_base_ns = 0;  ///< virtual time at launch for %globaltimer / clock
    std::uint64_t instruction_budget =
        0;                  ///< most instructions a warp may execute (Fault::timeout), 0: no limit
    bool may_wait = false;  ///< an Execution may be left while all its threads wait for somebody else
};

enum class Fault {
    none,
    illegal_address,
    misaligned_address,
    illegal_instruction,
    assert_failed,
    trap,
    launch_failure,
    stack_error,
    timeout
};

struct LaunchResult {
    Fault fault = Fault::none;
    std::string detail;  ///< kernel, block, thread, address, instruction line
    std::uint64_t fault_address = 0;
    std::uint64_t thread_instructions = 0;
    std::uint64_t warp_instructions = 0;
    std::uint64_t global_bytes =
        0;  ///< read and written, as the memory system would move them (32 B sectors)
};

class Function;

class Module {
  public:
    virtual ~Module() = default;
    virtual const std::map<std::string, Function*>& functions() const = 0;  ///< .entry kernels
    virtual std::vector<Variable*> variables() = 0;
};

class Function {
  public:
    virtual ~Function() = default;
    virtual const FunctionInfo& info() const = 0;
};

/// Parses and links one or more PTX texts into a module (several for -rdc images) and initialises its
/// variables in `memory`. Throws PtxError.
std::unique_ptr<Module> load(const std::vector<std::string>& texts, Memory& memory);

/// A kernel on its way. One that waits for somebody else (a copy, another device, the host) is left
/// meanwhile.
class Execution {
  public:
    virtual ~Execution() = default;
    enum class State { ended, advanced, waiting };
    /// Runs the kernel to its end or, with `may_wait`, until each of its threads does nothing but poll memory
    /// or wait for one that does. Advanced: some did more than that before. Addresses are checked anew in
    /// each turn.
    virtual State run() = 0;
    virtual const LaunchResult& result() const = 0;  ///< once it has ended
};

/// `function` and `memory` must outlive the execution; what `config` points to need not.
std::unique_ptr<Execution> start(const Function& function, const LaunchConfig& config, Memory& memory);

/// Runs a kernel to its end. Deterministic whatever `threads` is (atomics on floats included: blocks that
/// use order-dependent atomics are run in block order).
LaunchResult launch(const Function& function, const LaunchConfig& config, Memory& memory);

}  // namespace softgpu::ptx
