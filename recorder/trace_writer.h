// Trace files. Layout (little endian):
//   file header, 16 bytes: "SWAPTRC" '\n', u32 version, u32 zero
//   blocks, each: 32-byte header {u32 magic "BLK1", u32 stored bytes, u32 raw bytes, u32 records, u64 first
//   op seq, u64 xxh3 of the 24 bytes before it, seeded with the xxh3 of the stored bytes}, then the stored
//   bytes: one zstd frame.
// Raw bytes of a block are records (recorder/record.h), each: type byte, flag byte, then its fields as
// varints; counts before touches and texts. Fields that grow steadily are differences to the block's previous
// record of that kind, so every block can be read by itself. A file may end anywhere: whole blocks before
// that are good.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace swapadvisor {

constexpr std::uint32_t kTraceVersion = 3;              ///< 2: figures; 3: contents
constexpr std::uint32_t kOldestTraceVersion = 1;        ///< that can be read
constexpr std::uint32_t kTraceBlockMagic = 0x314B4C42;  // "BLK1"
constexpr std::size_t kTraceHeaderBytes = 16;
constexpr std::size_t kTraceBlockHeaderBytes = 32;
constexpr std::size_t kMaxBlockBytes = std::size_t{1} << 20;  ///< raw; the reader refuses more

/// Steadily growing values of a block. Writer and reader advance them alike.
struct TraceDeltas {
    std::uint64_t buffer = 0, seq = 0, host_ns = 0, function = 0;
};

/// Not thread-safe: belongs to the recorder's thread.
class TraceWriter {
  public:
    TraceWriter() = default;
    ~TraceWriter();
    TraceWriter(const TraceWriter&) = delete;
    TraceWriter& operator=(const TraceWriter&) = delete;

    /// False with a line in error() when the file cannot be made. If another running process writes to
    /// `path`, the file is "name.<pid>.ending" instead: see path().
    bool open(const std::string& path);
    bool is_open() const { return fd_ >= 0; }
    /// One record as words; ops are counted here.
    void append(const std::uint64_t* words, std::size_t count);
    /// Writes the block begun, if any: what was appended survives a crash from here on.
    void flush();
    void close();
    /// Forget the file without writing (forked child).
    void abandon();
    const std::string& error() const { return error_; }
    const std::string& path() const { return path_; }
    std::uint64_t bytes_written() const { return bytes_written_; }

  private:
    void put_byte(std::uint8_t byte) { *end_++ = byte; }
    void put(std::uint64_t value);
    void put_signed(std::uint64_t difference);
    void fail(const char* what);

    int fd_ = -1;
    std::string path_, error_;
    std::size_t raw_bytes() const { return static_cast<std::size_t>(end_ - raw_.data()); }
    std::vector<std::uint8_t> raw_, stored_;
    std::uint8_t* end_ = nullptr;  // of what is in raw_, which always has room for one more record
    TraceDeltas last_;
    std::uint32_t records_ = 0;
    std::uint64_t ops_ = 0, block_first_op_ = 0;
    std::uint64_t bytes_written_ = 0;
    void* compressor_ = nullptr;
};

}  // namespace swapadvisor
