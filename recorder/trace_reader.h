// Reads trace files (layout: recorder/trace_writer.h) up to the last whole block, whatever the file holds.
// Memory is bounded by the size of one block; lengths in the file are checked before they are believed.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "recorder/record.h"

namespace swapadvisor {

/// One line that says what is wrong with the file and what to do.
struct TraceError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

class TraceReader {
  public:
    /// Called for every record, as words (recorder/record.h). `words` is valid during the call.
    using Visitor = std::function<void(const std::uint64_t* words, std::size_t count)>;

    /// Throws TraceError if the file cannot be read or is no trace of a known version.
    explicit TraceReader(const std::string& path);
    ~TraceReader();
    TraceReader(const TraceReader&) = delete;
    TraceReader& operator=(const TraceReader&) = delete;

    /// Reads the next block and visits its records. False at the end of the file or of its good part.
    bool next_block(const Visitor& visit);

    /// "" while all is well, else one line: from where on the file is damaged or cut short. Set by
    /// next_block().
    const std::string& damage() const { return damage_; }
    std::uint64_t file_bytes() const { return file_bytes_; }
    std::uint64_t offset() const { return offset_; }  ///< of the next block: for progress

  private:
    bool read_at(std::uint64_t offset, void* data, std::size_t bytes) const;
    bool stop(const std::string& why);

    std::string path_, damage_;
    int fd_ = -1;
    std::uint64_t file_bytes_ = 0, offset_ = 0;
    std::vector<std::uint8_t> stored_, raw_;
    std::vector<std::uint64_t> words_;
    void* decompressor_ = nullptr;
};

/// Decodes the records of one raw block. False if the bytes are no whole records: those before were visited.
bool decode_block(const std::uint8_t* raw, std::size_t size, std::vector<std::uint64_t>& words,
                  const TraceReader::Visitor& visit);

/// Is this the start of a trace file? (Enough to tell traces from JSON.)
bool looks_like_trace(const std::string& path);

}  // namespace swapadvisor
