#include "replayer/planned_pool.h"

#include <algorithm>

#include "replayer/residency.h"

namespace swapadvisor {

std::unique_ptr<PlannedPool> PlannedPool::create(Residency& residency, std::vector<PoolTensor> tensors,
                                                 std::int32_t chunks, std::uint64_t chunk_pages, bool strict,
                                                 CUresult& result, std::string& error) {
    std::unique_ptr<PlannedPool> pool(new PlannedPool(residency));
    pool->strict_ = strict;
    ContextScope scope(residency.api(), residency.context());
    result = pool->build(tensors, chunks, chunk_pages, error);
    if (result != CUDA_SUCCESS) {
        pool->dissolve();
        return nullptr;
    }
    return pool;
}

CUresult PlannedPool::build(std::vector<PoolTensor>& tensors, std::int32_t chunks, std::uint64_t chunk_pages,
                            std::string& error) {
    if (chunks < 0 || chunk_pages == 0) {
        error = "a plan without a pool";
        return CUDA_ERROR_INVALID_VALUE;
    }
    // Where a handle must begin: chunk 0, and both ends of every range of every placement (without what a
    // tensor does not need: a tail beyond its last page would not fit its address range).
    const std::uint64_t page = residency_.addresses().page_bytes();
    const std::uint64_t chunk_bytes = chunk_pages * page;
    std::vector<bool> cut(static_cast<std::size_t>(chunks) + 1, false);
    std::vector<bool> used(static_cast<std::size_t>(chunks) + 1, false);
    for (PoolTensor& tensor : tensors) {
        if (tensor.at.empty()) continue;
        std::uint64_t needed = (tensor.bytes + chunk_bytes - 1) / chunk_bytes;
        std::vector<bool> own(static_cast<std::size_t>(chunks), false);
        planner::Placement at;
        for (planner::ChunkRange range : tensor.at) {
            if (range.first < 0 || range.count <= 0 || range.count > chunks ||
                range.first > chunks - range.count) {
                error = "a placement outside of the pool";
                return CUDA_ERROR_INVALID_VALUE;
            }
            range.count = static_cast<std::int32_t>(
                std::min<std::uint64_t>(needed, static_cast<std::uint64_t>(range.count)));
            if (range.count == 0) break;
            needed -= static_cast<std::uint64_t>(range.count);
            for (std::int32_t c = range.first; c < range.first + range.count; ++c) {
                if (own[static_cast<std::size_t>(c)]) {
                    error = "a placement that names a chunk twice";
                    return CUDA_ERROR_INVALID_VALUE;
                }
                own[static_cast<std::size_t>(c)] = used[static_cast<std::size_t>(c)] = true;
            }
            cut[static_cast<std::size_t>(range.first)] = true;
            cut[static_cast<std::size_t>(range.first + range.count)] = true;
            at.push_back(range);
        }
        if (needed != 0) {
            error = "a placement smaller than its tensor";
            return CUDA_ERROR_INVALID_VALUE;
        }
        tensor.at = std::move(at);
    }
    // Chunks that no placement names get no memory.
    std::vector<std::uint32_t> atom_at(static_cast<std::size_t>(chunks), ~0u);
    for (std::int32_t first = 0; first < chunks;) {
        const auto i = static_cast<std::size_t>(first);
        std::int32_t end = first + 1;
        while (end < chunks && !cut[static_cast<std::size_t>(end)] &&
               used[static_cast<std::size_t>(end)] == used[i])
            ++end;
        if (used[i]) {
            atom_at[i] = static_cast<std::uint32_t>(atoms_.size());
            atoms_.emplace_back().pages = static_cast<std::uint64_t>(end - first) * chunk_pages;
            pages_ += atoms_.back().pages;
        }
        first = end;
    }
    leaving_.resize(atoms_.size());
    bindings_.resize(tensors.size());
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        PoolTensor& tensor = tensors[t];
        Binding& binding = bindings_[t];
        binding.bytes = tensor.bytes;
        if (tensor.at.empty()) continue;
        std::uint64_t pages = 0;
        for (const planner::ChunkRange& range : tensor.at)
            for (std::int32_t c = range.first; c < range.first + range.count;) {
                const std::uint32_t atom = atom_at[static_cast<std::size_t>(c)];
                binding.atoms.push_back(atom);
                pages += atoms_[atom].pages;
                c += static_cast<std::int32_t>(atoms_[atom].pages / chunk_pages);
            }
        if (tensor.buffer != nullptr) {
            if (tensor.buffer->pages() < pages || (tensor.buffer->backed && tensor.buffer->slot == nullptr)) {
                error = "a live buffer that does not match its tensor";
                return CUDA_ERROR_INVALID_VALUE;
            }
            binding.range = tensor.buffer->range;
        } else if (CUresult result = take_range(binding); result != CUDA_SUCCESS) {
            error = "no addresses are left for the plan's tensors";
            return result;
        }
        if (tensor.buffer != nullptr) {
            binding.buffer = tensor.buffer;
            binding.host = tensor.buffer->host;
            tensor.buffer->tensor = static_cast<std::int32_t>(t);
        }
    }
    take_host_blocks(tensors);
    return CUDA_SUCCESS;
}

// A block of its own for each tensor that is copied, so that no swap has to look for one; or, where there is
// not enough for that, none for those that hold nothing yet.
void PlannedPool::take_host_blocks(const std::vector<PoolTensor>& tensors) {
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        Binding& binding = bindings_[t];
        if (!tensors[t].copies || binding.host || binding.atoms.empty()) continue;
        binding.host = residency_.host().take(tensors[t].bytes);
        if (!binding.host) {
            sparing_ = true;
            break;
        }
        if (binding.buffer != nullptr) binding.buffer->host = binding.host;
    }
    if (!sparing_) return;
    for (Binding& binding : bindings_)
        if (binding.buffer == nullptr) {
            residency_.host().give(binding.host);
            binding.host = {};
        }
}

PlannedPool::~PlannedPool() = default;

// Memory for those of its atoms that have none yet.
Outcome PlannedPool::furnish(Binding& binding, bool may_wait) {
    std::uint64_t missing = 0;
    for (std::uint32_t a : binding.atoms) missing += atoms_[a].there ? 0 : atoms_[a].pages;
    if (missing == 0) return CUDA_SUCCESS;
    if (const Outcome room = residency_.free_up(missing, may_wait); !room.ok()) return room;
    for (std::uint32_t a : binding.atoms) {
        if (atoms_[a].there) continue;
        if (CUresult result = residency_.memory().create(atoms_[a].pages, atoms_[a]);
            result != CUDA_SUCCESS) {
            // What the device did give is what the next plan can count on.
            if (result == CUDA_ERROR_OUT_OF_MEMORY) residency_.memory().lower_limit();
            refused_ = true;
            return Outcome::Kind::elsewhere;
        }
        atoms_[a].there = true;
    }
    return CUDA_SUCCESS;
}

// Addresses, if a buffer has taken its own along.
CUresult PlannedPool::take_range(Binding& binding) {
    if (binding.range.pages != 0) return CUDA_SUCCESS;
    std::uint64_t pages = 0;
    for (std::uint32_t a : binding.atoms) pages += atoms_[a].pages;
    return residency_.addresses().take(pages, binding.range);
}

CUresult PlannedPool::map(Binding& binding) {
    if (CUresult result = take_range(binding); result != CUDA_SUCCESS) return result;
    CUdeviceptr address = binding.range.address;
    for (std::size_t i = 0; i < binding.atoms.size(); ++i) {
        const Slot& atom = atoms_[binding.atoms[i]];
        if (CUresult result = residency_.memory().map(address, atom); result != CUDA_SUCCESS) {
            address = binding.range.address;
            for (std::size_t j = 0; j < i; ++j) {
                residency_.memory().unmap(address, atoms_[binding.atoms[j]].pages);
                address += atoms_[binding.atoms[j]].pages * residency_.addresses().page_bytes();
            }
            return result;
        }
        address += atom.pages * residency_.addresses().page_bytes();
    }
    binding.mapped = true;
    return CUDA_SUCCESS;
}

// Strict: nobody is to reach the memory by this range any more, once `uses` are done.
void PlannedPool::hide(Binding& binding, const MarkSet& uses) {
    if (!strict_ || !binding.mapped || binding.leaving) return;
    binding.leaving = true;
    binding.last = uses;
    ++leaving_count_;
    for (std::uint32_t a : binding.atoms) leaving_[a] = &binding;
    residency_.timeline().record(uses);
}

void PlannedPool::stay(Binding& binding) {
    if (!binding.leaving) return;
    binding.leaving = false;
    binding.last.clear();
    --leaving_count_;
    for (std::uint32_t a : binding.atoms) leaving_[a] = nullptr;
}

// An op waits without the lock. What is done ahead of need is not begun anew, so it waits here, but not for the
// program.
Outcome PlannedPool::finish_hiding(Binding& binding, bool may_wait) {
    ContextScope scope(residency_.api(), residency_.context());
    for (;;) {
        const Outcome over = residency_.over(binding.last);
        if (over.ok()) break;
        if (may_wait || residency_.timeline().gated(binding.last)) return over;
        if (const CUresult result = residency_.wait_here(); result != CUDA_SUCCESS) return result;
    }
    if (const CUresult result = residency_.memory().unmap(binding.range.address, binding.range.pages);
        result != CUDA_SUCCESS)
        return result;
    binding.mapped = false;
    stay(binding);
    return CUDA_SUCCESS;
}

void PlannedPool::hide_finished() {
    if (leaving_count_ == 0) return;
    for (Binding& binding : bindings_) {
        if (!binding.leaving) continue;
        if (residency_.timeline().done(binding.last)) finish_hiding(binding, true);
    }
}

void PlannedPool::end_strictness() {
    strict_ = false;
    for (Binding& binding : bindings_) stay(binding);
}

void PlannedPool::map_some(std::size_t count) {
    if (strict_) return;
    ContextScope scope(residency_.api(), residency_.context());
    for (; next_unmapped_ < bindings_.size(); ++next_unmapped_) {
        Binding& binding = bindings_[next_unmapped_];
        if (binding.mapped || binding.atoms.empty()) continue;
        // One that is mapped to where it was before may stay there as long as nobody needs that memory.
        if (binding.buffer != nullptr && binding.buffer->slot != nullptr) continue;
        if (count-- == 0) return;
        if (const Outcome result = furnish(binding, false); result.is(Outcome::Kind::later)) {
            residency_.send_farthest();
            return;
        } else if (!result.ok()) {
            continue;
        }
        // One that cannot be mapped now is mapped when it is claimed, or the claim fails.
        map(binding);
    }
}

bool PlannedPool::bindable(std::int32_t tensor, std::uint64_t bytes) const {
    if (tensor < 0 || static_cast<std::size_t>(tensor) >= bindings_.size()) return false;
    const Binding& binding = bindings_[static_cast<std::size_t>(tensor)];
    return binding.buffer == nullptr && !binding.atoms.empty() && binding.bytes == bytes;
}

bool PlannedPool::bind(std::int32_t tensor, Buffer& buffer) {
    if (!bindable(tensor, buffer.bytes)) return false;
    Binding& binding = bindings_[static_cast<std::size_t>(tensor)];
    if (take_range(binding) != CUDA_SUCCESS) return false;
    binding.buffer = &buffer;
    buffer.range = binding.range;
    buffer.address = binding.range.address;
    buffer.block_bytes = binding.range.pages * residency_.addresses().page_bytes();
    buffer.host = binding.host;
    buffer.tensor = tensor;
    return true;
}

bool PlannedPool::unbind(Buffer& buffer, const MarkSet& guard) {
    if (buffer.tensor < 0 || static_cast<std::size_t>(buffer.tensor) >= bindings_.size()) return false;
    Binding& binding = bindings_[static_cast<std::size_t>(buffer.tensor)];
    if (binding.buffer != &buffer) return false;
    if (buffer.slot != nullptr) {
        binding.buffer = nullptr;
        binding.range = {};
        binding.host = {};
        return false;
    }
    for (std::uint32_t a : binding.atoms)
        if (atoms_[a].holder == &buffer) {
            atoms_[a].holder = nullptr;
            atoms_[a].guard = guard;
        }
    binding.freed.clear();
    if (residency_.timeline().gated(guard)) binding.freed = guard;
    if (sparing_) {
        residency_.give_host(buffer);
        binding.host = {};
    } else {
        // The host block stays with the tensor; the next life's copy out must wait for arrivals that still
        // read it.
        residency_.timeline().order(residency_.out_queue(), buffer.ready);
        binding.host = buffer.host;
        buffer.host = {};
    }
    binding.buffer = nullptr;
    hide(binding, guard);
    return true;
}

bool PlannedPool::vacant(std::int32_t tensor) const {
    const Binding& binding = bindings_[static_cast<std::size_t>(tensor)];
    for (std::uint32_t a : binding.atoms)
        if (atoms_[a].holder != nullptr && atoms_[a].holder != binding.buffer) return false;
    return true;
}

Outcome PlannedPool::claim(Buffer& buffer, bool may_wait) {
    if (buffer.tensor < 0 || static_cast<std::size_t>(buffer.tensor) >= bindings_.size())
        return Outcome::Kind::elsewhere;
    Binding& binding = bindings_[static_cast<std::size_t>(buffer.tensor)];
    if (binding.buffer != &buffer || binding.atoms.empty()) return Outcome::Kind::elsewhere;
    for (std::uint32_t a : binding.atoms) {
        if (residency_.timeline().gated(atoms_[a].guard)) return residency_.wait_for_gate();
        Buffer* holder = atoms_[a].holder;
        if (holder == nullptr || holder == &buffer) continue;
        if (holder->stamp == residency_.stamp()) return Outcome::Kind::elsewhere;
        if (holder->holds != 0) return residency_.wait_for_release();
        if (const Outcome gone = evict(*holder); !gone.ok()) return gone;
    }
    if (const Outcome furnished = furnish(binding, may_wait); !furnished.ok()) return furnished;
    stay(binding);
    for (std::uint32_t a : binding.atoms)
        if (leaving_[a] != nullptr)
            if (const Outcome hidden = finish_hiding(*leaving_[a], may_wait); !hidden.ok()) return hidden;
    if (!binding.mapped)
        if (CUresult result = map(binding); result != CUDA_SUCCESS) return result;
    for (std::uint32_t a : binding.atoms) {
        buffer.ready.add(atoms_[a].guard);
        atoms_[a].guard.clear();
        atoms_[a].holder = &buffer;
    }
    buffer.backed = true;
    return CUDA_SUCCESS;
}

Outcome PlannedPool::evict(Buffer& buffer, Mark after) {
    if (buffer.slot != nullptr)
        return residency_.send_early(buffer) ? Outcome::Kind::done : Outcome::Kind::later;
    if (residency_.waits_for_program(buffer) || residency_.timeline().gated(after))
        return residency_.wait_for_gate();
    Binding& binding = bindings_[static_cast<std::size_t>(buffer.tensor)];
    MarkSet guard;
    if (buffer.place == Place::resident && buffer.dirty) {
        if (CUresult result = residency_.save(buffer, after); result != CUDA_SUCCESS) return result;
        guard.add(buffer.saved);  // that copy waited for all other uses
    } else {
        guard = buffer.uses;
        guard.add(buffer.ready);
        guard.add(buffer.saved);
        if (buffer.place == Place::resident) residency_.note_drop(buffer);
    }
    for (std::uint32_t a : binding.atoms)
        if (atoms_[a].holder == &buffer) {
            atoms_[a].holder = nullptr;
            atoms_[a].guard = guard;
        }
    if (buffer.place == Place::resident) buffer.place = Place::absent;
    buffer.backed = false;
    if (strict_) {
        guard.add(buffer.uses);
        guard.add(buffer.ready);
        hide(binding, guard);
    }
    buffer.ready.clear();
    buffer.uses.clear();
    return CUDA_SUCCESS;
}

CUresult PlannedPool::unmap_all() {
    CUresult result = CUDA_SUCCESS;
    for (Binding& binding : bindings_) {
        if (!binding.mapped) continue;
        CUresult one = residency_.memory().unmap(binding.range.address, binding.range.pages);
        if (one != CUDA_SUCCESS) {
            result = one;
            continue;
        }
        binding.mapped = false;
        stay(binding);
    }
    return result;
}

// Its atoms become a slot of their own, mapped where it is.
bool PlannedPool::keep(Binding& binding, Buffer* buffer) {
    std::uint64_t pages = 0;
    for (std::uint32_t a : binding.atoms) pages += atoms_[a].pages;
    if (!binding.mapped || pages != binding.range.pages) return false;
    auto slot = std::make_unique<Slot>();
    slot->pages = pages;
    for (std::uint32_t a : binding.atoms) {
        if (slot->handle == 0)
            slot->handle = atoms_[a].handle;
        else
            slot->more.push_back({atoms_[a].handle, atoms_[a].pages});
        atoms_[a] = Atom{};
    }
    stay(binding);
    if (buffer == nullptr) slot->guard = binding.freed;
    residency_.adopt(binding.range, std::move(slot), buffer);
    binding.mapped = false;
    if (buffer != nullptr) return true;
    binding.range = {};
    return true;
}

// What is used by a call in progress, or by work that waits for the program, can neither be copied out nor
// unmapped now.
CUresult PlannedPool::keep_what_is_gated() {
    Timeline& timeline = residency_.timeline();
    timeline.review_gates();
    for (Binding& binding : bindings_) {
        Buffer* const b = binding.buffer;
        if (b != nullptr && b->backed && b->slot == nullptr &&
            (b->holds != 0 || residency_.waits_for_program(*b))) {
            // Whoever was there before is done once this one may begin, and its mapping goes below.
            if (const CUresult result = timeline.wait(b->ready); result != CUDA_SUCCESS) return result;
            if (!keep(binding, b)) return CUDA_ERROR_OUT_OF_MEMORY;
        } else if (timeline.gated(binding.freed) && binding.mapped) {
            keep(binding, nullptr);
        }
    }
    return CUDA_SUCCESS;
}

CUresult PlannedPool::dissolve() {
    if (abandoned_) return CUDA_SUCCESS;
    CUresult result = keep_what_is_gated();
    if (result != CUDA_SUCCESS) return result;
    for (Binding& binding : bindings_) {
        if (binding.buffer == nullptr || !binding.buffer->backed || binding.buffer->slot != nullptr) continue;
        if (const Outcome gone = evict(*binding.buffer); !gone.ok()) return gone.code();
    }
    // Every former holder's work is in some guard.
    for (Atom& atom : atoms_)
        if (CUresult one = residency_.timeline().wait(atom.guard); one != CUDA_SUCCESS) return one;
    if (result = unmap_all(); result != CUDA_SUCCESS) return result;
    for (Binding& binding : bindings_) {
        if (binding.buffer != nullptr) {
            binding.buffer->tensor = -1;
        } else {
            if (binding.range.pages != 0) residency_.addresses().give(binding.range);
            residency_.host().give(binding.host);
        }
        binding = Binding{};
    }
    for (Atom& atom : atoms_)
        if (atom.there) residency_.memory().release(atom);
    atoms_.clear();
    leaving_.clear();
    leaving_count_ = 0;
    return CUDA_SUCCESS;
}

}  // namespace swapadvisor
