#include "replayer/iteration_matcher.h"

#include <algorithm>

namespace swapadvisor {
namespace {
constexpr std::int32_t kSkip = 64;  // ops that a program may leave out at once
}

IterationScript::IterationScript(std::shared_ptr<const Iteration> iteration)
    : iteration_(std::move(iteration)) {
    const Iteration& it = *iteration_;
    const std::size_t n = it.ops.size();
    births_.resize(n);
    deaths_.resize(n);
    users_.resize(it.tensors.size());
    any_believed_read_.resize(it.tensors.size());
    freed_before_.resize(it.tensors.size(), 0);
    for (std::size_t op = 0; op < n; ++op) {
        keys_.push_back(it.ops[op].key);
        like_first_ += it.ops[op].key == it.ops[0].key;
        first_use_.push_back(static_cast<std::uint32_t>(tensors_.size()));
        for (const OpRecord::Use& use : it.ops[op].uses)
            if (takes_part(use.tensor)) {
                tensors_.push_back(use.tensor);
                believed_read_.push_back(use.unchanged);
                if (use.unchanged) any_believed_read_[static_cast<std::size_t>(use.tensor)] = true;
                users_[static_cast<std::size_t>(use.tensor)].push_back(static_cast<std::int32_t>(op));
            }
    }
    first_use_.push_back(static_cast<std::uint32_t>(tensors_.size()));
    for (std::size_t t = 0; t < users_.size(); ++t)
        if (!users_[t].empty()) freed_before_[t] = users_[t].back() + 1;
    for (std::size_t t = 0; t < it.tensors.size(); ++t) {
        const TensorRecord& tensor = it.tensors[t];
        if (takes_part(static_cast<std::int32_t>(t)) && !tensor.persistent &&
            tensor.death_event < tensor.birth_event)
            wraps_ = true;
    }
    std::vector<std::int32_t> at_end;
    std::size_t op = 0;
    for (const IterationEvent& event : it.events) {
        if (event.kind == EventKind::op) ++op;
        const auto index = static_cast<std::size_t>(event.index);
        if (event.kind == EventKind::release && !it.tensors[index].persistent && !users_[index].empty() &&
            it.tensors[index].death_event > it.tensors[index].birth_event)
            freed_before_[index] = std::max(freed_before_[index], static_cast<std::int32_t>(op));
        if (event.kind == EventKind::release && takes_part(event.index) && n != 0)
            deaths_[(op + n - 1) % n].push_back(event.index);
        if (event.kind == EventKind::allocate && takes_part(event.index))
            (op < n ? births_[op] : at_end).push_back(event.index);
    }
    if (n != 0) births_[0].insert(births_[0].begin(), at_end.begin(), at_end.end());
}

bool IterationScript::equals(const IterationScript& other) const {
    const auto& mine = iteration_->tensors;
    const auto& theirs = other.iteration_->tensors;
    return keys_ == other.keys_ && first_use_ == other.first_use_ && tensors_ == other.tensors_ &&
           births_ == other.births_ && deaths_ == other.deaths_ &&
           std::equal(mine.begin(), mine.end(), theirs.begin(), theirs.end(),
                      [](const TensorRecord& a, const TensorRecord& b) {
                          return a.bytes == b.bytes && a.persistent == b.persistent && a.small == b.small &&
                                 a.escaped == b.escaped;
                      });
}

IterationMatcher::IterationMatcher(std::shared_ptr<const IterationScript> script)
    : script_(std::move(script)) {
    bound_.resize(script_->iteration().tensors.size(), nullptr);
}

bool IterationMatcher::adopt(const std::shared_ptr<const IterationScript>& script) {
    if (!script_->equals(*script)) return false;
    script_ = script;
    return true;
}

void IterationMatcher::restart() {
    position_ = 0;
    next_birth_ = 0;
    foreign_ = skipped_ = unexpected_ = 0;
}

void IterationMatcher::forget() {
    for (Buffer*& buffer : bound_) {
        if (buffer != nullptr) buffer->tensor = -1;
        buffer = nullptr;
    }
    restart();
}

void IterationMatcher::name_buffers() {
    for (std::size_t t = 0; t < bound_.size(); ++t)
        if (bound_[t] != nullptr) bound_[t]->tensor = static_cast<std::int32_t>(t);
}

std::int32_t IterationMatcher::expect(std::uint64_t bytes) {
    std::size_t from = next_birth_;
    for (std::int32_t step = 0; step < std::min(kSkip, script_->ops()); ++step) {
        const std::int32_t op = (position_ + step) % script_->ops();
        const auto& births = script_->births(op);
        for (std::size_t i = from; i < births.size(); ++i) {
            const std::int32_t tensor = births[i];
            if (static_cast<std::uint64_t>(script_->bytes(tensor)) != bytes ||
                bound_[static_cast<std::size_t>(tensor)] != nullptr)
                continue;
            if (step == 0) next_birth_ = i + 1;
            return tensor;
        }
        from = 0;
    }
    ++unexpected_;
    return -1;
}

void IterationMatcher::bind(std::int32_t tensor, Buffer& buffer) {
    bound_[static_cast<std::size_t>(tensor)] = &buffer;
    buffer.tensor = tensor;
}

void IterationMatcher::released(Buffer& buffer) {
    if (buffer.tensor >= 0 && static_cast<std::size_t>(buffer.tensor) < bound_.size() &&
        bound_[static_cast<std::size_t>(buffer.tensor)] == &buffer)
        bound_[static_cast<std::size_t>(buffer.tensor)] = nullptr;
}

bool IterationMatcher::compatible(std::int32_t op, const std::vector<BufferUse>& uses) const {
    const IterationScript::Uses expected = script_->uses(op);
    const std::int32_t* next = expected.begin();
    for (const BufferUse& use : uses) {
        const Buffer& b = *use.buffer;
        if (b.small || b.escaped != nullptr) continue;
        if (next == expected.end()) return false;
        const std::int32_t tensor = *next++;
        if (b.tensor == tensor) continue;
        if (b.tensor >= 0 || bound_[static_cast<std::size_t>(tensor)] != nullptr ||
            static_cast<std::uint64_t>(script_->bytes(tensor)) != b.bytes)
            return false;
    }
    return next == expected.end();
}

void IterationMatcher::bind_uses(std::int32_t op, const std::vector<BufferUse>& uses) {
    const std::int32_t* next = script_->uses(op).begin();
    for (const BufferUse& use : uses) {
        Buffer& b = *use.buffer;
        if (b.small || b.escaped != nullptr) continue;
        if (b.tensor != *next) bind(*next, b);
        ++next;
    }
}

std::int32_t IterationMatcher::observe(std::uint64_t key, const std::vector<BufferUse>& uses) {
    const std::int32_t n = script_->ops();
    for (std::int32_t op = position_; op < std::min(n, position_ + kSkip); ++op) {
        if (script_->key(op) != key || !compatible(op, uses)) continue;
        bind_uses(op, uses);
        skipped_ += static_cast<std::uint32_t>(op - position_);
        position_ = op + 1;
        next_birth_ = 0;
        if (position_ == n) position_ = 0;
        return op;
    }
    ++foreign_;
    return -1;
}

std::uint64_t IterationMatcher::next_use(const Buffer& buffer) const {
    // Not of the iteration; but what was only just allocated is for now.
    if (buffer.tensor < 0) return buffer.place == Place::empty ? 0 : kNever;
    const auto& users = script_->users(buffer.tensor);
    const auto here = static_cast<std::uint64_t>(position_);
    const auto next = std::lower_bound(users.begin(), users.end(), position_);
    if (next != users.end()) return static_cast<std::uint64_t>(*next) - here;
    const TensorRecord& tensor = script_->iteration().tensors[static_cast<std::size_t>(buffer.tensor)];
    const bool outlives =
        tensor.persistent || (tensor.death_event >= 0 && tensor.death_event < tensor.birth_event);
    if (users.empty() || !outlives) return kNever - 1;
    return static_cast<std::uint64_t>(script_->ops()) - here + static_cast<std::uint64_t>(users.front());
}

std::uint64_t IterationMatcher::next_change(const Buffer& buffer) const {
    const std::uint64_t use = next_use(buffer);
    if (use != kNever - 1) return use;
    const std::int32_t freed = script_->freed_before(buffer.tensor);
    return freed > position_ ? static_cast<std::uint64_t>(freed - position_) : 0;
}

void IterationMatcher::believe(std::int32_t position, std::vector<BufferUse>& uses) const {
    std::size_t next = 0;
    for (BufferUse& use : uses) {
        if (use.buffer->small || use.buffer->escaped != nullptr) continue;
        use.believed_read = use.access == Access::read_write && script_->believed_read(position, next);
        ++next;
    }
}

bool IterationMatcher::complete() const {
    const Iteration& it = script_->iteration();
    for (std::size_t t = 0; t < bound_.size(); ++t)
        if (it.tensors[t].persistent && script_->takes_part(static_cast<std::int32_t>(t)) &&
            !script_->users(static_cast<std::int32_t>(t)).empty() && bound_[t] == nullptr)
            return false;
    return true;
}

}  // namespace swapadvisor
