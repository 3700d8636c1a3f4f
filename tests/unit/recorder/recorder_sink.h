// SimulatedProgram on a live recorder.
#pragma once

#include <unistd.h>

#include <string>

#include "recorder/recorder.h"

namespace swapadvisor::test {

struct RecorderSink {
    Recorder& recorder;
    void allocate(BufferId id, std::int64_t bytes, bool small, std::uint64_t site) {
        recorder.allocate(id, bytes, small, site, nullptr);
    }
    void release(BufferId id) { recorder.release(id); }
    std::uint64_t op(const OpView& view) { return recorder.op(view); }
    void mark() { recorder.mark(); }
};

/// A file in the temporary directory that goes away with the object.
class TemporaryFile {
  public:
    explicit TemporaryFile(const std::string& suffix) {
        static int count = 0;
        path_ =
            "/tmp/swapadvisor-test-" + std::to_string(::getpid()) + "-" + std::to_string(++count) + suffix;
    }
    ~TemporaryFile() { ::unlink(path_.c_str()); }
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

}  // namespace swapadvisor::test
