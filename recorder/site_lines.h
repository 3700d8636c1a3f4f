// Source lines for call sites, from debug information (libdw). For the command-line tool; not linked into the
// preload object.
#pragma once

#include <memory>
#include <string>

namespace swapadvisor {

class SiteLines {
  public:
    SiteLines();
    ~SiteLines();
    /// `site` as describe_site() wrote it; the result names functions and, where it can, "file:line" in place of
    /// "(object+0xoffset)"; functions that were inlined there come before it, each with its line. What cannot be resolved keeps its object and offset, without the path.
    std::string resolve(const std::string& site);

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace swapadvisor
