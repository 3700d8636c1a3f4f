// Where the program is in a known iteration: matches what it does against the recorded ops, and names each
// buffer by the tensor of the iteration that it stands for.
//
// Small and unmovable buffers take no part. A tensor is bound to a buffer when the buffer is allocated at the
// tensor's place, or else at the first op that uses the one where the record says the other.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "recorder/iteration.h"
#include "replayer/buffer.h"

namespace swapadvisor {

/// An iteration, prepared for matching. Immutable.
class IterationScript {
  public:
    explicit IterationScript(std::shared_ptr<const Iteration> iteration);
    const Iteration& iteration() const { return *iteration_; }
    const std::shared_ptr<const Iteration>& shared_iteration() const { return iteration_; }
    std::int32_t ops() const { return static_cast<std::int32_t>(keys_.size()); }
    /// The same ops with the same tensors, born and freed at the same places.
    bool equals(const IterationScript& other) const;
    /// A tensor lives across the boundary without being persistent.
    bool wraps() const { return wraps_; }
    /// How many ops have the key of the first.
    std::int32_t like_first() const { return like_first_; }
    std::uint64_t key(std::int32_t op) const { return keys_[static_cast<std::size_t>(op)]; }
    struct Uses {
        const std::int32_t* begin_;
        const std::int32_t* end_;
        const std::int32_t* begin() const { return begin_; }
        const std::int32_t* end() const { return end_; }
    };
    Uses uses(std::int32_t op) const {
        const auto i = static_cast<std::size_t>(op);
        return {tensors_.data() + first_use_[i], tensors_.data() + first_use_[i + 1]};
    }
    /// Is use `i` of uses(op) believed to leave the contents as they are?
    bool believed_read(std::int32_t op, std::size_t i) const {
        return believed_read_[first_use_[static_cast<std::size_t>(op)] + i];
    }
    bool any_believed_read(std::int32_t tensor) const {
        return any_believed_read_[static_cast<std::size_t>(tensor)];
    }
    /// Tensors allocated between the op before `op` and `op`, in order (cyclic: what follows the last op
    /// comes before op 0).
    const std::vector<std::int32_t>& births(std::int32_t op) const {
        return births_[static_cast<std::size_t>(op)];
    }
    std::int64_t bytes(std::int32_t tensor) const {
        return iteration_->tensors[static_cast<std::size_t>(tensor)].bytes;
    }
    bool takes_part(std::int32_t tensor) const {
        const TensorRecord& t = iteration_->tensors[static_cast<std::size_t>(tensor)];
        return !t.small && !t.escaped;
    }
    /// The op before which the program frees the tensor; its last use + 1 if at once, or if it is never
    /// freed.
    std::int32_t freed_before(std::int32_t tensor) const {
        return freed_before_[static_cast<std::size_t>(tensor)];
    }
    /// Tensors that the program frees between `op` and the op after it.
    const std::vector<std::int32_t>& deaths(std::int32_t op) const {
        return deaths_[static_cast<std::size_t>(op)];
    }
    /// Ops that use the tensor, rising.
    const std::vector<std::int32_t>& users(std::int32_t tensor) const {
        return users_[static_cast<std::size_t>(tensor)];
    }

  private:
    std::shared_ptr<const Iteration> iteration_;
    std::vector<std::uint64_t> keys_;
    std::vector<std::uint32_t> first_use_;
    std::vector<std::int32_t> tensors_;
    std::vector<bool> believed_read_;      ///< by place in `tensors_`
    std::vector<bool> any_believed_read_;  ///< by tensor
    std::vector<std::vector<std::int32_t>> births_, deaths_, users_;
    std::vector<std::int32_t> freed_before_;
    std::int32_t like_first_ = 0;
    bool wraps_ = false;
};

class IterationMatcher {
  public:
    explicit IterationMatcher(std::shared_ptr<const IterationScript> script);

    /// The tensor that an allocation of `bytes` now stands for, or -1.
    std::int32_t expect(std::uint64_t bytes);
    void bind(std::int32_t tensor, Buffer& buffer);
    void released(Buffer& buffer);

    /// Matches an op; the position in the iteration, or -1 if it is foreign. Ops that the program left out
    /// are skipped.
    std::int32_t observe(std::uint64_t key, const std::vector<BufferUse>& uses);
    /// The next op expected.
    std::int32_t position() const { return position_; }
    void restart();  ///< at the start of an iteration; keeps the bindings
    void forget();   ///< bindings too
    /// Goes on with another record of the same iteration (one with timings); false: it is not the same.
    bool adopt(const std::shared_ptr<const IterationScript>& script);
    void name_buffers();  ///< sets Buffer::tensor of all that are bound, after someone cleared it
    Buffer* buffer(std::int32_t tensor) const { return bound_[static_cast<std::size_t>(tensor)]; }
    const IterationScript& script() const { return *script_; }
    static constexpr std::uint64_t kNever = ~0ull;
    /// Ops from the one that is expected next to the next that uses the buffer; kNever - 1: none will before
    /// it is freed; kNever: it is not of the iteration.
    std::uint64_t next_use(const Buffer& buffer) const;
    /// As that, or until it is freed if that comes first.
    std::uint64_t next_change(const Buffer& buffer) const;
    std::uint32_t foreign() const { return foreign_; }  ///< since the start of this iteration
    std::uint32_t skipped() const { return skipped_; }
    std::uint32_t unexpected_births() const { return unexpected_; }
    /// Every persistent tensor is bound.
    bool complete() const;
    /// Of the op at `position`, which observe() matched: marks the uses that are believed to read.
    void believe(std::int32_t position, std::vector<BufferUse>& uses) const;

  private:
    bool compatible(std::int32_t op, const std::vector<BufferUse>& uses) const;
    void bind_uses(std::int32_t op, const std::vector<BufferUse>& uses);

    std::shared_ptr<const IterationScript> script_;
    std::vector<Buffer*> bound_;
    std::int32_t position_ = 0;
    std::size_t next_birth_ = 0;  ///< in births(position_)
    std::uint32_t foreign_ = 0, skipped_ = 0, unexpected_ = 0;
};

}  // namespace swapadvisor
