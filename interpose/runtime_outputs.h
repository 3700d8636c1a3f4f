// Where this process writes, and what it tells the launcher.
#pragma once

#include <string>

#include "interpose/run_page.h"

namespace swapadvisor {

struct Outputs {
    std::string report, trace;  ///< empty: none wanted; report "-": standard error
};

/// From SWAPADVISOR_REPORT and SWAPADVISOR_TRACE. Of several processes of one run each gets names of its own:
/// the first has them as they are, the ranks of a job are told apart by rank, others by process id; report
/// and trace of one process always by the same. Decided on the first call, for good.
const Outputs& outputs();

/// This process's page; of its own if there is no launcher. Made on the first call of this or outputs().
RunPage& run_page();
/// A launcher reads the page, and says at the end what there is.
bool has_launcher();
/// Copies what fits.
void set_text(char* to, std::size_t room, const std::string& text);

}  // namespace swapadvisor
