#include "recorder/driver_api.h"

namespace swapadvisor {

#define SWAPADVISOR_STRINGIZE_(x) #x
#define SWAPADVISOR_STRINGIZE(x) SWAPADVISOR_STRINGIZE_(x)

void fill_driver_api(DriverApi& api, void* (*look_up)(void* user, const char* symbol), void* user) {
    // The argument is expanded on its way into SWAPADVISOR_STRINGIZE, so cuda.h's version macros apply to the
    // string.
#define SWAPADVISOR_FILL(name) \
    api.name##_ = reinterpret_cast<decltype(api.name##_)>(look_up(user, SWAPADVISOR_STRINGIZE(name)));
    SWAPADVISOR_DRIVER_FUNCTIONS(SWAPADVISOR_FILL)
#undef SWAPADVISOR_FILL
}

}  // namespace swapadvisor
