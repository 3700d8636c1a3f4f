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
CUresult PlannedPool::furnish(Binding& binding, bool may_wait) {
    std::uint64_t missing = 0;
    for (std::uint32_t a : binding.atoms) missing += atoms_[a].there ? 0 : atoms_[a].pages;
    if (missing == 0) return CUDA_SUCCESS;
    if (CUresult result = residency_.free_up(missing, may_wait); result != CUDA_SUCCESS) return result;
    for (std::uint32_t a : binding.atoms) {
        if (atoms_[a].there) continue;
        if (CUresult result = residency_.memory().create(atoms_[a].pages, atoms_[a]);
            result != CUDA_SUCCESS) {
            // What the device did give is what the next plan can count on.
            if (result == CUDA_ERROR_OUT_OF_MEMORY) residency_.memory().lower_limit();
            refused_ = true;
            return CUDA_ERROR_NOT_PERMITTED;
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

CUresult PlannedPool::finish_hiding(Binding& binding) {
    ContextScope scope(residency_.api(), residency_.context());
    CUresult result = residency_.timeline().wait(binding.last);
    if (result == CUDA_SUCCESS)
        result = residency_.memory().unmap(binding.range.address, binding.range.pages);
    if (result != CUDA_SUCCESS) return result;
    binding.mapped = false;
    stay(binding);
    return CUDA_SUCCESS;
}

void PlannedPool::hide_finished() {
    if (leaving_count_ == 0) return;
    for (Binding& binding : bindings_) {
        if (!binding.leaving) continue;
        if (residency_.timeline().done(binding.last)) finish_hiding(binding);
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
        if (const CUresult result = furnish(binding, false); result == CUDA_ERROR_NOT_READY) {
            residency_.send_farthest();
            return;
        } else if (result != CUDA_SUCCESS) {
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

CUresult PlannedPool::claim(Buffer& buffer, bool may_wait) {
    if (buffer.tensor < 0 || static_cast<std::size_t>(buffer.tensor) >= bindings_.size())
        return CUDA_ERROR_NOT_PERMITTED;
    Binding& binding = bindings_[static_cast<std::size_t>(buffer.tensor)];
    if (binding.buffer != &buffer || binding.atoms.empty()) return CUDA_ERROR_NOT_PERMITTED;
    for (std::uint32_t a : binding.atoms) {
        Buffer* holder = atoms_[a].holder;
        if (holder == nullptr || holder == &buffer) continue;
        if (holder->stamp == residency_.stamp() || holder->holds != 0) return CUDA_ERROR_NOT_PERMITTED;
        if (CUresult result = evict(*holder); result != CUDA_SUCCESS) return result;
    }
    if (CUresult result = furnish(binding, may_wait); result != CUDA_SUCCESS) return result;
    stay(binding);
    for (std::uint32_t a : binding.atoms)
        if (leaving_[a] != nullptr)
            if (CUresult result = finish_hiding(*leaving_[a]); result != CUDA_SUCCESS) return result;
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

CUresult PlannedPool::evict(Buffer& buffer, Mark after) {
    if (buffer.slot != nullptr) return residency_.send_early(buffer) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
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

CUresult PlannedPool::dissolve() {
    if (abandoned_) return CUDA_SUCCESS;
    CUresult result = CUDA_SUCCESS;
    for (Binding& binding : bindings_) {
        if (binding.buffer == nullptr || !binding.buffer->backed || binding.buffer->slot != nullptr) continue;
        if (binding.buffer->holds != 0) return CUDA_ERROR_NOT_READY;
        if (result = evict(*binding.buffer); result != CUDA_SUCCESS) return result;
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
