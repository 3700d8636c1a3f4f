// A report's iteration as the snapshot that PyTorch's page for memory (pytorch.org/memory_viz) and torch.cuda._memory_viz load.
#pragma once

#include <string>

#include "recorder/report_model.h"

namespace swapadvisor {

/// A pickle (protocol 2) of what torch.cuda.memory._snapshot() gives: segments with what lives across iterations, and one trace of
/// allocations and frees in the order of the iteration, with the frames of their call sites. Addresses are made up, one place for each buffer.
std::string report_memory_viz(const ReportModel& model);

}  // namespace swapadvisor
