// A runtime that manages nothing: linked where only the routes are under test.
#include "interpose/runtime.h"

namespace swapadvisor {

std::atomic<Runtime*> Runtime::instance_{nullptr};
std::atomic<bool> Runtime::inert_{true};
Runtime* Runtime::create() {
    return nullptr;
}

}  // namespace swapadvisor
