// Names of what a run writes, so that the processes of one program do not write over each other.
#pragma once

#include <cstdint>
#include <string>

namespace swapadvisor {

/// From RANK, OMPI_COMM_WORLD_RANK or SLURM_PROCID, whichever is set first; -1: none.
std::int64_t process_rank();
/// Of how many, by the variable that goes with it; -1: unknown.
std::int64_t process_ranks();

/// What the user gave as a name: a directory gets swapadvisor-<program>-<pid>[-rank<r>]`ending` in it; %p
/// becomes the process id and %r the rank (0 if there is none).
std::string expand_output_path(const std::string& given, const std::string& ending);
/// `tag` before the ending: run.trace and "rank1" make run.rank1.trace. An empty tag changes nothing.
std::string tagged_path(const std::string& path, const std::string& tag);

/// "report r.txt (12.1 KiB), trace run.trace (1.20 MiB)", of those that are not empty and lie there.
std::string outputs_text(const std::string& report, const std::string& trace);

}  // namespace swapadvisor
