#include "recorder/turn_table.h"

#include <algorithm>

#include "recorder/signature.h"

namespace swapadvisor {

std::uint64_t TurnTable::note(const History& history, std::uint64_t i, std::uint64_t most) {
    if (i + 1 < history.ops.first() + kContext) return 0;
    std::uint64_t context = 0;
    for (std::uint64_t j = i + 1 - kContext; j <= i; ++j) context = mix(context, history.ops[j].turn);
    const OpHistory& op = history.ops[i];
    std::uint64_t distance = 0;
    bool known = true;
    for (std::uint32_t t = 0; t < std::min(op.touch_count, kMostTouches); ++t) {
        const BufferId buffer = history.buffers[history.touches[op.touch_begin + t].slot].id;
        const std::uint64_t hash = mix(mix(context, t), buffer);
        Place& place = places_[hash & (kPlaces - 1)];
        if (place.hash == hash && known) {
            distance = distance == 0 ? i - place.op : common_multiple(distance, i - place.op, most);
            known = distance != 0;
        }
        place = {hash, i};
    }
    return distance <= most ? distance : 0;
}

}  // namespace swapadvisor
