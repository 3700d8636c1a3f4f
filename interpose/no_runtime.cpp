// A runtime that manages nothing: linked where only the routes are under test.
#include "interpose/runtime.h"

namespace swapadvisor {

Runtime* Runtime::get() { return nullptr; }

}  // namespace swapadvisor
