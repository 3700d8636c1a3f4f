// One live allocation of the program and where its contents are.
//
// The state is that of the work *issued* so far, not of what the device has done: every piece of our own work
// is ordered by events after what it depends on, so issuing in this order is as good as doing in this order.
//
//   empty     no contents yet (never touched); may or may not have physical memory
//   resident  the device copy is the truth ("arriving" while `ready` is not done); `dirty`: the host copy is
//   not valid absent    the host copy is the truth ("leaving" while `saved` is not done)
#pragma once

#include <cstdint>
#include <vector>

#include "recorder/op.h"
#include "replayer/address_space.h"
#include "replayer/device_memory.h"
#include "replayer/host_memory.h"
#include "replayer/marks.h"

namespace swapadvisor {

class Residency;

enum class Place : std::uint8_t { empty, resident, absent };

struct Buffer {
    BufferId id = kNoBuffer;
    OwnerId index = 0;  ///< in its residency's table
    CUdeviceptr address = 0;
    std::uint64_t bytes = 0;        ///< as the program asked for
    std::uint64_t block_bytes = 0;  ///< what it takes
    AddressRange range;             ///< large ones: their own
    Residency* owner = nullptr;

    bool small = false;  ///< shares physical memory with others: the arena's, or that of `page`
    bool is_page =
        false;  ///< large, and not the program's: small ones lie in it (replayer/residency_pages.cpp)
    Buffer* page = nullptr;     ///< of a small one: what has to be resident for it; null: it never leaves
    std::uint32_t tenants = 0;  ///< of a page: small ones in it
    bool live = false;
    bool freed = false;  ///< by the program, but something (a graph) still names it
    Place place = Place::empty;
    bool backed = false;            ///< physical memory is mapped at the address and belongs to this buffer
    bool dirty = true;              ///< while resident: differs from the host copy, or there is none
    std::uint16_t written = 0;      ///< times since it was looked through for addresses (hidden_addresses.h)
    std::uint8_t looks = 0;         ///< that were made for its sake
    std::uint32_t cleared = 0;      ///< which look says that nothing names it, if it is done; 0: none
    bool believed_clean = false;    ///< dirty only by uses that are believed to read (BufferUse)
    std::uint32_t hashed = 0;       ///< which hash is the host copy's (replayer/content_check.h); 0: none
    const char* escaped = nullptr;  ///< reason why it may not move any more
    std::uint32_t holds = 0;        ///< calls in progress that use it without the lock
    std::uint32_t waiters = 0;      ///< ops that wait without the lock and will use it: it stays alive
    std::uint32_t captures = 0;     ///< captures, and graphs that came of them, that name it
    std::uint32_t graphs = 0;       ///< executable graphs that name it

    MarkSet ready;  ///< a user waits for these: arrival, or the former holder's last uses
    MarkSet uses;   ///< last use per queue, our own copies included
    Mark saved;     ///< last copy to the host
    HostBlock host;
    Slot* slot = nullptr;      ///< on demand: physical memory mapped at `range`; owned by the residency
    std::int32_t tensor = -1;  ///< in the iteration that is being followed; -1: none
    std::uint64_t stamp = 0;   ///< number of the last op that touched it
    Buffer* newer = nullptr;   ///< resident ones on demand, by last touch
    Buffer* older = nullptr;

    std::uint64_t pages() const { return range.pages; }
};

struct BufferUse {
    Buffer* buffer = nullptr;
    Access access = Access::read_write;
    bool overwrites = false;     ///< every byte is written and none read: the old contents need not come back
    bool believed_read = false;  ///< of `read_write`: was seen to leave the contents as they were
};

}  // namespace swapadvisor
