// Chart.js as it lies on the build machine, for pages that must open without a network.
#pragma once

#include <string_view>

extern "C" const char swapadvisor_chart_js[];
extern "C" const char swapadvisor_chart_js_end[];

namespace swapadvisor::command {

inline std::string_view chart_js() {
    return {swapadvisor_chart_js, static_cast<std::size_t>(swapadvisor_chart_js_end - swapadvisor_chart_js)};
}

}  // namespace swapadvisor::command
