#include "recorder/callsite.h"

namespace swapadvisor {

std::uint64_t capture_site() {
    return 0;
}
std::string describe_site(std::uint64_t) {
    return "";
}

}  // namespace swapadvisor
